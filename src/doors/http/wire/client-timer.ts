// Time limits of clients. A pause of this process (a stopped container, a throttled CPU, a long collection) is not the client's fault.
import { currentClock, monotonicMs, startInterval, startTimer, stopTimer } from '../../../core/clock.ts';

const BEAT_MS = 250;
/** A beat that comes later than this was held up by more than other requests. */
const STALL_MS = 750;

let clock = currentClock();
let last = 0;
let stalls = 0;
startBeating();

function startBeating(): void {
  clock = currentClock();
  last = monotonicMs();
  startInterval(beat, BEAT_MS).unref();
}

function beat(): void {
  const now = monotonicMs();
  if (now - last > BEAT_MS + STALL_MS) stalls++;
  last = now;
}

/** Number of stalls of the event loop so far. */
export function loopStalls(): number {
  // The beats of one clock measure nothing on another.
  if (clock !== currentClock()) startBeating();
  // After a pause the timer that asks may be called before the one that beats.
  beat();
  return stalls;
}

/**
 * Calls `onTimeout` after `ms`, or starts a new interval if the event loop stalled meanwhile: bytes that the client sent are not read
 * yet. Gives what ends it.
 */
export function clientTimer(ms: number, onTimeout: () => void): () => void {
  let seen = loopStalls();
  const fire = () => {
    const now = loopStalls();
    if (now === seen) return onTimeout();
    seen = now;
    timer = startTimer(fire, ms);
  };
  let timer = startTimer(fire, ms);
  return () => stopTimer(timer);
}
