// One row of a file through the engine with its interpretation: read up to the row, scored alone.
import { setTimeout as sleep } from 'node:timers/promises';
import { recordsOf } from '../core/block.ts';
import { type ErrorCode, SluiceError } from '../core/errors.ts';
import { SlabPool } from '../core/slabs.ts';
import { DEFAULT_BLOCK_BYTES, DEFAULT_MAX_RECORD_BYTES, scoreChunks } from '../engine/score-chunks.ts';
import { WorkerPool } from '../engine/worker-pool.ts';
import { cutBlocks } from '../io/source/block-cutter.ts';
import type { ByteSource } from '../io/source/byte-source.ts';
import { DelimitedScanner } from '../io/source/delimited-scanner.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { RunAccount } from './account.ts';

export interface ExplainedRow {
  row: number;
  prediction?: unknown;
  probability?: number;
  value?: number;
  points?: number;
  decision?: string;
  interpretation?: {
    space: string;
    method: string;
    class?: unknown;
    base: number;
    effects: { column: string; value: string | number | boolean | null; effect: number }[];
    standard_error?: number;
    reasons?: { code: string; column: string; text: string }[];
    error?: { code: ErrorCode; message: string };
  };
  error?: { code: ErrorCode; column?: string; message: string };
}

export interface ExplainRowOptions {
  model: ModelPackage;
  source: ByteSource;
  /** Data row, from 1. */
  row: number;
  delimiter: string;
  signal?: AbortSignal;
}

/** @throws SluiceError input_not_found when the file has fewer rows, interpretation_unavailable, or what ends a run */
export async function explainRow(options: ExplainRowOptions): Promise<ExplainedRow> {
  const { model, source, row, delimiter } = options;
  const text = await findRow(options).finally(() => source.close());
  const pool = await WorkerPool.start({ model, workers: 1 });
  const chunks: Uint8Array[] = [];
  try {
    await scoreChunks({
      model,
      pool,
      chunks: (async function* () {
        yield text;
      })(),
      input: { format: 'delimited', delimiter },
      output: { format: 'ndjson', delimiter },
      // Columns the model does not take are left out.
      passthrough: '*',
      interpretation: { effects: true, reasons: true, top: null, below: null },
      account: new RunAccount().unit(),
      write: async (bytes) => {
        chunks.push(Uint8Array.from(bytes));
      },
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } finally {
    await pool.close();
  }
  return { ...(JSON.parse(Buffer.concat(chunks).toString()) as ExplainedRow), row };
}

/** Header and record of the row as they stand in the file. */
async function findRow({ source, row, delimiter, signal }: ExplainRowOptions): Promise<Buffer> {
  const slabs = new SlabPool(2, DEFAULT_BLOCK_BYTES);
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  let header: Buffer | null = null;
  const blocks = cutBlocks(source.chunks, {
    scanner: new DelimitedScanner(delimiter.charCodeAt(0), DEFAULT_MAX_RECORD_BYTES),
    slabs,
    signal: stop.signal,
    onHeader: ({ bytes }) => {
      header = Buffer.from(bytes);
    },
  });
  let rows = 0;
  try {
    for await (const block of blocks) {
      const n = recordsOf(block);
      if (row <= rows + n) {
        const i = row - 1 - rows;
        const bytes = Buffer.from(block.slab).subarray(block.spans[i * 2], block.spans[i * 2 + 1]);
        return Buffer.concat([header ?? Buffer.alloc(0), Buffer.from('\n'), bytes, Buffer.from('\n')]);
      }
      rows += n;
      slabs.release(block.lease);
      await sleep(0);
    }
  } finally {
    signal?.removeEventListener('abort', onAbort);
    stop.abort();
    await blocks.return(undefined);
  }
  throw new SluiceError('input_not_found', `the file has ${rows} rows, there is no row ${row}`);
}
