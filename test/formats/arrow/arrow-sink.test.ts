// Predictions as Arrow: streams and files that a reader of Arrow opens, with the values and types of the lines.
import { tableFromIPC } from '@uwdata/flechette';
import { expect, test } from 'vitest';
import { arrowSink } from '../../../src/formats/arrow/arrow-sink.ts';
import type { ByteSink } from '../../../src/io/sink/byte-sink.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

const { manifest } = await loadPackage(CREDIT_DEFAULT);

async function written(rows: number, file: boolean): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let ended = false;
  const inner: ByteSink = {
    revocable: true,
    bytesWritten: 0,
    write: async (bytes) => {
      chunks.push(Buffer.from(bytes));
    },
    commit: async () => {
      ended = true;
    },
    abort: async () => {},
  };
  const sink = arrowSink(inner, { manifest, passthrough: ['id'], interpretation: null, lines: true }, file);
  for (let row = 1; row <= rows; row += 1000) {
    const lines = Array.from({ length: Math.min(1000, rows - row + 1) }, (_, i) => JSON.stringify(lineOf(row + i)));
    await sink.write(Buffer.from(`${lines.join('\n')}\n`));
  }
  await sink.commit();
  expect(ended).toBe(true);
  return Buffer.concat(chunks);
}

const lineOf = (row: number) => ({
  ...(row % 3 === 0 ? {} : { id: `ñ${row}` }),
  row,
  ...(row % 7 === 0
    ? { error: { code: 'bad_number', column: 'amount', message: 'not a plain decimal number' } }
    : { prediction: row % 2 === 0, probability: row / 1e6, points: row % 900, decision: 'approve' }),
});

test.each([
  ['a stream', 50_001, false],
  ['a file', 50_001, true],
  ['a stream of nothing', 0, false],
  ['a file of nothing', 0, true],
])('%s', async (_, rows, file) => {
  const bytes = await written(rows, file);
  expect(bytes.subarray(0, 6).toString() === 'ARROW1').toBe(file);
  // Opened from its table of contents where there is one.
  const table = tableFromIPC(new Uint8Array(bytes));
  expect([table.numRows, table.numCols]).toEqual([rows, 9]);
  for (let row = 1; row <= rows; row += 997) {
    const line = lineOf(row);
    const { error = null, ...rest } = { error: null, ...line };
    const expected = { id: null, prediction: null, probability: null, points: null, decision: null, ...rest };
    const faults = { error_code: null, error_column: null, error_message: null };
    if (error) Object.assign(faults, { error_code: error.code, error_column: error.column, error_message: error.message }); // biome-ignore format: one line
    expect(table.at(row - 1)).toEqual({ ...expected, ...faults });
  }
});
