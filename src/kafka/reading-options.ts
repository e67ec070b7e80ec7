// How a topic is read, with the defaults: the same for the processor and for the plain reader.
import type { GroupOptions } from './group-consumer.ts';
import type { BatchLimits } from './partition-buffer.ts';
import type { StartPolicy } from './start-offset.ts';

export interface ReadingOptions extends GroupOptions {
  /** Default: earliest. */
  startAt?: 'earliest' | 'latest';
  /** Default: stop. */
  onOffsetLost?: 'stop' | 'earliest' | 'latest';
  /** Ends once everything is done with that was in this member's partitions when it got them. Default: false. */
  untilCaughtUp?: boolean;
  /** Default 1024. */
  batchRows?: number;
  /** Default 20. */
  batchWaitMs?: number;
  /** Default 4 MiB. */
  batchBytes?: number;
  /** Records in memory, all partitions together; each may exceed its share by one fetch. Default 32 MiB. */
  maxInFlightBytes?: number;
}

export const batchLimitsOf = (o: ReadingOptions): BatchLimits => ({
  batchRows: o.batchRows ?? 1024,
  batchBytes: o.batchBytes ?? 4 * 1024 * 1024,
  batchWaitMs: o.batchWaitMs ?? 20,
});

export const startPolicyOf = ({ topic, group, startAt, onOffsetLost }: ReadingOptions): StartPolicy => ({
  topic,
  group,
  startAt: startAt ?? 'earliest',
  onOffsetLost: onOffsetLost ?? 'stop',
});
