// Whether a pipeline gets on: it has its place in the group, and every partition is empty or was answered a short while ago.
import { epochMs, monotonicMs } from '../core/clock.ts';
import type { KafkaObserver } from '../kafka/observer.ts';

/** A partition with lag that is not answered for this long stands still, ms. */
const STILL_MS = 30_000;

interface Partition {
  lag: number;
  moved: number;
  /** Time of the first record that is not committed, ms since 1970; null: none waits. */
  oldest: number | null;
}

/** Fed by the events of a topic run. */
export class Movement {
  readonly #delayMs: number;
  readonly #partitions = new Map<number, Partition>();
  #assigned = false;

  /** `delayMs`: records wait so long on purpose before they are answered. */
  constructor(delayMs = 0) {
    this.#delayMs = delayMs;
  }

  /** True as well where others of the group have all partitions. */
  get ready(): boolean {
    return this.#assigned && ![...this.#partitions.values()].some((p) => this.#still(p));
  }

  /** An observer that tells `other` all it is told. */
  beside(other: KafkaObserver): KafkaObserver {
    return {
      ...other,
      onAssigned: (event) => {
        this.#assigned = true;
        this.#partitions.clear();
        for (const p of event.partitions) this.#partitions.set(p, { lag: 0, moved: monotonicMs(), oldest: null });
        other.onAssigned?.(event);
      },
      onRestart: (event) => {
        this.#assigned = false;
        other.onRestart?.(event);
      },
      onTransaction: (event) => {
        for (const { partition } of event.partitions) this.#moved(partition);
        other.onTransaction?.(event);
      },
      onLag: (event) => {
        const partition = this.#partitions.get(event.partition);
        if (partition) {
          // What comes after a time without anything to do has its time from now.
          if (partition.lag === 0 || event.lag < partition.lag) partition.moved = monotonicMs();
          partition.lag = event.lag;
          partition.oldest = event.oldest;
        }
        other.onLag?.(event);
      },
    };
  }

  #still({ lag, moved, oldest }: Partition): boolean {
    if (lag === 0 || monotonicMs() - moved < STILL_MS) return false;
    return this.#delayMs === 0 || epochMs() - (oldest ?? 0) >= this.#delayMs + STILL_MS;
  }

  #moved(partition: number): void {
    const found = this.#partitions.get(partition);
    if (found) found.moved = monotonicMs();
  }
}
