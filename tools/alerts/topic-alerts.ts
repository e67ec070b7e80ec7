// Alerts of pipelines that read topics: late, paused, at another offset, letters that are nobody's fault but ours.
import { type Alert, grown, INSTANCE, SCOPE, TOPIC_RUNS } from './rule.ts';

/** Codes of applications that may have been good: what made dead letters of them is the model, the worker or the topic. */
export const CODES_OF_OURS = [
  'row_crashed_worker',
  'not_finite',
  'not_a_probability',
  'interpretation_inexact',
  'interpretation_failed',
  'output_too_large',
] as const;

const MANY_RESTARTS = 3;
const ofProcess = [SCOPE, ...INSTANCE, 'pipeline'].join(', ');
const LAG = 'sluice:kafka_lag_seconds:max';

export const TOPIC_ALERTS: readonly Alert[] = [
  {
    name: 'SluiceLagGrowing',
    severity: 'page',
    exporters: TOPIC_RUNS,
    for: '5m',
    expr: (t) =>
      `(${LAG} > ${t.seconds('5m')} and deriv(${LAG}[${t.span('10m')}]) > 0) or ${LAG} > ${t.seconds('30m')}`,
    summary: '{{ $labels.pipeline }}: an application of {{ $labels.topic }} waits for {{ $value | humanizeDuration }}',
  },
  {
    name: 'SluicePipelinePaused',
    severity: 'page',
    exporters: TOPIC_RUNS,
    for: '5m',
    expr: () => `max by (${ofProcess}) (sluice_kafka_paused) == 1`,
    summary: '{{ $labels.pipeline }} is paused and reads nothing',
  },
  {
    name: 'SluicePipelineModelUnavailable',
    severity: 'page',
    exporters: TOPIC_RUNS,
    for: '2m',
    expr: () => `max by (${ofProcess}) (sluice_pipeline_model_unavailable) == 1`,
    summary: '{{ $labels.pipeline }} waits because its model cannot be loaded',
  },
  {
    name: 'SluiceOffsetsLost',
    severity: 'page',
    exporters: TOPIC_RUNS,
    expr: (t) => `${grown('sluice_kafka_offsets_lost_total', ['pipeline'], t)} > 0`,
    summary:
      '{{ $labels.pipeline }} went on at another offset than the committed one: applications may have been skipped',
  },
  {
    name: 'SluiceConsumerRestarts',
    severity: 'ticket',
    exporters: TOPIC_RUNS,
    // Longer than a process takes to be not ready, which is told instead.
    for: '10m',
    expr: (t) => `${grown('sluice_kafka_restarts_total', ['pipeline'], t)} > ${MANY_RESTARTS}`,
    summary: 'the consumer of {{ $labels.pipeline }} was replaced {{ $value | humanize }} times',
  },
  {
    name: 'SluiceDeadLetters',
    severity: 'ticket',
    exporters: TOPIC_RUNS,
    expr: (t) =>
      `${grown(`sluice_dead_letters_total{code=~"${CODES_OF_OURS.join('|')}"}`, ['pipeline', 'code'], t)} > 0`,
    summary:
      '{{ $labels.pipeline }}: {{ $value | humanize }} dead letters ({{ $labels.code }}) that no sender can mend',
  },
];
