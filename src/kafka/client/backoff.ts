// Pauses between attempts.

/** Short enough that a broker which is back is found within a second or two. */
const MAX_BACKOFF_MS = 1_500;

/** Exponential backoff from 100 ms, with jitter so that members of a group do not retry in lockstep. */
export function backoffMs(failures: number): number {
  return Math.min(MAX_BACKOFF_MS, 100 * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
}
