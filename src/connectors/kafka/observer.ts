// Events of the Kafka layer as plain callbacks, so that metrics and logs stay outside.

import type { Word } from '../../core/log.ts';
import type { KafkaLogEntry } from './client/kafka-client.ts';

/** What a transaction holds of one partition of the input. */
export interface PartitionReport {
  partition: number;
  /** Records read. */
  records: number;
  /** Records written to dead letters, oversized answers included. */
  rejected: number;
  /** Answers that were too large for their topic. */
  oversized: number;
  /** Offset behind the last record. */
  next: bigint;
}

export interface TransactionReport {
  partitions: readonly PartitionReport[];
  /** Answers that have the time of now, because their topic would have refused or soon removed them, by topic. */
  retimed: ReadonlyMap<string, number>;
  /** Bytes written, before compression. */
  bytes: number;
  ms: number;
}

export interface LagEvent {
  partition: number;
  /** Records that are not committed. */
  lag: number;
  /** Time of the first of them, ms since 1970; null: none waits. */
  oldest: number | null;
}

/** All optional; called on the event loop, so they must be quick and must not throw. */
export interface KafkaObserver {
  onLog?(entry: KafkaLogEntry): void;
  /** A transaction (or, under at_least_once, a send with its commit) is done. */
  onTransaction?(report: TransactionReport): void;
  /** A transaction starts or ends, with any result. */
  onCommitting?(event: { begun: boolean }): void;
  /** It failed and was given up; its records are read again. `reason` is short and bounded, fit for a label. */
  onAbort?(event: { partition: number; reason: string; message: Word }): void;
  /** A producer took over: every older one of its transactional id is fenced from now on. */
  onFence?(event: { ms: number }): void;
  /** Reading continues at another offset than the client would have used. */
  onReset?(event: { partition: number; offset: bigint }): void;
  /** The topic no longer has the committed offset, and reading continues at this one: the records in between were not read. */
  onOffsetLost?(event: { partition: number; offset: bigint }): void;
  /** The group gave this member a new set of partitions. */
  onAssigned?(event: { partitions: readonly number[] }): void;
  /** The consumer was replaced after a failure. */
  onRestart?(event: { reason: Word }): void;
  onLag?(event: LagEvent): void;
  onPaused?(event: { reason: string | null }): void;
  /** Something an operator should know, and may have to mend. `about`: what counts as the same. */
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
