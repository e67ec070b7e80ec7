// Where the time of a pipeline goes: waits for source, workers and sink, and bytes in memory.

import { monotonicMs } from './clock.ts';
import { ExplainedWork } from './explained-work.ts';

/** What a pipeline can wait for. The longest wait shows the bottleneck. */
type WaitedFor = 'source' | 'workers' | 'sink';

export const WAITED_FOR: readonly WaitedFor[] = ['source', 'workers', 'sink'];

/** Bytes of applications in memory, and their limit. */
export interface Held {
  bytes: number;
  budget: number;
}

/**
 * Plain counters, because every block updates them; readers poll. Streams report the duration of their waits
 * (`waited`). They wait for several things at the same time, so the sums may exceed the elapsed time. A topic reports
 * its current activity (`begin`, `end`). It waits for its workers while they have any batch, else for its sink while
 * anything is being committed, else for its source.
 */
export class Flow {
  /** Progress of its interpretations. */
  readonly explained = new ExplainedWork();
  readonly #ms: Record<WaitedFor, number> = { source: 0, workers: 0, sink: 0 };
  readonly #holders = new Set<() => Held>();
  readonly #busy = { workers: 0, sink: 0 };
  /** Start of the current activity; null: no activity was reported. */
  #since: number | null = null;

  waited(what: WaitedFor, ms: number): void {
    this.#ms[what] += ms;
  }

  /** Starts the clock for `begin` and `end`; until the first `begin`, the pipeline waits for its source. */
  open(): void {
    this.#turn();
  }

  begin(what: 'workers' | 'sink'): void {
    this.#turn();
    this.#busy[what]++;
  }

  end(what: 'workers' | 'sink'): void {
    this.#turn();
    this.#busy[what]--;
  }

  /** Adds a holder of bytes. Returns a function that removes it. */
  hold(held: () => Held): () => void {
    this.#holders.add(held);
    return () => {
      this.#holders.delete(held);
    };
  }

  /** Milliseconds of waiting so far. */
  get waits(): Readonly<Record<WaitedFor, number>> {
    if (this.#since !== null) this.#turn();
    return this.#ms;
  }

  get held(): Held {
    const sum = { bytes: 0, budget: 0 };
    for (const holder of this.#holders) {
      const { bytes, budget } = holder();
      sum.bytes += bytes;
      sum.budget += budget;
    }
    return sum;
  }

  #turn(): void {
    const now = monotonicMs();
    if (this.#since !== null) {
      const { workers, sink } = this.#busy;
      this.#ms[workers > 0 ? 'workers' : sink > 0 ? 'sink' : 'source'] += now - this.#since;
    }
    this.#since = now;
  }
}
