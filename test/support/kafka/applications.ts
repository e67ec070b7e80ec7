// Applications as they stand in a topic, for scripts as well as for tests.
import { generatePortfolio } from '../../../src/demo/portfolio.ts';

interface NumberedOptions {
  partitions: number;
  /** Number of applications at the start without a value in any column of the model, which are rejected. */
  rejected: number;
}

/** Records with `count` applications whose `id`, key and partition continue from the number `from`. */
export const numberedApplications = (
  applications: readonly Record<string, string | null>[],
  { partitions, rejected }: NumberedOptions,
  count: number,
  from: number,
): { key: string; value: string; partition: number }[] =>
  Array.from({ length: count }, (_, i) => ({
    key: `k${from + i}`,
    value: JSON.stringify(i < rejected ? { id: from + i } : { id: from + i, ...applications[i % applications.length] }),
    partition: (from + i) % partitions,
  }));

/** 1,000 applications of about 500 bytes as JSON, all cells as text, null where one is missing. */
export function someApplications(): Record<string, string | null>[] {
  const text = Buffer.concat([...generatePortfolio({ rows: 1000, seed: 7, oddness: 'none' })]).toString();
  const [names, ...lines] = text
    .trimEnd()
    .split('\n')
    .map((line) => line.split(','));
  return lines.map((cells) => Object.fromEntries(names!.map((name, i) => [name, cells[i] || null])));
}
