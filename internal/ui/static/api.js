// Asking the gateway. The key stays in the session of this tab.

const storage = 'toolgate-key';

export const key = {
  get: () => sessionStorage.getItem(storage) || '',
  set: (k) => (k ? sessionStorage.setItem(storage, k) : sessionStorage.removeItem(storage)),
};

// Refused is an answer that is an error, in the gateway's own words.
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// Away is no answer at all.
export class Away extends Error {}

async function send(path, options) {
  const headers = { ...options.headers };
  if (key.get()) headers.Authorization = 'Bearer ' + key.get();
  let reply;
  try {
    // no-store: what runs hold belongs into no cache on a disk.
    reply = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
  } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Away('the gateway does not answer');
  }
  if (reply.ok || reply.status === 304) return reply;
  let error = {};
  try {
    error = (await reply.json()).error || {};
  } catch {
    // Something between here and the gateway has answered.
  }
  throw new Refused(reply.status, error.code, error.message || `the answer is ${reply.status}`);
}

// get asks for a document. With the tag of the last answer it is null where nothing has changed.
export async function get(path, { tag, signal } = {}) {
  const reply = await send(path, { headers: tag ? { 'If-None-Match': tag } : {}, signal });
  if (reply.status === 304) return { same: true, tag };
  return { value: await reply.json(), tag: reply.headers.get('ETag') };
}

export async function post(path, body) {
  const reply = await send(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  return reply.json();
}
