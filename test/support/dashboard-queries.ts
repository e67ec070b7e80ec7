// Every query of every dashboard, as a Prometheus without Grafana can be asked.
import { DASHBOARDS } from '../../tools/dashboards/dashboard.ts';

export interface DashboardQuery {
  /** dashboard: panel: legend */
  at: string;
  expr: string;
}

export const QUERIES: readonly DashboardQuery[] = DASHBOARDS.flatMap((d) =>
  Object.values(d.rows).flatMap((panels) =>
    panels.flatMap((p) => p.queries.map((q) => ({ at: `${d.title.slice(9)}: ${p.title}: ${q.legend}`, expr: q.expr }))),
  ),
);

/** Queries behind the choices at the top of dashboards: the label and where its values are. */
export const CHOICES: readonly DashboardQuery[] = DASHBOARDS.flatMap((d) =>
  d.choices.map((c) => ({ at: `${d.title.slice(9)}: choice of ${c.name}`, expr: `group by (${c.name}) (${c.of})` })),
);

/** The query with everything chosen. */
export const withChoices = (expr: string, window = '10s'): string =>
  expr.replaceAll('$__rate_interval', window).replaceAll(/\$[a-z]+/g, '.*');
