// The lines of a summary on a terminal: never wider than the terminal, and the worst columns first.
import { expect, test } from 'vitest';
import type { ColumnDrift, DriftReport, Shares } from '../../src/drift/drift-report.ts';
import { terminalDrift } from '../../src/drift/terminal-drift.ts';

const shares = (bins: number[], missing = 0, unseen = 0): Shares => ({ bins, missing, unseen });
const column = (name: string, psi: number | null, now: Partial<Shares> = {}, outOfRange: number | null = null): ColumnDrift => ({
  column: name, psi, now: { ...shares([0.5, 0.5]), ...now }, training: shares([0.5, 0.5], 0.05), outOfRange,
}); // biome-ignore format: a table
const report = (columns: ColumnDrift[], score = true): DriftReport => ({
  rows: 2000, enough: true, decisions: [], columns,
  score: score ? { psi: 0.31, now: shares([0, 0.2, 0.8]), training: shares([0.1, 0.4, 0.5]), quantiles: { p01: 0, p05: 0, p25: 0, p50: 0.75, p75: 0, p95: 0, p99: 0 } } : null,
}); // biome-ignore format: a table

test('scores as bars over the bins, and the columns that drifted with their reason', () => {
  const columns = [
    column('age', 0.02, { missing: 0.05 }),
    column('income', 0.5, { missing: 0.3 }),
    column('city', 1, { unseen: 0.25, missing: 0.05 }),
    column('rate', 0.12, { missing: 0.05 }, 0.04),
  ];
  expect(terminalDrift(report(columns), 100)).toEqual([
    'scores from low to high, median 0.750, PSI 0.31:',
    '  this run        ▃▃▃▃████',
    '  training    ▂▂▂▂▅▅▅▅▆▆▆▆',
    'columns that drifted from the training data (PSI; 2 of 4 strongly):',
    `  city      1.00  ${'█'.repeat(24)}  25.0 % unseen`,
    `  income    0.50  ${'█'.repeat(12)}${' '.repeat(12)}  30.0 % missing, 5.0 % in training`,
    `  rate      0.12  ${'█'.repeat(3)}${' '.repeat(21)}  4.0 % out of range`,
  ]);
});

test('a run without drift, without PSI and without a baseline of the score', () => {
  expect(terminalDrift(report([column('age', 0.02)], false), 80)).toEqual([
    'no column drifted (largest PSI 0.02, age)',
  ]);
  expect(terminalDrift(report([column('age', null)], false), 80)).toEqual([]);
  expect(terminalDrift(report([], false), 80)).toEqual([]);
});

test('no line is wider than the terminal, and names have no control characters', () => {
  const columns = Array.from({ length: 12 }, (_, i) => column(`a_${'long_'.repeat(i)}name\x1b[31m\n${i}`, 0.05 + i, { unseen: 0.2 })); // biome-ignore format: one line
  for (let width = 10; width <= 160; width++) {
    const lines = terminalDrift(report(columns), width);
    expect([width, Math.max(...lines.map((line) => line.length)) <= width]).toEqual([width, true]);
    expect(lines.join('')).not.toMatch(/\p{Cc}/u);
  }
  expect(terminalDrift(report(columns), 160).at(-1)).toBe('  and 6 more');
});
