// The baseline counts every value of the training table as drift counts it in an application: a run that scores the
// training table has no drift.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { computeBaseline } from '../../src/onboarding/baseline.ts';
import type { DraftColumn } from '../../src/onboarding/draft.ts';
import { readTrainingTable } from '../../src/onboarding/training-table.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { lightGbm } from '../support/lightgbm-file.ts';

const ROWS = 1500;
const RARE = 120;

/** Values of a column by row, and the entry of feature_infos and the list of categories in the model file. */
const COLUMNS: Record<string, { info: string; list?: string[]; of: (row: number) => string | number; unseen?: number }> = {
  decimals: { info: '[0:1.1]', of: (r) => ((r * 7) % 12) / 10 },
  // As float32, these numbers are multiples of 128.
  seconds: { info: '[1600000000:1600002000]', of: (r) => 1_600_000_000 + ((r * 131) % 2000) },
  // As float32, these numbers are equal.
  one_number: { info: '[1:1]', of: (r) => 1 + r * 1e-12 },
  with_gaps: { info: '[0:9]', of: (r) => (r % 5 === 0 ? '' : r % 10) },
  missing_words: { info: '-1:0:1:2:3', list: ['-', 'NA', 'None', 'a'], of: (r) => ['NA', 'None', 'a', '', '-'][r % 5]! },
  other: { info: '-1:0:1', list: ['(other)', 'a'], of: (r) => (r % 3 === 0 ? '(other)' : 'a') },
  without_code: { info: '-1:0:1', list: ['a', 'b'], of: (r) => (r % RARE === 0 ? 'rare' : r % 2 ? 'a' : 'b'), unseen: ROWS / RARE },
}; // biome-ignore format: a table

test('scoring the training table finds no drift in any column', async () => {
  const folder = scratch();
  const [model, training, registry] = ['model.txt', 'train.csv', 'models'].map((name) => path.join(folder, name));
  const columns = Object.entries(COLUMNS);
  const lists = columns.flatMap(([, { list }]) => (list ? [list] : []));
  writeFileSync(model!, lightGbm(columns.map(([name, { info }]) => ({ name, info })), JSON.stringify(lists))); // biome-ignore format: one line
  const rows = Array.from({ length: ROWS }, (_, r) => columns.map(([, { of }]) => of(r)).join(','));
  writeFileSync(training!, `${[Object.keys(COLUMNS).join(','), ...rows].join('\n')}\n`);
  const own = ['--registry', registry!];
  const added = await sluiceHere(['model', 'add', model!, '--id', 'm', '--training-data', training!, ...own]);
  expect(added.code, added.stderr).toBe(0);
  const output = path.join(folder, 'out.csv');
  const scored = await sluiceHere(['score', training!, '-m', 'm', '-o', output, '--json', ...own]);
  expect(scored.code, scored.stderr).toBe(0);
  const { drift } = JSON.parse(scored.stdout);
  const found = new Map<string, { psi: number; missing: number; missingInTraining: number; unseen: number }>(
    drift['m:1'].columns.map((digest: { column: string }) => [digest.column, digest]),
  );
  for (const [name, { of, unseen = 0 }] of columns) {
    const { psi, ...shares } = found.get(name)!;
    expect(psi, name).toBeCloseTo(0, 9);
    const missing = rows.filter((_, r) => of(r) === '').length / ROWS;
    expect(shares.missing, name).toBeCloseTo(missing, 12);
    expect(shares.missingInTraining, name).toBeCloseTo(missing, 12);
    expect(shares.unseen * ROWS, name).toBeCloseTo(Math.ceil(unseen), 9);
  }
});

test('texts that are too many to count are other texts, not unseen', async () => {
  const file = path.join(scratch(), 'train.csv');
  const texts = Array.from({ length: 5_001 }, (_, r) => `text ${r}`);
  writeFileSync(file, `${['note,other', ...texts.map((text) => `${text},1`), 'NA,1'].join('\n')}\n`);
  const table = await readTrainingTable(file);
  const column = { spec: { name: 'note', kind: 'text', missing: { values: ['', 'NA'] } }, profile: table.profiles.get('note')! } as DraftColumn; // biome-ignore format: one line
  expect(computeBaseline(table, [column], []).columns).toEqual({ note: { counts: { '(other)': 5_001 }, missing: 1 } });
});
