// Writes docs/metrics.md from the table of metrics; a test compares it with them.
import { Metrics } from '../../src/monitor/metrics.ts';
import { OutcomeMetrics } from '../../src/monitor/outcome-metrics.ts';

/** The page as Markdown. */
export async function metricsPage(): Promise<string> {
  const metrics = new Metrics();
  return `# Metrics
Generated from \`src/monitor/metrics.ts\` by \`npm run docs\`. Labels are bounded: models by the registry, codes by the catalogue, routes
by their patterns, columns by the models.

## /metrics
Served by \`sluice serve\` (scope \`metrics\`) and by \`sluice run --metrics-port\`, beside what prom-client measures of a process
(\`process_*\`, \`nodejs_*\`: event-loop delay, heap, garbage collection, CPU, descriptors). \`sluice_run_*\` is left behind by runs of files.

${await table(metrics.registry)}

## /metrics/columns
What there is by column; a job of its own scrapes it once a minute.

${await table(metrics.columns)}

## sluice outcomes --metrics-file
Left behind for a collector of text files, of each model and month; what cannot be computed (one class only) is absent.

${await table(new OutcomeMetrics().registry)}
`;
}

/** Of our own metrics: those of prom-client depend on the platform. */
async function table(registry: Metrics['registry']): Promise<string> {
  const all = await registry.getMetricsAsJSON();
  const own = all.filter(({ name }) => name.startsWith('sluice_'));
  const lines = own.map(({ name, type, help }) => {
    const { labelNames } = registry.getSingleMetric(name) as unknown as { labelNames: string[] };
    return `| \`${name}\` | ${type} | ${labelNames.map((n) => `\`${n}\``).join(', ')} | ${help} |`;
  });
  return `| metric | type | labels | |\n| --- | --- | --- | --- |\n${lines.sort().join('\n')}`;
}
