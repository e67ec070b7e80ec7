// The metric families that each exporter has, according to the definitions in the product.
import type { Exporter } from '../../src/monitor/metric-registration.ts';
import { Metrics } from '../../src/monitor/metrics.ts';

const metrics = new Metrics('serve');
const byColumn = new Set((await metrics.columns.getMetricsAsJSON()).map(({ name }) => name));

/** Family name → exporters. */
export const TABLE: ReadonlyMap<string, readonly Exporter[]> = metrics.exporters;

/** Families of an exporter, by name: those of `/metrics/columns`, or those of `/metrics`. */
export const tableOf = (exporter: Exporter, columns: boolean): string[] =>
  [...TABLE]
    .filter(([name, exporters]) => exporters.includes(exporter) && byColumn.has(name) === columns)
    .map(([name]) => name)
    .toSorted();
