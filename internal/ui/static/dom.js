// What every view uses to build its part of the page. Texts get in as text alone, never as markup, whoever wrote them.

export const $ = (id) => document.getElementById(id);

// el makes an element. Of props, class and the names that begin with aria-, data- or are listed here become attributes;
// "on" is a map of listeners. Children are elements or texts; null and undefined are none.
const attributes = new Set(['id', 'href', 'scope', 'role', 'type', 'title', 'tabindex', 'colspan', 'datetime', 'class', 'open', 'value']);

export function el(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'on') {
      for (const [event, f] of Object.entries(value)) e.addEventListener(event, f);
    } else if (attributes.has(name) || name.startsWith('aria-') || name.startsWith('data-')) {
      e.setAttribute(name, value === true ? '' : String(value));
    } else {
      throw new Error('el: ' + name);
    }
  }
  append(e, children);
  return e;
}

function append(e, children) {
  for (const c of children.flat(Infinity)) {
    if (c !== null && c !== undefined && c !== false) e.append(c instanceof Node ? c : document.createTextNode(String(c)));
  }
}

// fill replaces what is in an element.
export function fill(e, ...children) {
  e.replaceChildren();
  append(e, children);
  return e;
}

export const unseen = (text) => el('span', { class: 'unseen' }, text);

// name is a text that a client, a model or the file chose, apart from what stands beside it in its direction of writing.
export const name = (text, cls) => el('bdi', { class: cls || null, title: text.length > 40 ? text : null }, text);

let last = '';

// announce tells a screen reader.
export function announce(text) {
  $('announce').textContent = text === last ? text + '\u00a0' : text; // the same text again is told again
  last = $('announce').textContent;
}

// Numbers, times.

const count = new Intl.NumberFormat('en');

export const number = (n) => count.format(n || 0);

export const plural = (n, what) => `${number(n)} ${what}${n === 1 ? '' : 's'}`;

export function took(ms) {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 100000) return `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

export function money(cost) {
  return cost ? String(Number(cost.toPrecision(3))) : '–';
}

const two = (n) => String(n).padStart(2, '0');
const day = (t) => `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
const clock = (t) => `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;

// when is a time today as its hour, any other with its day.
export function when(text) {
  const t = new Date(text);
  const said = day(t) === day(new Date()) ? clock(t) : `${day(t).slice(5)} ${clock(t).slice(0, 5)}`;
  return el('time', { datetime: text, title: `${day(t)} ${clock(t)}` }, said);
}

export function moment(text) {
  const t = new Date(text);
  return el('time', { datetime: text }, `${day(t)} ${clock(t)}`);
}

// pretty is JSON with a line a member; any other text stays as it is.
export function pretty(text) {
  try {
    const v = JSON.parse(text);
    return v !== null && typeof v === 'object' ? JSON.stringify(v, null, 2) : text;
  } catch {
    return text;
  }
}

// block is a longer text that can be scrolled, by the keyboard too.
export function block(label, text) {
  return el('pre', { tabindex: '0', role: 'group', 'aria-label': label }, text);
}

// How a run ended: a sign and a class beside the word, which alone says it.
const good = new Set(['completed', 'final', 'handoff', 'client_tools']);
const bad = new Set(['timeout', 'upstream_error', 'error']);

export function ended(stop) {
  const kind = good.has(stop) ? 'good' : bad.has(stop) ? 'bad' : stop === 'confirmation' ? 'waits' : 'short';
  const sign = { good: '✓', bad: '✕', waits: '⏸', short: '!' }[kind];
  return el('span', { class: `badge ${kind}` }, el('span', { 'aria-hidden': 'true' }, sign + '\u00a0'), stop.replaceAll('_', '\u00a0'));
}

export function outcome(text) {
  const kind = text === 'ok' ? 'good' : text === 'skipped' ? 'plain' : text === 'confirmation_required' ? 'waits' : 'bad';
  const sign = { good: '✓', bad: '✕', waits: '⏸', plain: '–' }[kind];
  return el('span', { class: `badge ${kind}` }, el('span', { 'aria-hidden': 'true' }, sign + '\u00a0'), name(text.replaceAll('_', ' ')));
}
