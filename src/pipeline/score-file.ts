// Scores one delimited input into one output: where source, model, workers and sink meet for files and pipes.
import { availableParallelism } from 'node:os';
import { RECORD_OK } from '../core/block.ts';
import { SluiceError } from '../core/errors.ts';
import { SlabPool } from '../core/slabs.ts';
import { fitHeader } from '../decode/header.ts';
import { frameOf } from '../format/create.ts';
import type { OutputFormat, OutputSpec } from '../format/formatter.ts';
import { ANSWER_KEYS } from '../format/json.ts';
import { REJECTS_HEADER } from '../format/rejects.ts';
import type { ModelPackage } from '../model/package.ts';
import type { ByteSink } from '../sink/sink.ts';
import { cutBlocks } from '../source/block-cutter.ts';
import { DelimitedScanner } from '../source/delimited-scanner.ts';
import type { ByteSource } from '../source/file.ts';
import { type RunCounts, runStream } from './run-stream.ts';
import { type PoolOptions, WorkerPool } from './worker-pool.ts';

export const DEFAULT_BLOCK_BYTES = 256 * 1024;
export const DEFAULT_MAX_RECORD_BYTES = 1024 * 1024;

export interface ScoreFileOptions {
  model: ModelPackage;
  source: ByteSource;
  sink: ByteSink;
  /** Opened at the first rejected row. */
  openRejects?: () => Promise<ByteSink>;
  delimiter: string;
  output: { format: OutputFormat; delimiter: string };
  passthrough: readonly string[] | '*';
  failOnInvalid?: boolean;
  workers?: number;
  batchRows?: number;
  blockBytes?: number;
  maxRecordBytes?: number;
  signal?: AbortSignal;
  onProgress?: (counts: RunCounts) => void;
  pool?: Pick<PoolOptions, 'entry' | 'jobTimeoutMs' | 'maxGuiltyRows' | 'heapMb'>;
  onWorkerDeath?: (reason: string) => void;
}

export interface ScoreFileResult extends RunCounts {
  evaluator: string;
  workers: number;
  /** Wall time from the first byte read to the last written, seconds. */
  seconds: number;
}

/** Workers used when nobody says otherwise: one a core. */
export const defaultWorkers = (): number => Math.max(1, availableParallelism());

/**
 * Runs the whole file; commits the sinks only when every row is accounted for, and aborts them otherwise.
 * @throws SluiceError whatever ends the run
 */
export async function scoreFile(options: ScoreFileOptions): Promise<ScoreFileResult> {
  const { model, source, sink } = options;
  const workers = options.workers ?? defaultWorkers();
  const began = performance.now();
  let pool: WorkerPool | null = null;
  let rejects: ByteSink | null = null;
  try {
    const poolOptions: PoolOptions = { folder: model.folder, workers, ...options.pool };
    if (options.batchRows !== undefined) poolOptions.batchRows = options.batchRows;
    pool = await WorkerPool.start(poolOptions, options.onWorkerDeath ? { onWorkerDeath: options.onWorkerDeath } : {});
    const counts = await run(options, pool, async (lines) => {
      if (!options.openRejects) return;
      if (!rejects) {
        rejects = await options.openRejects();
        await rejects.write(Buffer.from(REJECTS_HEADER));
      }
      await rejects.write(Buffer.from(lines));
    });
    // The rejects first: when the output appears, the list of what is not in it is there.
    await (rejects as ByteSink | null)?.commit();
    await sink.commit();
    return { ...counts, evaluator: pool.evaluator, workers, seconds: (performance.now() - began) / 1000 };
  } catch (error) {
    await sink.abort();
    await (rejects as ByteSink | null)?.abort();
    throw error;
  } finally {
    await source.close();
    await pool?.close();
  }
}

async function run(
  options: ScoreFileOptions,
  pool: WorkerPool,
  writeRejects: (lines: string) => Promise<void>,
): Promise<RunCounts> {
  const { model, delimiter, output } = options;
  // Two blocks a worker in the making, and as many read or waiting to be written.
  const slabs = new SlabPool(pool.workers * 3 + 1, options.blockBytes ?? DEFAULT_BLOCK_BYTES);
  const scanner = new DelimitedScanner(delimiter.charCodeAt(0), options.maxRecordBytes ?? DEFAULT_MAX_RECORD_BYTES);
  let header: ReturnType<typeof fitHeader> | null = null;
  const stop = new AbortController();
  const cut = cutBlocks(options.source.chunks, {
    scanner,
    slabs,
    signal: stop.signal,
    onHeader: ({ bytes, fault }) => {
      if (fault !== RECORD_OK) throw new SluiceError('header_mismatch', 'the header row is malformed or too long');
      header = fitHeader(bytes, { manifest: model.manifest, delimiter, passthrough: options.passthrough });
    },
  });
  const onAbort = () => stop.abort(options.signal?.reason);
  options.signal?.addEventListener('abort', onAbort, { once: true });
  if (options.signal?.aborted) onAbort();
  try {
    // The header decides how everything after it is read, so the first block is asked for before the stream is opened.
    const first = await cut.next();
    const fitted = header as ReturnType<typeof fitHeader> | null;
    if (!fitted) throw new SluiceError('empty_input', 'the input has no header row');
    const spec: OutputSpec = { ...output, passthrough: fitted.passthrough, passthroughIsJson: false };
    refuseHiddenKeys(spec);
    const stream = pool.open({ input: { format: 'delimited', layout: fitted.layout }, output: spec });
    try {
      return await runStream({
        blocks: async function* (signal) {
          signal.addEventListener('abort', () => stop.abort(signal.reason), { once: true });
          if (!first.done) yield first.value;
          yield* cut;
        },
        stream,
        slabs,
        frame: frameOf(spec, model.manifest),
        write: (bytes) => options.sink.write(bytes),
        writeRejects,
        recycle: (buffer) => pool.recycle(buffer),
        onPart: (_part, counts) => options.onProgress?.(counts),
        ...(options.failOnInvalid ? { failOnInvalid: true } : {}),
        ...(options.signal ? { signal: options.signal } : {}),
      });
    } finally {
      stream.close();
    }
  } catch (error) {
    if (options.signal?.aborted && !(error instanceof SluiceError)) {
      throw new SluiceError('cancelled', 'the run was cancelled', { cause: error });
    }
    throw error;
  } finally {
    options.signal?.removeEventListener('abort', onAbort);
    stop.abort();
    await cut.return();
  }
}

/** In JSON a passthrough column of the name of an answer key would hide the answer. */
export function refuseHiddenKeys(spec: OutputSpec): void {
  if (spec.format !== 'json' && spec.format !== 'ndjson') return;
  const hidden = spec.passthrough.filter((n) => ANSWER_KEYS.includes(n));
  if (hidden.length > 0) {
    throw new SluiceError('header_mismatch', `passthrough column ${hidden.join(', ')} has the name of an answer key`);
  }
}
