// One pipeline of topics: late or not, why, and what it does.
import { type DashboardSpec, line, NEUTRAL, NONE_IS_GOOD, now } from './panel.ts';

const HERE = 'pipeline=~"$pipeline"';
const rate = (counter: string, by: string) => `sum by (${by}) (rate(${counter}{${HERE}}[$__rate_interval]))`;
const recent = (counter: string, by: string) => `sum by (${by}) (increase(${counter}{${HERE}}[15m]))`;

export const PIPELINE: DashboardSpec = {
  uid: 'sluice-pipeline',
  title: 'Sluice / Pipeline',
  description: 'Pipelines that read topics: lag by what is committed, the bottleneck, transactions, dead letters.',
  choices: [{ name: 'pipeline', of: 'sluice_kafka_partitions' }],
  rows: {
    'Late or not': [
      { title: 'Lag in seconds', description: 'Age of the oldest application that is not committed, also while paused. Pages at five minutes if it grows.', kind: 'lines', unit: 's', min: 0, width: 12, thresholds: ['green', [60, 'yellow'], [300, 'red']], queries: [line(`max by (pipeline, topic, partition) (sluice_kafka_lag_seconds{${HERE}})`, '{{topic}} {{partition}}')] },
      { title: 'Lag in records', description: 'Uncommitted records. Divided by the rows per second, this is the time to catch up.', kind: 'stacked', unit: 'short', min: 0, width: 12, thresholds: NEUTRAL, queries: [line(`max by (pipeline, topic, partition) (sluice_kafka_lag_records{${HERE}})`, '{{topic}} {{partition}}')] },
      { title: 'Paused', description: '1: nothing is read, and the log says why.', kind: 'number', unit: 'short', thresholds: NONE_IS_GOOD, queries: [now(`max by (pipeline) (sluice_kafka_paused{${HERE}})`, '{{pipeline}}')] },
      { title: 'Model missing', description: '1: it waits, because its model cannot be loaded.', kind: 'number', unit: 'short', thresholds: NONE_IS_GOOD, queries: [now(`max by (pipeline) (sluice_pipeline_model_unavailable{${HERE}})`, '{{pipeline}}')] },
      { title: 'Last answer', description: 'How long ago the last application was answered for good.', kind: 'number', unit: 's', thresholds: ['green', [300, 'yellow'], [3600, 'orange']], queries: [now(`time() - max by (pipeline) (sluice_pipeline_last_answer_timestamp_seconds{${HERE}})`, '{{pipeline}}')] },
      { title: 'Time to catch up', description: 'Waiting records, divided by the records committed per second.', kind: 'number', unit: 's', thresholds: ['green', [600, 'yellow'], [3600, 'red']], queries: [now(`sum by (pipeline) (sluice_kafka_lag_records{${HERE}}) / (sum by (pipeline) (rate(sluice_kafka_records_total{${HERE}}[5m])) > 0)`, '{{pipeline}}')] },
      { title: 'Members', description: 'Processes that have partitions, by pipeline.', kind: 'number', unit: 'short', thresholds: NEUTRAL, queries: [now(`count by (pipeline) (sluice_kafka_partitions{${HERE}} > 0)`, '{{pipeline}}')] },
      { title: 'Waiting for retries', description: 'Records of the retry topic that wait for their next attempt.', kind: 'number', unit: 'short', thresholds: NEUTRAL, queries: [now(`sum by (pipeline) (sluice_kafka_retry_waiting_records{${HERE}})`, '{{pipeline}}')] },
    ],
    'Why it is late': [
      { title: 'Waiting for', description: 'Seconds per second spent waiting for the source, the workers and the sink. The largest is the bottleneck. If only the source is large, the pipeline is idle.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(rate('sluice_wait_seconds_total', 'pipeline, for'), '{{pipeline}}: {{for}}')] },
      { title: 'In flight', description: 'Bytes of applications in memory, and their limit.', kind: 'lines', unit: 'bytes', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (pipeline) (sluice_in_flight_bytes{${HERE}})`, '{{pipeline}}'), line(`sum by (pipeline) (sluice_in_flight_budget_bytes{${HERE}})`, '{{pipeline}} at most')] },
      { title: 'Time of a transaction', description: 'From its beginning to its commit, 95 %. Longer than before: the brokers that take answers are slow.', kind: 'lines', unit: 's', min: 0, thresholds: ['green', [1, 'yellow'], [5, 'red']], queries: [line(`histogram_quantile(0.95, sum by (le, pipeline) (rate(sluice_kafka_transaction_seconds_bucket{${HERE}}[$__rate_interval])))`, '{{pipeline}}')] },
    ],
    Work: [
      { title: 'Records committed', description: 'Records answered and committed per second.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(rate('sluice_kafka_records_total', 'pipeline'), '{{pipeline}}')] },
      { title: 'Dead letters', description: 'Records put into the dead letter topic, by code.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(rate('sluice_dead_letters_total', 'pipeline, code'), '{{pipeline}}: {{code}}')] },
      { title: 'Retries', description: 'Records put into the retry topic, by code.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(rate('sluice_kafka_retries_total', 'pipeline, code'), '{{pipeline}}: {{code}}')] },
    ],
    'Membership and transactions': [
      { title: 'Partitions', description: 'Partitions by member. A step for all at once is a rebalance.', kind: 'stacked', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (pipeline, topic, instance) (sluice_kafka_partitions{${HERE}})`, '{{pipeline}} {{topic}} {{instance}}')] },
      { title: 'Transactions given up', description: 'Aborted transactions. Their records are read again, and nothing is lost or duplicated. Many aborts cost time.', kind: 'lines', unit: 'short', min: 0, thresholds: ['green', [5, 'yellow']], queries: [line(recent('sluice_kafka_aborts_total', 'pipeline, reason'), '{{pipeline}}: {{reason}}')] },
      { title: 'Takeovers and restarts', description: 'Producers that fenced the ones before them, consumers that were replaced, readings that went on elsewhere.', kind: 'lines', unit: 'short', min: 0, thresholds: ['green', [4, 'yellow']], queries: [line(recent('sluice_kafka_fences_total', 'pipeline'), '{{pipeline}} fences'), line(recent('sluice_kafka_restarts_total', 'pipeline'), '{{pipeline}} restarts'), line(recent('sluice_kafka_resets_total', 'pipeline'), '{{pipeline}} resets'), line(recent('sluice_kafka_offsets_lost_total', 'pipeline'), '{{pipeline}} offsets lost')] },
      { title: 'Odd answers', description: 'Answers too large for their topic, and predictions with the current time as their timestamp.', kind: 'lines', unit: 'short', min: 0, thresholds: ['green', [1, 'yellow']], queries: [line(recent('sluice_kafka_oversized_total', 'pipeline'), '{{pipeline}} too large'), line(recent('sluice_kafka_retimed_total', 'pipeline'), '{{pipeline}} with the time of now')] },
    ],
  },
}; // biome-ignore format: a table
