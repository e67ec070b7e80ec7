// Chooses the output partition of an answer, by its application's partition or by key, and handles topics that grow.
import { monotonicMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { fixedWord, named, saysOf, type Word, words } from '../../core/log.ts';
import type { OutgoingRecord } from './client/records.ts';
import type { TopicDirectory } from './topic-directory.ts';

export type Partitioning = 'source' | 'key';

interface PartitioningOptions {
  directory: Pick<TopicDirectory, 'facts' | 'learn'>;
  topic: string;
  /** All topics that may receive answers. */
  outputs: readonly string[];
  /** null: not configured, which means `source` and requires that all topics have the same number of partitions. */
  partitioning: Partitioning | null;
}

interface OutputPartitionsOptions extends PartitioningOptions {
  /** Longest wait for an output topic that currently has fewer partitions than the source, ms. Default 600,000. */
  patienceMs?: number | undefined;
  onNotice?: ((event: { about: string; message: Word }) => void) | undefined;
}

const PATIENCE_MS = 600_000;
/** Interval of metadata lookups while waiting for a topic to grow, ms. */
const LOOK_MS = 1_000;

const count = (partitions: number): Word =>
  words`${partitions} ${fixedWord(partitions === 1 ? 'partition' : 'partitions')}`;

/**
 * The configured value, if the topics allow it. The default is never guessed from the topics: after a topic grew, a
 * restart would guess differently.
 * @throws SluiceError kafka_partitions_differ
 */
export async function decidePartitioning(options: PartitioningOptions): Promise<Partitioning> {
  const { directory, topic, outputs, partitioning } = options;
  if (partitioning === 'key') return 'key';
  const source = (await directory.facts(topic)).partitions;
  for (const output of outputs) {
    const { partitions } = await directory.facts(output);
    if (partitions < source && partitioning === 'source') throw tooFew(options, output, partitions, source);
    if (partitions === source || partitioning === 'source') continue;
    throw new SluiceError(
      'kafka_partitions_differ',
      `${topic} has ${count(source)} and ${output} has ${partitions}: set partition in the sink to source (partition of the application) or key (partition by key, as earlier releases did)`,
    );
  }
  return 'source';
}

const tooFew = ({ topic }: PartitioningOptions, output: string, has: number, wanted: number): SluiceError =>
  new SluiceError(
    'kafka_partitions_differ',
    `${output} has ${count(has)} but ${topic} has ${wanted}: predictions keep the partition of their application (partition: source), so ${output} needs the same number`,
  );

/** Shared by all partitions of a member. `close` ends every wait; idempotent. */
export class OutputPartitions {
  readonly #options: OutputPartitionsOptions;
  readonly #closing = new AbortController();
  /** Highest known number of partitions per topic. A broker with outdated metadata must not move keys back. */
  readonly #counts = new Map<string, number>();
  #mode: Partitioning = 'source';

  constructor(options: OutputPartitionsOptions) {
    this.#options = options;
  }

  /**
   * Must be called once before other methods. The decision stays valid when topics grow. @throws SluiceError
   * kafka_partitions_differ
   */
  async decide(): Promise<void> {
    const { directory, outputs } = this.#options;
    this.#mode = await decidePartitioning(this.#options);
    for (const output of outputs) this.#counts.set(output, (await directory.facts(output)).partitions);
  }

  /** Reports topics that have grown, as far as the metadata shows it. */
  async look(): Promise<void> {
    for (const output of this.#options.outputs) {
      this.grown(output, (await this.#options.directory.facts(output)).partitions);
    }
  }

  /** Number of partitions to use for a topic whose current metadata shows `partitions`. */
  grown(topic: string, partitions: number): number {
    const before = this.#counts.get(topic);
    if (before === undefined) return partitions;
    if (partitions <= before) return before;
    this.#counts.set(topic, partitions);
    this.#tellGrowth(topic, before, partitions);
    return partitions;
  }

  /**
   * The output partition of a record. Records without a key stay together. @throws SluiceError kafka_failed if the
   * partition is missing; the next attempt waits for it in `room`
   */
  partitionOf({ origin, key }: Pick<OutgoingRecord, 'origin' | 'key'>, topic: string, partitions: number): number {
    const from = origin?.partition ?? 0;
    if (this.#mode === 'key') return key === null ? from % partitions : partitionOfKey(key, partitions);
    if (from < partitions) return from;
    throw new SluiceError('kafka_failed', `${topic} no longer has a partition ${from}`);
  }

  /**
   * Resolves when every output topic has a partition for answers from this input partition.
   * @throws SluiceError kafka_partitions_differ (still missing after the patience) | kafka_failed (closed)
   */
  async room(partition: number, signal: AbortSignal): Promise<void> {
    if (this.#mode === 'key') return;
    const { directory, outputs, patienceMs = PATIENCE_MS } = this.#options;
    for (const output of outputs) {
      let { partitions } = await directory.facts(output);
      for (const end = monotonicMs() + patienceMs; partitions <= partition; ) {
        const failure = tooFew(this.#options, output, partitions, partition + 1);
        if (monotonicMs() >= end) throw failure;
        this.#tellWait(output, partition, failure, patienceMs);
        await this.#pause(signal);
        // A failed lookup is reported elsewhere; here it only uses up the time limit.
        partitions = await directory.learn(output).then(
          (facts) => facts.partitions,
          () => partitions,
        );
      }
    }
  }

  close(): void {
    this.#closing.abort();
  }

  async #pause(signal: AbortSignal): Promise<void> {
    await sleep(LOOK_MS, { signal: AbortSignal.any([signal, this.#closing.signal]) }).catch(() => {});
    signal.throwIfAborted();
    if (this.#closing.signal.aborted)
      throw new SluiceError('kafka_failed', 'stopped while an output topic had to grow');
  }

  #tellWait(output: string, partition: number, why: SluiceError, patienceMs: number): void {
    this.#options.onNotice?.({
      about: `room ${output} ${partition}`,
      message: words`partition ${partition} of ${named(this.#options.topic)} is waiting: ${saysOf(why)}; the run ends unless this changes within ${Math.round(patienceMs / 1000)} s`,
    });
  }

  #tellGrowth(output: string, before: number, partitions: number): void {
    const { partitioning, topic, onNotice } = this.#options;
    const grew = words`${named(output)} has grown from ${before} to ${count(partitions)}`;
    if (this.#mode === 'key') {
      const message = words`${grew}: with partition: key, some keys now go to other partitions than before`;
      onNotice?.({ about: `growth ${output}`, message });
    } else if (partitioning === null) {
      const message = words`${grew}: predictions stay in the partitions of their applications. Set partition: source in the sink; otherwise the next start is rejected while ${named(topic)} has fewer partitions`;
      onNotice?.({ about: `growth ${output}`, message });
    }
  }
}

const SEED = 0x9747b28c;
const M = 0x5bd1e995;
const R = 24;

/** The partition of a key as all Java clients compute it. `partitions` is at least 1. */
export const partitionOfKey = (key: Uint8Array, partitions: number): number =>
  (murmur2(key) & 0x7fff_ffff) % partitions;

/** MurmurHash2, 32 bits, with the seed of org.apache.kafka.common.utils.Utils; signed. */
export function murmur2(bytes: Uint8Array): number {
  const { length } = bytes;
  let h = SEED ^ length;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    let k = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
    k = Math.imul(k, M);
    k ^= k >>> R;
    h = Math.imul(h, M) ^ Math.imul(k, M);
  }
  const left = length - i;
  if (left > 2) h ^= bytes[i + 2]! << 16;
  if (left > 1) h ^= bytes[i + 1]! << 8;
  if (left > 0) h = Math.imul(h ^ bytes[i]!, M);
  h ^= h >>> 13;
  h = Math.imul(h, M);
  return h ^ (h >>> 15);
}
