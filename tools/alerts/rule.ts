// What a rule is in the tables beside this file, and the expressions that several of them share.
import { type Exporter, METRICS_PROCESSES } from '../../src/monitor/metric-families.ts';
import type { Span, Times } from './times.ts';

/** An alert. Its runbook is the section of docs/runbooks.md of the same name. */
export interface Alert {
  name: string;
  /** It has to hold for so long; default: at once, because the window of the expression is the patience. */
  for?: Span;
  /** page: somebody gets up; ticket: somebody looks at it on the next working day. */
  severity: 'page' | 'ticket';
  /** Whose metrics it judges; each of them exports every metric of the expression … */
  exporters: readonly Exporter[];
  /** … except these, which only add labels or exceptions where they exist. */
  refinedBy?: readonly string[];
  expr(times: Times): string;
  /** One line with the labels it is about; values only as numbers. */
  summary: string;
}

/** An expression that is computed once for alerts and dashboards: `level:metric:operation`. */
export interface Recording {
  record: string;
  expr(times: Times): string;
}

export const PROCESSES: readonly Exporter[] = METRICS_PROCESSES;
export const SERVICE: readonly Exporter[] = ['serve'];
export const TOPIC_RUNS: readonly Exporter[] = ['topic_run'];
/** Processes that follow an alias. */
export const MODEL_HOSTS: readonly Exporter[] = ['serve', 'topic_run'];
export const FINISHED_RUNS: readonly Exporter[] = ['metrics_file'];

/** Kept in every sum, because staging and production are often scraped by one Prometheus; absent outside of Kubernetes. */
export const SCOPE = 'namespace';

/** What names a process. */
export const INSTANCE = ['job', 'instance'] as const;

/** Shares of rejects: worth a look if they are three times the usual ones, and worth one always. */
export const SOME_REJECTS = 0.02;
export const MANY_REJECTS = 0.3;

/** Where banks and the literature see a shift that has to be investigated. */
export const SIGNIFICANT_PSI = 0.25;

/** The window in which rare events are counted. */
export const RECENTLY: Span = '15m';

/** The recording of instances whose counters were zero or seen when that window began. */
export const WATCHED = 'sluice:instance_watched:15m';

/**
 * How much a counter of rare events grew recently, by these labels. A label that was never counted before appears with its first
 * event, which increase() does not see; it is counted whole if the process was scraped before or is younger than the window.
 */
export function grown(counter: string, by: readonly string[], t: Times): string {
  const window = t.span(RECENTLY);
  const appeared = `(${counter} unless ${counter} offset ${window}) and on (job, instance) ${WATCHED}`;
  return `sum by (${[SCOPE, ...by].join(', ')}) (${appeared} or increase(${counter}[${window}]))`;
}
