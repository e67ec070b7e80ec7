// Whether a pipeline gets on: it has its place in the group, and every partition is empty or was answered a short while ago.
import type { KafkaObserver } from '../kafka/observer.ts';

/** A partition with lag that is not answered for this long stands still, ms. */
const STILL_MS = 30_000;

interface Partition {
  lag: number;
  moved: number;
}

/** Fed by the events of a topic run. */
export class Movement {
  readonly #partitions = new Map<number, Partition>();
  #assigned = false;

  /** True as well where others of the group have all partitions. */
  get ready(): boolean {
    const now = performance.now();
    return this.#assigned && [...this.#partitions.values()].every((p) => p.lag === 0 || now - p.moved < STILL_MS);
  }

  /** An observer that tells `other` all it is told. */
  beside(other: KafkaObserver): KafkaObserver {
    return {
      ...other,
      onAssigned: (event) => {
        this.#assigned = true;
        this.#partitions.clear();
        for (const p of event.partitions) this.#partitions.set(p, { lag: 0, moved: performance.now() });
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
          if (partition.lag === 0 || event.lag < partition.lag) partition.moved = performance.now();
          partition.lag = event.lag;
        }
        other.onLag?.(event);
      },
    };
  }

  #moved(partition: number): void {
    const found = this.#partitions.get(partition);
    if (found) found.moved = performance.now();
  }
}
