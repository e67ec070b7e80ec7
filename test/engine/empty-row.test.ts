// A row without any value is rejected, whatever reads it: a model that takes missing values would approve it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import type { InputFormat } from '../../src/engine/stream-spec.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { CREDIT_DEFAULT, scoreText } from '../support/score.ts';

let model: ModelPackage;
let pool: WorkerPool;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  pool = await WorkerPool.start({ model, workers: 1 });
});
afterAll(() => pool.close());

const columns = (): string[] => model.manifest.columns.map((c) => c.name);

/** The rows rejected as empty, by number. */
async function emptyRows(input: InputFormat, text: string, interpreted = false): Promise<number[]> {
  const counts = await scoreChunks({
    model,
    pool,
    chunks: inChunks(Buffer.from(text), 10_000),
    input,
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: ['id'],
    interpretation: interpreted ? { effects: true, top: null, reasons: true, below: null } : null,
    account: new RunAccount().unit(),
    write: async () => {},
  });
  expect(counts.rows).toBe(counts.scored + counts.rejected);
  expect(counts.rejected).toBe(counts.rejectedByCode.empty_row ?? 0);
  return counts.details.filter((d) => d.code === 'empty_row').map((d) => d.row!);
}

describe.each([
  ['a few rows', 3],
  ['so many that the kernel reads them', 6000],
])('%s', (_, rows) => {
  const empty = [2, rows];
  const csv = (line: (cells: string[]) => string): string => {
    const names = ['id', ...columns()];
    const cells = (row: number): string[] =>
      names.map((name) => (name === 'id' ? `${row}` : name === 'amount' && !empty.includes(row) ? '1200' : ''));
    return [line(names), ...Array.from({ length: rows }, (_, i) => line(cells(i + 1)))].join('\n');
  };
  const objects = (missing: unknown): object[] =>
    Array.from({ length: rows }, (_, i) => ({
      id: i + 1,
      ...Object.fromEntries(columns().map((c) => [c, c === 'amount' && !empty.includes(i + 1) ? 1200 : missing])),
    }));

  test.each<[string, InputFormat, () => string]>([
    ['CSV', { format: 'delimited', delimiter: ',' }, () => csv((cells) => cells.join(','))],
    ['TSV', { format: 'delimited', delimiter: '\t' }, () => csv((cells) => cells.join('\t'))],
    [
      'CSV in quotes',
      { format: 'delimited', delimiter: ',' },
      () => csv((cells) => cells.map((c) => `"${c}"`).join(',')),
    ],
    ['JSON null', { format: 'json' }, () => JSON.stringify(objects(null))],
    ['JSON, empty texts', { format: 'json' }, () => JSON.stringify(objects(''))],
    ['NDJSON', { format: 'ndjson' }, () => objects(null).map((o) => JSON.stringify(o)).join('\n')], // biome-ignore format: one line
  ])('%s', async (_, input, text) => {
    expect(await emptyRows(input, text())).toEqual(empty);
    if (rows < 10) expect(await emptyRows(input, text(), true)).toEqual(empty);
  });
});

test('rows of nothing but delimiters stand in the list of rejects with their lines, and cost no neighbour', async () => {
  const names = columns();
  const row = names.map((c) => (c === 'amount' ? '1200' : '')).join(',');
  const nothing = ','.repeat(names.length - 1);
  const { result, rejects } = await scoreText([names.join(','), row, nothing, row, nothing, ''].join('\n'));
  expect(result).toMatchObject({ rows: 4, scored: 2, rejected: 2, rejectedByCode: { empty_row: 2 } });
  expect(rejects.split('\n').slice(1, 3)).toEqual([expect.stringMatching(/^2,3,.*empty_row/), expect.stringMatching(/^4,5,.*empty_row/)]); // biome-ignore format: one line
});
