// Generates docs/metrics.md from the metric definitions; a test compares the page with them.
import type { Registry } from 'prom-client';
import { OutcomeMetrics } from '../../src/monitor/left-metrics.ts';
import { type Exporter, METRICS_PROCESSES } from '../../src/monitor/metric-registration.ts';
import { Metrics } from '../../src/monitor/metrics.ts';

const EXPORTER_NAMES: Readonly<Record<Exporter, string>> = {
  serve: '`serve`',
  batch_run: 'batch run',
  topic_run: 'topic run',
  metrics_file: 'metrics file',
};

/** The page as Markdown. */
export async function metricsPage(): Promise<string> {
  const processes = METRICS_PROCESSES.map((process) => new Metrics(process));
  const exporters = (name: string) =>
    processes[0]!.exporters
      .get(name)!
      .map((exporter) => EXPORTER_NAMES[exporter])
      .join(', ');
  const exported = { title: 'exported by', of: exporters };
  return `# Metrics

After reading this page you can look up the meaning, type, labels and exporter of every metric.

\`npm run docs\` generates it from \`src/monitor/metrics.ts\`. The number of label values is bounded: models by the registry,
codes by the catalogue, routes by their patterns, columns by the models.

Each process exports only its own kinds of metrics. *Exported by* lists where a metric appears:

- \`serve\`: \`sluice serve\` (scope \`metrics\`).
- batch run: \`sluice run --metrics-port\` over files or a table.
- topic run: \`sluice run --metrics-port\` for a pipeline that reads a topic.
- metrics file: the text that a run writes with \`--metrics-file\` or \`--push-gateway\` when it ends. Counters
  that stayed 0 are omitted.

## /metrics

Processes also export the process metrics of prom-client (\`process_*\`, \`nodejs_*\`: event-loop delay, heap, garbage
collection, CPU, descriptors). A gauge has no series until it has a value.

${await table(
  processes.flatMap(({ registry, file }) => [registry, file]),
  exported,
)}

## /metrics/columns

Metrics by column. Scrape them once a minute with a separate job.

${await table(
  processes.map(({ columns }) => columns),
  exported,
)}

## sluice outcomes --metrics-file

Written for a textfile collector, for each model and month. Figures that cannot be computed (one class only) are absent.

${await table([new OutcomeMetrics().registry])}
`;
}

/** Families of these registries, each once. Those of prom-client depend on the platform and are left out. */
async function table(
  registries: readonly Registry[],
  extra?: { title: string; of: (name: string) => string },
): Promise<string> {
  const lines = new Set<string>();
  for (const registry of registries) {
    for (const { name, type, help } of await registry.getMetricsAsJSON()) {
      if (!name.startsWith('sluice_')) continue;
      const { labelNames } = registry.getSingleMetric(name) as unknown as { labelNames: string[] };
      const labels = labelNames.map((n) => `\`${n}\``).join(', ');
      lines.add(`| \`${name}\` | ${type} | ${labels} | ${extra ? `${extra.of(name)} | ` : ''}${help} |`);
    }
  }
  const title = extra ? ` ${extra.title} |` : '';
  return `| metric | type | labels |${title} |\n| --- | --- | --- |${extra ? ' --- |' : ''} --- |\n${[...lines].sort().join('\n')}`;
}
