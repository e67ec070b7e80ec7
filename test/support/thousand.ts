// A thousand applications, a hundred of them invalid, for which fifty interpretations are asked: what every door must count alike.
import { expect } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scoreText } from './score.ts';
import { asObjects } from './service.ts';

export const ROWS = 1000;
export const COUNTS = {
  rows: 1000,
  scored: 900,
  rejected: 100,
  rejectedByCode: { bad_number: 60, bad_boolean: 40 },
  interpreted: 50,
  inexact: 0,
};

export interface Thousand {
  /** Comma-separated, with a header row. */
  csv: string;
  /** The same as objects of texts. */
  objects: Record<string, string>[];
  /** Probability below which fifty of the valid ones lie. */
  below: number;
}

export async function thousand(): Promise<Thousand> {
  const text = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 11, oddness: 'none' })]).toString();
  const [header, ...lines] = text.trimEnd().split('\n');
  const names = header!.split(',');
  const amount = names.indexOf('amount');
  const flag = lines[0]!.split(',').findIndex((v) => v === 'true' || v === 'false');
  expect([amount >= 0, flag >= 0]).toEqual([true, true]);
  const broken = lines.map((line, i) => {
    const cells = line.split(',');
    if (i % 10 !== 3) return line;
    if (i < 600) cells[amount] = 'many';
    else cells[flag] = 'perhaps';
    return cells.join(',');
  });
  const csv = `${[header, ...broken].join('\n')}\n`;
  const { output } = await scoreText(csv);
  const at = output.slice(0, output.indexOf('\n')).split(',').indexOf('probability');
  const probabilities = output
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((l) => l.split(',')[at]!)
    .filter((p) => p !== '')
    .map(Number)
    .sort((a, b) => a - b);
  expect(probabilities).toHaveLength(900);
  expect(probabilities[49]).toBeLessThan(probabilities[50]!);
  return { csv, objects: asObjects(csv), below: (probabilities[49]! + probabilities[50]!) / 2 };
}

/** The same counts out of the text of the metrics. */
export function countsOf(metrics: string): typeof COUNTS {
  const sum = (name: string, labels: string): number =>
    [...metrics.matchAll(new RegExp(`^${name}\\{([^}]*)\\} (\\S+)$`, 'gm'))]
      .filter((m) => m[1]!.includes(labels))
      .reduce((n, m) => n + Number(m[2]), 0);
  const codes = [...metrics.matchAll(/^sluice_rows_rejected_total\{[^}]*code="(\w+)"[^}]*\} (\d+)$/gm)];
  const scored = sum('sluice_rows_total', 'outcome="scored"');
  const rejected = sum('sluice_rows_total', 'outcome="rejected"');
  return {
    rows: scored + rejected,
    scored,
    rejected,
    rejectedByCode: Object.fromEntries(codes.map((m) => [m[1], Number(m[2])])) as typeof COUNTS.rejectedByCode,
    interpreted: sum('sluice_rows_interpreted_total', 'outcome="explained"'),
    inexact: sum('sluice_rows_interpreted_total', 'outcome="inexact"'),
  };
}

/** Blocks that were scored, and the seconds of work in the workers. */
export function scoringOf(metrics: string): { blocks: number; seconds: number } {
  const of = (part: string) =>
    [...metrics.matchAll(new RegExp(`^sluice_block_scoring_seconds_${part}\\{[^}]*\\} (\\S+)$`, 'gm'))].reduce(
      (n, m) => n + Number(m[1]),
      0,
    );
  return { blocks: of('count'), seconds: of('sum') };
}

/** The summary of a command as the counts, without what else it says. */
export function summaryCounts(stdout: string): typeof COUNTS {
  const s = JSON.parse(stdout) as typeof COUNTS;
  const { rows, scored, rejected, rejectedByCode, interpreted, inexact } = s;
  return { rows, scored, rejected, rejectedByCode, interpreted, inexact };
}
