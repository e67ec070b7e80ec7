// Which columns the summary of a run lists as drifted, at the thresholds, and how many.
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type DriftDigest, driftWords, FEWEST_ROWS, PSI_LEVELS } from '../../src/drift/drift-report.ts';

type Column = DriftDigest['columns'][number];

const CALM: Column = { column: 'income', psi: 0.01, missing: 0.1, missingInTraining: 0.1, unseen: 0, outOfRange: 0 };
const digest = (columns: Partial<Column>[], rest: Partial<DriftDigest> = {}): DriftDigest => ({
  rows: 10_000,
  scorePsi: 0.01,
  columnsDrifted: 0,
  decisions: [],
  columns: columns.map((column) => ({ ...CALM, ...column })),
  ...rest,
});

test.each<[keyof Column, number, number]>([
  ['psi', 0.25, 0.249],
  ['unseen', 0.01, 0.0099],
  ['outOfRange', 0.01, 0.0099],
  // Away from the share in the training data, 0.1, in both directions.
  ['missing', 0.1501, 0.149],
  ['missing', 0.0499, 0.051],
])('%s: %d is listed, %d is not', (measure, listed, calm) => {
  expect(driftWords(digest([{ [measure]: listed }]))).toMatch(/\n {2}income /);
  expect(driftWords(digest([{ [measure]: calm }]))).toBe(null);
  // A column without this measure is not drifted.
  if (measure === 'psi' || measure === 'outOfRange') expect(driftWords(digest([{ [measure]: null }]))).toBe(null);
});

test('the score alone is enough, at its threshold', () => {
  expect(driftWords(digest([{}], { scorePsi: 0.25 }))).toBe(
    'largest differences from the training data (PSI of the score 0.25):',
  );
  expect(driftWords(digest([{}], { scorePsi: 0.249 }))).toBe(null);
  expect(driftWords(digest([{ psi: 0.3 }], { scorePsi: null }))).toMatch(
    /^largest differences from the training data:\n/,
  );
});

test('a few rows list no column', () => {
  const rows = (n: number) => driftWords(digest([{ psi: 3 }], { rows: n }));
  const fewest = Array.from({ length: 2_000 }, (_, n) => n).find((n) => rows(n) !== null);
  expect(fewest).toBe(FEWEST_ROWS);
  expect(driftWords(digest([{ psi: 3 }], { rows: 10, scorePsi: 1 }))).not.toContain('income');
});

test('at most eight columns are listed, and the others are counted', () => {
  const columns = (n: number) => Array.from({ length: n }, (_, i) => ({ column: `c${i}`, psi: 1 }));
  expect(driftWords(digest(columns(8)))!.split('\n')).toHaveLength(10);
  expect(driftWords(digest(columns(8)))).not.toContain('more');
  expect(
    driftWords(digest(columns(11)))!
      .split('\n')
      .at(-1),
  ).toBe('  and 3 more');
});

test('the console, which cannot import them, has the same levels', () => {
  const console = readFileSync('src/doors/http/console/console.js', 'utf8');
  const levels = [...console.matchAll(/^const (MOVED|DRIFTED)_PSI = (.*);$/gm)].map(([, level, at]) => [
    level!.toLowerCase(),
    Number(at),
  ]);
  expect(Object.fromEntries(levels)).toEqual(PSI_LEVELS);
});
