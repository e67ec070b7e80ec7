// Chooses the output partition of an answer, by the partition or the key of its application.
// Handles topics whose number of partitions grows.
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
  /** null: not configured. This means `source`, and requires that all topics have the same number of partitions. */
  partitioning: Partitioning | null;
}

interface OutputPartitionsOptions extends PartitioningOptions {
  /** Maximum time to wait for an output topic that has fewer partitions than the source, ms. Default: 600,000. */
  patienceMs?: number | undefined;
  onNotice?: ((event: { about: string; message: Word }) => void) | undefined;
}

const PATIENCE_MS = 600_000;
/** Interval of metadata lookups while waiting for new partitions, ms. */
const LOOK_MS = 1_000;

const count = (partitions: number): Word =>
  words`${partitions} ${fixedWord(partitions === 1 ? 'partition' : 'partitions')}`;

/**
 * Returns the configured partitioning, if the topics allow it. The default does not depend on the topics, because a
 * restart would choose differently after a topic grew.
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
      `${topic} has ${count(source)}, but ${output} has ${partitions}: set partition: source in the sink (same partition as the application) or partition: key (by key, as in earlier releases)`,
    );
  }
  return 'source';
}

const tooFew = ({ topic }: PartitioningOptions, output: string, has: number, wanted: number): SluiceError =>
  new SluiceError(
    'kafka_partitions_differ',
    `${output} has ${count(has)} but ${topic} has ${wanted}: predictions keep the partition of their application (partition: source), so ${output} needs the same number`,
  );

/** The output partitions, shared by all leases of a member. `close` ends every wait and is idempotent. */
export class OutputPartitions {
  readonly #options: OutputPartitionsOptions;
  readonly #closing = new AbortController();
  /**
   * The highest known number of partitions per topic. A broker with outdated metadata must not cause keys to move back.
   */
  readonly #counts = new Map<string, number>();
  #mode: Partitioning = 'source';

  constructor(options: OutputPartitionsOptions) {
    this.#options = options;
  }

  /**
   * Decides on the partitioning. Must be called once, before other methods. The decision stays valid when topics grow.
   * @throws SluiceError kafka_partitions_differ
   */
  async decide(): Promise<void> {
    const { directory, outputs } = this.#options;
    this.#mode = await decidePartitioning(this.#options);
    for (const output of outputs) this.#counts.set(output, (await directory.facts(output)).partitions);
  }

  /** Reports topics that have grown according to the metadata. */
  async look(): Promise<void> {
    for (const output of this.#options.outputs) {
      this.grown(output, (await this.#options.directory.facts(output)).partitions);
    }
  }

  /** Number of partitions to use for a topic, given the number in its current metadata. */
  grown(topic: string, partitions: number): number {
    const before = this.#counts.get(topic);
    if (before === undefined) return partitions;
    if (partitions <= before) return before;
    this.#counts.set(topic, partitions);
    this.#tellGrowth(topic, before, partitions);
    return partitions;
  }

  /**
   * The output partition of a record. Records without a key stay in the same partition as their neighbours.
   * @throws SluiceError kafka_failed if the partition is missing; the next attempt waits in `room` for the partition
   */
  partitionOf({ origin, key }: Pick<OutgoingRecord, 'origin' | 'key'>, topic: string, partitions: number): number {
    const from = origin?.partition ?? 0;
    if (this.#mode === 'key') return key === null ? from % partitions : partitionOfKey(key, partitions);
    if (from < partitions) return from;
    throw new SluiceError('kafka_failed', `${topic} no longer has a partition ${from}`);
  }

  /**
   * Resolves when every output topic has a partition for answers from this input partition.
   * @throws SluiceError kafka_partitions_differ (still missing after `patienceMs`) | kafka_failed (closed)
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
        // Other code reports a failed lookup. Here, it only counts towards the time limit.
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

/** The partition of a key, computed as in all Java clients. `partitions` is at least 1. */
export const partitionOfKey = (key: Uint8Array, partitions: number): number =>
  (murmur2(key) & 0x7fff_ffff) % partitions;

/** MurmurHash2, 32 bits, with the seed of org.apache.kafka.common.utils.Utils. The result is signed. */
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
