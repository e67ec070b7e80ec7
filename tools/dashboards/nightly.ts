// Runs that end: did last night's come, what did it do, and will this one be in time.
import { type DashboardSpec, line, NEUTRAL, now } from './panel.ts';

const HERE = 'pipeline=~"$pipeline"';

export const NIGHTLY: DashboardSpec = {
  uid: 'sluice-nightly',
  title: 'Sluice / Nightly',
  description: 'Runs of files: what each left behind when it ended, and the slack of the one that runs.',
  from: 'now-14d',
  choices: [{ name: 'pipeline', of: 'sluice_run_last_end_timestamp_seconds' }],
  rows: {
    'Did it come': [
      { title: 'Since the last success', description: 'Time since the last successful run (exit code 0 or 3). Pages after 26 hours.', kind: 'number', unit: 's', width: 6, thresholds: ['green', [24.5 * 3600, 'yellow'], [26 * 3600, 'red']], queries: [now(`time() - max by (pipeline) (sluice_run_last_success_timestamp_seconds{${HERE}})`, '{{pipeline}}')] },
      { title: 'Exit code', description: '0 done, 3 done with rejected rows, 1 failed and nothing is visible, 2 usage, 4 stopped by a gate.', kind: 'number', unit: 'none', width: 6, thresholds: ['green', [1, 'red'], [3, 'yellow'], [4, 'red']], queries: [now(`max by (pipeline) (sluice_run_last_exit_code{${HERE}})`, '{{pipeline}}')] },
      { title: 'Last end', description: 'When the last run ended, however it ended.', kind: 'number', unit: 'dateTimeFromNow', width: 6, thresholds: NEUTRAL, queries: [now(`1000 * max by (pipeline) (sluice_run_last_end_timestamp_seconds{${HERE}})`, '{{pipeline}}')] },
      { title: 'Slack', description: 'From the end, or the one foreseen, to the deadline. Below zero it is late, and pages.', kind: 'number', unit: 's', width: 6, thresholds: ['red', [0, 'yellow'], [1800, 'green']], queries: [now(`min by (pipeline) (sluice_run_deadline_slack_seconds{${HERE}})`, '{{pipeline}}')] },
    ],
    'How it went': [
      { title: 'Duration', description: 'How long each run took.', kind: 'lines', unit: 's', min: 0, thresholds: NEUTRAL, queries: [line(`max by (pipeline) (sluice_run_last_duration_seconds{${HERE}})`, '{{pipeline}}')] },
      { title: 'Rows', description: 'Applications of each run by outcome. A night with half of them is an input that was cut.', kind: 'stacked', unit: 'short', min: 0, thresholds: NEUTRAL, queries: [line(`max by (pipeline, outcome) (sluice_run_rows{${HERE}})`, '{{pipeline}} {{outcome}}')] },
      { title: 'Rejected', description: 'Share of the rows of each run that could not be scored.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.02, 'yellow'], [0.3, 'red']], queries: [line(`max by (pipeline) (sluice_run_rows{outcome="rejected",${HERE}}) / sum by (pipeline) (sluice_run_rows{${HERE}})`, '{{pipeline}}')] },
      { title: 'Slack over time', description: 'How much room each night had.', kind: 'lines', unit: 's', thresholds: ['red', [0, 'yellow'], [1800, 'green']], queries: [line(`min by (pipeline) (sluice_run_deadline_slack_seconds{${HERE}})`, '{{pipeline}}')] },
      { title: 'Waiting for', description: 'While it runs: what it waits for. Source is the disk or the network that gives, sink the one that takes.', kind: 'stacked', unit: 'none', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (pipeline, for) (rate(sluice_wait_seconds_total{${HERE}}[$__rate_interval]))`, '{{pipeline}}: {{for}}')] },
      { title: 'Throughput', description: 'Rows per second of the last run.', kind: 'lines', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (pipeline) (sluice_run_rows{${HERE}}) / on (pipeline) (max by (pipeline) (sluice_run_last_duration_seconds{${HERE}}) > 0)`, '{{pipeline}}')] },
      { title: 'Interpretations done', description: 'While a run with interpretation goes on: how much of its work is done, which takes longer than its rows let expect.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: NEUTRAL, queries: [line(`min by (pipeline) (sluice_interpretation_done_ratio{${HERE}})`, '{{pipeline}}')] },
    ],
    'Is it the population of the training': [
      { title: 'PSI of the score', description: 'Of each run as a whole, against the training. A ticket above 0.25; absent below 1,000 rows.', kind: 'lines', unit: 'none', min: 0, thresholds: ['green', [0.1, 'yellow'], [0.25, 'red']], queries: [line(`max by (pipeline, model) (sluice_run_score_psi{${HERE}})`, '{{pipeline}} {{model}}')] },
      { title: 'Worst column', description: 'The largest PSI of a column of each run, and which column it is. A ticket above 0.25.', kind: 'lines', unit: 'none', min: 0, thresholds: ['green', [0.1, 'yellow'], [0.25, 'red']], queries: [line(`max by (pipeline, column) (sluice_run_column_psi_max{${HERE}})`, '{{pipeline}}: {{column}}')] },
      { title: 'Drifted columns', description: 'Columns with a PSI of 0.25 or more in each run. Three or more are a ticket: they usually share a cause.', kind: 'lines', unit: 'none', min: 0, thresholds: ['green', [1, 'yellow'], [3, 'red']], queries: [line(`max by (pipeline, model) (sluice_run_columns_drifted{${HERE}})`, '{{pipeline}} {{model}}')] },
    ],
  },
}; // biome-ignore format: a table
