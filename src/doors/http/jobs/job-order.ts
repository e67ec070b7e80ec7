// Whose job is next: fair turns between keys, in the order of arrival within one.
import type { Job } from './job-store.ts';

/**
 * Of these jobs, oldest first: one of the key with the fewest running, of several keys the one that waited longest since its last start.
 * `started`: by key, any clock. null: there is none.
 */
export function nextOf(
  queued: readonly Job[],
  runningOwners: readonly string[],
  started: ReadonlyMap<string, number>,
): Job | null {
  const running = (owner: string) => runningOwners.filter((o) => o === owner).length;
  const rank = ({ owner }: Job) => [running(owner), started.get(owner) ?? Number.NEGATIVE_INFINITY] as const;
  let best: Job | null = null;
  for (const job of queued) {
    if (best === null) best = job;
    else {
      const [a, b] = [rank(job), rank(best)];
      if (a[0] < b[0] || (a[0] === b[0] && a[1] < b[1])) best = job;
    }
  }
  return best;
}
