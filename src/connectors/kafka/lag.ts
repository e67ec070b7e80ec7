// Measures lag: the number of uncommitted records of a partition, and the age of the oldest of these records.
// Measures in every state of the member: reading, waiting, paused or restarting.
import { inBackground } from '../../core/async.ts';
import { epochMs, startInterval, stopTimer, type Timer } from '../../core/clock.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { PartitionScanner } from './client/kafka-client.ts';
import type { IncomingRecord } from './client/records.ts';
import type { LagEvent } from './observer.ts';
import type { TopicDirectory } from './topic-directory.ts';

interface LagMeterOptions {
  connection: KafkaConnection;
  directory: Pick<TopicDirectory, 'ends' | 'committed' | 'range'>;
  topic: string;
  group: string;
  /** Position at which a group without committed offsets begins. Default: earliest. */
  startAt?: 'earliest' | 'latest' | undefined;
  /** Called whenever the lag changes. */
  onLag?: ((event: LagEvent) => void) | undefined;
  /**
   * Interval of end-offset lookups, ms. Default: 5,000. Lookups are needed because the end of a partition is otherwise
   * known only from fetches.
   */
  everyMs?: number;
}

interface Mark {
  /** One past the last committed record, or the offset at which reading started. */
  committed: bigint;
  /** One past the last record of the partition. */
  end: bigint;
  /** Timestamps of fetched records. */
  times: RecordTimes;
  /**
   * The result of looking up the first record at or after `offset`, used if the record was not fetched. `time`: its
   * time; null: no such record exists.
   */
  looked: { offset: bigint; time: number | null } | null;
  /** When this member first saw uncommitted records, ms since 1970; null: all records are committed. */
  since: number | null;
}

/** Maximum time for looking up a record, ms. */
const LOOK_MS = 4_000;

/**
 * Tracks the partitions of one generation. `assign` starts a generation; `stop` ends tracking; the last values stay
 * available.
 */
export class LagMeter {
  readonly #options: LagMeterOptions;
  readonly #marks = new Map<number, Mark | null>();
  readonly #timer: Timer;
  #scanner: PartitionScanner | null = null;
  #asking = false;
  #stopped = false;

  constructor(options: LagMeterOptions) {
    this.#options = options;
    this.#timer = startInterval(() => inBackground('query the lag', () => this.#ask()), options.everyMs ?? 5_000);
    this.#timer.unref();
  }

  /** Sets the partitions of this member. Partitions that it already had keep their offsets. */
  assign(partitions: readonly number[]): void {
    if (this.#stopped) return;
    for (const p of [...this.#marks.keys()]) if (!partitions.includes(p)) this.#marks.delete(p);
    for (const p of partitions) if (!this.#marks.has(p)) this.#marks.set(p, null);
    for (const p of partitions) this.#publish(p);
    if (partitions.length > 0) inBackground('query the lag', () => this.#ask());
  }

  /** Called when reading starts at `committed`. */
  start(partition: number, committed: bigint, end: bigint): void {
    if (!this.#marks.has(partition)) return;
    const since = this.#marks.get(partition)?.since ?? null;
    this.#marks.set(partition, { committed, end, times: new RecordTimes(), looked: null, since });
    this.#publish(partition);
  }

  committed(partition: number, next: bigint): void {
    const mark = this.#marks.get(partition);
    if (!mark) return;
    mark.committed = next;
    if (mark.end < next) mark.end = next;
    this.#publish(partition);
  }

  /**
   * Called for fetched records. `next`: one past their last offset. `end`: end of the partition according to the fetch.
   */
  fetched(partition: number, records: readonly IncomingRecord[], next: bigint, end: bigint): void {
    this.#marks.get(partition)?.times.add(records, next);
    this.end(partition, end);
  }

  /** Updates the end of the partition, known from a fetch or a lookup. */
  end(partition: number, end: bigint): void {
    const mark = this.#marks.get(partition);
    if (!mark || end <= mark.end) return;
    mark.end = end;
    this.#publish(partition);
  }

  /** Number of uncommitted records by partition; partitions without known offsets are omitted. */
  get lags(): ReadonlyMap<number, number> {
    const known = [...this.#marks].flatMap(([p, m]) => (m ? [[p, lagOf(m)] as const] : []));
    return new Map(known);
  }

  stop(): void {
    this.#stopped = true;
    stopTimer(this.#timer);
    this.#closeScanner();
  }

  async #ask(): Promise<void> {
    if (this.#asking || this.#stopped || this.#marks.size === 0) return;
    this.#asking = true;
    const { directory, topic, group, startAt } = this.#options;
    try {
      const ends = await directory.ends(topic);
      for (const [partition, mark] of [...this.#marks]) {
        const end = ends.get(partition);
        if (end === undefined) continue;
        if (mark) {
          this.end(partition, end);
          continue;
        }
        // The committed offset determines the lag even before reading has started. Without a committed offset and with
        // `latest`, no offset is known until then: the records before it are not read and therefore are not lag.
        const committed = await directory.committed(group, topic, partition);
        if (committed === null && startAt === 'latest') continue;
        const from = committed ?? (await directory.range(topic, partition)).low;
        if (this.#marks.get(partition) === null) this.start(partition, from, end);
      }
      for (const partition of [...this.#marks.keys()]) await this.#look(partition);
    } catch {
      // If the lookup fails, the last known values are kept until the next lookup.
    } finally {
      this.#asking = false;
    }
  }

  /**
   * Looks up the time of the first uncommitted record if this record was not fetched, for example while the pipeline is
   * paused.
   */
  async #look(partition: number): Promise<void> {
    const mark = this.#marks.get(partition);
    if (!mark || lagOf(mark) === 0 || this.#stopped) return;
    const { committed: from, end } = mark;
    if (mark.times.from(from) !== null || mark.looked?.offset === from) return;
    this.#scanner ??= kafkaClient().scanner(this.#options.connection);
    const range = { topic: this.#options.topic, partition, from, end };
    try {
      for await (const [first] of this.#scanner.scan(range, { signal: AbortSignal.timeout(LOOK_MS), fetchBytes: 1 })) {
        if (first) return this.#looked(mark, partition, from, first.timestamp > 0 ? first.timestamp : mark.since);
      }
      this.#looked(mark, partition, from, null);
    } catch (error) {
      this.#closeScanner();
      throw error;
    }
  }

  #looked(mark: Mark, partition: number, offset: bigint, time: number | null): void {
    mark.looked = { offset, time };
    this.#publish(partition);
  }

  #closeScanner(): void {
    const scanner = this.#scanner;
    this.#scanner = null;
    if (scanner) inBackground('closing a scanner', () => scanner.close());
  }

  #publish(partition: number): void {
    const mark = this.#marks.get(partition);
    if (!mark) return;
    const lag = lagOf(mark);
    mark.since = lag === 0 ? null : (mark.since ?? epochMs());
    this.#options.onLag?.({ partition, lag, oldest: lag === 0 ? null : oldestOf(mark) });
  }
}

const lagOf = ({ committed, end }: Mark): number => Math.max(0, Number(end - committed));

/**
 * Time of the first uncommitted record. While it is unknown, the time when this member first saw uncommitted records.
 */
function oldestOf({ committed, times, looked, since }: Mark): number | null {
  const fetched = times.from(committed);
  if (fetched !== null) return fetched;
  return looked?.offset === committed ? looked.time : since;
}

/** Number of records per fetch whose timestamps are sampled. */
const SAMPLES = 32;
/** Adjacent spans are merged if their times differ by less than this, ms. */
const SAME_MS = 1000;
/** Committed spans are removed once there are more of them than this, and more than half of all spans are committed. */
const MANY = 1024;

/** A range of records that ends before offset `to`. `time`: the approximate time of all its records, ms since 1970. */
interface Span {
  to: number;
  time: number;
}

/**
 * Timestamps of the fetched, uncommitted records of one partition. Only samples are stored, to save memory. They are
 * accurate to one second and to 1/32 of a fetch.
 */
export class RecordTimes {
  #spans: Span[] = [];
  #first = 0;

  /**
   * Adds fetched records. `next`: one past their last offset. A record without a timestamp gets its time of arrival.
   */
  add(records: readonly IncomingRecord[], next: bigint): void {
    const step = Math.ceil(records.length / SAMPLES);
    for (let i = 0; i < records.length; i += step) {
      const { timestamp } = records[i]!;
      const time = timestamp > 0 ? timestamp : epochMs();
      const to = Number(i + step < records.length ? records[i + step]!.offset : next);
      const last = this.#spans.at(-1);
      if (last && Math.abs(time - last.time) < SAME_MS) {
        last.to = to;
        last.time = Math.min(last.time, time);
      } else this.#spans.push({ to, time });
    }
  }

  /**
   * Time of the first record at or after `offset`; null: no such record was fetched. `offset` must not decrease between
   * calls.
   */
  from(offset: bigint): number | null {
    const at = Number(offset);
    while (this.#first < this.#spans.length && this.#spans[this.#first]!.to <= at) this.#first++;
    if (this.#first > MANY && this.#first * 2 > this.#spans.length) {
      this.#spans = this.#spans.slice(this.#first);
      this.#first = 0;
    }
    return this.#spans[this.#first]?.time ?? null;
  }

  clear(): void {
    this.#spans = [];
    this.#first = 0;
  }
}
