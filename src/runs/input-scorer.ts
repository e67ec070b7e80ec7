// Scores inputs one after the other through one worker pool. If it is safe, scoring starts before the comparison of the
// evaluators ends.
import { availableParallelism } from 'node:os';
import { SluiceError } from '../core/errors.ts';
import type { Word } from '../core/log.ts';
import type { RunCounts } from '../engine/counts.ts';
import { FEW_BYTES } from '../engine/early-thread.ts';
import { blockBytesOf } from '../engine/score-chunks.ts';
import { type PoolOptions, WorkerPool } from '../engine/worker-pool.ts';
import type { EnginePolicy } from '../inference/evaluate/choose-evaluator.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { UnitAccount } from './account.ts';
import type { OpenSink, OpenSource } from './byte-ends.ts';
import type { RejectsPart } from './rejects-file.ts';
import { RemainingTime } from './remaining-time.ts';
import { type OneRun, runOnce } from './run-once.ts';
import type { Scoring } from './spec.ts';

/**
 * Micro-batch size with effects, in rows. Rows with equal values share the computation of effects, so larger batches
 * are faster.
 */
const EXPLAINED_BATCH_ROWS = 4096;

/** Default number of workers: one per core. */
export const defaultWorkers = (): number => Math.max(1, availableParallelism());

export interface InputScorerOptions {
  model: ModelPackage;
  engine?: EnginePolicy | undefined;
  workers?: number | undefined;
  /**
   * Rows per micro-batch (default: EXPLAINED_BATCH_ROWS with effects) and bytes per block. Neither changes the output.
   */
  batchRows?: number | undefined;
  blockBytes?: number | undefined;
  pool?: Pick<PoolOptions, 'entry' | 'jobTimeoutMs' | 'maxPoisonRows' | 'heapMb'>;
  onWorkerDeath?: (reason: Word) => void;
  /** As in `PoolEvents`. */
  onWork?: (ms: number) => void;
}

/** Source and sink of one attempt to score an input. */
interface OpenEnds {
  source: OpenSource;
  sink: OpenSink;
  /** As in `OneRun`. Also called for blocks written before the verdict on the evaluators. */
  onBlock?: OneRun['onBlock'];
  onPart?: OneRun['onPart'];
  goesOn?: OneRun['goesOn'];
  /**
   * Called when the evaluator is confirmed, so that the output is valid. For a resumed run, called before scoring. An
   * error thrown by this function ends the run.
   */
  onVerdict?: (evaluator: string) => void;
  onConsumed?: OneRun['onConsumed'];
}

interface InputRun {
  /** Opens source and sink. Called again if the input must be scored again. */
  open(): Promise<OpenEnds>;
  rejects?: RejectsPart;
  scoring: Scoring;
  /** Creates a unit of the account. */
  unit(): UnitAccount;
  /** As in `OneRun`. */
  publish?: OneRun['publish'];
  beforeCommit?: (counts: Readonly<RunCounts>) => void | Promise<void>;
  /** Flushes an incomplete block when no byte has arrived for this many ms; for inputs that can stall. */
  idleMs?: number;
  signal?: AbortSignal;
}

interface AskedPool {
  /** Start scoring before the verdict. */
  ahead: boolean;
  few: boolean;
  /** Whether effects or reason codes are requested. */
  explains: boolean;
}

/**
 * Owner of the worker pool. A pool that starts ahead uses Sluice's own evaluator while that evaluator is compared with
 * ONNX Runtime. The verdict then confirms or rejects the evaluator. After a rejection, the output scored so far is
 * discarded, and a new pool scores the input again. An input is scored ahead only if it can be read again and its
 * output stays invisible until it is published. Other inputs wait for the verdict.
 */
export class InputScorer {
  readonly #options: InputScorerOptions;
  #pool: WorkerPool | null = null;
  /** Of the current input. */
  #remaining: RemainingTime | null = null;

  constructor(options: InputScorerOptions) {
    this.#options = options;
  }

  get workers(): number {
    return this.#options.workers ?? defaultWorkers();
  }

  /** Number of workers that accept blocks. */
  get ready(): number {
    return this.#pool?.ready ?? 0;
  }

  /** Name of the evaluator in use; empty before the first input. */
  get evaluator(): string {
    return this.#pool?.evaluator ?? '';
  }

  /** @throws SluiceError any error that ends the scoring of this input */
  async score(run: InputRun): Promise<Readonly<RunCounts>> {
    const ends = await run.open();
    const revocable = ends.sink.revocable && ((await run.rejects?.revocable()) ?? true);
    const mayRepeat = !ends.goesOn && ends.source.repeatable && revocable;
    return (await this.#attempt(run, ends, mayRepeat)) ?? (await this.#attempt(run, await run.open(), false))!;
  }

  /** Stops the workers. Idempotent. */
  async close(): Promise<void> {
    const pool = this.#pool;
    this.#pool = null;
    await pool?.close();
  }

  /** Returns null if the verdict rejected the evaluator and the output was discarded. */
  async #attempt(
    run: InputRun,
    { source, sink, onBlock, onPart, goesOn, onVerdict, onConsumed }: OpenEnds,
    ahead: boolean,
  ): Promise<Readonly<RunCounts> | null> {
    const account = run.unit();
    const refuted = new AbortController();
    try {
      const explains = run.scoring.interpretation !== null;
      const few = (source.totalBytes ?? Infinity) <= FEW_BYTES && !explains;
      const pool = await this.#started({ ahead, few, explains }, run.signal);
      const stop = () => refuted.abort(new SluiceError('cancelled', 'the evaluators do not agree'));
      const confirmed = pool.confirmed.then((holds) => {
        if (!holds) stop();
        else {
          account.live();
          if (ahead) onVerdict?.(pool.evaluator);
        }
        return holds;
      });
      confirmed.catch(stop);
      if (!ahead) onVerdict?.(pool.evaluator);
      this.#remaining = new RemainingTime(source);
      const holds = async () => {
        if (!(await confirmed)) throw refuted.signal.reason;
      };
      const idle = !source.repeatable && run.idleMs !== undefined ? { idleMs: run.idleMs } : {};
      return await runOnce({
        model: this.#options.model,
        pool,
        source: {
          chunks: source.chunks,
          input: source.input,
          ...(source.place ? { place: source.place } : {}),
          ...idle,
        },
        scoring: run.scoring,
        sink,
        ...(run.rejects ? { rejects: run.rejects } : {}),
        account,
        beforeCommit: async (counts) => {
          await holds();
          await run.beforeCommit?.(counts);
        },
        ...(run.publish ? { publish: run.publish } : {}),
        ...(onBlock ? { onBlock } : {}),
        ...(onPart ? { onPart } : {}),
        ...(goesOn ? { goesOn } : {}),
        ...(onConsumed ? { onConsumed } : {}),
        blockBytes:
          this.#options.blockBytes ?? blockBytesOf(source.input.format === 'ndjson' && source.input.table === true),
        alone: true,
        signal: run.signal ? AbortSignal.any([run.signal, refuted.signal]) : refuted.signal,
      });
    } catch (error) {
      await sink.abort();
      account.drop();
      // After a rejected verdict, the attempt's own error is irrelevant unless the user cancelled the run.
      if (!ahead || run.signal?.aborted || (await this.#pool?.confirmed) !== false) throw error;
      await this.close();
      return null;
    } finally {
      await source.close();
    }
  }

  /** The worker pool. With `ahead`, the pool may still wait for the verdict; otherwise, its evaluator is confirmed. */
  async #started(asked: AskedPool, signal: AbortSignal | undefined): Promise<WorkerPool> {
    if (this.#pool && !asked.ahead && !(await this.#pool.confirmed)) await this.close();
    this.#pool ??= await this.#start(asked, signal);
    return this.#pool;
  }

  #start({ ahead, few, explains }: AskedPool, signal: AbortSignal | undefined): Promise<WorkerPool> {
    const { model, engine, pool, onWorkerDeath, onWork } = this.#options;
    const batchRows = this.#options.batchRows ?? (explains ? EXPLAINED_BATCH_ROWS : undefined);
    const options: PoolOptions = {
      model,
      workers: this.workers,
      ahead,
      few: few && !pool?.entry,
      gradual: () => this.#remaining?.ms() ?? Infinity,
      helps: !pool?.entry,
      ...pool,
    };
    if (engine !== undefined) options.engine = engine;
    if (batchRows !== undefined) options.batchRows = batchRows;
    return WorkerPool.start(
      options,
      { ...(onWorkerDeath ? { onWorkerDeath } : {}), ...(onWork ? { onWork } : {}) },
      signal,
    );
  }
}
