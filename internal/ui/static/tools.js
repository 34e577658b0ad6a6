// The tools, as a model sees them.

import { get } from './api.js';
import { $, block, el, fill, name, number } from './dom.js';

let tag = '';
let asked = null;
const cards = new Map(); // of names, to keep what is open as it is

export function setUp(changed) {
  $('tools-form').addEventListener('submit', (e) => {
    e.preventDefault();
    changed($('t-model').value.trim());
  });
}

export function show(model) {
  if (document.activeElement !== $('t-model')) $('t-model').value = model;
  if (model !== asked) forget();
  asked = model;
}

export function forget() {
  tag = '';
  asked = null;
  cards.clear();
  fill($('tools-body'));
}

export async function look(signal) {
  const reply = await get('tools' + (asked ? '?model=' + encodeURIComponent(asked) : ''), { tag, signal });
  if (reply.same) return;
  tag = reply.tag;
  const list = reply.value.data;
  if (!list.length) {
    fill($('tools-body'), el('div', { class: 'empty card' }, el('p', {}, 'This model has no tools for this key.')));
    return;
  }
  for (const t of list) {
    const open = cards.get(t.name)?.querySelector('details')?.open;
    const text = JSON.stringify(t);
    if (cards.get(t.name)?.dataset.text === text) continue;
    const card = toolCard(t, open);
    card.dataset.text = text;
    const old = cards.get(t.name);
    const focused = old?.contains(document.activeElement);
    if (old?.isConnected) old.replaceWith(card);
    cards.set(t.name, card);
    if (focused) card.querySelector('summary')?.focus();
  }
  const names = new Set(list.map((t) => t.name));
  for (const [n, card] of cards) {
    if (!names.has(n)) {
      card.remove();
      cards.delete(n);
    }
  }
  const shown = [...$('tools-body').children];
  if (shown.length !== list.length || list.some((t, i) => shown[i] !== cards.get(t.name))) fill($('tools-body'), list.map((t) => cards.get(t.name)));
}

const breakers = {
  closed: ['good', '✓', 'working'],
  half_open: ['short', '!', 'being tried again'],
  open: ['bad', '✕', 'paused after failures'],
};

export function toolCard(t, open) {
  const f = t.declaration.function;
  const [kind, sign, words] = breakers[t.breaker] || ['plain', '–', t.breaker];
  const marks = [t.kind, t.effect === 'write' ? 'write' : 'read'];
  if (t.confirm !== 'none') marks.push((t.confirm === 'approval' ? 'waits for an approval' : 'asks the user') + (t.confirm_after ? ' after untrusted results' : ''));
  if (t.untrusted) marks.push('untrusted results');
  if (t.ending) marks.push(t.ending);
  return el('article', { class: 'card tool', 'aria-label': t.name },
    el('div', { class: 'head' }, el('h2', {}, name(t.name)), el('span', { class: `badge ${kind}` }, el('span', { 'aria-hidden': 'true' }, sign + '\u00a0'), words)),
    el('p', { class: 'marks' }, marks.map((m) => [el('span', { class: 'chip' }, m), ' '])),
    el('p', { class: 'text' }, f.description),
    el('p', { class: 'counts' }, el('strong', {}, number(t.calls)), t.calls === 1 ? ' call' : ' calls', ' since the start, ', el('span', { class: t.failed ? 'failed' : null }, `${number(t.failed)} failed`)),
    parameters(f.parameters),
    el('details', { open }, el('summary', {}, 'What the model is told'), block('Declaration of ' + t.name, JSON.stringify(t.declaration, null, 2))));
}

function parameters(schema) {
  const all = Object.entries((schema && schema.properties) || {});
  if (!all.length) return el('p', { class: 'hint' }, 'It takes no arguments.');
  const required = new Set(schema.required || []);
  return el('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Parameters' }, el('table', { class: 'parameters' },
    el('thead', {}, el('tr', {}, ['Parameter', 'Type', 'What it is'].map((h) => el('th', { scope: 'col' }, h)))),
    el('tbody', {}, all.map(([n, p]) => el('tr', {},
      el('th', { scope: 'row' }, name(n), required.has(n) ? el('span', { class: 'by' }, ' required') : null),
      el('td', { class: 'type' }, typeOf(p)), el('td', {}, p && p.description ? p.description : '–'))))));
}

function typeOf(p) {
  if (!p || typeof p !== 'object') return 'any';
  if (Array.isArray(p.enum)) return 'one of ' + p.enum.slice(0, 8).map((v) => JSON.stringify(v)).join(', ') + (p.enum.length > 8 ? ', …' : '');
  return [p.type || 'any'].flat().join(' or ');
}
