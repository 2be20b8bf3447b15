// What the pages share: asking the server, putting text on the page (always as text), keys, the rubric, notices.

/** Make an element. Strings among the children become text nodes, whatever stands in them. */
export function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const $ = (id) => document.getElementById(id);

/** The name in the address, else the one used last in this browser. */
export function who() {
  return new URLSearchParams(location.search).get('as') ?? '';
}

/** The address of a page under the same name. */
export function page(name, as = who()) {
  return as ? `${name}?as=${encodeURIComponent(as)}` : name;
}

/** An answer that is not one. `status` is 0 when the server was not reached. */
export class Refused extends Error {
  constructor(status, body) {
    super(body?.error ?? 'The server did not answer. Is it still running?');
    this.status = status;
    this.body = body;
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, options);
  } catch {
    throw new Refused(0, null);
  }
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  if (response.status === 404 && body === null) {
    throw new Refused(404, { error: 'The server was started anew: open the address that it printed.' });
  }
  throw new Refused(response.status, body);
}

export function get(path, parameters = {}) {
  return ask(`${path}?${new URLSearchParams(parameters)}`, {});
}

export function post(path, body) {
  return ask(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
}

/** A name for one act, so that sending it twice writes it once. */
export function act() {
  return crypto.randomUUID();
}

let fading;

/** Tell what happened, to eyes and to screen readers. `kind` is 'good', 'plain' or 'bad'; bad ones stay. */
export function notice(text, kind = 'plain', button = null) {
  const box = $('notice');
  clearTimeout(fading);
  box.replaceChildren(el('span', {}, text));
  if (button) box.append(button);
  box.className = `notice ${kind} shown`;
  if (kind !== 'bad') fading = setTimeout(() => box.classList.remove('shown'), 2500);
}

export function hideNotice() {
  $('notice').classList.remove('shown');
}

/** Run `acts[act]` for the key that `bindings` gives it. Keys typed into a field, or with Ctrl, Alt or Meta, are not ours. */
export function listen(bindings, acts) {
  const byKey = new Map(bindings.map((binding) => [binding.key, binding.act]));
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest?.('textarea, input')) return;
    const name = byKey.get(event.key.length === 1 ? event.key.toLowerCase() : event.key);
    if (!name || event.repeat) return;
    // Behind an open dialog nothing is answered unseen.
    if (document.querySelector('dialog[open]') && name !== 'help') return;
    event.preventDefault();
    run(acts, name);
  });
}

/** Run an act by name; `class:x` runs `class` with x. */
export function run(acts, name) {
  const [head, tail] = name.split(':');
  acts[head]?.(tail);
}

/** A button for a binding, with its key on it. */
export function button(binding, acts, text = binding.says) {
  return el(
    'button',
    {
      type: 'button',
      'data-act': binding.act,
      'aria-keyshortcuts': binding.key,
      title: binding.hint ? `${binding.says}: ${binding.hint}` : binding.says,
      onclick: () => run(acts, binding.act),
    },
    el('kbd', { 'aria-hidden': 'true' }, binding.key),
    el('span', {}, text, binding.hint ? el('small', {}, binding.hint) : null),
  );
}

/** The list that `?` shows. */
export function keyList(bindings) {
  const rows = bindings.flatMap((binding) => [
    el('dt', {}, el('kbd', {}, binding.key)),
    el('dd', {}, binding.says, binding.hint ? el('small', {}, ` \u2013 ${binding.hint}`) : null),
  ]);
  return el('dl', { class: 'keys' }, ...rows);
}

/** `**strong**`, `*em*` and `code` of one line. */
function inline(text) {
  const parts = text.split(/(\*\*[^*]+\*\*|\*[^*]+\*|`[^`]+`)/);
  return parts
    .filter((part) => part)
    .map((part) => {
      if (part.startsWith('**')) return el('strong', {}, part.slice(2, -2));
      if (part.startsWith('`') && part.length > 1) return el('code', {}, part.slice(1, -1));
      if (part.startsWith('*') && part.length > 2) return el('em', {}, part.slice(1, -1));
      return part;
    });
}

/** Headings, paragraphs, lists and tables of our own Markdown as elements. */
export function markdown(text) {
  const out = [];
  for (const block of text.split(/\n\s*\n/)) {
    let lines = block.split('\n').filter((line) => line.trim());
    while (lines.length) {
      const heading = lines[0].match(/^(#+)\s+(.*)/);
      if (heading) {
        out.push(el(`h${Math.min(heading[1].length + 1, 6)}`, {}, ...inline(heading[2])));
        lines = lines.slice(1);
      } else if (lines[0].startsWith('|')) {
        const rows = lines.filter((line) => !/^\|[-|: ]+\|$/.test(line)).map((line) => line.split('|').slice(1, -1));
        const cells = (row, tag) => el('tr', {}, ...row.map((cell) => el(tag, {}, ...inline(cell.trim()))));
        out.push(el('table', {}, el('thead', {}, cells(rows[0], 'th')),
          el('tbody', {}, ...rows.slice(1).map((row) => cells(row, 'td')))));
        lines = [];
      } else if (/^(-|\d+\.)\s/.test(lines[0])) {
        const entries = [];
        for (const line of lines) {
          const start = line.match(/^(?:-|\d+\.)\s+(.*)/);
          if (start) entries.push(start[1]);
          else entries[entries.length - 1] += ` ${line.trim()}`;
        }
        const list = /^\d/.test(lines[0]) ? 'ol' : 'ul';
        out.push(el(list, {}, ...entries.map((entry) => el('li', {}, ...inline(entry)))));
        lines = [];
      } else {
        out.push(el('p', {}, ...inline(lines.join(' '))));
        lines = [];
      }
    }
  }
  return out;
}

let rubric = null;

/** Show or hide the rubric beside the work. Fetched once. */
export async function toggleRubric() {
  const side = $('rubric');
  const hidden = !side.hidden;
  if (!hidden && !rubric) {
    try {
      rubric = await get('rubric');
      $('rubric-text').replaceChildren(...markdown(rubric.text));
    } catch (error) {
      notice(error.message, 'bad');
      return;
    }
  }
  side.hidden = hidden;
  document.body.classList.toggle('beside', !hidden);
  localStorage.setItem('rubric', hidden ? 'hidden' : 'shown');
}

export function rubricWasShown() {
  return localStorage.getItem('rubric') === 'shown';
}

export function toggleHelp(bindings) {
  const dialog = $('help');
  if (dialog.open) dialog.close();
  else {
    $('help-text').replaceChildren(keyList(bindings));
    dialog.showModal();
  }
}

/** Seconds as people say them. */
export function span(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export const number = (n) => n.toLocaleString('en').replaceAll(',', '\u2009');

/** The bar at the top that leads to the other pages. */
export function navigation(here) {
  const links = [['label', 'Label'], ['verify', 'Verify'], ['adjudicate', 'Adjudicate'], ['agreement', 'Agreement']];
  $('navigation').replaceChildren(
    el('a', { href: page('./'), class: 'home' }, 'aac'),
    ...links.map(([name, text]) =>
      el('a', { href: page(name), 'aria-current': name === here ? 'page' : null }, text)),
  );
}

/** File, line and headings of an item. */
export function place(item) {
  const crumbs = (item.heading ?? []).flatMap((heading, index) => [
    index ? el('span', { class: 'sep', 'aria-hidden': 'true' }, '\u203a') : null,
    el('span', {}, heading),
  ]);
  return [
    el('p', { class: 'file' }, item.path ?? item.document ?? '', item.line ? el('span', {}, `:${item.line}`) : null,
      item.repo ? el('span', { class: 'repo' }, item.repo) : null),
    el('p', { class: 'crumbs', 'aria-label': 'Headings above' }, ...crumbs),
  ];
}
