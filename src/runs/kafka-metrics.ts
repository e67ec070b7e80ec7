// What the Kafka layer tells, as metrics and words.
import type { KafkaObserver, TransactionReport } from '../kafka/observer.ts';
import type { RunContext } from './context.ts';

export function observerOf(context: RunContext, onTransaction?: (report: TransactionReport) => void): KafkaObserver {
  const { metrics, name, tell } = context;
  const labels = { pipeline: name };
  return {
    onTransaction(report) {
      metrics.transactions.observe(labels, report.ms / 1000);
      metrics.transactionRecords.inc(labels, report.records);
      if (report.oversized > 0) metrics.oversized.inc(labels, report.oversized);
      onTransaction?.(report);
    },
    onAbort({ reason }) {
      metrics.aborts.inc({ ...labels, reason });
    },
    onFence: () => metrics.fences.inc(labels),
    onReset: () => metrics.resets.inc(labels),
    onAssigned({ partitions }) {
      metrics.partitions.set(labels, partitions.length);
      metrics.lag.reset();
      tell(`partitions: ${partitions.length === 0 ? 'none' : partitions.join(', ')}`);
    },
    onRestart({ reason }) {
      metrics.restarts.inc(labels);
      tell(`the consumer starts again: ${reason}`);
    },
    onLag: ({ partition, lag }) => metrics.lag.set({ ...labels, partition: String(partition) }, lag),
    onPaused: ({ reason }) => metrics.paused.set(labels, reason === null ? 0 : 1),
  };
}
