// What a rule is in the tables beside this file, and the expressions that several of them share.
import { PSI_LEVELS } from '../../src/drift/drift-report.ts';
import { type Exporter, METRICS_PROCESSES } from '../../src/monitor/metric-registration.ts';
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
export const SIGNIFICANT_PSI = PSI_LEVELS.drifted;

/** The window in which rare events are counted. */
export const RECENTLY: Window = '15m';

/** Windows over which rules count increases. */
export const WINDOWS = ['5m', '15m', '30m', '1h', '6h', '1d'] as const satisfies readonly Span[];
export type Window = (typeof WINDOWS)[number];

/** The recording of instances that were scraped when the window began, or started within it. */
export const watchedSince = (window: Window): string => `sluice:instance_watched:${window}`;

/**
 * The growth of a counter within a window, by these labels. increase() needs two samples: it ignores the value with which a series
 * appears, which is everything that a process counted before its first scrape (a backlog that is drained within seconds), and the first
 * event under a label. Where the process was scraped before the window or started within it, that value is growth and counts in
 * full. Where neither holds, the counter may have grown long ago, and only what was observed counts.
 */
export function increaseOf(counter: string, by: readonly string[], window: Window, t: Times): string {
  const span = t.span(window);
  const appeared = `(last_over_time(${counter}[${span}]) unless ${counter} offset ${span}) and on (job, instance) ${watchedSince(window)}`;
  return `sum by (${[SCOPE, ...by].join(', ')}) (${appeared} or increase(${counter}[${span}]))`;
}

/** How often a rare event happened recently, by these labels. */
export const grown = (counter: string, by: readonly string[], t: Times): string => increaseOf(counter, by, RECENTLY, t);
