// Labelling and verification: one item, one key, the next item.

import {
  $, act, button, el, get, hideNotice, listen, navigation, notice, number, page, place, post, Refused, rubricWasShown,
  run, span, toggleHelp, toggleRubric, who,
} from './common.js';

const task = location.pathname.split('/').pop() === 'verify' ? 'verify' : 'label';
const as = who();

let queue = [];
let bindings = [];
let at = 0;
let shown = null; // { id, item, suggestion, standing } of the item on the page
let busy = false;
let pace = { seconds: null, of: 0 };
let waiting = null; // an act that was not saved, to be sent again under its own name
const ahead = new Map();

// Time counts while the page is in view.
let spent = 0;
let since = null;
const startClock = () => { if (since === null && !document.hidden) since = performance.now(); };
const stopClock = () => { if (since !== null) { spent += (performance.now() - since) / 1000; since = null; } };
document.addEventListener('visibilitychange', () => (document.hidden ? stopClock() : startClock()));

const fetchItem = (id) => get('item', { task, as, id });

/** Start to fetch the item that comes next, so that it is there when it is wanted. */
function prepare(index) {
  const entry = queue[index];
  if (!entry || ahead.has(entry.id)) return;
  ahead.clear();
  const answer = fetchItem(entry.id);
  answer.catch(() => ahead.delete(entry.id));
  ahead.set(entry.id, answer);
}

/** The first open item from `from` on, round the end; -1 when there is none. */
function nextOpen(from) {
  for (let step = 0; step < queue.length; step += 1) {
    const index = (from + step) % queue.length;
    if (queue[index].status === 'open') return index;
  }
  return -1;
}

const acts = {
  class: (name) => write({ status: 'labelled', class: name }, true),
  skip: () => write({ status: 'skipped', class: null }, true),
  flag: () => shown && write({ flagged: !shown.standing.mark.flagged }, false),
  note: openNote,
  undo,
  next: () => go(at + 1),
  previous: () => go(at - 1),
  open: () => {
    const index = nextOpen(0);
    if (index < 0) notice('Every item has an answer');
    else go(index);
  },
  rubric: toggleRubric,
  help: () => toggleHelp(bindings),
};

/** Save a change of the item's mark; then, if asked to, go on. */
async function write(change, onward) {
  if (busy || !shown) return;
  stopClock();
  const before = shown.standing.mark;
  const answered = before.status !== 'open';
  await send({
    task, as, id: shown.id, expected: shown.standing.last, action: act(),
    mark: { ...before, ...change }, seconds: onward ? Math.round(spent * 10) / 10 : null,
  }, onward, answered);
}

async function send(body, onward, answered) {
  busy = true;
  document.body.classList.add('saving');
  try {
    const answer = await post('mark', body);
    waiting = null;
    pace = answer.pace;
    const entry = queue.find((known) => known.id === body.id);
    entry.status = body.mark.status;
    entry.flagged = body.mark.flagged;
    ahead.delete(body.id);
    if (shown.id === body.id) shown.standing = { last: answer.last, mark: body.mark };
    const name = body.mark.class ?? (body.mark.status === 'skipped' ? 'skipped' : 'open');
    notice(onward ? `Saved: ${name}` : 'Saved', 'good');
    busy = false;
    if (!onward) { draw(); startClock(); return; }
    // Somebody who went back to change an answer reads on from there; everybody else goes to the next open item.
    const next = answered ? at + 1 : nextOpen(at + 1);
    if (next < 0 || (answered && next >= queue.length)) finish();
    else await go(next);
  } catch (error) {
    busy = false;
    startClock();
    if (error instanceof Refused && error.status === 409) {
      shown.standing = error.body.standing;
      const entry = queue.find((known) => known.id === body.id);
      entry.status = shown.standing.mark.status;
      entry.flagged = shown.standing.mark.flagged;
      draw();
      notice(error.message, 'bad');
      return;
    }
    waiting = () => send(body, onward, answered);
    notice(`Not saved. ${error.message}`, 'bad', el('button', { type: 'button', onclick: () => waiting?.() }, 'Try again'));
  } finally {
    document.body.classList.remove('saving');
  }
}

async function undo() {
  if (busy) return;
  busy = true;
  try {
    const answer = await post('undo', { task, as, action: act() });
    busy = false;
    if (answer.nothing) { notice('Nothing to take back'); return; }
    const index = queue.findIndex((entry) => entry.id === answer.id);
    ahead.delete(answer.id);
    if (index >= 0) {
      queue[index].status = answer.standing.mark.status;
      queue[index].flagged = answer.standing.mark.flagged;
      await go(index);
    }
    notice('Taken back', 'good');
  } catch (error) {
    busy = false;
    notice(error.message, 'bad');
  }
}

async function go(index) {
  if (busy || !queue.length) return;
  if (index < 0) { notice('This is the first item'); return; }
  if (index >= queue.length) { finish(); return; }
  busy = true;
  try {
    const { id } = queue[index];
    const answer = await (ahead.get(id) ?? fetchItem(id));
    at = index;
    shown = { id, ...answer };
    spent = 0;
    since = null;
    $('done').hidden = true;
    $('work').hidden = false;
    closeNote();
    draw();
    startClock();
    $('work').scrollTop = 0;
    scrollTo(0, 0);
    ($('item').querySelector('.near') ?? $('text')).scrollIntoView({ block: 'nearest' });
    const next = nextOpen(at + 1);
    prepare(queue[at].status === 'open' ? next : at + 1);
  } catch (error) {
    notice(error.message, 'bad', el('button', { type: 'button', onclick: () => { hideNotice(); go(index); } }, 'Try again'));
  } finally {
    busy = false;
  }
}

function finish() {
  const open = queue.filter((entry) => entry.status === 'open').length;
  shown = null;
  $('work').hidden = true;
  $('done').hidden = false;
  $('done-text').textContent = open
    ? `This is the end of the list. ${number(open)} items have no answer yet.`
    : `All ${number(queue.length)} items have an answer. Thank you.`;
  $('done-open').hidden = !open;
  $('done').focus();
  progress();
}

/** Neighbours and the item itself, in the order of the file. */
function drawItem(item) {
  const neighbour = (one) => el('div', { class: `neighbour ${one.kind}` }, one.text);
  const own = el('div', { class: `own ${item.kind ?? ''}`, id: 'text', 'aria-label': 'Item' }, item.text);
  if (task === 'label') {
    $('item').replaceChildren(...place(item), ...item.before.map(neighbour), own, ...item.after.map(neighbour));
    return;
  }
  const after = item.after.map((one) => el('div', { class: `passage ${one.near ? 'near' : ''}` }, one.text));
  $('item').replaceChildren(
    ...place(item),
    el('div', { class: 'twocolumns' },
      el('section', { 'aria-label': 'Constraint' }, el('h2', {}, 'Constraint in the original'), own),
      el('section', { 'aria-label': 'Compacted text' }, el('h2', {}, 'Compacted text'), el('div', { class: 'after' }, ...after))),
  );
}

function draw() {
  drawItem(shown.item);
  const { mark } = shown.standing;
  for (const node of document.querySelectorAll('[data-act^="class:"]')) {
    const name = node.dataset.act.slice('class:'.length);
    node.setAttribute('aria-pressed', String(mark.class === name));
    node.classList.toggle('suggested', shown.suggestion === name);
  }
  document.querySelector('[data-act="skip"]').setAttribute('aria-pressed', String(mark.status === 'skipped'));
  document.querySelector('[data-act="flag"]').setAttribute('aria-pressed', String(mark.flagged));
  const note = $('own-note');
  note.hidden = !mark.note;
  note.textContent = mark.note;
  $('place').textContent = `Item ${number(at + 1)} of ${number(queue.length)}`;
  $('state').textContent = mark.status === 'open' ? '' : mark.class ?? mark.status;
  document.body.dataset.item = shown.id;
  progress();
}

function progress() {
  const done = queue.filter((entry) => entry.status !== 'open').length;
  const left = queue.length - done;
  $('bar').max = Math.max(queue.length, 1);
  $('bar').value = done;
  $('count').textContent = `${number(done)} of ${number(queue.length)}`;
  const known = pace.of >= 3 && pace.seconds !== null && left > 0;
  $('pace').textContent = known ? `${span(pace.seconds)} each, ${span(left * pace.seconds)} left` : '';
}

function openNote() {
  if (!shown) return;
  $('note').hidden = false;
  $('note-text').value = shown.standing.mark.note;
  $('note-text').focus();
}

function closeNote() {
  $('note').hidden = true;
  $('note-text').blur();
}

async function saveNote() {
  const note = $('note-text').value.trim();
  closeNote();
  if (shown && note !== shown.standing.mark.note) await write({ note }, false);
}

$('note-text').addEventListener('keydown', (event) => {
  if (event.key === 'Escape') { event.preventDefault(); closeNote(); }
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); saveNote(); }
});
$('note-save').addEventListener('click', saveNote);
$('note-cancel').addEventListener('click', closeNote);
$('done-open').addEventListener('click', () => acts.open());
$('done-undo').addEventListener('click', undo);
// Leaving while an act is under way asks first; nothing else is unsaved.
addEventListener('beforeunload', (event) => { if (waiting || busy) event.preventDefault(); });

async function start() {
  navigation(task);
  document.title = task === 'label' ? 'Label \u2013 aac' : 'Verify \u2013 aac';
  $('title').textContent = task === 'label' ? 'Label items' : 'Verify compacted constraints';
  $('question').textContent = task === 'label'
    ? 'What does the marked passage tell an agent?'
    : 'What became of the constraint?';
  let answer;
  try {
    answer = await get('queue', { task, as });
  } catch (error) {
    if (error.status === 400) { location.replace('./'); return; }
    notice(error.message, 'bad');
    return;
  }
  ({ queue, bindings, pace } = answer);
  $('who').textContent = answer.pass > 1 ? `${answer.as}, round ${answer.pass}` : answer.as;
  const of = (name) => bindings.find((binding) => binding.act === name);
  $('classes').replaceChildren(...bindings.filter((b) => b.act.startsWith('class:')).map((b) => button(b, acts)));
  const short = { undo: 'Undo', skip: 'Skip', flag: 'Flag', note: 'Note', previous: 'Back', next: 'Next' };
  $('tools').replaceChildren(...Object.entries(short).map(([name, text]) => button(of(name), acts, text)));
  $('aids').replaceChildren(
    ...[['rubric', 'Rubric'], ['help', 'Keys']].filter(([name]) => of(name)).map(([name, text]) => button(of(name), acts, text)),
  );
  $('suggests').hidden = !answer.suggests;
  listen(bindings, acts);
  if (!queue.length) {
    $('empty').hidden = false;
    $('empty-text').textContent = task === 'label'
      ? 'There is nothing to label yet. `aac gold sample` draws items from the corpus, `aac gold import` takes them in.'
      : 'There is nothing to verify yet. `aac gold serve --check BEFORE AFTER` adds the constraints of a text and what a compactor made of it.';
    progress();
    return;
  }
  if (of('rubric') && rubricWasShown() && innerWidth >= 1000) toggleRubric();
  const first = nextOpen(0);
  if (first < 0) finish();
  else await go(first);
  document.body.dataset.ready = 'yes';
}

start();
