// Time limits of clients. A pause of this process (a stopped container, a throttled CPU, a long collection) is not the client's fault.

const BEAT_MS = 250;
/** A beat that comes later than this was held up by more than other requests. */
const STALL_MS = 750;

let last = performance.now();
let stalls = 0;

function beat(): void {
  const now = performance.now();
  if (now - last > BEAT_MS + STALL_MS) stalls++;
  last = now;
}
setInterval(beat, BEAT_MS).unref();

/** How often the event loop has stood still so far. */
export function loopStalls(): number {
  // After a pause the timer that asks may be called before the one that beats.
  beat();
  return stalls;
}

/**
 * Calls `onTimeout` after `ms`, or gives a fresh interval if the event loop stood still meanwhile: what the client sent then is not read
 * yet. Gives what ends it.
 */
export function clientTimer(ms: number, onTimeout: () => void): () => void {
  let seen = loopStalls();
  const fire = () => {
    const now = loopStalls();
    if (now === seen) return onTimeout();
    seen = now;
    timer = setTimeout(fire, ms);
  };
  let timer = setTimeout(fire, ms);
  return () => clearTimeout(timer);
}
