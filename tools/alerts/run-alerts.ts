// Alerts of runs that end: the nightly one that did not come, failed, or will be late.
import { type Alert, FINISHED_RUNS, MANY_REJECTS, SCOPE, SIGNIFICANT_PSI, SOME_REJECTS } from './rule.ts';
import { secondsOf } from './times.ts';

/** Exit codes of a run that published what it made: all rows, or all but the rejected ones. */
const DONE = [0, 3] as const;

/** So many columns with a PSI of 0.25 or more share a cause: a join that finds nothing, or another population. */
const MANY_DRIFTED = 3;

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
    name: 'SluiceRunScoreDrift',
    severity: 'ticket',
    exporters: FINISHED_RUNS,
    expr: () => `max by (${SCOPE}, pipeline, model) (sluice_run_score_psi) > ${SIGNIFICANT_PSI}`,
    summary:
      'the scores of the last run of {{ $labels.pipeline }} are distributed differently from the training of {{ $labels.model }} (PSI {{ printf "%.2f" $value }})',
  },
  {
    name: 'SluiceRunColumnDrift',
    severity: 'ticket',
    exporters: FINISHED_RUNS,
    expr: () => `max by (${SCOPE}, pipeline, model, column) (sluice_run_column_psi_max) > ${SIGNIFICANT_PSI}`,
    summary:
      '{{ $labels.column }} drifts most in the last run of {{ $labels.pipeline }}: PSI {{ printf "%.2f" $value }} against the training of {{ $labels.model }}',
  },
  {
    name: 'SluiceRunColumnsDrifted',
    severity: 'ticket',
    exporters: FINISHED_RUNS,
    expr: () => `max by (${SCOPE}, pipeline, model) (sluice_run_columns_drifted) >= ${MANY_DRIFTED}`,
    summary: '{{ $value }} columns of {{ $labels.model }} drifted in the last run of {{ $labels.pipeline }}',
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
