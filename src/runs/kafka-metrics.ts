// Events of the Kafka layer as metrics and log lines. Records are counted by the account, not here.
import { epochMs } from '../core/clock.ts';
import { named, words } from '../core/log.ts';
import type { KafkaObserver } from '../kafka/observer.ts';
import { TIME_HEADER } from '../kafka/send-plan.ts';
import type { RunContext } from './context.ts';
import { Teller } from './kafka-words.ts';

/** Zeros from the start: a first event is an increase only where 0 was seen before, and no data is no answer to "is it paused". */
export function beginMeasuring({ metrics, name }: RunContext): void {
  const labels = { pipeline: name };
  metrics?.paused.set(labels, 0);
  metrics?.modelUnavailable.set(labels, 0);
  for (const counter of ['fences', 'resets', 'offsetsLost', 'restarts', 'oversized', 'retimed'] as const) {
    metrics?.[counter].inc(labels, 0);
  }
}

/** Of one topic. `alone`: it is the only one, and need not be named in the log. */
export function observerOf({ metrics, name, log, account }: RunContext, topic: string, alone: boolean): KafkaObserver {
  const labels = { pipeline: name };
  const ofTopic = { pipeline: name, topic };
  let assigned: readonly number[] = [];
  /** Times of the first records that are not committed, ms since 1970, by partition; null: none waits. */
  const oldest = new Map<number, number | null>();
  metrics?.onScrape(() => {
    for (const [partition, since] of oldest) {
      const seconds = since === null ? 0 : Math.max(0, (epochMs() - since) / 1000);
      metrics.lagSeconds.set({ ...ofTopic, partition: String(partition) }, seconds);
    }
  });
  const teller = new Teller(log);
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
        const says = words`${count} predictions have the time of now and that of their application in the header ${named(TIME_HEADER)}, because ${named(topic)} would have refused or soon removed them`;
        teller.tell(`time ${topic}`, ['warn', 'answers_retimed', says, { topic: named(topic), records: count }]);
      }
    },
    onCommitting({ begun }) {
      if (begun) account.flow().begin('sink');
      else account.flow().end('sink');
    },
    onAbort({ partition, reason, message }) {
      metrics?.aborts.inc({ ...labels, reason });
      const says = words`${place}partition ${partition}: a transaction was given up, its records are read again: ${message}`;
      const fields = { topic: named(topic), partition, reason: named(reason) };
      teller.tell(`abort ${reason}`, ['warn', 'transaction_aborted', says, fields]);
    },
    onFence: () => metrics?.fences.inc(labels),
    onReset: () => metrics?.resets.inc(labels),
    onOffsetLost: () => metrics?.offsetsLost.inc(labels),
    onAssigned({ partitions }) {
      metrics?.partitions.set(ofTopic, partitions.length);
      for (const p of assigned) {
        metrics?.lag.remove({ ...ofTopic, partition: String(p) });
        metrics?.lagSeconds.remove({ ...ofTopic, partition: String(p) });
      }
      oldest.clear();
      assigned = partitions;
      const says = words`${place}partitions: ${partitions.length === 0 ? words`none` : named(partitions.join(', '))}`;
      log('info', 'partitions_assigned', says, { topic: named(topic), partitions });
    },
    onRestart({ reason }) {
      metrics?.restarts.inc(labels);
      const says = words`the consumer starts again: ${reason}`;
      teller.tell(`restart ${reason}`, ['warn', 'consumer_restarted', says, { topic: named(topic) }]);
    },
    onLag({ partition, lag, oldest: since }) {
      metrics?.lag.set({ ...ofTopic, partition: String(partition) }, lag);
      oldest.set(partition, since);
    },
    onNotice: ({ about, message }) => teller.tell(about, ['warn', 'topic_notice', message, { topic: named(topic) }]),
    onPaused: ({ reason }) => metrics?.paused.set(labels, reason === null ? 0 : 1),
  };
}
