// The generator: the same seed the same bytes, rows independent of what else is asked for, faults where it says.
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { COLUMNS, type GenerateOptions, generatePortfolio, type PlantedFault } from '../../src/demo/generate.ts';

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
