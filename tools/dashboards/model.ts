// Models: which version answers, what it rejects, and whether its applicants are still those of the training.
import { type DashboardSpec, line, NEUTRAL, NONE_IS_GOOD, now } from './panel.ts';

const HERE = 'model=~"$model"';
const COLUMN = `${HERE},column=~"$column"`;
const PSI = ['green', [0.1, 'yellow'], [0.25, 'red']] as const;

export const MODEL: DashboardSpec = {
  uid: 'sluice-model',
  title: 'Sluice / Model & drift',
  description: 'Distributions of the last hour over all replicas against those of the training, rejects, versions, outcomes.',
  from: 'now-24h',
  choices: [
    { name: 'model', of: 'sluice_rows_total' },
    { name: 'column', of: 'sluice_column_baseline_ratio{model=~"$model"}' },
  ],
  rows: {
    Drift: [
      { title: 'PSI of the score', description: 'Population stability index of the score, over the last hour and all replicas. Above 0.25 it is a ticket.', kind: 'lines', unit: 'none', min: 0, width: 12, thresholds: PSI, queries: [line(`max by (model) (sluice:score_psi:1h{${HERE}})`, '{{model}}')] },
      { title: 'PSI of columns', description: 'The ten columns with the largest drift. A jump of one column indicates a change at the sender; slow drift of many indicates a change of the population.', kind: 'lines', unit: 'none', min: 0, width: 12, thresholds: PSI, queries: [line(`topk(10, max by (model, column) (sluice:column_psi:1h{${HERE}}))`, '{{model}} {{column}}')] },
      { title: 'Score now', description: 'Share of each bin of the score within the last hour …', kind: 'bars', unit: 'percentunit', min: 0, thresholds: NEUTRAL, queries: [now(`sum by (model, bin) (sluice:score_bin:ratio_rate1h{${HERE}})`, '{{bin}}')] },
      { title: 'Score in training', description: '… and in the training.', kind: 'bars', unit: 'percentunit', min: 0, thresholds: NEUTRAL, queries: [now(`max by (model, bin) (sluice_score_baseline_ratio{${HERE}})`, '{{bin}}')] },
      { title: 'Drifted columns', description: 'Columns with a PSI of 0.25 or more, measured by each process.', kind: 'lines', unit: 'short', min: 0, thresholds: ['green', [1, 'yellow']], queries: [line(`max by (model) (sluice_columns_drifted{${HERE}})`, '{{model}}')] },
      { title: 'Column now', description: 'Share of each bin of the chosen columns within the last hour …', kind: 'bars', unit: 'percentunit', min: 0, thresholds: NEUTRAL, queries: [now(`sum by (model, column, bin) (sluice:column_bin:ratio_rate1h{${COLUMN}})`, '{{column}} {{bin}}')] },
      { title: 'Column in training', description: '… and in the training.', kind: 'bars', unit: 'percentunit', min: 0, thresholds: NEUTRAL, queries: [now(`max by (model, column, bin) (sluice_column_baseline_ratio{${COLUMN}})`, '{{column}} {{bin}}')] },
      { title: 'Rows that are measured', description: 'Rows in the window of the replica with the fewest rows. Below 1,000, drift is not reported.', kind: 'lines', unit: 'short', min: 0, thresholds: ['yellow', [1000, 'green']], queries: [line(`min by (model) (sluice_drift_window_rows{${HERE}})`, '{{model}}')] },
    ],
    'Unseen and missing': [
      { title: 'Unseen categories', description: 'Share of values that do not occur in the training data, for the five worst columns. A ticket above 5 %.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.01, 'yellow'], [0.05, 'red']], queries: [line(`topk(5, sum by (model, column) (sluice:column_bin:ratio_rate1h{bin="unseen",${HERE}}) > 0)`, '{{model}} {{column}}')] },
      { title: 'Missing more often', description: 'Increase of the share of missing values since the training, for the five worst columns. A ticket above 10 %.', kind: 'lines', unit: 'percentunit', thresholds: ['green', [0.05, 'yellow'], [0.1, 'red']], queries: [line(`topk(5, sum by (model, column) (sluice:column_bin:ratio_rate1h{bin="missing",${HERE}}) - max by (model, column) (sluice_column_baseline_ratio{bin="missing",${HERE}}))`, '{{model}} {{column}}')] },
      { title: 'Worst of a process', description: 'The largest PSI, unseen share and missing shift, measured by each process. A single affected replica indicates a single sender.', kind: 'lines', unit: 'none', thresholds: PSI, queries: [line(`max by (instance, model) (sluice_column_psi_max{${HERE}})`, '{{instance}} {{model}} PSI'), line(`max by (instance, model) (sluice_column_unseen_ratio_max{${HERE}})`, '{{instance}} {{model}} unseen'), line(`max by (instance, model) (sluice_column_missing_shift_max{${HERE}})`, '{{instance}} {{model}} missing'), line(`max by (instance, model) (sluice_score_psi{${HERE}})`, '{{instance}} {{model}} score')] },
    ],
    'Rows and rejects': [
      { title: 'Rows', description: 'Applications per second by outcome.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (model, outcome) (rate(sluice_rows_total{${HERE}}[$__rate_interval]))`, '{{model}} {{outcome}}')] },
      { title: 'Rejects by code', description: 'Applications that could not be scored, by code.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (code) (rate(sluice_rows_rejected_total{${HERE}}[$__rate_interval]))`, '{{code}}')] },
      { title: 'Rejects by column', description: 'Rejected applications by column and code, for a report to the sender.', kind: 'stacked', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`topk(10, sum by (column, code) (rate(sluice_column_rejected_total{${HERE}}[$__rate_interval])))`, '{{column}}: {{code}}')] },
      { title: 'Time of a block', description: 'Time to score a block, 95 %.', kind: 'lines', unit: 's', min: 0, thresholds: NEUTRAL, queries: [line(`histogram_quantile(0.95, sum by (le, model) (rate(sluice_block_scoring_seconds_bucket{${HERE}}[$__rate_interval])))`, '{{model}}')] },
      { title: 'Interpretations left out', description: 'Share of interpretations whose effects did not add up.', kind: 'lines', unit: 'percentunit', min: 0, thresholds: ['green', [0.01, 'red']], queries: [line(`sum by (model) (rate(sluice_rows_interpreted_total{outcome="inexact",${HERE}}[$__rate_interval])) / sum by (model) (rate(sluice_rows_interpreted_total{${HERE}}[$__rate_interval]))`, '{{model}}')] },
      { title: 'Asked for effects', description: 'Rows per second that black-box models scored for interpretations. 0 if effects are computed from the model itself.', kind: 'lines', unit: 'rowsps', min: 0, thresholds: NEUTRAL, queries: [line(`sum by (model) (rate(sluice_interpretation_evaluations_total{${HERE}}[$__rate_interval]))`, '{{model}}')] },
    ],
    Versions: [
      { title: 'Served', description: 'The version that each reference resolves to, and the number of processes. Two versions of one reference for long: a replica does not follow.', kind: 'table', unit: 'none', width: 8, thresholds: NEUTRAL, queries: [now('count by (reference, version) (sluice_model_served_info == 1)', '{{reference}}')] },
      { title: 'Swaps and failed loads', description: 'Changes of the version that a reference resolves to, and versions that could not be loaded.', kind: 'lines', unit: 'short', min: 0, width: 8, thresholds: NEUTRAL, queries: [line('sum by (model) (increase(sluice_model_swaps_total[15m]))', '{{model}} swapped'), line('sum by (model, code) (increase(sluice_model_load_failures_total[15m]))', '{{model}}: {{code}}')] },
      { title: 'Stale', description: '1: an older version is served, because the newer one does not load.', kind: 'number', unit: 'short', thresholds: NONE_IS_GOOD, queries: [now('max by (reference) (sluice_model_stale)', '{{reference}}')] },
      { title: 'Time to load', description: 'Time from requesting a version until its workers are ready, 95 %.', kind: 'number', unit: 's', thresholds: ['green', [15, 'yellow'], [60, 'red']], queries: [now('histogram_quantile(0.95, sum by (le) (rate(sluice_model_load_seconds_bucket[1h])))', 'load')] },
    ],
    'Outcomes, months later': [
      { title: 'AUC', description: 'How well scores separate good and bad outcomes, by month of application. 0.5 is random.', kind: 'table', unit: 'none', width: 6, thresholds: ['red', [0.6, 'yellow'], [0.7, 'green']], queries: [now(`max by (model, month) (sluice_outcome_auc{${HERE}})`, '{{model}} {{month}}')] },
      { title: 'KS', description: 'Largest distance between the distributions of good and bad, by month.', kind: 'table', unit: 'none', width: 6, thresholds: ['red', [0.2, 'yellow'], [0.3, 'green']], queries: [now(`max by (model, month) (sluice_outcome_ks{${HERE}})`, '{{model}} {{month}}')] },
      { title: 'Brier', description: 'Mean squared error of the probability, by month: lower is better. It rises when scores are no longer calibrated.', kind: 'table', unit: 'none', width: 6, thresholds: ['green', [0.2, 'yellow'], [0.25, 'red']], queries: [now(`max by (model, month) (sluice_outcome_brier{${HERE}})`, '{{model}} {{month}}')] },
      { title: 'Went bad', description: 'Share of each decision that went bad, by month, and how many outcomes are known.', kind: 'table', unit: 'percentunit', width: 6, thresholds: NEUTRAL, queries: [now(`max by (model, month, decision) (sluice_outcome_bad_ratio{${HERE}})`, '{{decision}}'), now(`max by (model, month) (sluice_outcome_rows{${HERE}})`, 'rows')] },
    ],
  },
}; // biome-ignore format: a table
