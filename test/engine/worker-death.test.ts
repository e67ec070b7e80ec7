// A worker that dies costs nothing; a row that kills every worker costs itself.

import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch } from '../support/cli.ts';
import { type ScoreSetup, scoreText } from '../support/score.ts';
import { campaignTest, checkTest } from '../support/tiers.ts';

const ENTRY = new URL('../support/poison-worker.ts', import.meta.url);
const rowsOf = (text: string) => parse(text, { columns: true }) as Record<string, string>[];

/** 600 rows with some application ids replaced. */
function portfolio(ids: Record<number, string>): string {
  const lines = Buffer.concat([...generatePortfolio({ rows: 600, seed: 21, ids: true })])
    .toString()
    .split('\n');
  for (const [row, id] of Object.entries(ids)) lines[Number(row)] = lines[Number(row)]!.replace(/^[^,]*/, id);
  return lines.join('\n');
}

async function run(ids: Record<number, string>, setup: ScoreSetup = {}) {
  const deaths: string[] = [];
  const scored = await scoreText(portfolio(ids), {
    passthrough: '*',
    workers: 2,
    blockBytes: 16_384,
    pool: { entry: ENTRY, ...setup.pool },
    onWorkerDeath: (reason) => deaths.push(reason),
    ...setup,
  });
  return { ...scored, deaths };
}

test('a worker that dies once is replaced and its block repeated: the same bytes as without', async () => {
  const ids = { 300: 'KILL_ONCE' };
  const calm = await scoreText(portfolio(ids), { passthrough: '*' });
  process.env.SLUICE_TEST_FLAG = path.join(scratch(), 'killed');
  const { output, deaths, result } = await run(ids);
  expect(deaths).toHaveLength(1);
  // Where it was thrown, not its message, which may hold a value of the input.
  expect(deaths[0]).toMatch(/^Error at .*poison-worker/);
  expect(result.rejected).toBe(0);
  expect(output).toBe(calm.output);
});

checkTest('a row that kills its worker every time becomes a rejected row, its neighbours are scored', async () => {
  const ids = { 77: 'KILL_ALWAYS', 78: 'KILL_ALWAYS', 431: 'KILL_ALWAYS' };
  const calm = rowsOf((await scoreText(portfolio({}), { passthrough: '*' })).output);
  const { output, result, rejects, deaths } = await run(ids);
  expect(result).toMatchObject({ rows: 600, scored: 597, rejected: 3, rejectedByCode: { row_crashed_worker: 3 } });
  expect(rowsOf(rejects).map((r) => [r.row, r.line])).toEqual([
    ['77', '78'],
    ['78', '79'],
    ['431', '432'],
  ]);
  const got = rowsOf(output);
  for (const [i, row] of got.entries()) if (!(i + 1 in ids)) expect(row).toEqual(calm[i]);
  expect(deaths.length).toBeGreaterThan(3);
});

campaignTest('a row that hangs its worker is found by the time limit of a job', async () => {
  const { result } = await run({ 5: 'SPIN_ALWAYS' }, { blockBytes: 1000, pool: { entry: ENTRY, jobTimeoutMs: 4000 } });
  expect(result.rejectedByCode).toEqual({ row_crashed_worker: 1 });
  expect(result.scored).toBe(599);
});

checkTest('a model that takes down every worker ends the run with words, not with a loop', async () => {
  const ids = Object.fromEntries(Array.from({ length: 600 }, (_, i) => [i + 1, 'KILL_ALWAYS']));
  await expect(run(ids, { blockBytes: 1 << 20, pool: { entry: ENTRY, maxPoisonRows: 3 } })).rejects.toMatchObject({
    code: 'worker_failed',
  });
});

checkTest('memory that runs out in a worker is a death like any other', async () => {
  const { result, deaths } = await run({ 9: 'OUT_OF_MEMORY' }, { blockBytes: 400, pool: { entry: ENTRY, heapMb: 48 } });
  expect(result.rejectedByCode).toEqual({ row_crashed_worker: 1 });
  expect(deaths.some((d) => /memory/i.test(d))).toBe(true);
});

checkTest('rows that kill or hang a worker process become rejected rows, too', async () => {
  const ids = { 77: 'KILL_ALWAYS', 431: 'HANG_ALWAYS' };
  const { result, deaths } = await run(ids, {
    engine: 'onnxruntime',
    pool: { entry: ENTRY, jobTimeoutMs: 4000 },
    blockBytes: 1000,
  });
  expect(result).toMatchObject({ rows: 600, scored: 598, rejectedByCode: { row_crashed_worker: 2 } });
  expect(deaths.some((d) => d.includes('code 7'))).toBe(true);
  expect(deaths.some((d) => d.includes('no progress on a block'))).toBe(true);
});

campaignTest('memory that runs out in a worker process is a death like any other', async () => {
  const { result } = await run(
    { 9: 'OUT_OF_MEMORY' },
    {
      engine: 'onnxruntime',
      blockBytes: 400,
      pool: { entry: ENTRY, heapMb: 48 },
    },
  );
  expect(result.rejectedByCode).toEqual({ row_crashed_worker: 1 });
});

test('a row whose interpretation kills its worker keeps its prediction, and a code says why', async () => {
  const interpretation = { effects: true, top: null, reasons: true, below: null };
  const ids = { 5: 'KILL_INTERPRETED', 9: 'KILL_ALWAYS' };
  const lines = (map: Record<number, string>) => portfolio(map).split('\n').slice(0, 13).join('\n');
  const setup: ScoreSetup = { passthrough: '*', workers: 1, interpretation, pool: { entry: ENTRY } };
  const calm = rowsOf((await scoreText(lines({}), setup)).output);
  const { output, result } = await scoreText(lines(ids), setup);
  expect(result).toMatchObject({
    rows: 12,
    scored: 11,
    interpreted: 10,
    inexact: 1,
    rejectedByCode: { row_crashed_worker: 1 },
  });
  const got = rowsOf(output);
  expect(got[4]).toMatchObject({
    probability: calm[4]!.probability,
    error_code: 'interpretation_failed',
    base: '',
    'effect.income': '',
    reasons: '',
  });
  expect(got.filter((_, i) => ![4, 8].includes(i))).toEqual(calm.filter((_, i) => ![4, 8].includes(i)));
});
