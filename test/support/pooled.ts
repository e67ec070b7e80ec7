// Made-up applications through a pool of workers into lines of JSON: rows, rejects and bytes, to be compared between pools.
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import type { WorkerPool } from '../../src/engine/worker-pool.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from './blocks.ts';

export interface Pooled {
  model: ModelPackage;
  pool: WorkerPool;
  rows: number;
  blockBytes: number;
  /** With effects and reasons. Default: no. */
  interpreted?: boolean;
}

export async function scoredBy({ model, pool, rows, blockBytes, interpreted = false }: Pooled) {
  const out: Buffer[] = [];
  const rejects: string[] = [];
  const counts = await scoreChunks({
    account: new RunAccount().unit(),
    model,
    pool,
    chunks: inChunks(Buffer.concat([...generatePortfolio({ rows, seed: 5, oddness: 'light', faults: 3 })]), 65_536),
    input: { format: 'delimited', delimiter: ',' },
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    ...(interpreted ? { interpretation: { effects: true, reasons: true, top: null, below: null } } : {}),
    blockBytes,
    alone: true,
    write: async (bytes) => void out.push(Buffer.from(bytes)),
    writeRejects: async (lines) => void rejects.push(lines),
  });
  return { rows: counts.rows, rejected: counts.rejectedByCode, out: Buffer.concat(out).toString(), rejects };
}
