// A dead letter topic as the desk reads it: first what is settled, from its markers, then the letters. Twice from the beginning to the
// end, because a marker stands behind the letters it names; in memory are ranges of offsets and one fetch.
import { sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { kafkaClient } from '../choose-client.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { backoffMs, isHopeless, kafkaError } from '../client/failures.ts';
import type { OffsetBounds, PartitionScanner } from '../client/kafka-client.ts';
import type { IncomingRecord } from '../client/records.ts';
import { TopicDirectory } from '../topic-directory.ts';
import { type Letter, type LetterState, letterOf } from './letter.ts';
import { markerIn, SETTLED_AS, type SettledAs } from './markers.ts';
import { OffsetRanges } from './offset-ranges.ts';

/** Of a question to the coordinator of a group. */
const ATTEMPTS = 10;

export interface LetterTopicOptions {
  connection: KafkaConnection;
  topic: string;
  signal?: AbortSignal | undefined;
  /** A transaction is open for this long that began before the end: its letters, and what is behind them, are waited for. */
  onWait?: ((partition: number, ms: number) => void) | undefined;
}

/** A letter with what is known about it. */
export interface FoundLetter {
  readonly letter: Letter;
  readonly record: IncomingRecord;
  readonly state: LetterState;
  /** No letter lies between this offset and that of the letter: markers and ends of transactions settle with it, so ranges grow together. */
  readonly first: number;
}

/** What is settled of one partition, as of one reading. */
export class PartitionState implements OffsetBounds {
  readonly low: bigint;
  readonly end: bigint;
  readonly settled: Readonly<Record<SettledAs, OffsetRanges>> = {
    replayed: new OffsetRanges(),
    dropped: new OffsetRanges(),
    adopted: new OffsetRanges(),
  };
  /** Passed by an earlier release's replay, and no marker says so yet. */
  toAdopt: OffsetRanges | null = null;

  constructor({ low, end }: OffsetBounds) {
    this.low = low;
    this.end = end;
  }

  of(offset: number): LetterState {
    return SETTLED_AS.find((as) => this.settled[as].has(offset)) ?? 'open';
  }

  /** Everything before `offset` counts as adopted. */
  adoptUpTo(offset: bigint): void {
    // A position behind the end is one of a topic of the same name that is gone.
    if (offset <= this.low || offset > this.end) return;
    const [first, last] = [Number(this.low), Number(offset) - 1];
    if (this.settled.adopted.covers(first, last)) return;
    this.toAdopt = new OffsetRanges();
    this.toAdopt.add(first, last);
    this.settled.adopted.add(first, last);
  }
}

/** The group in which releases before the desk remembered how far their replay had come. */
export const earlierGroup = (topic: string): string => `sluice-replay-${topic}`;

export class LetterTopic implements AsyncDisposable {
  readonly directory: TopicDirectory;
  readonly #options: LetterTopicOptions;
  readonly #scanner: PartitionScanner;

  constructor(options: LetterTopicOptions) {
    this.#options = options;
    this.directory = new TopicDirectory(options.connection);
    this.#scanner = kafkaClient().scanner(options.connection);
  }

  /**
   * Reads all markers that are there now.
   * @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable | kafka_config (compacted; a marker of a newer release)
   */
  async survey(): Promise<ReadonlyMap<number, PartitionState>> {
    const { topic } = this.#options;
    if (await this.directory.compacted(topic)) {
      throw new SluiceError(
        'kafka_config',
        `${topic} is compacted, which removes letters: set its cleanup.policy to delete`,
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

  /** Every letter of the survey, settled or not, by partition and offset. */
  async *letters(survey: ReadonlyMap<number, PartitionState>, only?: number): AsyncGenerator<FoundLetter> {
    for (const [partition, state] of survey) {
      if (only !== undefined && partition !== only) continue;
      let first = Number(state.low);
      for await (const record of this.#records(partition, state)) {
        if (markerIn(record)) continue;
        const offset = Number(record.offset);
        yield { letter: letterOf(record), record, state: state.of(offset), first };
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
        const failure = kafkaError(error, 'asking how far the replay of an earlier release came failed');
        // The coordinator of a group that was never asked for may take a moment to load.
        if (isHopeless(failure) || attempt >= ATTEMPTS) throw failure;
        await sleep(backoffMs(attempt), { signal: this.#options.signal });
      }
    }
  }
}
