// Events of the Kafka layer as callbacks, so that this layer does not depend on metrics and logging.

import type { Word } from '../../core/log.ts';
import type { KafkaLogEntry } from './client/kafka-client.ts';

/** The records of one input partition in a transaction. */
export interface PartitionReport {
  partition: number;
  /** Number of records read. */
  records: number;
  /** Number of records written as dead letters, including records whose answer was too large. */
  rejected: number;
  /** Number of answers that were too large for their topic. */
  oversized: number;
  /** Offset after the last record. */
  next: bigint;
}

export interface TransactionReport {
  partitions: readonly PartitionReport[];
  /**
   * Number of answers by topic whose timestamp was replaced by the current time, because the topic would have rejected
   * or soon deleted them.
   */
  retimed: ReadonlyMap<string, number>;
  /** Number of bytes written, before compression. */
  bytes: number;
  ms: number;
}

export interface LagEvent {
  partition: number;
  /** Number of uncommitted records. */
  lag: number;
  /** Time of the first uncommitted record, ms since 1970; null: all records are committed. */
  oldest: number | null;
}

/** Optional callbacks. They run on the event loop, so they must be quick and must not throw. */
export interface KafkaObserver {
  onLog?(entry: KafkaLogEntry): void;
  /** A transaction was completed. With at_least_once: records were sent and their offsets committed. */
  onTransaction?(report: TransactionReport): void;
  /** A transaction starts, or ends with any result. */
  onCommitting?(event: { begun: boolean }): void;
  /**
   * A transaction failed and was aborted; its records are read again. `reason`: a short name from a bounded set,
   * suitable as a metric label.
   */
  onAbort?(event: { partition: number; reason: string; message: Word }): void;
  /** A new producer has fenced every older producer of its transactional ID. */
  onFence?(event: { ms: number }): void;
  /** Reading continues at another offset than the client would have chosen. */
  onReset?(event: { partition: number; offset: bigint }): void;
  /**
   * The topic no longer has the committed offset. Reading continues at `offset`, and the records in between are
   * skipped.
   */
  onOffsetLost?(event: { partition: number; committed: bigint; offset: bigint }): void;
  /** The group assigned a new set of partitions to this member. */
  onAssigned?(event: { partitions: readonly number[] }): void;
  /** The consumer was replaced after a failure. */
  onRestart?(event: { reason: Word }): void;
  onLag?(event: LagEvent): void;
  onPaused?(event: { reason: string | null }): void;
  /** A condition that an operator may have to fix. Notices with the same `about` are repetitions. */
  onNotice?(event: { about: string; message: Word }): void;
}

export interface KafkaCounters {
  records: number;
  rejected: number;
  oversized: number;
  transactions: number;
  aborts: number;
  fences: number;
  resets: number;
  rebalances: number;
  restarts: number;
}

export const newCounters = (): KafkaCounters => ({
  records: 0,
  rejected: 0,
  oversized: 0,
  transactions: 0,
  aborts: 0,
  fences: 0,
  resets: 0,
  rebalances: 0,
  restarts: 0,
});
