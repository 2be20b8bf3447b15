// Agreement in figures. What has no figure says why.

import { $, el, get, navigation, notice, number, who } from './common.js';

const VIEWS = { five: 'five types, meta left out', six: 'six types', constraint_or_rest: 'constraint or not', verdicts: 'four verdicts' };

function figure(shown) {
  if (!shown) return el('td', { class: 'none' }, '\u2013');
  if (shown.undefined) return el('td', { class: 'none' }, shown.undefined);
  const range = shown.interval ? ` [${shown.interval.low.toFixed(2)}, ${shown.interval.high.toFixed(2)}]` : '';
  return el('td', {}, el('strong', {}, shown.value.toFixed(3)), el('small', {}, range));
}

function table(caption, head, rows) {
  return el('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    el('table', {}, el('caption', {}, caption),
      el('thead', {}, el('tr', {}, ...head.map((text) => el('th', { scope: 'col' }, text)))),
      el('tbody', {}, ...rows)));
}

const row = (name, ...cells) => el('tr', {}, el('th', { scope: 'row' }, name), ...cells);
const count = (n) => el('td', {}, number(n));

function views(caption, found) {
  const rows = found.map((view) =>
    row(VIEWS[view.view] ?? view.view, count(view.items), figure(view.kappa), figure(view.alpha), figure(view.ac1), figure(view.observed)));
  return table(caption, ['', 'items', 'Cohen\u2019s \u03ba', 'Krippendorff\u2019s \u03b1', 'Gwet\u2019s AC1', 'agreement'], rows);
}

function pair(found) {
  const classes = found.by_class.map((one) =>
    row(one.class, count(one.first), count(one.second), count(one.both), figure(one.specific), figure(one.kappa)));
  const most = Math.max(1, ...found.confusion.flat());
  const confusion = found.confusion.map((line, first) =>
    row(found.classes[first], ...line.map((n, second) =>
      el('td', { class: `cell${first === second ? ' same' : ''} shade${n ? Math.ceil((4 * n) / most) : 0}` }, number(n)))));
  return el('details', { open: true },
    el('summary', {}, `${found.first} and ${found.second}: ${number(found.items)} items`),
    views('Figures', found.views),
    table('By class', ['', found.first, found.second, 'both', 'specific agreement', '\u03ba'], classes),
    table(`Confusion: rows ${found.first}, columns ${found.second}`, ['', ...found.classes], confusion));
}

function part(title, found, note) {
  if (!found.annotators.length) {
    return el('section', {}, el('h2', {}, title), el('p', {}, 'Nobody has labelled anything yet.'));
  }
  const people = found.annotators.map((one) =>
    row(one.name, el('td', {}, one.origin), count(one.labelled), count(one.skipped), count(one.open), count(one.flagged)));
  return el('section', {}, el('h2', {}, title), note ? el('p', {}, note) : null,
    table('Annotators', ['', 'is a', 'labelled', 'skipped', 'open', 'flagged'], people),
    found.together.length ? views(`Together: ${found.together_of.join(', ')}`, found.together) : null,
    ...found.pairs.map(pair));
}

async function start() {
  navigation('agreement');
  let answer;
  try {
    answer = await get('agreement', { as: who() });
  } catch (error) {
    if (error.status === 400) { location.replace('./'); return; }
    notice(error.message, 'bad');
    return;
  }
  $('who').textContent = answer.as;
  if (answer.locked) {
    $('done').hidden = false;
    $('done-text').textContent = answer.locked;
  } else {
    const { all, settled } = answer.disputes;
    const note = all ? `${number(all)} items are seen differently, ${number(settled)} of them settled.` : 'No item is seen differently.';
    $('figures').replaceChildren(part('Types of items', answer.labels, answer.labels.annotators.length ? note : null));
    if (answer.verdicts.items) $('figures').append(part('Compacted constraints', answer.verdicts, null));
  }
  document.body.dataset.ready = 'yes';
}

start();
