// Timeouts for clients that do not count pauses of this process, such as a stopped container, a throttled CPU or a long
// garbage collection.
import { currentClock, monotonicMs, startInterval, startTimer, stopTimer } from '../../../core/clock.ts';

const BEAT_MS = 250;
/**
 * A heartbeat that is late by more than this many ms means that the whole process stalled. Other requests delay a
 * heartbeat less.
 */
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

/** Number of stalls of the event loop since the clock was set. */
export function loopStalls(): number {
  // Restarts the count if the clock was replaced, because heartbeats of another clock mean nothing.
  if (clock !== currentClock()) startBeating();
  // After a pause, the timer of the caller may fire before the timer of the heartbeat.
  beat();
  return stalls;
}

/**
 * Calls `onTimeout` after `ms`. If the event loop stalled in the meantime, waits for another interval, because bytes
 * that arrived may not have been read yet. Returns a function that cancels the timeout.
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
