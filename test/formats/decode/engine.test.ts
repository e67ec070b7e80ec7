// The whole engine answers the same through both decoders, wherever the input is cut and however small its blocks are.

import { afterAll, beforeAll, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { type ScoreChunksOptions, scoreChunks } from '../../../src/engine/score-chunks.ts';
import { WorkerPool } from '../../../src/engine/worker-pool.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../../src/model/package/model-package.ts';
import { RunAccount } from '../../../src/runs/account.ts';
import { inChunks } from '../../support/blocks.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { toNative } from '../../support/zoo.ts';

const REFERENCE = new URL('../../support/reference-worker.ts', import.meta.url);
const [HEADER, ...LINES] = Buffer.concat([...generatePortfolio({ rows: 10, seed: 5, faults: 3, ids: true })])
  .toString('latin1')
  .trimEnd()
  .split('\n');
const NAMES = HEADER!.split(',');

/** Quoted line breaks, mixed line ends, a broken record and broken UTF-8. */
const DELIMITED = Buffer.from(
  [
    HEADER,
    ...LINES,
    LINES[0]!.replace('A00000001', '"A""1\r\n2"'),
    `${LINES[2]!.replace('ONLINE', '"ONLINE"')}\r\r`,
    `"open,${LINES[3]}`,
    LINES[4]!.replace(/,/, ',\xc3\x28,'),
    LINES[5]!.replace('CARD', '\xc3\xa9'),
  ].join('\n'),
  'latin1',
);
const OBJECTS = LINES.slice(0, 8).map((line, i) => {
  const row = Object.fromEntries(line.split(',').map((v, c) => [NAMES[c]!, v]));
  return JSON.stringify(i % 2 ? row : toNative(NAMES, row), null, i % 3);
});
const BROKEN = [
  '{"amount":1',
  '{}',
  '[1,{"a":"}"}]',
  '{"amount":"\\ud83d\\ude00"}',
  '"\\""',
  OBJECTS[0]!.replace('amount', 'AMOUNT'),
];
const ARRAY = Buffer.from(`[${[...OBJECTS, ...BROKEN.slice(1)].join(' ,\n')}]`);
const LINED = Buffer.from([...OBJECTS.map((o) => o.replaceAll('\n', ' ')), ...BROKEN].join('\n'));

let model: ModelPackage;
let reference: WorkerPool;
let fast: WorkerPool;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  reference = await WorkerPool.start({ model, workers: 1, engine: 'onnxruntime', entry: REFERENCE, batchRows: 4 });
  fast = await WorkerPool.start({ model, workers: 1, engine: 'onnxruntime', batchRows: 4 });
});
afterAll(async () => {
  await reference.close();
  await fast.close();
});

async function answer(
  pool: WorkerPool,
  input: ScoreChunksOptions['input'],
  bytes: Buffer,
  chunk: number,
  blockBytes: number,
) {
  const written: Buffer[] = [];
  let rejects = '';
  const counts = await scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    input,
    chunks: inChunks(bytes, chunk),
    blockBytes,
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: ['application_id'],
    write: async (part) => void written.push(Buffer.from(part)),
    writeRejects: async (lines) => {
      rejects += lines;
    },
  });
  return { counts: { ...counts, details: null }, text: Buffer.concat(written).toString(), rejects };
}

test.each([
  [{ format: 'delimited', delimiter: ',' }, DELIMITED],
  [{ format: 'json' }, ARRAY],
  [{ format: 'ndjson' }, LINED],
] as const)('%j at every cut', async (input, bytes) => {
  const wanted = await answer(reference, input, bytes, 1 << 16, 1 << 16);
  expect(wanted.counts.scored).toBeGreaterThan(4);
  expect(wanted.counts.rejected).toBeGreaterThan(4);
  const cuts = Array.from({ length: 40 }, (_, i) => [1 + i * 3, 16 + i * 7] as const);
  const blocks = [200, 450, 1_000, 2_000].map((size) => [1 << 16, size] as const);
  for (const [chunk, block] of [...cuts, ...blocks]) {
    expect(await answer(fast, input, bytes, chunk, block), `${chunk} ${block}`).toEqual(wanted);
  }
});
