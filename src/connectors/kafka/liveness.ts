// Detects whether a pipeline makes progress: it is a member of its group, and every partition is empty or was answered recently.

import { epochMs, monotonicMs } from '../../core/clock.ts';
import type { KafkaObserver } from './observer.ts';

/** A partition with lag but without an answer for this time is stalled, ms. */
const STALLED_MS = 30_000;

interface Partition {
  lag: number;
  moved: number;
  /** Time of the first uncommitted record, ms since 1970; null: none. */
  oldest: number | null;
}

/** Derives liveness from the events of a topic run. */
export class Liveness {
  readonly #delayMs: number;
  readonly #partitions = new Map<number, Partition>();
  #assigned = false;

  /** `delayMs`: intentional delay between a record's timestamp and its answer. */
  constructor(delayMs = 0) {
    this.#delayMs = delayMs;
  }

  /** Also true if this member has no partitions because other members of the group have all. */
  get ready(): boolean {
    return this.#assigned && ![...this.#partitions.values()].some((p) => this.#stalled(p));
  }

  /** An observer that forwards all events to `other`. */
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
          // After an idle period, the time without answers starts now.
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
