// Alerts of runs that end: the nightly one that did not come, failed, or will be late.
import { type Alert, FINISHED_RUNS, MANY_REJECTS, SCOPE, SOME_REJECTS } from './rule.ts';
import { secondsOf } from './times.ts';

/** Exit codes of a run that published what it made: all rows, or all but the rejected ones. */
const DONE = [0, 3] as const;

export const RUN_ALERTS: readonly Alert[] = [
  {
    name: 'SluiceNightlyRunMissing',
    severity: 'page',
    exporters: FINISHED_RUNS,
    expr: () =>
      `time() - max by (${SCOPE}, pipeline) (sluice_run_last_success_timestamp_seconds) > ${secondsOf('26h')}`,
    summary: '{{ $labels.pipeline }} has not succeeded for {{ $value | humanizeDuration }}',
  },
  {
    name: 'SluiceRunFailed',
    severity: 'page',
    exporters: FINISHED_RUNS,
    expr: () => {
      const code = `max by (${SCOPE}, pipeline) (sluice_run_last_exit_code)`;
      return DONE.map((done) => `${code} != ${done}`).join(' and ');
    },
    summary: 'the last run of {{ $labels.pipeline }} ended with {{ $value }}',
  },
  {
    name: 'SluiceRunRejectsAboveNormal',
    severity: 'ticket',
    exporters: FINISHED_RUNS,
    expr: (t) => {
      const now = 'sluice:run_rejected:ratio';
      const normal = `avg_over_time(${now}[${t.span('7d')}] offset ${t.span('1d')})`;
      return `(${now} > ${SOME_REJECTS} and ${now} > 3 * ${normal}) or ${now} > ${MANY_REJECTS}`;
    },
    summary: '{{ $value | humanizePercentage }} of the rows of the last run of {{ $labels.pipeline }} were rejected',
  },
  {
    name: 'SluiceDeadlineAtRisk',
    severity: 'page',
    exporters: ['batch_run', 'topic_run', 'metrics_file'],
    for: '2m',
    expr: () => `min by (${SCOPE}, pipeline) (sluice_run_deadline_slack_seconds) < 0`,
    summary: '{{ $labels.pipeline }} will end {{ $value | humanizeDuration }} after its deadline',
  },
];
