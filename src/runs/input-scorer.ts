// Scores inputs one after the other through one pool of workers, starting before the evaluators have been compared where that is safe.
import { availableParallelism } from 'node:os';
import { monotonicMs } from '../core/clock.ts';
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
import { type OneRun, runOnce } from './run-once.ts';
import type { Scoring } from './spec.ts';

/** What rows of a batch have in common is explained once: more rows a micro-batch than are best without effects. */
const EXPLAINED_BATCH_ROWS = 4096;

/** Default number of workers: one for each core. */
export const defaultWorkers = (): number => Math.max(1, availableParallelism());

export interface InputScorerOptions {
  model: ModelPackage;
  engine?: EnginePolicy | undefined;
  workers?: number | undefined;
  /** Rows a micro-batch of a worker (default: more with effects), bytes a block: they never change a bit of the output. */
  batchRows?: number | undefined;
  blockBytes?: number | undefined;
  pool?: Pick<PoolOptions, 'entry' | 'jobTimeoutMs' | 'maxPoisonRows' | 'heapMb'>;
  onWorkerDeath?: (reason: Word) => void;
  /** As in `PoolEvents`. */
  onWork?: (ms: number) => void;
}

/** Both ends of one attempt. */
interface OpenEnds {
  source: OpenSource;
  sink: OpenSink;
  /** As in `OneRun`; includes blocks written ahead of the verdict. */
  onBlock?: OneRun['onBlock'];
  onPart?: OneRun['onPart'];
  goesOn?: OneRun['goesOn'];
  /** The evaluator is confirmed: its output is valid. A resumed run is notified before it continues; an error ends it. */
  onVerdict?: (evaluator: string) => void;
  onConsumed?: OneRun['onConsumed'];
}

interface InputRun {
  /** Opens both ends; called again when the input has to be scored again. */
  open(): Promise<OpenEnds>;
  rejects?: RejectsPart;
  scoring: Scoring;
  /** A new unit of the account. */
  unit(): UnitAccount;
  /** As in `OneRun`. */
  publish?: OneRun['publish'];
  beforeCommit?: (counts: Readonly<RunCounts>) => void | Promise<void>;
  /** Flush incomplete blocks when no byte arrived for this long, ms; for inputs that can stall. */
  idleMs?: number;
  signal?: AbortSignal;
}

interface AskedPool {
  /** Of the verdict. */
  ahead: boolean;
  few: boolean;
  /** With effects or reasons. */
  explains: boolean;
}

/**
 * States of its pool: not started → ahead (workers use our evaluator while it is compared with ONNX Runtime) → confirmed, or
 * rejected: output scored ahead is discarded, and a new pool scores again. An input runs ahead only if it can be read again and
 * its output is invisible until it is published; any other waits for the confirmation.
 */
export class InputScorer {
  readonly #options: InputScorerOptions;
  #pool: WorkerPool | null = null;
  /** The input under way, and when it began, in ms of the monotonic clock. */
  #current: { source: OpenSource; began: number } | null = null;

  constructor(options: InputScorerOptions) {
    this.#options = options;
  }

  get workers(): number {
    return this.#options.workers ?? defaultWorkers();
  }

  /** Workers that take blocks now. */
  get ready(): number {
    return this.#pool?.ready ?? 0;
  }

  /** Name of the evaluator that serves; empty before the first input. */
  get evaluator(): string {
    return this.#pool?.evaluator ?? '';
  }

  /** @throws SluiceError whatever ends the run of this input */
  async score(run: InputRun): Promise<Readonly<RunCounts>> {
    const ends = await run.open();
    const revocable = ends.sink.revocable && ((await run.rejects?.revocable()) ?? true);
    const mayRepeat = !ends.goesOn && ends.source.repeatable && revocable;
    return (await this.#attempt(run, ends, mayRepeat)) ?? (await this.#attempt(run, await run.open(), false))!;
  }

  /** Ends the workers. Idempotent. */
  async close(): Promise<void> {
    const pool = this.#pool;
    this.#pool = null;
    await pool?.close();
  }

  /** null: it ran ahead, the verdict refuted the evaluator, and its output was discarded. */
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
      this.#current = { source, began: monotonicMs() };
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
      // An error of a refuted attempt does not count, unless the user ended the run.
      if (!ahead || run.signal?.aborted || (await this.#pool?.confirmed) !== false) throw error;
      await this.close();
      return null;
    } finally {
      await source.close();
    }
  }

  /** Estimated time for the rest of the input by its speed so far, ms. */
  #leftMs(): number {
    const { source, began } = this.#current ?? {};
    if (!source?.totalBytes) return Infinity;
    const part = source.bytesRead() / source.totalBytes;
    return part === 0 ? Infinity : ((monotonicMs() - began!) * (1 - part)) / part;
  }

  /** The pool: started `ahead` of the verdict, or confirmed. */
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
      gradual: () => this.#leftMs(),
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
