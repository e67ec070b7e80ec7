// A process that ends workers while they work, again and again: pools, streams and time limits. It says how often it did.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../src/core/random.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import type { EnginePolicy } from '../../src/inference/evaluate/choose-evaluator.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from './blocks.ts';

const [folder, engine, rounds, seed] = process.argv.slice(2) as [string, EnginePolicy, string, string];
const model = await loadPackage(folder);
const random = new Random();
random.seed(Number(seed), 1);
const rows = Buffer.concat([...generatePortfolio({ rows: 20_000, seed: 3 })]);

let ends = 0;
while (ends < Number(rounds)) {
  const pool = await WorkerPool.start({ model, engine, workers: 2 });
  const stop = new AbortController();
  const explained = random.uniform() < 0.3;
  const done = scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks: inChunks(rows, 65_536),
    input: { format: 'delimited', delimiter: ',' },
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
    interpretation: explained ? { effects: true, reasons: true, top: null, below: null } : null,
    write: async () => {},
    signal: stop.signal,
  }).then(
    () => 'scored',
    () => 'ended',
  );
  await sleep(random.uniform() * 60);
  // The client leaves, and the pool is closed while its workers are in the middle of a block.
  if (random.uniform() < 0.5) stop.abort();
  await pool.close();
  await done;
  ends += 2;
}
// Threads with ONNX Runtime in them could not be ended: it must not even be loaded.
const loaded = readFileSync('/proc/self/maps', 'utf8').includes('onnxruntime');
process.stdout.write(`${ends} ends, ONNX Runtime loaded: ${loaded}\n`);
