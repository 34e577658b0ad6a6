// The page as a whole: which view is shown, the key, and what is asked again and again.

import { Away, Refused, key } from './api.js';
import * as approvals from './approvals.js';
import { $, fill } from './dom.js';
import { poll } from './poll.js';
import * as run from './run.js';
import * as runs from './runs.js';
import * as tools from './tools.js';

let polls = [];
let answered = false; // something was shown that one may go back to
let live = true;

const titles = { key: 'Your key', runs: 'Runs', run: 'Run', tools: 'Tools', approvals: 'Approvals' };

function stop() {
  for (const p of polls) p.stop();
  polls = [];
}

// view shows one view and hides the others.
function view(which) {
  for (const v of Object.keys(titles)) $(v + '-view').hidden = v !== which;
  document.title = `${titles[which]} – Toolgate`;
  const page = which === 'run' ? 'runs' : which;
  for (const a of document.querySelectorAll('nav a')) {
    if (a.dataset.page === page) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  $('key-button').textContent = key.get() ? 'Change key' : 'Enter key';
}

const troubles = new Map(); // by what is asked for: one that answers says nothing of another

function trouble(of, text) {
  if (text) troubles.set(of, text);
  else troubles.delete(of);
  const [said = ''] = troubles.values();
  const p = $('trouble');
  p.hidden = !said;
  if (p.textContent !== said) p.textContent = said;
}

function noTrouble() {
  troubles.clear();
  trouble('', '');
}

// failed says what went wrong, and whether there is no use in trying again.
function failed(of, e) {
  if (e instanceof Refused && e.status === 401) {
    askForKey(key.get() ? `The key was not taken: ${e.message}` : '');
    return true;
  }
  trouble(of, e instanceof Away ? 'The gateway does not answer. Trying again…' : e.message);
  return false;
}

function askForKey(reason) {
  stop();
  noTrouble();
  view('key');
  $('key-reason').hidden = !reason;
  $('key-reason').textContent = reason;
  $('key-forget').hidden = !key.get();
  $('key-cancel').hidden = !!reason || !answered;
  $('key').value = '';
  $('key').focus();
}

// route shows what the address names: #/runs?model=…, #/runs/ID, #/tools?model=…, #/approvals.
function route() {
  stop();
  noTrouble();
  const [path, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [page, id] = path.split('/');
  again('approvals', approvals.look);
  if (page === 'tools') {
    tools.show(new URLSearchParams(query).get('model') || '');
    view('tools');
    again('tools', tools.look);
  } else if (page === 'approvals') {
    view('approvals');
  } else if (page === 'runs' && id) {
    view('run');
    $('run-back').href = runs.address();
    showRun(id);
  } else {
    runs.show(query);
    view('runs');
    if (live) again('runs', runs.look);
    else runs.look().catch((e) => failed('runs', e)); // once: it may be another choice
  }
}

// again asks again and again until the next view.
function again(of, look) {
  polls.push(poll(look, (e) => failed(of, e), () => {
    answered = true;
    trouble(of, '');
  }));
}

async function showRun(id) {
  try {
    await run.show(id);
  } catch (e) {
    if (e instanceof Refused && e.status === 404) run.missing('There is no such run that this key may see, or it is no longer kept.');
    else if (!failed('run', e)) run.missing('It could not be read.');
  }
}

// go is route for somebody who came by a link: the focus goes to what was asked for.
function go() {
  if (location.hash === '#main') return;
  route();
  scrollTo(0, 0);
  document.querySelector('main > section:not([hidden]) h1')?.focus();
}

function setUp() {
  runs.setUp((query) => {
    history.replaceState(null, '', '#/runs' + (query ? '?' + query : ''));
    route();
  }, (e) => failed('runs', e));
  tools.setUp((model) => {
    history.replaceState(null, '', '#/tools' + (model ? '?model=' + encodeURIComponent(model) : ''));
    route();
  });
  $('skip').addEventListener('click', (e) => {
    e.preventDefault();
    $('main').focus();
  });
  $('live').addEventListener('click', () => {
    live = !live;
    $('live').dataset.live = String(live);
    fill($('live-text'), live ? 'Live' : 'Paused');
    route();
  });
  $('key-button').addEventListener('click', () => askForKey(''));
  $('key-cancel').addEventListener('click', go);
  $('key-forget').addEventListener('click', () => take(''));
  $('key-form').addEventListener('submit', (e) => {
    e.preventDefault();
    take($('key').value.trim());
  });
  addEventListener('hashchange', go);
  route();
}

// take goes on with another key, and with nothing of what the last one saw.
function take(k) {
  key.set(k);
  answered = false;
  for (const part of [runs, tools, approvals]) part.forget();
  fill($('run-body'));
  go();
}

setUp();
