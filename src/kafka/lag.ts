// Lag: records of a partition that are not committed yet, whatever the member does meanwhile (reads, waits, is paused, starts over).
import { inBackground } from '../core/in-background.ts';
import type { TopicDirectory } from './topic-directory.ts';

export interface LagMeterOptions {
  directory: Pick<TopicDirectory, 'ends' | 'committed' | 'range'>;
  topic: string;
  group: string;
  /** Called on every change, in records. */
  onLag?: ((event: { partition: number; lag: number }) => void) | undefined;
  /** Interval of looking up end offsets, ms: a partition that is not fetched does not report its end. Default 5,000. */
  everyMs?: number;
}

interface Mark {
  /** Offset behind the last committed record, or where reading started. */
  committed: bigint;
  /** Offset behind the last record of the partition. */
  end: bigint;
}

/** Tracks the partitions of one generation: `assign` begins one, `stop` ends tracking. */
export class LagMeter {
  readonly #options: LagMeterOptions;
  readonly #marks = new Map<number, Mark | null>();
  readonly #timer: NodeJS.Timeout;
  #asking = false;

  constructor(options: LagMeterOptions) {
    this.#options = options;
    this.#timer = setInterval(() => inBackground('asking for the lag', () => this.#ask()), options.everyMs ?? 5_000);
    this.#timer.unref();
  }

  /** Sets the partitions of this member; known offsets are kept. */
  assign(partitions: readonly number[]): void {
    for (const p of [...this.#marks.keys()]) if (!partitions.includes(p)) this.#marks.delete(p);
    for (const p of partitions) if (!this.#marks.has(p)) this.#marks.set(p, null);
    for (const p of partitions) this.#publish(p);
  }

  /** Reading starts at `committed`. */
  start(partition: number, committed: bigint, end: bigint): void {
    if (!this.#marks.has(partition)) return;
    this.#marks.set(partition, { committed, end });
    this.#publish(partition);
  }

  committed(partition: number, next: bigint): void {
    const mark = this.#marks.get(partition);
    if (!mark) return;
    mark.committed = next;
    if (mark.end < next) mark.end = next;
    this.#publish(partition);
  }

  /** The end of the partition, as seen by a fetch or a lookup. */
  end(partition: number, end: bigint): void {
    const mark = this.#marks.get(partition);
    if (!mark || end <= mark.end) return;
    mark.end = end;
    this.#publish(partition);
  }

  /** Records by partition; those of which nothing is known yet are left out. */
  get lags(): ReadonlyMap<number, number> {
    const known = [...this.#marks].flatMap(([p, m]) => (m ? [[p, lagOf(m)] as const] : []));
    return new Map(known);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#marks.clear();
  }

  async #ask(): Promise<void> {
    if (this.#asking || this.#marks.size === 0) return;
    this.#asking = true;
    const { directory, topic, group } = this.#options;
    try {
      const ends = await directory.ends(topic);
      for (const [partition, mark] of [...this.#marks]) {
        const end = ends.get(partition);
        if (end === undefined) continue;
        if (mark) this.end(partition, end);
        // Not being read yet, but its lag is known all the same.
        else {
          const from =
            (await directory.committed(group, topic, partition)) ?? (await directory.range(topic, partition)).low;
          if (this.#marks.get(partition) === null) this.start(partition, from, end);
        }
      }
    } catch {
      // No answer: the last known values stand until the next lookup.
    } finally {
      this.#asking = false;
    }
  }

  #publish(partition: number): void {
    const mark = this.#marks.get(partition);
    if (mark) this.#options.onLag?.({ partition, lag: lagOf(mark) });
  }
}

const lagOf = ({ committed, end }: Mark): number => Math.max(0, Number(end - committed));
