// Alerts of models and of what is asked of them: stale, not loadable, rejects, drift.
import { DRIFT_WINDOW } from './recordings.ts';
import {
  type Alert,
  grown,
  INSTANCE,
  increaseOf,
  MANY_REJECTS,
  MODEL_HOSTS,
  PROCESSES,
  SCOPE,
  SIGNIFICANT_PSI,
  SOME_REJECTS,
} from './rule.ts';

const MUCH_UNSEEN = 0.05;
const MUCH_MISSING = 0.1;
const SOME_INEXACT = 0.01;

const bySeries = `${SCOPE}, model, column`;
const shareOf = (bin: string) => `sum by (${bySeries}) (sluice:column_bin:ratio_rate1h{bin="${bin}"})`;

/** By the name of the model, as other metrics have it. */
const STALE = `max by (${[SCOPE, ...INSTANCE].join(', ')}, model, reference) (label_replace(sluice_model_stale, "model", "$1", "reference", "([^:@]+).*"))`;

export const MODEL_ALERTS: readonly Alert[] = [
  {
    name: 'SluiceModelStale',
    severity: 'page',
    exporters: MODEL_HOSTS,
    for: '5m',
    expr: () => `${STALE} == 1`,
    summary:
      '{{ $labels.reference }} answers with another version than the registry has now: a newer one does not load, or its files were changed',
  },
  {
    name: 'SluiceModelNotLoadable',
    severity: 'page',
    exporters: MODEL_HOSTS,
    // What an older version answers still is stale, which is told when it lasts.
    expr: (t) =>
      `(${grown('sluice_model_load_failures_total', [...INSTANCE, 'model', 'code'], t)} > 0) unless on (${[SCOPE, ...INSTANCE].join(', ')}, model) (${STALE} == 1)`,
    summary: 'a version of {{ $labels.model }} cannot be loaded ({{ $labels.code }})',
  },
  {
    name: 'SluiceRejectsAboveNormal',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '5m',
    expr: () => {
      const [now, normal] = ['sluice:rows_rejected:ratio_rate15m', 'sluice:rows_rejected:ratio_rate1d'];
      return `(${now} > ${SOME_REJECTS} and ${now} > 3 * ${normal}) or ${now} > ${MANY_REJECTS}`;
    },
    summary: '{{ $value | humanizePercentage }} of the applications for {{ $labels.model }} are rejected',
  },
  {
    name: 'SluiceScoreDrift',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '15m',
    expr: () => `sluice:score_psi:1h > ${SIGNIFICANT_PSI}`,
    summary:
      'scores of {{ $labels.model }} are distributed otherwise than in training (PSI {{ printf "%.2f" $value }})',
  },
  {
    name: 'SluiceColumnDrift',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '15m',
    expr: () => `sluice:column_psi:1h > ${SIGNIFICANT_PSI}`,
    summary:
      '{{ $labels.column }} of {{ $labels.model }} is distributed otherwise than in training (PSI {{ printf "%.2f" $value }})',
  },
  {
    name: 'SluiceUnseenCategories',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '5m',
    expr: () => `${shareOf('unseen')} > ${MUCH_UNSEEN}`,
    summary:
      '{{ $value | humanizePercentage }} of the values of {{ $labels.column }} were never seen in the training of {{ $labels.model }}',
  },
  {
    name: 'SluiceMissingValues',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '5m',
    expr: () =>
      `${shareOf('missing')} - max by (${bySeries}) (sluice_column_baseline_ratio{bin="missing"}) > ${MUCH_MISSING}`,
    summary:
      '{{ $labels.column }} of {{ $labels.model }} is missing in {{ $value | humanizePercentage }} of the applications more than in training',
  },
  {
    name: 'SluiceInexactInterpretations',
    severity: 'ticket',
    exporters: PROCESSES,
    for: '5m',
    expr: (t) => {
      // Metrics files (`pipeline`) hold the totals of whole runs, which are no growth.
      const rows = (more: string) =>
        increaseOf(`sluice_rows_interpreted_total{pipeline=""${more}}`, ['model'], DRIFT_WINDOW, t);
      return `${rows(',outcome="inexact"')} / ${rows('')} > ${SOME_INEXACT}`;
    },
    summary: '{{ $value | humanizePercentage }} of the interpretations of {{ $labels.model }} do not add up',
  },
];
