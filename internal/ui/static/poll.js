// Asking again and again, while somebody looks.

import { Away } from './api.js';

const every = 2000;
const longest = 30000;

// poll calls look at once and every two seconds from then on, with longer and longer pauses while nobody answers, and not
// at all while the page is hidden. It gives what stops it and what asks at once.
export function poll(look, failed, answered) {
  const stopping = new AbortController();
  let timer = 0;
  let pause = every;
  let busy = false;

  async function turn() {
    clearTimeout(timer);
    if (stopping.signal.aborted || busy || document.hidden) return;
    busy = true;
    try {
      await look(stopping.signal);
      pause = every;
      if (!stopping.signal.aborted) answered();
    } catch (e) {
      if (stopping.signal.aborted) return;
      if (failed(e)) return stop(); // for good
      pause = e instanceof Away ? Math.min(pause * 2, longest) : every * 3;
    } finally {
      busy = false;
    }
    if (!stopping.signal.aborted) timer = setTimeout(turn, pause);
  }

  const shown = () => { if (!document.hidden) turn(); };
  document.addEventListener('visibilitychange', shown);

  function stop() {
    stopping.abort();
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', shown);
  }

  turn();
  return { stop, now: turn };
}
