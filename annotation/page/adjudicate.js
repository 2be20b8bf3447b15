// Adjudication: only what annotators see differently, without their names, and a decision with its reason.

import {
  $, act, button, el, get, listen, markdown, navigation, notice, number, place, post, run, toggleHelp, toggleRubric, who,
} from './common.js';

const as = who();
let queue = [];
let bindings = [];
let at = 0;
let shown = null;
let chosen = null;
let busy = false;
let questions = []; // { type, text } in the rubric's order

const acts = {
  class: choose,
  reopen: () => shown?.decided && decide(null, 'taken back'),
  next: () => go(at + 1),
  previous: () => go(at - 1),
  open: () => {
    const index = queue.findIndex((entry) => !entry.settled);
    if (index >= 0) return go(index);
    finish();
    return null;
  },
  rubric: toggleRubric,
  help: () => toggleHelp(bindings),
};

function choose(name) {
  if (!shown || busy) return;
  chosen = name;
  $('chosen').textContent = name;
  $('reason').hidden = false;
  const index = questions.findIndex((question) => question.type === name);
  $('why').value = shown.decided?.class === name ? shown.decided.why : index >= 0 ? `Question ${index + 1}: yes. ` : '';
  $('why').focus();
  $('reason').scrollIntoView({ block: 'nearest' });
  $('why').setSelectionRange($('why').value.length, $('why').value.length);
  press(name);
}

function press(name) {
  for (const node of document.querySelectorAll('[data-act^="class:"]')) {
    node.setAttribute('aria-pressed', String(node.dataset.act === `class:${name}`));
  }
}

function cancel() {
  chosen = null;
  $('reason').hidden = true;
  $('why').blur();
  press(shown?.decided?.class ?? '');
}

async function decide(name, why) {
  if (busy) return;
  busy = true;
  try {
    await post('decide', { as, id: shown.id, action: act(), class: name, why });
    queue[at].settled = name !== null;
    busy = false;
    notice(name ? `Settled: ${name}` : 'Open again', 'good');
    const next = queue.findIndex((entry, index) => index > at && !entry.settled);
    const any = queue.findIndex((entry) => !entry.settled);
    if (name === null) await go(at);
    else if (any < 0) finish();
    else await go(next < 0 ? any : next);
  } catch (error) {
    busy = false;
    notice(`Not saved. ${error.message}`, 'bad');
  }
}

async function go(index) {
  if (busy || index < 0 || index >= queue.length) return;
  busy = true;
  try {
    const { id } = queue[index];
    shown = { id, ...(await get('dispute', { as, id })) };
    at = index;
    $('done').hidden = true;
    $('work').hidden = false;
    busy = false;
    draw();
    scrollTo(0, 0);
  } catch (error) {
    notice(error.message, 'bad');
  } finally {
    busy = false;
  }
}

function draw() {
  const item = shown.item ?? { ...shown.place, heading: [], before: [], after: [], text: '(its text is not in this corpus)' };
  const neighbour = (one) => el('div', { class: `neighbour ${one.kind}` }, one.text);
  $('item').replaceChildren(...place(item), ...item.before.map(neighbour),
    el('div', { class: 'own', id: 'text', 'aria-label': 'Item' }, item.text), ...item.after.map(neighbour));
  $('sides').replaceChildren(...shown.sides.map((side, index) =>
    el('div', { class: 'side' },
      el('small', {}, `Label ${String.fromCharCode(65 + index)}`),
      el('strong', { class: `type ${side.class}` }, side.class),
      side.second ? el('span', {}, `or ${side.second}`) : null,
      side.note ? el('p', {}, side.note) : null)));
  $('place').textContent = `Disagreement ${number(at + 1)} of ${number(queue.length)}`;
  $('state').textContent = shown.decided ? `${shown.decided.class}: ${shown.decided.why}` : '';
  document.body.dataset.item = shown.id;
  cancel();
  progress();
}

function progress() {
  const settled = queue.filter((entry) => entry.settled).length;
  $('bar').max = Math.max(queue.length, 1);
  $('bar').value = settled;
  $('count').textContent = `${number(queue.length - settled)} left of ${number(queue.length)}`;
}

function message(title, text) {
  shown = null;
  $('work').hidden = true;
  $('done').hidden = false;
  $('done-title').textContent = title;
  $('done-text').textContent = text;
  $('done').focus();
}

function finish() {
  message('Done', queue.length ? `All ${number(queue.length)} disagreements are settled.` : 'Annotators differ on nothing.');
  progress();
}

/** The numbered questions of the rubric with the type each decides for. */
function readQuestions(text) {
  const section = text.split('## Questions')[1]?.split('\n## ')[0] ?? '';
  return section.split('\n').map((line) => line.match(/^\d+\.\s+\*\*(\w+)\*\*\s*\S?\s*(.*)/)).filter(Boolean)
    .map(([, type, rest]) => ({ type: type.toLowerCase(), text: rest }));
}

$('reason').addEventListener('submit', (event) => {
  event.preventDefault();
  const why = $('why').value.trim();
  if (!why) { notice('A decision needs a reason', 'bad'); return; }
  if (chosen) decide(chosen, why);
});
$('why').addEventListener('keydown', (event) => {
  if (event.key === 'Escape') { event.preventDefault(); cancel(); }
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); $('reason').requestSubmit(); }
});
$('cancel').addEventListener('click', cancel);

async function start() {
  navigation('adjudicate');
  let answer;
  try {
    const [found, rubric] = await Promise.all([get('disputes', { as }), get('rubric')]);
    answer = found;
    questions = readQuestions(rubric.text);
  } catch (error) {
    if (error.status === 400) { location.replace('./'); return; }
    notice(error.message, 'bad');
    return;
  }
  $('who').textContent = answer.as;
  if (answer.locked) { message('Not yet', answer.locked); document.body.dataset.ready = 'yes'; return; }
  ({ queue, bindings } = answer);
  const of = (name) => bindings.find((binding) => binding.act === name);
  $('classes').replaceChildren(...bindings.filter((b) => b.act.startsWith('class:')).map((b) => button(b, acts)));
  const short = { previous: 'Back', next: 'Next', reopen: 'Reopen' };
  $('tools').replaceChildren(...Object.entries(short).map(([name, text]) => button(of(name), acts, text)));
  $('aids').replaceChildren(button(of('rubric'), acts, 'Rubric'), button(of('help'), acts, 'Keys'));
  $('questions').replaceChildren(...questions.map((question) => {
    const binding = of(`class:${question.type}`);
    return el('li', {}, el('button', { type: 'button', class: `question ${question.type}`, onclick: () => run(acts, binding.act) },
      el('kbd', { 'aria-hidden': 'true' }, binding.key), el('strong', {}, binding.says), el('span', {}, ...markdown(question.text)[0].childNodes)));
  }));
  listen(bindings, acts);
  await acts.open();
  document.body.dataset.ready = 'yes';
}

start();
