// One run: what it was, and each model call and tool call over its time.

import { get } from './api.js';
import { $, announce, block, el, ended, fill, moment, money, name, number, outcome, plural, pretty, took, unseen } from './dom.js';

let wanted = '';

export async function show(id) {
  wanted = id;
  fill($('run-body'), el('p', { class: 'hint' }, 'Loading…'));
  const { value } = await get('runs/' + encodeURIComponent(id));
  if (id !== wanted) return; // another one was asked for meanwhile
  fill($('run-body'), facts(value), waterfall(value));
}

export function missing(message) {
  fill($('run-body'), el('p', { class: 'notice bad' }, message));
}

function facts(r) {
  const usage = r.usage || {};
  const list = el('dl', { class: 'facts card' });
  const add = (what, ...content) => list.append(el('div', {}, el('dt', {}, what), el('dd', {}, ...content)));
  add('Ended', ended(r.stop), r.error ? [' with ', el('code', {}, r.error)] : null);
  add('Model', name(r.model), r.stream ? ', streamed' : null);
  add('Took', took(r.ms), el('span', { class: 'faint' }, `, model calls ${took(r.upstream_ms)}`));
  add('Tokens', `${number(usage.prompt_tokens)} in, ${number(usage.completion_tokens)} out`, r.cost ? `, cost ${money(r.cost)}` : null);
  add('Tools', `${plural(r.calls.length, 'call')} of ${number(r.offered)} offered`);
  if (r.caller) add('Caller', name(r.caller));
  add('Began', moment(r.started_at));
  if (r.tainted) add('Untrusted', name(r.tainted));
  if (r.shortened) add('Shortened', plural(r.shortened, 'result'), ', as the model’s context was full');
  if (r.lost) add('Lost', plural(r.lost, 'earlier turn'), ' that the gateway no longer holds');
  for (const n of r.notes || []) add('Note', name(n));
  add('Run', el('code', { class: 'id' }, r.id), ' ', copy(r.id));
  if (r.request_id) add('Request', el('code', { class: 'id' }, r.request_id));
  if (r.approval) add('Waits for', el('a', { href: '#/approvals' }, 'an approval'));
  return list;
}

function copy(text) {
  const button = el('button', { type: 'button', class: 'small quiet', 'aria-label': 'Copy the id of the run' }, 'Copy');
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
      announce('copied');
    } catch {
      button.textContent = 'Not allowed here';
    }
  });
  return button;
}

// parts are the model calls, each followed by the tool calls of its turn.
function parts(r) {
  const list = [];
  const calls = (step) => r.calls.filter((c) => c.step === step || (step === 0 && (c.step < 1 || c.step > r.steps.length)));
  r.steps.forEach((s, i) => {
    list.push({ kind: 'model', label: `Model call ${i + 1}`, by: s.upstream, start: s.start_ms, ms: s.ms, outcome: s.error || s.finish_reason || '', failed: !!s.error, tokens: [s.prompt_tokens, s.completion_tokens] });
    for (const c of calls(i + 1)) list.push(call(c));
  });
  return list.concat(calls(0).map(call));
}

const call = (c) => ({ kind: 'tool', label: c.tool, start: c.start_ms, ms: c.ms, outcome: c.outcome, failed: c.outcome !== 'ok' && c.outcome !== 'skipped', call: c });

function waterfall(r) {
  const list = parts(r);
  const total = Math.max(r.ms, 1, ...list.map((p) => p.start + p.ms));
  const kept = r.calls.some((c) => c.arguments || c.result);
  const table = el('table', { class: 'waterfall', role: 'table', 'aria-labelledby': 'waterfall-title' },
    el('thead', { role: 'rowgroup' }, el('tr', { role: 'row' },
      el('th', { role: 'columnheader', scope: 'col' }, 'Call'),
      el('th', { role: 'columnheader', scope: 'col', class: 'axis' }, unseen('When'), axis(total)),
      el('th', { role: 'columnheader', scope: 'col', class: 'num' }, 'Took'),
      el('th', { role: 'columnheader', scope: 'col' }, 'Outcome'))),
    el('tbody', { role: 'rowgroup' }, list.map((p) => [line(p, total), p.call && (p.call.arguments || p.call.result) ? content(p.call, r.calls.length) : null])));
  return el('section', { class: 'card', 'aria-labelledby': 'waterfall-title' },
    el('h2', { id: 'waterfall-title' }, 'Timeline'),
    list.length ? table : el('p', { class: 'hint' }, 'No model was called.'),
    r.calls.length && !kept ? el('p', { class: 'hint' }, 'Arguments and results are not kept. ', el('code', {}, 'trace.content: true'), ' keeps them.') : null);
}

function axis(total) {
  return el('span', { class: 'ticks', 'aria-hidden': 'true' }, [0, 0.25, 0.5, 0.75, 1].map((f) => el('span', {}, took(Math.round(total * f)))));
}

function line(p, total) {
  const bar = el('span', { class: `bar ${p.kind}${p.failed ? ' bad' : ''}`, 'aria-hidden': 'true' });
  // By script and not in the markup, as the page's policy asks.
  bar.style.left = `${(100 * Math.min(p.start, total)) / total}%`;
  bar.style.width = `${(100 * p.ms) / total}%`;
  const by = p.by ? el('span', { class: 'by' }, ' ', name(p.by)) : null;
  const tokens = p.tokens && (p.tokens[0] || p.tokens[1]) ? el('span', { class: 'by' }, ` ${number(p.tokens[0])} → ${number(p.tokens[1])} tokens`) : null;
  return el('tr', { role: 'row', class: p.kind },
    el('th', { role: 'rowheader', scope: 'row' }, p.kind === 'tool' ? unseen('Tool ') : null, name(p.label), by),
    el('td', { role: 'cell', class: 'lane' }, unseen(`from ${took(p.start)} to ${took(p.start + p.ms)}`), el('span', { class: 'track' }, bar)),
    el('td', { role: 'cell', class: 'num' }, took(p.ms)),
    el('td', { role: 'cell', class: 'outcome' }, p.kind === 'tool' || p.failed ? outcome(p.outcome) : el('span', {}, p.outcome.replaceAll('_', ' ')), tokens));
}

// content is what a call got and gave. Few are open at once, of many none.
function content(c, among) {
  const preview = (c.arguments || '').replace(/\s+/g, ' ').slice(0, 120);
  return el('tr', { role: 'row', class: 'content' }, el('td', { role: 'cell', colspan: '4' },
    el('details', { open: among <= 4 },
      el('summary', {}, el('span', {}, 'Arguments and result'), unseen(' of '), el('bdi', { class: 'unseen' }, c.tool), el('code', { class: 'preview' }, preview)),
      el('div', { class: 'pair' },
        c.arguments ? el('div', {}, el('h3', {}, 'Arguments'), block('Arguments of ' + c.tool, pretty(c.arguments))) : null,
        c.result ? el('div', {}, el('h3', {}, 'What the model read'), block('Result of ' + c.tool, pretty(c.result))) : null))));
}
