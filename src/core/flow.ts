// How the work of one pipeline flows: what it waits for, and how much of it is in memory.

import { monotonicMs } from './clock.ts';
import { ExplainedWork } from './explained-work.ts';

/** What a pipeline can wait for. The one that takes most of the time is its bottleneck. */
type WaitedFor = 'source' | 'workers' | 'sink';

export const WAITED_FOR: readonly WaitedFor[] = ['source', 'workers', 'sink'];

/** Bytes of applications in memory, and how many there may be. */
export interface Held {
  bytes: number;
  budget: number;
}

/**
 * Plain numbers, because every block adds to them; readers ask for them. Streams report how long they waited
 * (`waited`): they wait for several things at once, so the sums may exceed the elapsed time. A topic reports its
 * current activity (`begin`, `end`): it waits for its workers while any batch is with them, otherwise for its sink
 * while anything is being committed, otherwise for its source.
 */
export class Flow {
  /** Of its interpretations. */
  readonly explained = new ExplainedWork();
  readonly #ms: Record<WaitedFor, number> = { source: 0, workers: 0, sink: 0 };
  readonly #holders = new Set<() => Held>();
  readonly #busy = { workers: 0, sink: 0 };
  /** Start of the current activity; null: none was reported. */
  #since: number | null = null;

  waited(what: WaitedFor, ms: number): void {
    this.#ms[what] += ms;
  }

  /** The clock of `begin` and `end` starts: until something begins, the source is waited for. */
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

  /** What holds bytes from now on, until the function given back is called. */
  hold(held: () => Held): () => void {
    this.#holders.add(held);
    return () => {
      this.#holders.delete(held);
    };
  }

  /** Milliseconds so far. */
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
