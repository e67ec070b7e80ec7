// Recording rules: ratios over replicas, and the population stability index from sums of bins.
import { increaseOf, type Recording, SCOPE, WINDOWS, type Window, watchedSince } from './rule.ts';
import type { Times } from './times.ts';

/** Requests of clients; probes and scrapes are none. */
const REQUESTS = 'sluice_http_request_seconds_count{route=~"/api/.*"}';
const FAILED = 'sluice_http_request_seconds_count{route=~"/api/.*",status=~"5.."}';
/** A share of nothing is taken for so much, because the logarithm has no zero. */
const LEAST_SHARE = 1e-4;

/** Windows of the burn rate: the long one says that it matters, the short one that it is still so. */
export const BURN_WINDOWS = ['5m', '30m', '1h', '6h'] as const satisfies Window[];
export const DRIFT_WINDOW: Window = '1h';
/** Fewer rows than that within the window say nothing about a distribution. */
export const DRIFT_LEAST_ROWS = 1000;

const byScope = (...labels: string[]) => `sum by (${[SCOPE, ...labels].join(', ')})`;

const errorRatio = (window: Window): Recording => ({
  record: `sluice:http_errors:ratio_rate${window}`,
  expr: (t) => {
    const all = increaseOf(REQUESTS, [], window, t);
    return `(${increaseOf(FAILED, [], window, t)} or 0 * ${all}) / (${all} > 0)`;
  },
});

/**
 * By the id of a model, because a new version shall be compared with the one before. What runs left behind (`pipeline`) is no part of it,
 * because two nights are no counter that grew.
 */
const rejectRatio = (window: Window): Recording => ({
  record: `sluice:rows_rejected:ratio_rate${window}`,
  expr: (t) => {
    const rows = (more: string) => {
      const all = increaseOf(`sluice_rows_total{pipeline=""${more}}`, ['model'], window, t);
      const byId = `${byScope('id')} (label_replace(${all}, "id", "$1", "model", "([^:]+):?.*"))`;
      return `${byScope('model')} (label_replace(${byId}, "model", "$1", "id", "(.*)"))`;
    };
    return `(${rows(',outcome="rejected"')} or 0 * ${rows('')}) / (${rows('')} > 0)`;
  },
});

/** Shares of bins over all replicas, within the window; absent while there are too few rows. */
const shares = (record: string, counter: string, labels: readonly string[]): Recording => ({
  record,
  expr: (t) => {
    const rows = `(${increaseOf(counter, labels, DRIFT_WINDOW, t)} >= ${DRIFT_LEAST_ROWS})`;
    const bins = increaseOf(counter, [...labels, 'bin'], DRIFT_WINDOW, t);
    return `${bins} / on (${[SCOPE, ...labels].join(', ')}) group_left () ${rows}`;
  },
});

/** Σ (now − then) · ln(now / then) over bins, those without a row included. */
const psi = (record: string, now: string, baseline: string, labels: readonly string[]): Recording => ({
  record,
  expr: () => {
    const then = `max by (${[SCOPE, ...labels, 'bin'].join(', ')}) (${baseline})`;
    const known = `(${now} or 0 * (${then} and on (${[SCOPE, ...labels].join(', ')}) ${now}))`;
    const least = (share: string) => `(${share} + ${LEAST_SHARE} * (${share} == bool 0))`;
    return `${byScope(...labels)} ((${least(known)} - ${least(then)}) * ln(${least(known)} / ${least(then)}))`;
  },
});

/** The start time is exported beside the columns, too: their job is one of its own. The last value also covers processes that ended. */
const watched = (window: Window): Recording => ({
  record: watchedSince(window),
  expr: (t: Times) =>
    `max by (job, instance) ((up offset ${t.span(window)} == 1) or (last_over_time(process_start_time_seconds[${t.span(window)}]) > time() - ${t.seconds(window)}))`,
});

export const RECORDINGS: readonly Recording[] = [
  ...WINDOWS.map(watched),
  ...BURN_WINDOWS.map(errorRatio),
  rejectRatio('15m'),
  rejectRatio('1d'),
  {
    record: 'sluice:run_rejected:ratio',
    expr: () => {
      const rows = (selector: string) => `${byScope('pipeline')} (sluice_run_rows${selector})`;
      return `${rows('{outcome="rejected"}')} / (${rows('')} > 0)`;
    },
  },
  {
    record: 'sluice:kafka_lag_seconds:max',
    expr: () => `max by (${SCOPE}, pipeline, topic) (sluice_kafka_lag_seconds)`,
  },
  {
    record: 'sluice:worker_utilisation:ratio_rate5m',
    expr: (t) =>
      `rate(sluice_worker_busy_seconds_total[${t.span('5m')}]) / on (${SCOPE}, job, instance) (sluice_workers > 0)`,
  },
  shares('sluice:column_bin:ratio_rate1h', 'sluice_column_bin_rows_total', ['model', 'column']),
  shares('sluice:score_bin:ratio_rate1h', 'sluice_score_bin_rows_total', ['model']),
  psi('sluice:column_psi:1h', 'sluice:column_bin:ratio_rate1h', 'sluice_column_baseline_ratio', ['model', 'column']),
  psi('sluice:score_psi:1h', 'sluice:score_bin:ratio_rate1h', 'sluice_score_baseline_ratio', ['model']),
];
