// Scores one delimited input into one output: where source, model, workers and sink meet for files and pipes.
import { availableParallelism } from 'node:os';
import { SluiceError } from '../core/errors.ts';
import type { RunCounts } from '../engine/run-stream.ts';
import { DEFAULT_BLOCK_BYTES, DEFAULT_MAX_RECORD_BYTES, scoreStream } from '../engine/score-stream.ts';
import { type PoolOptions, WorkerPool } from '../engine/worker-pool.ts';
import type { EnginePolicy } from '../inference/evaluate/choose-evaluator.ts';
import type { InterpretationSpec } from '../inference/explain/interpretation.ts';
import type { OutputFormat } from '../io/format/formatter.ts';
import { REJECTS_HEADER } from '../io/format/rejects.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { ByteSource } from '../io/source/byte-source.ts';
import type { ModelPackage } from '../model/package/model-package.ts';

export interface ScoreFileOptions {
  model: ModelPackage;
  source: ByteSource;
  sink: ByteSink;
  /** Opens source and sink once more, where that is possible. */
  again?: () => Promise<{ source: ByteSource; sink: ByteSink }>;
  /** Opened at the first rejected row. */
  openRejects?: () => Promise<ByteSink>;
  delimiter: string;
  output: { format: OutputFormat; delimiter: string };
  passthrough: readonly string[] | '*';
  interpretation?: InterpretationSpec | null;
  failOnInvalid?: boolean;
  engine?: EnginePolicy;
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
 * Runs the whole file; commits the sinks only when every row is accounted for, and aborts them otherwise. With `again` it
 * begins as soon as the model is compiled, while the evaluators are still being compared, and begins anew where they turn
 * out to disagree: what the sinks hold is seen by nobody before that is known.
 * @throws SluiceError whatever ends the run
 */
export async function scoreFile(options: ScoreFileOptions): Promise<ScoreFileResult> {
  const began = performance.now();
  const { source, sink, again } = options;
  const canRepeat = again !== undefined && source.totalBytes !== null && sink.revocable;
  const result =
    (await attempt(options, source, sink, canRepeat)) ??
    (await again!().then((anew) => attempt(options, anew.source, anew.sink, false)));
  return { ...result!, seconds: (performance.now() - began) / 1000 };
}

/** null: `ahead` of the verdict, and it was another one. */
async function attempt(
  options: ScoreFileOptions,
  source: ByteSource,
  sink: ByteSink,
  ahead: boolean,
): Promise<Omit<ScoreFileResult, 'seconds'> | null> {
  const { model, signal } = options;
  const workers = options.workers ?? defaultWorkers();
  const refuted = new AbortController();
  let pool: WorkerPool | null = null;
  let rejects: ByteSink | null = null;
  try {
    const poolOptions: PoolOptions = { model, workers, ahead, ...options.pool };
    if (options.engine !== undefined) poolOptions.engine = options.engine;
    if (options.batchRows !== undefined) poolOptions.batchRows = options.batchRows;
    pool = await WorkerPool.start(poolOptions, options.onWorkerDeath ? { onWorkerDeath: options.onWorkerDeath } : {});
    const stop = () => refuted.abort(new SluiceError('cancelled', 'the evaluators do not agree'));
    pool.confirmed.then((holds) => holds || stop(), stop);
    const scored = scoreStream({
      model,
      pool,
      chunks: source.chunks,
      input: { format: 'delimited', delimiter: options.delimiter },
      output: options.output,
      passthrough: options.passthrough,
      interpretation: options.interpretation ?? null,
      limits: { maxRecordBytes: options.maxRecordBytes ?? DEFAULT_MAX_RECORD_BYTES },
      blockBytes: options.blockBytes ?? DEFAULT_BLOCK_BYTES,
      alone: true,
      write: (bytes) => sink.write(bytes),
      writeRejects: async (lines) => {
        if (!options.openRejects) return;
        if (!rejects) {
          rejects = await options.openRejects();
          if (ahead && !rejects.revocable && !(await pool!.confirmed)) throw refuted.signal.reason;
          await rejects.write(Buffer.from(REJECTS_HEADER));
        }
        await rejects.write(Buffer.from(lines));
      },
      onPart: (_part, counts) => options.onProgress?.(counts),
      ...(options.failOnInvalid ? { failOnInvalid: true } : {}),
      signal: signal ? AbortSignal.any([signal, refuted.signal]) : refuted.signal,
    });
    await scored.catch((error) => {
      // A fault of a run that does not count is none; one that the user ended is over.
      if (!ahead || signal?.aborted) throw error;
    });
    if (!(await pool.confirmed)) {
      await sink.abort();
      await (rejects as ByteSink | null)?.abort();
      return null;
    }
    const counts = await scored;
    // The rejects first: when the output appears, the list of what is not in it is there.
    await (rejects as ByteSink | null)?.commit();
    await sink.commit();
    return { ...counts, evaluator: pool.evaluator, workers };
  } catch (error) {
    await sink.abort();
    await (rejects as ByteSink | null)?.abort();
    throw error;
  } finally {
    await source.close();
    await pool?.close();
  }
}
