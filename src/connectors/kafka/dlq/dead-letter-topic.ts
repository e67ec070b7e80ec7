// Reads a dead letter topic in two passes: first the markers, which list settled dead letters, then the dead letters.
// Two passes are needed because a marker comes after the dead letters that it lists. Memory holds only offset ranges
// and the records of one fetch.
import { sleep } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { kafkaClient } from '../choose-client.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { backoffMs, isHopeless, kafkaError } from '../client/failures.ts';
import type { OffsetBounds, PartitionScanner } from '../client/kafka-client.ts';
import type { IncomingRecord } from '../client/records.ts';
import { TopicDirectory } from '../topic-directory.ts';
import {
  type DeadLetterState,
  type DeadLetterSummary,
  deadLetterOf,
  SETTLED_AS,
  type SettledAs,
} from './dead-letter.ts';
import { markerIn } from './markers.ts';
import { OffsetRanges } from './offset-ranges.ts';

/** Maximum attempts of a request to the group coordinator. */
const ATTEMPTS = 10;

interface DeadLetterTopicOptions {
  connection: KafkaConnection;
  topic: string;
  signal?: AbortSignal | undefined;
  /**
   * Called while a transaction is open that began before the end of the topic, because its records and later records
   * cannot be read yet.
   */
  onWait?: ((partition: number, ms: number) => void) | undefined;
}

/** A dead letter with its record and state. */
export interface FoundDeadLetter {
  readonly letter: DeadLetterSummary;
  readonly record: IncomingRecord;
  readonly state: DeadLetterState;
  /**
   * The first offset after the previous dead letter. Settling this dead letter also settles all offsets from here,
   * which contain markers and transaction ends. This keeps ranges contiguous.
   */
  readonly first: number;
}

/** The settled offsets of one partition according to one survey. */
export class PartitionState implements OffsetBounds {
  readonly low: bigint;
  readonly end: bigint;
  readonly settled: Readonly<Record<SettledAs, OffsetRanges>> = {
    replayed: new OffsetRanges(),
    dropped: new OffsetRanges(),
    adopted: new OffsetRanges(),
  };
  /** Offsets that a replay by an earlier release passed and that no marker lists yet. */
  toAdopt: OffsetRanges | null = null;

  constructor({ low, end }: OffsetBounds) {
    this.low = low;
    this.end = end;
  }

  of(offset: number): DeadLetterState {
    return SETTLED_AS.find((as) => this.settled[as].has(offset)) ?? 'open';
  }

  /** Marks all offsets before `offset` as adopted. */
  adoptUpTo(offset: bigint): void {
    // An offset beyond the end was committed for a deleted topic with the same name.
    if (offset <= this.low || offset > this.end) return;
    const [first, last] = [Number(this.low), Number(offset) - 1];
    if (this.settled.adopted.covers(first, last)) return;
    this.toAdopt = new OffsetRanges();
    this.toAdopt.add(first, last);
    this.settled.adopted.add(first, last);
  }
}

/** The group in which earlier releases committed their replay progress. These releases had no markers. */
export const earlierGroup = (topic: string): string => `sluice-replay-${topic}`;

export class DeadLetterTopic implements AsyncDisposable {
  readonly directory: TopicDirectory;
  readonly #options: DeadLetterTopicOptions;
  readonly #scanner: PartitionScanner;

  constructor(options: DeadLetterTopicOptions) {
    this.#options = options;
    this.directory = new TopicDirectory(options.connection);
    this.#scanner = kafkaClient().scanner(options.connection);
  }

  /**
   * Reads all markers that exist at the time of the call.
   * @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable | kafka_config (compacted topic,
   * or a marker of a newer release)
   */
  async survey(): Promise<ReadonlyMap<number, PartitionState>> {
    const { topic } = this.#options;
    if (await this.directory.compacted(topic)) {
      throw new SluiceError(
        'kafka_config',
        `${topic} is compacted, which removes dead letters: set its cleanup.policy to delete`,
      );
    }
    const states = new Map<number, PartitionState>();
    for (const [partition, bounds] of await this.#scanner.bounds(topic)) {
      const state = new PartitionState(bounds);
      states.set(partition, state);
      for await (const record of this.#records(partition, bounds)) {
        const marker = markerIn(record);
        if (marker) state.settled[marker.action].addAll(marker.offsets);
      }
      const earlier = await this.#earlier(partition);
      if (earlier !== null) state.adoptUpTo(earlier);
    }
    return states;
  }

  /** Yields every dead letter of the survey, settled or open, in the order of partitions and offsets. */
  async *letters(survey: ReadonlyMap<number, PartitionState>, only?: number): AsyncGenerator<FoundDeadLetter> {
    for (const [partition, state] of survey) {
      if (only !== undefined && partition !== only) continue;
      let first = Number(state.low);
      for await (const record of this.#records(partition, state)) {
        if (markerIn(record)) continue;
        const offset = Number(record.offset);
        yield { letter: deadLetterOf(record), record, state: state.of(offset), first };
        first = offset + 1;
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#scanner.close(), this.directory.close()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async *#records(partition: number, { low, end }: OffsetBounds): AsyncGenerator<IncomingRecord> {
    const { topic, signal, onWait } = this.#options;
    const options = { ...(signal ? { signal } : {}), ...(onWait ? { onWait } : {}) };
    for await (const records of this.#scanner.scan({ topic, partition, from: low, end }, options)) yield* records;
  }

  async #earlier(partition: number): Promise<bigint | null> {
    const { topic } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.directory.committed(earlierGroup(topic), topic, partition);
      } catch (error) {
        const failure = kafkaError(error, 'reading the progress of an earlier replay failed');
        // The coordinator may need some time to load a group that was never used before.
        if (isHopeless(failure) || attempt >= ATTEMPTS) throw failure;
        await sleep(backoffMs(attempt), { signal: this.#options.signal });
      }
    }
  }
}
