// Reports events of the Kafka layer as metrics and log lines. The account, not this file, counts rows.

import { LogThrottle } from '../../connectors/kafka/kafka-error-messages.ts';
import type { KafkaObserver } from '../../connectors/kafka/observer.ts';
import { TIME_HEADER } from '../../connectors/kafka/send-plan.ts';
import { epochMs } from '../../core/clock.ts';
import { named, words } from '../../core/log.ts';
import type { RunContext } from '../context.ts';

/** Initialises all counters with 0. Prometheus misses the first increase of a counter that was never exported as 0. */
export function beginMeasuring({ metrics, name }: RunContext): void {
  const labels = { pipeline: name };
  metrics?.paused.set(labels, 0);
  metrics?.modelUnavailable.set(labels, 0);
  for (const counter of ['fences', 'resets', 'offsetsLost', 'restarts', 'oversized', 'retimed'] as const) {
    metrics?.[counter].inc(labels, 0);
  }
}

/** The observer of one topic. If `alone`, the run reads no other topic, and log lines omit the topic's name. */
export function observerOf({ metrics, name, log, account }: RunContext, topic: string, alone: boolean): KafkaObserver {
  const labels = { pipeline: name };
  const ofTopic = { pipeline: name, topic };
  let assigned: readonly number[] = [];
  /** Time of the first uncommitted record by partition, ms since 1970; null if every record is committed. */
  const oldest = new Map<number, number | null>();
  metrics?.onScrape(() => {
    for (const [partition, since] of oldest) {
      const seconds = since === null ? 0 : Math.max(0, (epochMs() - since) / 1000);
      metrics.lagSeconds.set({ ...ofTopic, partition: String(partition) }, seconds);
    }
  });
  const throttled = new LogThrottle(log);
  const place = alone ? words`` : words`${named(topic)}, `;
  return {
    onTransaction({ ms, partitions, retimed }) {
      metrics?.transactions.observe(labels, ms / 1000);
      for (const { records, oversized } of partitions) {
        metrics?.transactionRecords.inc(labels, records);
        if (oversized > 0) metrics?.oversized.inc(labels, oversized);
      }
      for (const [topic, count] of retimed) {
        metrics?.retimed.inc(labels, count);
        const message = words`${count} predictions have the current time as their timestamp, because ${named(topic)} would have rejected or soon removed them; the header ${named(TIME_HEADER)} contains the time of the application`;
        throttled.write(`time ${topic}`, ['warn', 'answers_retimed', message, { topic: named(topic), records: count }]);
      }
    },
    onCommitting({ begun }) {
      if (begun) account.flow().begin('sink');
      else account.flow().end('sink');
    },
    onAbort({ partition, reason, message: cause }) {
      metrics?.aborts.inc({ ...labels, reason });
      const message = words`${place}partition ${partition}: a transaction was aborted, and its records are read again: ${cause}`;
      const fields = { topic: named(topic), partition, reason: named(reason) };
      throttled.write(`abort ${reason}`, ['warn', 'transaction_aborted', message, fields]);
    },
    onFence: () => metrics?.fences.inc(labels),
    onReset: () => metrics?.resets.inc(labels),
    onOffsetLost({ partition, committed, offset }) {
      metrics?.offsetsLost.inc(labels);
      const message = words`${place}partition ${partition}: the committed offset ${committed} no longer exists, and reading continues at offset ${offset}; applications may have been skipped`;
      const fields = { topic: named(topic), partition, committed: Number(committed), offset: Number(offset) };
      log('warn', 'offset_lost', message, fields);
    },
    onAssigned({ partitions }) {
      metrics?.partitions.set(ofTopic, partitions.length);
      for (const p of assigned) {
        metrics?.lag.remove({ ...ofTopic, partition: String(p) });
        metrics?.lagSeconds.remove({ ...ofTopic, partition: String(p) });
      }
      oldest.clear();
      assigned = partitions;
      const message = words`${place}assigned partitions: ${partitions.length === 0 ? words`none` : named(partitions.join(', '))}`;
      log('info', 'partitions_assigned', message, { topic: named(topic), partitions });
    },
    onRestart({ reason }) {
      metrics?.restarts.inc(labels);
      const message = words`the consumer restarts: ${reason}`;
      throttled.write(`restart ${reason}`, ['warn', 'consumer_restarted', message, { topic: named(topic) }]);
    },
    onLag({ partition, lag, oldest: since }) {
      metrics?.lag.set({ ...ofTopic, partition: String(partition) }, lag);
      oldest.set(partition, since);
    },
    onNotice: ({ about, message }) =>
      throttled.write(about, ['warn', 'topic_notice', message, { topic: named(topic) }]),
    onPaused: ({ reason }) => metrics?.paused.set(labels, reason === null ? 0 : 1),
  };
}
