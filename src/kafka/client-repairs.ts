// Two repairs of the pinned kafkajs from outside: a timer that fires every millisecond, and lost offsets it hides.
import { createRequire } from 'node:module';
import kafkajs from 'kafkajs';

interface RequestQueue {
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  pending: unknown[];
  checkPendingRequests(): void;
}

interface ConsumerGroup {
  preferredReadReplicasPerTopicPartition: Record<string, Record<number, unknown> | undefined>;
}

/** Recheck of requests that wait for their turn, ms; as in kafkajs. */
const CHECK_INTERVAL_MS = 10;
export const OFFSET_LOST = 'SluiceOffsetLost';

/**
 * Applies the repairs; idempotent, and for the pinned version only.
 *
 * 1. `scheduleCheckPendingRequests` re-arms itself with a negative delay whenever nothing waits: a timer every
 *    millisecond and connection (some percent of a core when idle) and Node's TimeoutNegativeWarning. Here a timer is set
 *    only while requests wait or the broker throttles.
 * 2. `recoverFromOffsetOutOfRange` commits "earliest" or "latest" over the lost offset and goes on. Here it throws an error
 *    named {@link OFFSET_LOST}, which ends the consumer; whoever owns it decides.
 */
export function repairClient(): void {
  const require = createRequire(import.meta.url);
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
