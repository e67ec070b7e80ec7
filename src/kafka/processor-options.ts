// What a processor is told, with the defaults.
import type { BatchCompression } from './client/codecs.ts';
import type { BatchResult, MicroBatch } from './client/records.ts';
import type { KafkaObserver } from './observer.ts';
import type { OutputPartitions, Partitioning } from './output-partitions.ts';
import type { LeaseOptions } from './partition-lease.ts';
import { batchLimitsOf, type ReadingOptions, startPolicyOf } from './reading-options.ts';

export interface ProcessorOptions extends ReadingOptions {
  /** null: `process` names the topic of every record. */
  outputTopic: string | null;
  /** Further topics that `process` names: they have to be there at the start. */
  routedTopics?: readonly string[];
  /** null: nothing may be rejected. */
  deadLetterTopic: string | null;
  /** Further topics that rejected records name: they have to be there at the start. */
  letterTopics?: readonly string[];
  /** Topic that the records answered are of, where they come here by another. Default: `topic`. */
  originTopic?: string;
  /** Which partition an answer goes to. Default: that of its application, if all topics have equally many. */
  partitioning?: Partitioning | null;
  /** Longest wait for an output topic that has to grow as its input did, ms. Default 600,000. */
  partitionPatienceMs?: number;
  /**
   * Answers a micro-batch. A retryable SluiceError is tried again, any other error ends the run. Called for one batch a
   * partition at a time; a batch may come again after a failure, so it must not have effects of its own.
   */
  process: (batch: MicroBatch, signal: AbortSignal) => Promise<BatchResult>;
  /** Default: exactly_once. */
  delivery?: 'exactly_once' | 'at_least_once';
  /** Default 4096. */
  transactionRows?: number;
  /** Default 10,000: as long may a member that died hold up readers. */
  transactionTimeoutMs?: number;
  /** Least time from the beginning of a transaction to that of the next, ms. Default 20. */
  commitIntervalMs?: number;
  /** Default: a member where brokers can fence by its generation, else a partition. */
  transactionOf?: 'member' | 'partition';
  /** Default: none. */
  compression?: BatchCompression;
  /** Attempts of `process` on one batch. Default 10. */
  processAttempts?: number;
  observer?: KafkaObserver;
  /** UNSAFE, for tests only: false disables fencing, so that records are answered twice when a member stalls. */
  fencing?: boolean;
}

/** Of every lease of the processor. */
export function leaseOptionsOf(options: ProcessorOptions, partitions: OutputPartitions): LeaseOptions {
  const { connection, group, topic, outputTopic, deadLetterTopic, routedTopics = [], letterTopics = [] } = options;
  return {
    ...startPolicyOf(options, options.observer),
    ...batchLimitsOf(options),
    delivery: options.delivery ?? 'exactly_once',
    processAttempts: options.processAttempts ?? 10,
    commits: {
      connection,
      group,
      topic,
      outputTopic,
      deadLetterTopic,
      partitions,
      writes: [outputTopic, deadLetterTopic, ...routedTopics, ...letterTopics].filter((t) => t !== null),
      compression: options.compression ?? 'none',
      transactionTimeoutMs: options.transactionTimeoutMs ?? 10_000,
      transactionRows: options.transactionRows ?? 4096,
      commitIntervalMs: options.commitIntervalMs ?? 20,
      fencing: options.fencing ?? true,
    },
  };
}
