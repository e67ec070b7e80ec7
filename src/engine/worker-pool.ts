// The workers of a model version. Gives streams fair turns, and tolerates the death of workers.
import { inBackground } from '../core/async.ts';
import { type Block, RECORD_CRASHED, RECORD_INTERNAL_ERROR, RECORD_MODEL_FAILED, RECORD_OK } from '../core/block.ts';
import { monotonicMs } from '../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import type { Word } from '../core/log.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import { type Judgement, judge } from '../inference/sandbox/verdict.ts';
import { asMessage, categoryBytes, type ModelPackage } from '../model/package/model-package.ts';
import { holdVersion } from '../model/registry/in-use.ts';
import { DEFAULT_HEAP_MB, FEW_BYTES, WORKER_ENTRY } from './early-thread.ts';
import { HelpingThread, WaitSum, WORTH_MS } from './helping-thread.ts';
import type { InlineLimits, InlineScorer } from './inline-scorer.ts';
import {
  type BlockJob,
  inSharedMemory,
  JobQueue,
  type JobStream,
  partOf,
  StreamKinds,
  streamClosed,
} from './job-queue.ts';
import type { JobAnswer, ScoredPart, StreamSpec } from './protocol.ts';
import type { SpareHolder, SpareWorkers } from './spare-workers.ts';
import { modelSize, type Opening, type SupervisorEvents, WorkerSupervisor } from './worker-supervisor.ts';

export interface PoolOptions {
  model: ModelPackage;
  workers: number;
  /** `auto` (default): Sluice's own evaluator if it agrees with ONNX Runtime. */
  engine?: EnginePolicy;
  /**
   * Accept jobs as soon as the model is compiled. The results are valid only if `confirmed` resolves to true. Default:
   * no.
   */
  ahead?: boolean;
  /** Score small blocks on the calling thread if the model is compiled. Default: no. */
  inline?: boolean;
  /**
   * The input is small: if the model is compiled, score the input on the calling thread. Workers start only for a block
   * that cannot be scored there. Default: no.
   */
  few?: boolean;
  /**
   * Returns the estimated time for the rest of the input in ms. If set, the pool starts with one worker, and adds workers
   * when jobs have waited and the remaining work justifies starting them. Default: start all workers at once.
   */
  gradual?: (() => number) | null;
  /**
   * If set, start with one worker, and take others from here when jobs have waited behind other jobs for 100 ms in
   * total. Intended for services, where most models get few requests. Default: start all workers at once.
   */
  spare?: SpareWorkers | null;
  /** For gradual pools: if possible, the calling thread acts as one of the workers. Default: no. */
  helps?: boolean;
  /** Rows per micro-batch. */
  batchRows?: number;
  /** Maximum time in ms that a job may make no progress; then its worker counts as dead. */
  jobTimeoutMs?: number;
  /**
   * Maximum number of poison rows per stream: rows that kill workers or make the model throw. More poison rows fail the
   * stream.
   */
  maxPoisonRows?: number;
  /** Heap limit of a worker in MB. A worker that exceeds the limit dies, and its block is bisected. */
  heapMb?: number;
  /** Module that workers start with; tests replace it. */
  entry?: URL;
}

interface PoolEvents {
  /** Called when a worker died; the worker is being replaced. */
  onWorkerDeath?: (reason: Word) => void;
  /** Called when a worker has finished a block. `ms`: the time that the block took. */
  onWork?: (ms: number) => void;
}

const DEFAULT_BATCH_ROWS = 512;
const DEFAULT_JOB_TIMEOUT_MS = 120_000;
const DEFAULT_MAX_POISON_ROWS = 100;
/** Heap bytes per byte of a category file, including a reserve: 15 bytes were measured during and after loading. */
const HEAP_OF_CATEGORIES = 24;

/** Adds the default values of all options. */
function withDefaults(options: PoolOptions): Required<PoolOptions> {
  return {
    engine: 'auto',
    ahead: false,
    inline: false,
    few: false,
    gradual: null,
    helps: false,
    spare: null,
    batchRows: DEFAULT_BATCH_ROWS,
    jobTimeoutMs: DEFAULT_JOB_TIMEOUT_MS,
    maxPoisonRows: DEFAULT_MAX_POISON_ROWS,
    heapMb: DEFAULT_HEAP_MB + Math.ceil((categoryBytes(options.model) * HEAP_OF_CATEGORIES) / 2 ** 20),
    entry: WORKER_ENTRY,
    ...options,
  };
}

// Bisection finds the poison row of a failing block.

interface BisectOptions {
  queue: JobQueue;
  /** The RECORD_* value that marks a poison row. */
  fault: number;
  /** Maximum number of poison rows per stream; more fail the stream with the error `tooMany`. */
  maxPoisonRows: number;
  tooMany: SluiceError;
}

/**
 * Queues both halves of a failed job. A single row that failed with interpretation is queued again without
 * interpretation, so that its prediction is not lost. Any other single row is marked, and queued again so that a worker
 * reports it as rejected.
 */
export function bisect(job: BlockJob, { queue, fault, maxPoisonRows, tooMany }: BisectOptions): void {
  const { block, stream } = job;
  const records = block.faults.length;
  if (records === 1) {
    const counted = job.uninterpreted ? stream.poisonRows : ++stream.poisonRows;
    const interpreted = stream.kind.spec.output.interpretation !== null && !job.uninterpreted;
    if (block.faults[0] !== RECORD_OK || counted > maxPoisonRows) job.reject(tooMany);
    // `deaths: 1`: a further death proves that the row fails even without interpretation.
    else if (interpreted) queue.putBack({ ...job, deaths: 1, uninterpreted: true });
    else queue.putBack({ ...job, deaths: 0, block: { ...block, faults: Uint8Array.of(fault) } });
    return;
  }
  const middle = records >> 1;
  // The second half is queued first, because each half goes to the front of the queue.
  const right = queue.addPart(stream, partOf(block, middle, records));
  const left = queue.addPart(stream, partOf(block, 0, middle));
  Promise.all([left, right]).then(([a, b]) => job.resolve([...a, ...b]), job.reject);
}

/** Maximum number of output buffers kept for reuse. */
const MAX_FREE_BUFFERS = 16;

/** Total time in ms that jobs must wait behind other jobs before a service starts more workers. */
const BEHIND_MS = 100;

/** Time in ms without any work after which a pool ends a worker that another pool needs. */
const UNNEEDED_MS = 10_000;

/** Maximum size of an input that a command scores on its own thread. Starting workers would take longer. */
const FEW = { rows: 4096, bytes: FEW_BYTES, blocks: 4 };

/**
 * With effects, a worker gets a piece of a block at a time. The piece takes about PIECE_MS, or has FIRST_ROWS rows
 * while the cost of a row is unknown.
 */
const PIECE_MS = 1000;
const FIRST_ROWS = 2;
const NOTHING_EXPLAINED: Explained = { rows: 0, evaluations: 0 };
/** Errors that do not depend on the row, so every other row would fail with the same error. */
const OF_ALL_ROWS: ReadonlySet<ErrorCode> = new Set([
  'interpretation_unavailable',
  'interpretation_over_budget',
  'model_hash_mismatch',
]);

/** A stream of blocks with the same StreamSpec. */
export interface StreamHandle {
  /**
   * Scores a block. Results are in row order; several results are returned only if the block was split.
   * @throws SluiceError model_failed | internal_error | worker_failed | cancelled
   */
  score(block: Block): Promise<ScoredPart[]>;
  /** Drops queued jobs and cancels running jobs. Idempotent. */
  close(): void;
}

/**
 * States of a job: queued → at a worker → done. When a worker dies, the job that the worker was scoring returns to the
 * front of the queue. After a second death, the job is bisected to find the poison row, which is rejected. Jobs that
 * were only waiting at the dead worker return to the queue unchanged.
 */
export class WorkerPool implements SpareHolder {
  readonly #options: Required<PoolOptions>;
  readonly #queue = new JobQueue();
  readonly #supervisor: WorkerSupervisor;
  readonly #kinds = new StreamKinds((id) => this.#forget(id));
  readonly #free: ArrayBuffer[] = [];
  readonly #onWork: PoolEvents['onWork'];
  #failure: SluiceError | null = null;
  #closing = false;
  evaluator = '';
  /**
   * Whether the verdict confirms the evaluator with which the workers started. Always true without `ahead`.
   * @throws SluiceError model_invalid
   */
  readonly confirmed: Promise<boolean>;
  /** The verdict on the evaluators; it is determined while the first workers start. */
  readonly #judgement: Judgement;
  #inline: InlineScorer | null = null;
  #started: Promise<unknown> | null = null;
  /** Number of started workers. */
  #threads = 0;
  /** Time of the last result of a worker, in ms of the monotonic clock. */
  #workedAt = 0;
  /** Decides when the pool starts its remaining workers. */
  #waiting: WaitSum | null = null;
  #helping: HelpingThread | null = null;
  /** Aborts a comparison of evaluators whose result is no longer needed. */
  readonly #stop = new AbortController();
  /** Releases the mark that this process uses the version. */
  readonly #letGo: () => Promise<void>;
  /** Rejects when the pool is closed. */
  readonly #closed = Promise.withResolvers<never>();

  private constructor(options: PoolOptions, { onWorkerDeath, onWork }: PoolEvents) {
    this.#onWork = onWork;
    this.#options = withDefaults(options);
    const { model, batchRows, engine: policy, ahead } = this.#options;
    this.#letGo = holdVersion(model);
    this.#judgement = judge(model, policy, ahead ? 'plan' : 'verdict', this.#stop.signal);
    this.confirmed = this.#confirm();
    this.confirmed.catch(() => {});
    this.#closed.promise.catch(() => {});
    const open = async (): Promise<Opening> => {
      const message = {
        type: 'open',
        model: asMessage(model),
        batchRows,
        policy,
        known: await this.#opened(),
      } as const;
      const modelBytes = message.known.plan ? 0 : await modelSize(model);
      return { message, modelBytes };
    };
    const processes = policy === 'onnxruntime';
    this.#supervisor = new WorkerSupervisor({ ...this.#options, processes, open }, this.#workerEvents(onWorkerDeath));
  }

  async #confirm(): Promise<boolean> {
    const [draft, { verdict }] = await Promise.all([this.#opened(), this.#judgement.known]);
    return draft.verdict !== null || verdict === null || verdict.engine === 'native';
  }

  /** The compile plan or the verdict with which workers open the model. */
  #opened(): Promise<Known> {
    return this.#options.ahead ? this.#judgement.draft : this.#judgement.known;
  }

  /**
   * Starts the workers and waits until each has loaded the model. `signal` aborts the start, even while the model is
   * being loaded.
   * @throws SluiceError model_invalid | model_hash_mismatch | cancelled
   */
  static async start(options: PoolOptions, events: PoolEvents = {}, signal?: AbortSignal): Promise<WorkerPool> {
    if (signal?.aborted) throw cancelled(signal);
    const pool = new WorkerPool(options, events);
    const onAbort = () => inBackground('closing a pool', () => pool.close());
    signal?.addEventListener('abort', onAbort, { once: true });
    try {
      if (options.few && (await Promise.race([pool.#openFew(), pool.#closed.promise]))) return pool;
      const started = pool.#startWorkers();
      // Waits for the verdict first. An error of the verdict explains why the model cannot be used, whereas workers
      // would only report that they died.
      await Promise.race([pool.#opened(), pool.#closed.promise]);
      await Promise.race([started, pool.#closed.promise]);
      if (options.inline) await pool.#openInline(await pool.#judgement.known);
    } catch (error) {
      await pool.close();
      throw signal?.aborted ? cancelled(signal) : error;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
    return pool;
  }

  #startWorkers(): Promise<unknown> {
    const { gradual, helps, spare, workers } = this.#options;
    if (workers === 1 || !(gradual || spare)) return this.#startMore(workers);
    this.#waiting = this.#sumOfWaits();
    if (helps && gradual) {
      this.#helping = new HelpingThread({
        open: async () => this.#inlineScorer(await this.#opened(), { ...FEW, batchRows: this.#options.batchRows }),
        buffers: this.#free,
        leftMs: gradual,
        next: () => this.#takeHere(),
        done: (job, part) => this.#doneHere(job, part),
      });
    }
    return this.#startMore(1);
  }

  #sumOfWaits(): WaitSum {
    const { gradual, spare } = this.#options;
    return spare
      ? new WaitSum(() => this.#complete(), BEHIND_MS)
      : new WaitSum(() => gradual!() > WORTH_MS && this.#complete());
  }

  /**
   * Starts the missing workers, as far as the shared number allows; the helping thread counts as a worker. Returns
   * whether all workers have been started.
   */
  #complete(): boolean {
    const { spare, workers } = this.#options;
    const missing = workers - this.#threads - Number(this.#helping?.engaged ?? false);
    const allowed = spare && missing > 0 ? spare.take(this, missing) : missing;
    if (allowed > 0) this.#startMore(allowed);
    return this.#threads === workers;
  }

  /** Ends a worker for another pool, if this pool has been without work for some time. */
  endSpare(): boolean {
    if (this.#closing || !this.#queue.empty || monotonicMs() - this.#workedAt < UNNEEDED_MS) return false;
    if (this.#threads === 1 || !this.#supervisor.endIdle()) return false;
    this.#threads--;
    this.#waiting?.stop();
    this.#waiting = this.#sumOfWaits();
    return true;
  }

  #startMore(workers: number): Promise<unknown> {
    this.#threads += workers;
    this.#started = Promise.all(Array.from({ length: workers }, () => this.#supervisor.start()));
    this.#started.catch((error) => this.#failAll(asSluiceError(error, 'worker_failed')));
    return this.#started;
  }

  /**
   * Opens the inline scorer. Returns whether the model is compiled, so that no workers are needed yet.
   * @throws SluiceError model_invalid
   */
  async #openFew(): Promise<boolean> {
    await this.#openInline(await this.#opened(), { ...FEW, batchRows: this.#options.batchRows });
    if (this.#inline) this.evaluator = this.#inline.evaluator;
    return this.#inline !== null;
  }

  async #openInline(known: Known, limits?: InlineLimits): Promise<void> {
    this.#inline = await this.#inlineScorer(known, limits);
  }

  /** Returns null if the model is not compiled. */
  async #inlineScorer(known: Known, limits?: InlineLimits): Promise<InlineScorer | null> {
    if (known.plan === null) return null;
    // Imported on demand, because the import takes as long as starting a worker.
    const { InlineScorer } = await import('./inline-scorer.ts');
    return InlineScorer.open(this.#options.model, this.#options.engine, known, limits);
  }

  get workers(): number {
    return this.#options.workers;
  }

  /**
   * Number of workers that accept jobs. While the calling thread scores, workers that have not been started count as
   * well.
   */
  get ready(): number {
    return this.#started === null && this.#inline
      ? this.workers
      : this.#supervisor.ready + Number(this.#helping?.active ?? false);
  }

  /** Why the pool no longer accepts jobs; null if the pool accepts jobs. */
  get failed(): SluiceError | null {
    return this.#failure;
  }

  /** Number of jobs not yet sent to a worker. */
  get queued(): number {
    return this.#queue.length;
  }

  /**
   * Opens a stream. `onExplained`: called while effects are computed. `owner`: streams of the same owner share the
   * owner's turns at the workers; without an owner, the stream has turns of its own.
   */
  open(spec: StreamSpec, onExplained?: (more: Explained) => void, owner?: string): StreamHandle {
    const kind = this.#kinds.of(spec);
    kind.users++;
    if (spec.output.interpretation !== null) this.#helping?.stop();
    const stream: JobStream = { kind, queue: [], poisonRows: 0, closed: false, owner, onExplained };
    return {
      score: (block) => this.#scoreHere(stream, block) ?? this.#scoreInWorker(stream, block),
      close: () => {
        if (stream.closed) return;
        stream.closed = true;
        kind.users--;
        this.#queue.drop(stream, streamClosed);
        this.#supervisor.cancel(stream);
      },
    };
  }

  /** Scores a block on this thread; null if a worker must score the block. */
  #scoreHere(stream: JobStream, block: Block): Promise<ScoredPart[]> | null {
    if (!this.#inline || this.#failure || stream.closed || this.#closing) return null;
    const scored = this.#inline.score(stream.kind, block, this.#free);
    if (!(scored instanceof Promise)) return scored && Promise.resolve([this.#named(scored)]);
    return scored.then((part) => {
      if (!part) return this.#scoreInWorker(stream, block);
      stream.onExplained?.({ rows: part.rows, evaluations: part.evaluations ?? 0 });
      return [this.#named(part)];
    });
  }

  #scoreInWorker(stream: JobStream, block: Block): Promise<ScoredPart[]> {
    if (this.#failure) return Promise.reject(this.#failure);
    if (stream.closed || this.#closing) return Promise.reject(streamClosed());
    const parts = this.#queue.add(stream, inSharedMemory(block));
    if (!this.#started) this.#startWorkers();
    this.#dispatch();
    return parts;
  }

  /** Takes back the buffer of a block result that was written. */
  recycle(buffer: ArrayBuffer): void {
    if (this.#free.length < MAX_FREE_BUFFERS) this.#free.push(buffer);
  }

  /** Terminates the workers; unfinished jobs are rejected as cancelled. Idempotent. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#options.spare?.release(this);
    this.#waiting?.stop();
    this.#helping?.stop();
    const closed = new SluiceError('cancelled', 'the worker pool was closed');
    this.#failAll(closed);
    this.#stop.abort(closed);
    this.#closed.reject(closed);
    await Promise.all([this.#supervisor.close(), this.#letGo()]);
  }

  #dispatch(): void {
    for (;;) {
      const worker = this.#queue.empty ? null : this.#supervisor.idlest();
      if (!worker) break;
      this.#supervisor.send(worker, this.#piece(this.#queue.take()), this.#free.pop() ?? null);
    }
    this.#waiting?.waits(!this.#queue.empty || (this.#options.spare !== null && this.#supervisor.isBehind));
    this.#helping?.waits(!this.#queue.empty);
  }

  /**
   * Takes a waiting job that this thread can score. Blocks that killed a worker, or that failed on this thread, are
   * left to the workers.
   */
  #takeHere(): BlockJob | null {
    if (this.#queue.empty || this.#failure) return null;
    const job = this.#queue.take();
    if (job.deaths === 0 && !job.forWorker) return job;
    this.#queue.putBack(job);
    return null;
  }

  #doneHere(job: BlockJob, part: ScoredPart | null): void {
    if (part) this.#answered(job, { type: 'scored', job: job.id, part });
    else {
      job.forWorker = true;
      this.#queue.putBack(job);
    }
    this.#dispatch();
  }

  /**
   * Cuts a job with effects down to about a second of work. A single row may take a second, and other streams wait for
   * their turn.
   */
  #piece(job: BlockJob): BlockJob {
    const { spec, rowMs } = job.stream.kind;
    if (spec.output.interpretation === null) return job;
    const rows = rowMs === null ? FIRST_ROWS : Math.max(1, Math.floor(PIECE_MS / rowMs));
    return job.block.faults.length <= rows ? job : this.#queue.cut(job, rows);
  }

  /**
   * Reports the progress of a job's effects to the stream, as the difference from the last report. The difference is
   * negative if effects are computed again.
   */
  #explained(job: BlockJob, { rows, evaluations }: Explained): void {
    const told = job.told ?? NOTHING_EXPLAINED;
    job.told = { rows, evaluations };
    job.stream.onExplained?.({ rows: rows - told.rows, evaluations: evaluations - told.evaluations });
  }

  #workerEvents(onWorkerDeath: PoolEvents['onWorkerDeath']): SupervisorEvents {
    return {
      onReady: (evaluator) => {
        this.evaluator = evaluator;
        this.#dispatch();
      },
      onRefused: (error) => this.#failAll(error),
      onProgress: (job, explained) => this.#explained(job, explained),
      onAnswer: (job, message) => {
        this.#answered(job, message);
        this.#dispatch();
      },
      onDeath: (reason, jobs) => {
        onWorkerDeath?.(reason);
        this.#died(reason, jobs);
        this.#dispatch();
      },
    };
  }

  #answered(job: BlockJob, message: JobAnswer): void {
    if (message.type === 'scored') {
      const { rows, evaluations = 0, workMs } = message.part;
      this.#workedAt = monotonicMs();
      this.#onWork?.(workMs);
      this.#explained(job, { rows, evaluations });
      const { kind } = job.stream;
      kind.rowMs = kind.rowMs === null ? workMs / rows : (kind.rowMs + workMs / rows) / 2;
      job.resolve([this.#named(message.part)]);
      return;
    }
    this.#explained(job, NOTHING_EXPLAINED);
    const error = new SluiceError(message.code, message.message);
    if (job.stream.closed || OF_ALL_ROWS.has(message.code)) job.reject(error);
    else this.#bisect(job, error.code === 'internal_error' ? RECORD_INTERNAL_ERROR : RECORD_MODEL_FAILED, error);
  }

  /** Adds the manifest whose baseline was used for counting, because workers do not send it. */
  #named(part: ScoredPart): ScoredPart {
    if (part.drift) part.drift.manifest = this.#options.model.manifest;
    return part;
  }

  #died(reason: string, { suspect, waiting, final }: Parameters<SupervisorEvents['onDeath']>[1]): void {
    for (const job of waiting.reverse()) this.#queue.putBack(job);
    if (this.#failure) return;
    if (final) {
      const error = new SluiceError('worker_failed', `workers keep crashing: ${reason}`);
      suspect?.reject(error);
      this.#failAll(error);
      return;
    }
    if (!suspect) return;
    this.#explained(suspect, NOTHING_EXPLAINED);
    suspect.deaths++;
    if (suspect.stream.closed) suspect.reject(streamClosed());
    else if (suspect.deaths < 2) this.#queue.putBack(suspect);
    else {
      const tooMany = new SluiceError('worker_failed', `too many rows crash workers: ${reason}`);
      this.#bisect(suspect, RECORD_CRASHED, tooMany);
    }
  }

  #bisect(job: BlockJob, fault: number, tooMany: SluiceError): void {
    bisect(job, { queue: this.#queue, fault, tooMany, maxPoisonRows: this.#options.maxPoisonRows });
  }

  #forget(kind: number): void {
    this.#inline?.forget(kind);
    this.#supervisor.forget(kind);
  }

  #failAll(error: SluiceError): void {
    this.#failure ??= error;
    this.#queue.dropAll(error);
    for (const job of this.#supervisor.giveUp()) job.reject(error);
  }
}

const cancelled = ({ reason }: AbortSignal): SluiceError =>
  reason instanceof SluiceError ? reason : new SluiceError('cancelled', 'the start was cancelled', { cause: reason });
