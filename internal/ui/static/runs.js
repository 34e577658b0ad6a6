// The list of runs.

import { get } from './api.js';
import { $, announce, el, ended, fill, money, name, number, plural, took, when } from './dom.js';

const stops = ['completed', 'final', 'handoff', 'client_tools', 'confirmation', 'max_steps', 'max_tool_calls', 'max_tokens', 'max_cost',
  'repeated_calls', 'length', 'timeout', 'canceled', 'upstream_error', 'refused', 'error'];

const most = 2000;

const state = { query: '', tag: '', first: [], older: [], next: '', rows: new Map(), seen: null };

export function setUp(changed, failed) {
  for (const s of stops) $('f-stop').append(el('option', { value: s }, s.replaceAll('_', ' ')));
  const form = $('filters');
  let timer = 0;
  const apply = () => {
    clearTimeout(timer);
    const query = new URLSearchParams();
    for (const [k, v] of new FormData(form)) if (v.trim()) query.set(k, v.trim());
    changed(query.toString());
  };
  form.addEventListener('input', (e) => {
    clearTimeout(timer);
    timer = setTimeout(apply, e.target instanceof HTMLSelectElement ? 0 : 300);
  });
  form.addEventListener('submit', (e) => { e.preventDefault(); apply(); });
  form.addEventListener('reset', () => setTimeout(apply)); // once the fields are empty
  $('more').addEventListener('click', () => older().catch(failed));
  $('run-table').tBodies[0].addEventListener('keydown', arrows);
}

// show begins with another choice of runs, as the address of the page has it.
export function show(query) {
  const values = new URLSearchParams(query);
  for (const field of $('filters').elements) {
    if (field.name && document.activeElement !== field) field.value = values.get(field.name) || '';
  }
  $('clear').disabled = !query;
  if (query !== state.query || state.seen === null) {
    Object.assign(state, { query, tag: '', first: [], older: [], next: '', seen: null });
  }
}

// look asks for the newest runs.
export async function look(signal) {
  const query = state.query;
  const reply = await get('runs' + (query ? '?' + query : ''), { tag: state.tag, signal });
  if (reply.same || query !== state.query) return;
  const ids = new Set(reply.value.data.map((r) => r.id));
  const fresh = state.seen ? reply.value.data.filter((r) => !state.seen.has(r.id)).length : 0;
  // Who has asked for older runs keeps those that newer ones have pushed out of the first part, up to a bound.
  const pushed = state.older.length && reply.value.has_more ? state.first : [];
  state.older = pushed.concat(state.older).filter((r) => !ids.has(r.id));
  if (state.older.length > most) {
    state.older.length = most;
    state.next = state.older[most - 1].id;
  }
  if (!state.older.length) state.next = reply.value.next || '';
  const began = state.seen === null;
  Object.assign(state, { tag: reply.tag, first: reply.value.data });
  state.seen = new Set([...state.first, ...state.older].map((r) => r.id));
  draw(!began);
  if (began) announce(state.first.length ? plural(state.first.length, 'run') + (state.next ? ' and more' : '') : 'no runs');
  else if (fresh) announce(plural(fresh, 'new run'));
}

async function older() {
  const query = new URLSearchParams(state.query);
  query.set('before', state.next);
  const before = state.query;
  const { value } = await get('runs?' + query);
  if (before !== state.query) return;
  state.older = state.older.concat(value.data.filter((r) => !state.seen.has(r.id)));
  state.next = value.next || '';
  for (const r of value.data) state.seen.add(r.id);
  draw(false);
  announce(plural(value.data.length, 'older run'));
}

// draw brings the table up to date. Rows that are there stay as they are, and so does the focus.
function draw(mark) {
  const all = state.first.concat(state.older);
  const body = $('run-table').tBodies[0];
  const rows = new Map(all.map((r) => [r.id, state.rows.get(r.id) || row(r, mark)]));
  for (const [id, tr] of state.rows) if (!rows.has(id)) tr.remove();
  let at = body.firstChild;
  for (const tr of rows.values()) {
    if (tr === at) at = at.nextSibling;
    else body.insertBefore(tr, at);
  }
  state.rows = rows;
  $('run-table').hidden = all.length === 0;
  $('more').hidden = !state.next;
  const empty = $('no-runs');
  empty.hidden = all.length > 0;
  if (!all.length) {
    fill(empty, state.query
      ? [el('p', {}, 'No run is as asked for.'), el('p', { class: 'hint' }, 'Clear the filters to see all.')]
      : [el('p', {}, 'No run yet.'), el('p', { class: 'hint' }, 'Runs show here as they end. A key sees its own; one with runs: all sees those of all callers.')]);
  }
  options('models', all.map((r) => r.model));
  options('tools', all.flatMap((r) => r.tools));
}

function options(id, values) {
  const want = [...new Set(values)].sort();
  const list = $(id);
  if (want.join('\n') !== [...list.children].map((o) => o.value).join('\n')) fill(list, want.map((v) => el('option', { value: v })));
}

function row(r, fresh) {
  const cell = (label, cls, ...content) => el('td', { role: 'cell', class: cls, 'data-label': label }, ...content);
  const link = el('a', { href: '#/runs/' + encodeURIComponent(r.id) }, when(r.started_at));
  const tr = el('tr', { role: 'row', class: fresh ? 'fresh' : null, 'data-id': r.id },
    el('th', { role: 'rowheader', scope: 'row', class: 'began' }, link),
    cell('', 'model', name(r.model), r.caller ? el('span', { class: 'by' }, ' ', name(r.caller)) : null),
    cell('', 'stop', ended(r.stop)),
    cell('', 'tools' + (r.calls ? '' : ' none'), toolsOf(r)),
    cell(r.steps === 1 ? 'step' : 'steps', 'num steps', number(r.steps)),
    cell('tokens', 'num tokens', number(r.prompt_tokens + r.completion_tokens)),
    cell('cost', 'num cost' + (r.cost ? '' : ' none'), money(r.cost)),
    cell('', 'num took', took(r.ms)));
  tr.addEventListener('click', (e) => { if (!e.target.closest('a') && !String(getSelection())) link.click(); });
  return tr;
}

function toolsOf(r) {
  if (!r.calls) return el('span', { class: 'faint' }, '–');
  const shown = r.tools.slice(0, 3);
  return [shown.map((t, i) => [i ? ' ' : null, el('span', { class: 'chip' }, name(t))]),
    r.tools.length > 3 ? el('span', { class: 'faint' }, ` +${r.tools.length - 3}`) : null,
    r.failed ? el('span', { class: 'failed' }, ` ${number(r.failed)} failed`) : null].flat(2);
}

// arrows lets the keys go from run to run.
function arrows(e) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  const tr = e.target.closest('tr');
  if (!step || !tr) return;
  const next = step > 0 ? tr.nextElementSibling : tr.previousElementSibling;
  if (!next) return;
  e.preventDefault();
  next.querySelector('a').focus();
}

// query is the address of the list as it was left.
export const address = () => '#/runs' + (state.query ? '?' + state.query : '');

// forget drops all that is there: another key may see other runs.
export function forget() {
  Object.assign(state, { tag: '', first: [], older: [], next: '', seen: null });
  for (const tr of state.rows.values()) tr.remove();
  state.rows = new Map();
}
