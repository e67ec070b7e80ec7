// Applications as they stand in a topic, for scripts as well as for tests.
import { generatePortfolio } from '../../../src/demo/portfolio.ts';

/** 1,000 applications of about 500 bytes as JSON, all cells as text, null where one is missing. */
export function someApplications(): Record<string, string | null>[] {
  const text = Buffer.concat([...generatePortfolio({ rows: 1000, seed: 7, oddness: 'none' })]).toString();
  const [names, ...lines] = text
    .trimEnd()
    .split('\n')
    .map((line) => line.split(','));
  return lines.map((cells) => Object.fromEntries(names!.map((name, i) => [name, cells[i] || null])));
}
