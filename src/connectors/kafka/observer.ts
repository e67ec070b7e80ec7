// Events of the Kafka layer as plain callbacks, which keep metrics and logging out of this layer.

import type { Word } from '../../core/log.ts';
import type { KafkaLogEntry } from './client/kafka-client.ts';

/** The share of one input partition in a transaction. */
export interface PartitionReport {
  partition: number;
  /** Records read. */
  records: number;
  /** Records written as dead letters, including those whose answers were oversized. */
  rejected: number;
  /** Answers that were too large for their topic. */
  oversized: number;
  /** Offset behind the last record. */
  next: bigint;
}

export interface TransactionReport {
  partitions: readonly PartitionReport[];
  /**
   * Number of answers by topic whose timestamp was replaced by now, because their topic would have refused or soon
   * deleted them.
   */
  retimed: ReadonlyMap<string, number>;
  /** Bytes written, before compression. */
  bytes: number;
  ms: number;
}

export interface LagEvent {
  partition: number;
  /** Number of uncommitted records. */
  lag: number;
  /** Time of the first uncommitted record, ms since 1970; null: there is none. */
  oldest: number | null;
}

/** Optional callbacks. They run on the event loop, so they must be quick and must not throw. */
export interface KafkaObserver {
  onLog?(entry: KafkaLogEntry): void;
  /** A transaction, or with at_least_once a send and its commit, was completed. */
  onTransaction?(report: TransactionReport): void;
  /** A transaction starts or ends, with any result. */
  onCommitting?(event: { begun: boolean }): void;
  /**
   * A transaction failed and was aborted; its records are read again. `reason` is a short word from a bounded set,
   * suitable as a metric label.
   */
  onAbort?(event: { partition: number; reason: string; message: Word }): void;
  /** A producer took over; every older producer of its transactional ID is fenced. */
  onFence?(event: { ms: number }): void;
  /** Reading continues at another offset than the client would have used. */
  onReset?(event: { partition: number; offset: bigint }): void;
  /**
   * The topic no longer has the committed offset. Reading continues at `offset`, and the records in between are
   * skipped.
   */
  onOffsetLost?(event: { partition: number; offset: bigint }): void;
  /** The group assigned a new set of partitions to this member. */
  onAssigned?(event: { partitions: readonly number[] }): void;
  /** The consumer was replaced after a failure. */
  onRestart?(event: { reason: Word }): void;
  onLag?(event: LagEvent): void;
  onPaused?(event: { reason: string | null }): void;
  /** A condition that an operator may have to fix. Notices with equal `about` are repetitions. */
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
