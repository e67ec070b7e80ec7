// Recording rules: ratios over replicas, and the population stability index from sums of bins.
import { RECENTLY, type Recording, SCOPE, WATCHED } from './rule.ts';
import type { Span, Times } from './times.ts';

/** Requests of clients; probes and scrapes are none. */
const REQUESTS = 'sluice_http_request_seconds_count{route=~"/api/.*"}';
const FAILED = 'sluice_http_request_seconds_count{route=~"/api/.*",status=~"5.."}';
/** A share of nothing is taken for so much, because the logarithm has no zero. */
const LEAST_SHARE = 1e-4;

/** Windows of the burn rate: the long one says that it matters, the short one that it is still so. */
export const BURN_WINDOWS = ['5m', '30m', '1h', '6h'] as const satisfies Span[];
export const DRIFT_WINDOW: Span = '1h';
/** Fewer rows than that within the window say nothing about a distribution. */
export const DRIFT_LEAST_ROWS = 1000;

const byScope = (...labels: string[]) => `sum by (${[SCOPE, ...labels].join(', ')})`;

const errorRatio = (window: Span): Recording => ({
  record: `sluice:http_errors:ratio_rate${window}`,
  expr: (t) => {
    const all = `${byScope()} (rate(${REQUESTS}[${t.span(window)}]))`;
    return `(${byScope()} (rate(${FAILED}[${t.span(window)}])) or 0 * ${all}) / (${all} > 0)`;
  },
});

/**
 * By the id of a model, because a new version shall be compared with the one before. What runs left behind (`pipeline`) is no part of it,
 * because two nights are no counter that grew.
 */
const rejectRatio = (window: Span): Recording => ({
  record: `sluice:rows_rejected:ratio_rate${window}`,
  expr: (t) => {
    const rate = (more: string) => {
      const all = `rate(sluice_rows_total{pipeline=""${more}}[${t.span(window)}])`;
      const byId = `${byScope('id')} (label_replace(${all}, "id", "$1", "model", "([^:]+):?.*"))`;
      return `${byScope('model')} (label_replace(${byId}, "model", "$1", "id", "(.*)"))`;
    };
    return `(${rate(',outcome="rejected"')} or 0 * ${rate('')}) / (${rate('')} > 0)`;
  },
});

/** Shares of bins over all replicas, within the window; absent while there are too few rows. */
const shares = (record: string, counter: string, labels: readonly string[]): Recording => ({
  record,
  expr: (t) => {
    const grown = `increase(${counter}[${t.span(DRIFT_WINDOW)}])`;
    const rows = `(${byScope(...labels)} (${grown}) >= ${DRIFT_LEAST_ROWS})`;
    return `${byScope(...labels, 'bin')} (${grown}) / on (${[SCOPE, ...labels].join(', ')}) group_left () ${rows}`;
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

const watched: Recording = {
  record: WATCHED,
  expr: (t: Times) =>
    `max by (job, instance) ((up offset ${t.span(RECENTLY)} == 1) or (process_start_time_seconds > time() - ${t.seconds(RECENTLY)}))`,
};

export const RECORDINGS: readonly Recording[] = [
  watched,
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
