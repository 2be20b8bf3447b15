// The first page: who are you, and what is there to do.

import { $, el, get, notice, number, page, who } from './common.js';

function card(name, title, text, count) {
  const bar = count && count.all ? el('progress', { value: count.done, max: count.all, 'aria-label': `${title}: answered` }) : null;
  const words = count ? (count.all ? `${number(count.done)} of ${number(count.all)}` : 'nothing yet') : null;
  return el('a', { class: 'card', href: page(name, current), id: `to-${name}` },
    el('strong', {}, title), el('span', {}, text), bar, words ? el('small', {}, words) : null);
}

let current = '';

async function show(name) {
  let answer;
  try {
    answer = await get('hello', name ? { as: name } : {});
  } catch (error) {
    notice(error.message, 'bad');
    return;
  }
  if (!answer.as) return;
  current = answer.as;
  localStorage.setItem('name', current);
  history.replaceState(null, '', page('./', current));
  $('name').value = current;
  $('name').readOnly = Boolean(answer.annotator);
  const count = (task) => ({ done: answer.done[task], all: answer.items[task] });
  $('tasks').hidden = false;
  $('tasks').replaceChildren(
    card('label', 'Label', 'Say which of six types each passage has.', count('label')),
    card('verify', 'Verify', 'Say what became of a constraint in a compacted text.', count('verify')),
    card('adjudicate', 'Adjudicate', answer.locked ?? 'Settle what annotators see differently.', null),
    card('agreement', 'Agreement', answer.locked ? 'Opens when you are done.' : 'How far annotators agree, beyond chance.', null),
  );
  // Enter goes on from here; the digits that come next belong to the passages, not to the name.
  $('to-label').focus();
}

$('name').value = who() || localStorage.getItem('name') || '';
$('name-form').addEventListener('submit', (event) => {
  event.preventDefault();
  show($('name').value);
});
// With one annotator named at the start, or a name in the address, there is nothing to ask.
await show(who());
document.body.dataset.ready = 'yes';
