// Calls that wait until somebody decides.

import { get, post } from './api.js';
import { $, announce, block, el, fill, moment, name, pretty } from './dom.js';

let tag = '';
const cards = new Map();

export function forget() {
  tag = '';
  cards.clear();
  fill($('approvals-body'));
  count(0);
}

// look asks what waits. It is asked for on every page, as the number stands beside its name.
export async function look(signal) {
  const reply = await get('approvals', { tag, signal });
  if (reply.same) return;
  const began = tag === '';
  tag = reply.tag;
  draw(reply.value, began);
}

function draw(reply, began) {
  const body = $('approvals-body');
  const ids = new Set(reply.data.map((a) => a.id));
  for (const [id, card] of cards) {
    if (!ids.has(id)) {
      if (card.contains(document.activeElement)) $('approvals-title').focus();
      card.remove();
      cards.delete(id);
    }
  }
  // The oldest stands first and none moves, so that nobody decides on another one than was meant.
  const fresh = reply.data.filter((a) => !cards.has(a.id));
  for (const a of fresh) {
    const card = cardOf(a, reply.may_decide);
    cards.set(a.id, card);
    body.append(card);
  }
  body.querySelector('.empty')?.remove();
  if (!cards.size) body.append(el('div', { class: 'empty card' }, el('p', {}, 'Nothing waits.')));
  count(cards.size);
  if (fresh.length && !began) announce(`${fresh[0].tool} waits for an approval`);
}

function count(n) {
  $('waiting').hidden = n === 0;
  fill($('waiting'), n ? [String(n), el('span', { class: 'unseen' }, ' waiting')] : null);
}

function cardOf(a, may) {
  const trouble = el('p', { class: 'notice bad', role: 'alert' });
  trouble.hidden = true;
  const button = (cls, word, approve) => el('button', { type: 'button', class: cls, 'aria-label': `${word} ${a.tool}` }, word);
  const yes = button('main', 'Approve');
  const no = button('quiet danger', 'Deny');
  const card = el('article', { class: 'card approval', 'aria-label': `${a.tool} waits` },
    el('div', { class: 'head' }, el('h2', {}, name(a.tool)), may ? el('div', { class: 'decide' }, yes, ' ', no) : el('span', { class: 'hint' }, 'This key may not decide.')),
    el('p', { class: 'hint' }, a.caller ? ['Asked by ', name(a.caller), ', '] : 'Asked ', moment(a.asked_at), '; until ', moment(a.expires_at), '. ', el('a', { href: '#/runs/' + encodeURIComponent(a.run_id) }, 'Its run')),
    block('Arguments of ' + a.tool, pretty(a.arguments)), trouble);
  const decide = async (approve) => {
    yes.disabled = no.disabled = true;
    try {
      await post('approvals/' + encodeURIComponent(a.id), { approve });
      announce(`${a.tool} is ${approve ? 'approved' : 'denied'}`);
      fill(card.querySelector('.decide'), el('strong', { class: approve ? 'ok' : 'failed' }, approve ? '✓ Approved' : '✕ Denied'));
      tag = '';
      $('approvals-title').focus();
    } catch (e) {
      yes.disabled = no.disabled = false;
      trouble.textContent = e.message;
      trouble.hidden = false;
    }
  };
  yes.addEventListener('click', () => decide(true));
  no.addEventListener('click', () => decide(false));
  return card;
}
