// Creates metric families. A family is registered only where it is exported.
import { Counter, Gauge, Histogram, type Metric, Registry } from 'prom-client';

/** Processes that export metrics: `sluice serve`, a run over files or a table, and a run that reads a topic. */
export type MetricsProcess = 'serve' | 'batch_run' | 'topic_run';
export const METRICS_PROCESSES = ['serve', 'batch_run', 'topic_run'] as const satisfies readonly MetricsProcess[];

/**
 * Where a family is exported: by a process, or as `metrics_file`, the text that a run writes with `--metrics-file` or
 * pushes to a gateway.
 */
export type Exporter = MetricsProcess | 'metrics_file';

/** Decides by family and labels whether a scrape includes a series. */
export type SeriesFilter = (family: string, labels: Readonly<Record<string, string | number | undefined>>) => boolean;

/** Buckets for durations in seconds. */
export const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];

export class MetricFamilies {
  readonly registry = new Registry();
  readonly columns = new Registry();
  /** Families that are part of the text that a run writes at its end. */
  readonly file = new Registry();
  /** Where each family is exported. Includes families that this process does not export. */
  readonly exporters = new Map<string, readonly Exporter[]>();
  readonly #process: MetricsProcess;

  constructor(process: MetricsProcess) {
    this.#process = process;
  }

  /**
   * `byColumn`: the family is exported at `/metrics/columns`, because it has a series for each column or bin of a
   * model.
   */
  counter<L extends string>(
    exporters: readonly Exporter[],
    name: string,
    help: string,
    labelNames: readonly L[],
    byColumn = false,
  ): Counter<L> {
    return new Counter({ name, help, labelNames, registers: this.#registers(exporters, name, byColumn) });
  }

  /**
   * Creates a gauge that has no value until it is set. Without this, prom-client would export 0 for a gauge without
   * labels, which looks like a measurement.
   */
  gauge<L extends string>(
    exporters: readonly Exporter[],
    name: string,
    help: string,
    labelNames: readonly L[],
    byColumn = false,
  ): Gauge<L> {
    const gauge = new Gauge({ name, help, labelNames, registers: this.#registers(exporters, name, byColumn) });
    if (labelNames.length === 0) gauge.remove();
    return gauge;
  }

  histogram<L extends string>(
    exporters: readonly Exporter[],
    name: string,
    help: string,
    labelNames: readonly L[],
    buckets = SECONDS,
  ): Histogram<L> {
    return new Histogram({ name, help, labelNames, buckets, registers: this.#registers(exporters, name, false) });
  }

  #registers(exporters: readonly Exporter[], name: string, byColumn: boolean): Registry[] {
    this.exporters.set(name, exporters);
    const registers: Registry[] = [];
    if (exporters.includes(this.#process)) registers.push(byColumn ? this.columns : this.registry);
    if (exporters.includes('metrics_file') && this.#process !== 'serve') registers.push(this.file);
    return registers;
  }
}

/**
 * A registry in the Prometheus text format. With a filter, contains only the series that pass it, and no empty
 * families.
 */
export async function expositionOf(registry: Registry, filter: SeriesFilter | null): Promise<string> {
  if (!filter) return registry.metrics();
  const filtered = new Registry();
  for (const family of await registry.getMetricsAsJSON()) {
    const values = family.values.filter(({ labels }) => filter(family.name, labels));
    if (values.length === 0) continue;
    const metric = { name: family.name, get: async () => ({ ...family, values }) };
    filtered.registerMetric(metric as unknown as Metric);
  }
  return filtered.metrics();
}
