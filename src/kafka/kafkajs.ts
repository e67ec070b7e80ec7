// The pinned kafkajs, repaired from outside: the only place that loads it.
import { createRequire } from 'node:module';
import type * as Kafkajs from 'kafkajs';
import { type BatchHead, type BatchRecord, encodeRecordBatch, MAGIC } from './record-batch.ts';

interface RequestQueue {
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  pending: unknown[];
  checkPendingRequests(): void;
}

interface ConsumerGroup {
  preferredReadReplicasPerTopicPartition: Record<string, Record<number, unknown> | undefined>;
}

interface Grouping {
  topic: string;
  partitionMetadata: readonly Kafkajs.PartitionMetadata[];
  messages: readonly Kafkajs.Message[];
  partitioner: (args: { topic: string; partitionMetadata: unknown; message: Kafkajs.Message }) => number;
}

/** Recheck of requests that wait for their turn, ms; as in kafkajs. */
const CHECK_INTERVAL_MS = 10;
export const OFFSET_LOST = 'SluiceOffsetLost';

const require = createRequire(import.meta.url);

/**
 * 1. `scheduleCheckPendingRequests` re-arms itself with a negative delay whenever nothing waits: a timer every
 *    millisecond and connection (some percent of a core when idle) and Node's TimeoutNegativeWarning. Here a timer is set
 *    only while requests wait or the broker throttles.
 * 2. `recoverFromOffsetOutOfRange` commits "earliest" or "latest" over the lost offset and goes on. Here it throws an error
 *    named {@link OFFSET_LOST}, which ends the consumer; whoever owns it decides.
 * 3. Records to be produced are grouped by copying the list once a record, and encoded into a buffer of 512 bytes for each
 *    record and each header. Here they are grouped by appending and encoded by `record-batch.ts`: the same bytes.
 */
function load(): typeof Kafkajs {
  // Modules whose functions others import must be patched before those are loaded.
  replace('kafkajs/src/producer/groupMessagesPerPartition', grouped);
  replace('kafkajs/src/protocol/recordBatch/record/v0', (record: BatchRecord) => record);
  replace('kafkajs/src/protocol/recordBatch/v0', { RecordBatch: recordBatch, MAGIC_BYTE: MAGIC });
  const kafkajs = require('kafkajs') as typeof Kafkajs;
  repairTimer();
  repairOffsetReset(kafkajs);
  return kafkajs;
}

function replace(id: string, exports: unknown): void {
  require(id);
  require.cache[require.resolve(id)]!.exports = exports;
}

function grouped({ topic, partitionMetadata, messages, partitioner }: Grouping): Record<number, Kafkajs.Message[]> {
  const groups: Record<number, Kafkajs.Message[]> = {};
  if (partitionMetadata.length === 0) return groups;
  for (const message of messages) {
    const partition = partitioner({ topic, partitionMetadata, message });
    groups[partition] ??= [];
    groups[partition].push(message);
  }
  return groups;
}

/** What kafkajs takes for an encoder that was written to. */
async function recordBatch({ records, ...head }: BatchHead & { records: BatchRecord[] }) {
  const buf = await encodeRecordBatch(records, head, (plain) => {
    const { lookupCodec } = require('kafkajs/src/protocol/message/compression');
    return lookupCodec(head.compression).compress({ buffer: plain });
  });
  return { buf, buffer: buf, size: () => buf.length };
}

function repairTimer(): void {
  const queue = require('kafkajs/src/network/requestQueue').prototype;
  queue.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.throttleCheckTimeoutId) return;
    const throttled = this.throttledUntil - Date.now();
    if (this.pending.length === 0 && throttled <= 0) return;
    this.throttleCheckTimeoutId = setTimeout(
      () => {
        this.throttleCheckTimeoutId = null;
        this.checkPendingRequests();
      },
      throttled > 0 ? throttled : CHECK_INTERVAL_MS,
    );
  };
}

function repairOffsetReset(kafkajs: typeof Kafkajs): void {
  const group = require('kafkajs/src/consumer/consumerGroup').prototype;
  group.recoverFromOffsetOutOfRange = async function (
    this: ConsumerGroup,
    e: { topic: string; partition: number },
  ): Promise<void> {
    const replicas = this.preferredReadReplicasPerTopicPartition[e.topic];
    if (replicas?.[e.partition] !== undefined) {
      // A follower may only be behind: the leader has the last word.
      delete replicas[e.partition];
      return;
    }
    const lost = new kafkajs.KafkaJSNonRetriableError(`offset out of range in partition ${e.partition} of ${e.topic}`);
    throw Object.assign(lost, { name: OFFSET_LOST });
  };
}

const kafkajs = load();
export default kafkajs;
