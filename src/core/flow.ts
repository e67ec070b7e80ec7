// Measures how long a pipeline waits for its source, its workers and its sink, and how many bytes it holds in memory.

import { monotonicMs } from './clock.ts';
import { ExplainedWork } from './explained-work.ts';

/** The stages for which a pipeline can wait. The stage with the longest wait is the bottleneck. */
type WaitedFor = 'source' | 'workers' | 'sink';

export const WAITED_FOR: readonly WaitedFor[] = ['source', 'workers', 'sink'];

/** Bytes of applications in memory, and their limit. */
export interface Held {
  bytes: number;
  budget: number;
}

/**
 * Counters of waiting times. They are plain fields that readers poll, because every block updates them. Streams report
 * the duration of their waits with `waited`. A stream can wait for several stages at the same time, so the sum of its
 * waits may exceed the elapsed time. Runs from a topic report their current activity with `begin` and `end`. Such a run
 * waits for its workers while they have any batch, otherwise for its sink while a commit is in progress, otherwise for
 * its source.
 */
export class Flow {
  /** Progress of the interpretations of this pipeline. */
  readonly explained = new ExplainedWork();
  readonly #ms: Record<WaitedFor, number> = { source: 0, workers: 0, sink: 0 };
  readonly #holders = new Set<() => Held>();
  readonly #busy = { workers: 0, sink: 0 };
  /** Start of the current activity; null: no activity was reported. */
  #since: number | null = null;

  waited(what: WaitedFor, ms: number): void {
    this.#ms[what] += ms;
  }

  /** Starts to measure for `begin` and `end`. Until the first `begin`, the pipeline waits for its source. */
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

  /** Adds a function that reports held bytes. Returns a function that removes it. */
  hold(held: () => Held): () => void {
    this.#holders.add(held);
    return () => {
      this.#holders.delete(held);
    };
  }

  /** Waiting times so far, ms. */
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
