// Writes docs/metrics.md from the table of metrics; a test compares it with them.
import { Metrics } from '../../src/monitor/metrics.ts';

/** The page as Markdown. */
export async function metricsPage(): Promise<string> {
  const list = await new Metrics().registry.getMetricsAsJSON();
  const lines = list
    .map((m) => {
      const names = (m as unknown as { labelNames?: string[] }).labelNames ?? labelsOf(m.name);
      return `| \`${m.name}\` | ${m.type} | ${names.map((n) => `\`${n}\``).join(', ')} | ${m.help} |`;
    })
    .sort();
  return `# Metrics
Served by \`sluice serve\` under \`/metrics\` (scope \`metrics\`) and by \`sluice run --metrics-port\`. Generated from
\`src/monitor/metrics.ts\` by \`npm run docs\`. Labels are bounded: models by the registry, codes by the catalogue, routes by their patterns.

| metric | type | labels | |
| --- | --- | --- | --- |
${lines.join('\n')}
`;
}

/** Labels of a metric, as its table says. */
function labelsOf(name: string): string[] {
  const metric = new Metrics().registry.getSingleMetric(name) as unknown as { labelNames?: string[] } | undefined;
  return metric?.labelNames ?? [];
}
