// Detects whether a pipeline makes progress: it is a member of its group, and each partition has no lag or was answered recently.

import { epochMs, monotonicMs } from '../../core/clock.ts';
import type { KafkaObserver } from './observer.ts';

/** A partition is stalled if it has lag and had no answer for this time, ms. */
const STALLED_MS = 30_000;

interface Partition {
  lag: number;
  moved: number;
  /** Time of the first uncommitted record, ms since 1970; null: all records are committed. */
  oldest: number | null;
}

/** Derives liveness from the events of a topic run. */
export class Liveness {
  readonly #delayMs: number;
  readonly #partitions = new Map<number, Partition>();
  #assigned = false;

  /** `delayMs`: configured delay between the timestamp of a record and its answer. */
  constructor(delayMs = 0) {
    this.#delayMs = delayMs;
  }

  /**
   * Whether the pipeline makes progress. Also true if this member has no partitions because other members have all of
   * them.
   */
  get ready(): boolean {
    return this.#assigned && ![...this.#partitions.values()].some((p) => this.#stalled(p));
  }

  /** Returns an observer that updates this object and forwards all events to `other`. */
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
          // The time without answers starts when lag appears after an idle period.
          if (partition.lag === 0 || event.lag < partition.lag) partition.moved = monotonicMs();
          partition.lag = event.lag;
          partition.oldest = event.oldest;
        }
        other.onLag?.(event);
      },
    };
  }

  #stalled({ lag, moved, oldest }: Partition): boolean {
    if (lag === 0 || monotonicMs() - moved < STALLED_MS) return false;
    return this.#delayMs === 0 || epochMs() - (oldest ?? 0) >= this.#delayMs + STALLED_MS;
  }

  #moved(partition: number): void {
    const found = this.#partitions.get(partition);
    if (found) found.moved = monotonicMs();
  }
}
