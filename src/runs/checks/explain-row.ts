// Scores and explains one row of a file: reads up to the row, but scores only that row.
import { recordsOf } from '../../core/block.ts';
import { sleep } from '../../core/clock.ts';
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import { SlabPool } from '../../core/slabs.ts';
import { DEFAULT_BLOCK_BYTES } from '../../engine/score-chunks.ts';
import { assertExplainable, hasHeader, scannerFor } from '../../engine/stream-spec.ts';
import { WorkerPool } from '../../engine/worker-pool.ts';
import { cutBlocks } from '../../io/source/block-cutter.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import { RunAccount } from '../account.ts';
import type { OpenSource } from '../byte-ends.ts';
import { runOnce } from '../run-once.ts';

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
    /** The strongest pairs of columns; present only if interactions were requested. */
    interactions?: { columns: [string, string]; effect: number }[];
  };
  error?: { code: ErrorCode; column?: string; message: string };
}

interface ExplainRowOptions {
  model: ModelPackage;
  source: OpenSource;
  /** Number of the data row, from 1. */
  row: number;
  /** Number of column pairs to report. Default: none. */
  interactions?: number;
  signal?: AbortSignal;
}

/** @throws SluiceError input_not_found: the input has fewer rows | interpretation_unavailable | any error that ends a run */
export async function explainRow(options: ExplainRowOptions): Promise<ExplainedRow> {
  const { model, source, row, interactions = 0, signal } = options;
  const asked = { effects: true, reasons: true, top: null, below: null };
  const interpretation = interactions > 0 ? { ...asked, interactions } : asked;
  assertExplainable(model, interpretation);
  const text = await findRow(options).finally(() => source.close());
  const pool = await WorkerPool.start({ model, workers: 1 }, {}, signal);
  const chunks: Uint8Array[] = [];
  try {
    await runOnce({
      model,
      pool,
      // The row is a single JSON object, which is read as an array with one element, even if the input is ndjson.
      source: {
        chunks: NO_CHUNKS,
        whole: text,
        input: source.input.format === 'delimited' ? source.input : { ...source.input, format: 'json' },
      },
      scoring: {
        // The input may contain columns that the model does not read.
        passthrough: '*',
        interpretation,
        limits: {},
        failOnInvalid: false,
      },
      sink: {
        output: { format: 'ndjson', delimiter: ',' },
        write: async (bytes) => {
          chunks.push(Uint8Array.from(bytes));
        },
        commit: async () => {},
        abort: async () => {},
      },
      account: new RunAccount().unit(),
      ...(signal ? { signal } : {}),
    });
  } finally {
    await pool.close();
  }
  return { ...(JSON.parse(Buffer.concat(chunks).toString()) as ExplainedRow), row };
}

const NO_CHUNKS: AsyncIterable<Uint8Array> = (async function* () {})();

/**
 * Returns the record of a row, preceded by the header if the input has one.
 * @throws SluiceError input_not_found: the input has fewer rows
 */
export async function findRow({ source, row, signal }: Omit<ExplainRowOptions, 'model'>): Promise<Buffer> {
  const slabs = new SlabPool(2, DEFAULT_BLOCK_BYTES);
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal?.reason);
  signal?.addEventListener('abort', onAbort, { once: true });
  const lines: Buffer[] = [];
  const blocks = cutBlocks(source.chunks, {
    scanner: scannerFor(source),
    slabs,
    signal: stop.signal,
    ...(hasHeader(source.input) ? { onHeader: ({ bytes }) => lines.push(Buffer.from(bytes), LF) } : {}),
  });
  let rows = 0;
  try {
    for await (const block of blocks) {
      const n = recordsOf(block);
      if (row <= rows + n) {
        const i = row - 1 - rows;
        const record = Buffer.from(block.slab).subarray(block.spans[i * 2], block.spans[i * 2 + 1]);
        return Buffer.concat([...lines, record, LF]);
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
  throw new SluiceError('usage', `--row ${row} does not exist: the file has ${rows} rows`);
}

const LF = Buffer.from('\n');
