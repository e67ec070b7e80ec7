// A prediction that cannot be written is a failure of Sluice, not of the model: its row is rejected as `internal_error`, the others are scored.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { fitHeader } from '../../src/formats/delimited/header.ts';
import { cutWhole } from '../../src/io/source/block-cutter.ts';
import { DelimitedScanner } from '../../src/io/source/delimited-scanner.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';

const ROWS = 20;
/** Rows whose id is no token of JSON, which the formatter below is told to expect. */
const BROKEN = [3, 11];

async function scored(maxPoisonRows?: number) {
  const model = await loadPackage(CREDIT_DEFAULT);
  const pool = await WorkerPool.start({ model, workers: 1, ...(maxPoisonRows === undefined ? {} : { maxPoisonRows }) });
  onTestFinished(() => pool.close());
  const [header, ...rows] = readFileSync(path.join(CREDIT_DEFAULT, 'selftest.csv'), 'utf8').trimEnd().split('\n');
  const lines = rows
    .slice(0, ROWS)
    .map((row, i) => `${BROKEN.includes(i + 1) ? '"""broken\\id"' : `A${i + 1}`},${row}`);
  let fitted: ReturnType<typeof fitHeader> | null = null;
  const block = cutWhole(Buffer.from(`id,${header}\n${lines.join('\n')}\n`), {
    scanner: new DelimitedScanner(44, 1 << 20),
    onHeader: ({ bytes }) => {
      fitted = fitHeader(bytes, { manifest: model.manifest, delimiter: ',', passthrough: ['id'], maxColumns: 100 });
    },
  });
  const stream = pool.open({
    input: { format: 'delimited', layout: fitted!.layout },
    output: { format: 'csv', delimiter: ',', passthrough: ['id'], passthroughIsJson: true, interpretation: null },
  });
  onTestFinished(() => stream.close());
  return stream.score(block!);
}

test('the rows at fault are rejected as internal_error, the others are scored', async () => {
  const parts = await scored();
  const rejected = parts.flatMap(({ details }) => details.map(({ row, code }) => [row, code]));
  expect(rejected).toEqual(BROKEN.map((row) => [row, 'internal_error']));
  expect(parts.reduce((sum, part) => sum + part.scored, 0)).toBe(ROWS - BROKEN.length);
});

test('too many of them end the run with internal_error', async () => {
  await expect(scored(1)).rejects.toMatchObject({
    code: 'internal_error',
    message: expect.stringContaining('SyntaxError'),
  });
});
