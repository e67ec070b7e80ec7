// No request costs more than its bytes: whatever a body holds, its CPU time a byte is of the order of that of good rows. A row
// counts as at least the bytes of the shortest answer, because it is answered whatever it holds.
import { afterAll, beforeAll, expect } from 'vitest';
import { SluiceError } from '../../src/core/errors.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { BODY_FORMATS, type BodyFormat, goodBody, oddBody } from '../support/odd-bodies.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest, SEED, TIER, times } from '../support/tiers.ts';

const BODIES = times('bodies', { quick: 0, check: 120, campaigns: 10_000 });
const BYTES = 96 * 1024;
/** CPU time a byte, at most so many times that of good rows of the format. */
const MOST = 20;
/** Bytes that the shortest row counts as: no line of an answer is shorter. */
const ROW_BYTES = 48;
/** CPU seconds that may be the garbage collector's. */
const SLACK = 0.02;

interface Cost {
  cpu: number;
  weight: number;
}

let model: ModelPackage;
let pool: WorkerPool;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  pool = await WorkerPool.start({ model, workers: 1, inline: true });
});
afterAll(() => pool.close());

/** CPU seconds of this process, all its threads, that an answer takes, and the rows of the answer. */
async function costOf(format: BodyFormat, bytes: Buffer, everything: boolean): Promise<Cost> {
  const account = new RunAccount().unit();
  const before = process.cpuUsage();
  await scoreChunks({
    account,
    model,
    pool,
    chunks: inChunks(bytes, 64 * 1024),
    input: format === 'csv' || format === 'tsv' ? { format: 'delimited', delimiter: format === 'tsv' ? '\t' : ',' } : { format }, // biome-ignore format: one line
    output: format === 'csv' || format === 'tsv' ? { format: 'csv', delimiter: ',' } : { format, delimiter: ',' },
    passthrough: everything ? '*' : [],
    write: async () => {},
    writeRejects: async () => {},
  }).catch((e: unknown) => {
    if (!(e instanceof SluiceError)) throw e;
  });
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / 1e6, weight: Math.max(bytes.length, ROW_BYTES * account.counts.rows) };
}

async function leastOf(tries: number, measure: () => Promise<Cost>): Promise<Cost> {
  let least: Cost = { cpu: Infinity, weight: 1 };
  for (let i = 0; i < tries; i++) {
    const cost = await measure();
    if (cost.cpu < least.cpu) least = cost;
  }
  return least;
}

checkTest(`${BODIES} odd bodies`, async () => {
  const good = new Map<BodyFormat, number>();
  for (const format of BODY_FORMATS) {
    const bytes = goodBody(format, BYTES);
    const { cpu, weight } = await leastOf(12, () => costOf(format, bytes, true));
    good.set(format, cpu / weight);
  }
  const worst = new Map<string, number>();
  const over: string[] = [];
  for (let i = 0; i < BODIES; i++) {
    const { name, format, bytes } = oddBody(SEED, i, BYTES);
    const measure = () => costOf(format, bytes, i % 2 === 0);
    const tooMuch = ({ cpu, weight }: Cost) => cpu > MOST * good.get(format)! * weight + SLACK;
    let cost = await measure();
    // The first of its kind waits for the compiler.
    if (tooMuch(cost)) cost = await leastOf(4, measure);
    const kind = `${format} ${name.replace(/ \(\d+\)$/, '')}`;
    const ratio = cost.cpu / cost.weight / good.get(format)!;
    worst.set(kind, Math.max(worst.get(kind) ?? 0, ratio));
    if (tooMuch(cost)) over.push(`${i}: ${format} ${name}: ${ratio.toFixed(0)} times`);
  }
  if (TIER === 'campaigns') {
    const list = [...worst].sort((a, b) => b[1] - a[1]).slice(0, 25);
    console.log(list.map(([kind, ratio]) => `${ratio.toFixed(1)} ${kind}`).join('\n'));
  }
  expect(over).toEqual([]);
});
