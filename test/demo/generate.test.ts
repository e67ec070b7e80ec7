// The generator: the same seed the same bytes, rows independent of what else is asked for, faults where it says.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import type { Oddness } from '../../src/demo/oddness.ts';
import { COLUMNS, type GenerateOptions, generatePortfolio, type PlantedFault } from '../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { checkTest } from '../support/tiers.ts';

const bytes = (options: GenerateOptions, onFault?: (f: PlantedFault) => void): Buffer =>
  Buffer.concat([...generatePortfolio(options, onFault)]);

test('the same seed gives the same bytes, another seed others', () => {
  expect(bytes({ rows: 2000, seed: 1 }).equals(bytes({ rows: 2000, seed: 1 }))).toBe(true);
  expect(bytes({ rows: 2000, seed: 1 }).equals(bytes({ rows: 2000, seed: 2 }))).toBe(false);
});

test('a shorter file is the beginning of a longer one', () => {
  const long = bytes({ rows: 3000, seed: 4 });
  const short = bytes({ rows: 1000, seed: 4 });
  expect(long.subarray(0, short.length).equals(short)).toBe(true);
});

test('23 columns that csv-parse reads, with gaps, unseen categories and a plausible outcome', () => {
  const rows = parse(bytes({ rows: 20_000, seed: 5, outcome: true }), { columns: true }) as Record<string, string>[];
  expect(rows).toHaveLength(20_000);
  expect(Object.keys(rows[0]!)).toEqual([...COLUMNS, 'ok']);
  const share = (test: (r: Record<string, string>) => boolean) => rows.filter(test).length / rows.length;
  expect(share((r) => r.ok === 'true')).toBeGreaterThan(0.8);
  expect(share((r) => r.ok === 'true')).toBeLessThan(0.95);
  expect(share((r) => r.income === '')).toBeCloseTo(0.07, 1);
  const unseen = share((r) => r.partner_id === 'P9999' || r.source_type === 'TELEGRAM_BOT');
  expect(unseen).toBeGreaterThan(0.0005);
  expect(rows.some((r) => r.occupation_type === 'FREELANCE, "OTHER"')).toBe(true);
});

const SHARES = [
  { oddness: 'none', missing: 0.324, unseen: 0, quoted: 0, notAscii: 0, signs: 0, longTexts: 0, longNumbers: 0 },
  {
    oddness: 'real',
    missing: 0.48,
    unseen: 0.3,
    quoted: 0.04,
    notAscii: 0.04,
    signs: 0.04,
    longTexts: 0.003,
    longNumbers: 0.003,
  },
  {
    oddness: 'heavy',
    missing: 0.48,
    unseen: 1,
    quoted: 0.04,
    notAscii: 0.04,
    signs: 0.04,
    longTexts: 0.003,
    longNumbers: 1,
  },
  {
    oddness: 'cyrillic',
    missing: 0.48,
    unseen: 1,
    quoted: 0.04,
    notAscii: 1,
    signs: 0.04,
    longTexts: 0.003,
    longNumbers: 0.003,
  },
] as const;
for (const { oddness, ...shares } of SHARES) {
  const testOfLevel = ['none', 'real'].includes(oddness) ? test : checkTest;
  testOfLevel(`${oddness} rows have the shares of odd cells that the benchmarks state`, () => {
    const of = (level: Oddness): Record<string, string>[] =>
      parse(bytes({ rows: 20_000, seed: 9, oddness: level }), { columns: true });
    const [rows, known] = [of(oddness), of('none')];
    const share = (test: (cell: string, column: string) => boolean) =>
      rows.filter((row) => Object.entries(row).some(([column, cell]) => test(cell, column))).length / rows.length;
    const categories = COLUMNS.filter((column) => known.some((row) => /[A-Z]|^0/.test(row[column]!)));
    const words = new Map(categories.map((column) => [column, new Set(known.map((row) => row[column]))]));
    const found = {
      missing: share((cell) => cell === ''),
      unseen: share((cell, column) => cell !== '' && words.get(column)?.has(cell) === false),
      quoted: share((cell) => cell.includes('"')),
      notAscii: share((cell) => /[^\x00-\x7f]/.test(cell)),
      signs: share((cell) => /^\+|\de-?\d/.test(cell)),
      longTexts: share((cell) => cell.length === 500),
      longNumbers: share((cell) => /^[+\d][\d.]+$/.test(cell) && cell.replace(/\D/g, '').length >= 18),
    };
    for (const [what, expected] of Object.entries(shares)) {
      // Oddities of a row may replace one another.
      expect(found[what as keyof typeof found], what).toBeGreaterThanOrEqual(expected * 0.8 - 0.001);
      expect(found[what as keyof typeof found], what).toBeLessThanOrEqual(expected * 1.2 + 0.001);
    }
  });
}

test('a drifted portfolio: lower incomes, other sources, missing occupations, unseen categories, fewer repaid', () => {
  const of = (drift: boolean): Record<string, string>[] =>
    parse(bytes({ rows: 5000, seed: 5, outcome: true, drift }), { columns: true });
  const [stable, drifted] = [of(false), of(true)];
  const ratio = (test: (r: Record<string, string>) => boolean): number[] =>
    [stable, drifted].map((rows) => rows.filter(test).length / rows.length);
  const differs = (column: string): number =>
    stable.filter((row, i) => row[column] !== '' && row[column] !== drifted[i]![column]).length;
  for (const [i, row] of stable.entries()) {
    const income = drifted[i]!.income!;
    if (row.income === '') expect(income).toBe('');
    else expect(Math.abs(Number(income) - 0.6 * Number(row.income))).toBeLessThan(0.0051);
  }
  expect(differs('amount')).toBe(0);
  expect(differs('term')).toBe(0);
  const [agentsBefore, agents] = ratio((r) => r.source_type === 'AGENT');
  expect([agentsBefore! < 0.2, agents! > 0.35]).toEqual([true, true]);
  const [missingBefore, missing] = ratio((r) => r.occupation_type === '');
  expect([missingBefore! < 0.07, missing! > 0.25]).toEqual([true, true]);
  const [unseenBefore, unseen] = ratio((r) => r.source_type === 'TELEGRAM_BOT');
  expect([unseenBefore! < 0.005, unseen! > 0.06]).toEqual([true, true]);
  const [repaidBefore, repaid] = ratio((r) => r.ok === 'true');
  expect(repaid! < repaidBefore! - 0.02).toBe(true);
});

test('faults stand on the lines that are named, and the other rows are as without them', () => {
  const planted: PlantedFault[] = [];
  const options = { rows: 5000, seed: 6, ids: true };
  const broken = bytes({ ...options, faults: 13 }, (f) => planted.push(f))
    .toString('latin1')
    .split('\n');
  expect(planted).toHaveLength(13);
  for (const f of planted) expect(broken[f.line - 1]).toContain(`A${String(f.row).padStart(8, '0')}`);
  const sound = bytes(options).toString('latin1').split('\n');
  const different = sound.filter((line) => !broken.includes(line));
  expect(different.length).toBeLessThanOrEqual(14);
  expect(new Set(planted.map((f) => f.code))).toEqual(
    new Set(['column_count', 'bad_number', 'bad_boolean', 'invalid_utf8', 'malformed_record']),
  );
});

test('line numbers count the line breaks inside quotes', () => {
  // Seeds whose first 3,000 rows hold a category with a line break.
  for (const seed of [3, 5, 10, 19]) {
    const planted: PlantedFault[] = [];
    const text = bytes({ rows: 3000, seed, ids: true, faults: 300 }, (f) => planted.push(f)).toString('latin1');
    expect(planted).toHaveLength(300);
    const lines = text.split('\n');
    for (const f of planted) expect(lines[f.line - 1]).toContain(`A${String(f.row).padStart(8, '0')}`);
    // Header, rows, and the empty string after the last line end: with a break inside quotes there is one more.
    expect(lines.length).toBeGreaterThan(3002);
    expect(planted.at(-1)!.line).toBeGreaterThan(planted.at(-1)!.row + 1);
  }
});

test('each kind of fault is what its code says', () => {
  const planted: PlantedFault[] = [];
  const lines = bytes({ rows: 700, seed: 6, oddness: 'none', faults: 7 }, (f) => planted.push(f))
    .toString('latin1')
    .split('\n');
  const shown = planted.map((f) => [f.code, f.column, lines[f.line - 1]!.split(',')] as const);
  expect(shown.map(([code, , fields]) => [code, fields.length])).toEqual([
    ['column_count', 22],
    ['bad_number', 23],
    ['bad_boolean', 23],
    ['invalid_utf8', 23],
    ['malformed_record', 23],
    ['column_count', 24],
    ['bad_number', 23],
  ]);
  const at = (k: number, column: string) => shown[k]![2][COLUMNS.indexOf(column)];
  expect(at(1, 'amount')).toBe('12.5x');
  expect(at(2, 'banned')).toBe('maybe');
  expect(at(3, 'source_type')).toBe('ONLI\xff\xfeNE');
  expect(at(4, 'occupation_type')).toBe('"abc"def');
  expect(shown.map(([, column]) => column)).toEqual([
    undefined,
    'amount',
    'banned',
    undefined,
    undefined,
    undefined,
    'income',
  ]);
});

test('the command writes portfolio.csv unless told otherwise, and lists the planted faults', async () => {
  const cwd = scratch();
  const run = await sluiceHere(
    ['generate', '--rows', '50', '--seed', '6', '--faults', '2', '--faults-json', 'faults.json'],
    { cwd },
  );
  expect([run.code, run.stdout]).toEqual([0, '']);
  expect(readFileSync(path.join(cwd, 'portfolio.csv')).equals(bytes({ rows: 50, seed: 6, faults: 2 }))).toBe(true);
  expect(JSON.parse(readFileSync(path.join(cwd, 'faults.json'), 'utf8'))).toHaveLength(2);
  const piped = await sluiceHere(['generate', '--rows', '3', '--seed', '6', '-o', '-', '--delimiter', 'tab'], { cwd });
  expect(piped.stdout.split('\n')[0]!.split('\t')).toEqual(COLUMNS);
});
