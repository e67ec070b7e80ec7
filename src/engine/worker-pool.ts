// The worker threads of one model version: fair between streams, and unharmed by a worker that dies.
import { Worker } from 'node:worker_threads';
import { type Block, RECORD_CRASHED, RECORD_MODEL_FAILED, RECORD_OK } from '../core/block.ts';
import { SluiceError } from '../core/errors.ts';
import { sameData } from '../core/same.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import { type Judgement, judge } from '../inference/sandbox/verdict.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { NearScorer } from './near-scorer.ts';
import type { FromWorker, OpenModel, ScoredPart, StreamSpec, ToWorker } from './protocol.ts';

export interface PoolOptions {
  model: ModelPackage;
  workers: number;
  /** auto: our own evaluator where it agrees with ONNX Runtime; default. */
  engine?: EnginePolicy;
  /** Take jobs as soon as the model is compiled: what comes of them holds only if `confirmed` says so. Default: no. */
  ahead?: boolean;
  /** Score small blocks on the calling thread where the model is compiled. Default: no. */
  near?: boolean;
  /** Rows a micro-batch. */
  batchRows?: number;
  /** A job that takes longer than this counts as a death of its worker, ms. */
  jobTimeoutMs?: number;
  /** Rows of one stream that may bring workers down before the stream is given up. */
  maxGuiltyRows?: number;
  /** Heap of a worker, MB: one that needs more dies, and with it the row that made it. */
  heapMb?: number;
  /** File a worker starts with; tests put their own in between. */
  entry?: URL;
}

export interface PoolEvents {
  /** A worker died and is being replaced. */
  onWorkerDeath?: (reason: string) => void;
}

export const DEFAULT_BATCH_ROWS = 512;
const DEFAULT_JOB_TIMEOUT_MS = 120_000;
/** Jobs a worker holds: the one it works on and the next, so that it never waits for the main thread. */
const JOBS_A_WORKER = 2;
const DEFAULT_MAX_GUILTY_ROWS = 100;
const DEFAULT_HEAP_MB = 192;
/** Deaths without any job done in between before the pool is given up. */
const MAX_DEATHS_IN_A_ROW = 40;
/** Free output buffers kept for reuse. */
const MAX_FREE_BUFFERS = 16;
/** Kinds of streams that are remembered. */
const MAX_KINDS = 32;

interface Job {
  id: number;
  stream: Stream;
  block: Pick<Block, 'slab' | 'spans' | 'faults' | 'lines' | 'firstRow' | 'firstByte'>;
  deaths: number;
  resolve: (parts: ScoredPart[]) => void;
  reject: (error: unknown) => void;
}

/** Streams that are read and written alike. */
interface Kind {
  id: number;
  spec: StreamSpec;
  /** Open streams. */
  users: number;
}

interface Stream {
  kind: Kind;
  queue: Job[];
  /** Rows that brought workers down, or made the model throw. */
  guilty: number;
  closed: boolean;
}

interface Member {
  worker: Worker;
  ready: boolean;
  /** In the order the worker takes them: the first is the one it works on. */
  jobs: Job[];
  /** Kinds it was told about. */
  knows: Set<number>;
  timer: NodeJS.Timeout | undefined;
  lastError: string;
}

/** A stream of blocks that share a StreamSpec. */
export interface StreamHandle {
  /**
   * Scores a block. Parts come in row order: more than one only when the block had to be split around a bad row.
   * @throws SluiceError model_failed | worker_failed | cancelled
   */
  score(block: Block): Promise<ScoredPart[]>;
  /** Drops what is queued. Idempotent. */
  close(): void;
}

/**
 * Modes of a job: queued → at a worker → done. When its worker dies, the job it worked on goes back to the front of the
 * queue once; the second time it is split in two, and a single row is marked as guilty, which makes it a rejected row.
 * Jobs that only waited at the dead worker go back unharmed.
 */
export class WorkerPool {
  readonly #options: Required<PoolOptions>;
  readonly #events: PoolEvents;
  readonly #members: Member[] = [];
  readonly #free: ArrayBuffer[] = [];
  /** Streams with queued jobs, served in turn. */
  #turn: Stream[] = [];
  readonly #kinds: Kind[] = [];
  #nextKind = 1;
  #nextJob = 1;
  #deathsInARow = 0;
  #failure: SluiceError | null = null;
  #closing = false;
  evaluator = '';
  /**
   * Whether the evaluator that the workers began with is the one to be used. Always true without `ahead`.
   * @throws SluiceError model_invalid
   */
  readonly confirmed: Promise<boolean>;
  /** Found out while the first workers start. */
  readonly #judgement: Judgement;
  #near: NearScorer | null = null;

  private constructor(options: PoolOptions, events: PoolEvents) {
    const own = import.meta.url.endsWith('.ts') ? './worker-entry.ts' : './worker-entry.js';
    this.#options = {
      engine: 'auto',
      ahead: false,
      near: false,
      batchRows: DEFAULT_BATCH_ROWS,
      jobTimeoutMs: DEFAULT_JOB_TIMEOUT_MS,
      maxGuiltyRows: DEFAULT_MAX_GUILTY_ROWS,
      heapMb: DEFAULT_HEAP_MB,
      entry: new URL(own, import.meta.url),
      ...options,
    };
    this.#events = events;
    this.#judgement = judge(this.#options.model, this.#options.engine, this.#options.ahead ? 'plan' : 'verdict');
    this.confirmed = this.#confirm();
    this.confirmed.catch(() => {});
  }

  async #confirm(): Promise<boolean> {
    const [draft, { verdict }] = await Promise.all([this.#opened(), this.#judgement.known]);
    return draft.verdict !== null || verdict === null || verdict.engine === 'native';
  }

  /** What workers open. */
  #opened(): Promise<Known> {
    return this.#options.ahead ? this.#judgement.draft : this.#judgement.known;
  }

  /** Starts the workers and waits until each has loaded the model. @throws SluiceError model_invalid | model_hash_mismatch */
  static async start(options: PoolOptions, events: PoolEvents = {}): Promise<WorkerPool> {
    const pool = new WorkerPool(options, events);
    try {
      const started = Promise.all(Array.from({ length: options.workers }, () => pool.#spawn()));
      started.catch(() => {});
      // Why the model cannot be used says more than that a worker was ended for it.
      await pool.#opened();
      await started;
      if (options.near) await pool.#openNear();
    } catch (error) {
      await pool.close();
      throw error;
    }
    return pool;
  }

  async #openNear(): Promise<void> {
    const known = await this.#judgement.known;
    if (known.plan === null) return;
    // A command that scores a file must not load what its workers need.
    const { NearScorer } = await import('./near-scorer.ts');
    this.#near = await NearScorer.open(this.#options.model, this.#options.engine, known);
  }

  get workers(): number {
    return this.#options.workers;
  }

  /** Why the pool takes no more jobs, or null. */
  get failed(): SluiceError | null {
    return this.#failure;
  }

  /** Jobs not yet at a worker. */
  get queued(): number {
    return this.#turn.reduce((n, s) => n + s.queue.length, 0);
  }

  open(spec: StreamSpec): StreamHandle {
    const kind = this.#kindOf(spec);
    kind.users++;
    const stream: Stream = { kind, queue: [], guilty: 0, closed: false };
    return {
      score: (block) => {
        const near = this.#near;
        if (!near?.takes(block, spec) || this.#failure || stream.closed || this.#closing)
          return this.#far(stream, block);
        const part = near.score(kind, block, this.#free.pop() ?? null);
        return part ? Promise.resolve([part]) : this.#far(stream, block);
      },
      close: () => {
        if (stream.closed) return;
        stream.closed = true;
        kind.users--;
        const queue = stream.queue.splice(0);
        this.#turn = this.#turn.filter((s) => s !== stream);
        for (const job of queue) job.reject(new SluiceError('cancelled', 'the stream is closed'));
      },
    };
  }

  /** Scores a block in a worker. */
  #far(stream: Stream, block: Block): Promise<ScoredPart[]> {
    return new Promise((resolve, reject) => {
      if (this.#failure) reject(this.#failure);
      else if (stream.closed || this.#closing) reject(new SluiceError('cancelled', 'the stream is closed'));
      else {
        this.#enqueue({ id: this.#nextJob++, stream, block: inSharedMemory(block), deaths: 0, resolve, reject }, false);
        this.#dispatch();
      }
    });
  }

  /** Kinds nobody uses are forgotten when there are many: workers keep decoders and formatters for each. */
  #kindOf(spec: StreamSpec): Kind {
    const known = this.#kinds.find((k) => sameData(k.spec, spec));
    if (known) return known;
    if (this.#kinds.length >= MAX_KINDS) {
      for (const kind of this.#kinds.filter((k) => k.users === 0)) {
        this.#kinds.splice(this.#kinds.indexOf(kind), 1);
        this.#near?.forget(kind.id);
        for (const m of this.#members) {
          if (m.knows.delete(kind.id)) m.worker.postMessage({ type: 'forget', kind: kind.id } satisfies ToWorker);
        }
      }
    }
    const kind: Kind = { id: this.#nextKind++, spec, users: 0 };
    this.#kinds.push(kind);
    return kind;
  }

  /** Takes back the buffer of a part that has been written. */
  recycle(buffer: ArrayBuffer): void {
    if (this.#free.length < MAX_FREE_BUFFERS) this.#free.push(buffer);
  }

  /** Ends the workers; jobs still under way are rejected as cancelled. Idempotent. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#failAll(new SluiceError('cancelled', 'the worker pool was closed'));
    const members = this.#members.splice(0);
    await Promise.all(
      members.map((m) => {
        clearTimeout(m.timer);
        return m.worker.terminate();
      }),
    );
  }

  #spawn(): Promise<void> {
    const { model, batchRows, engine } = this.#options;
    const worker = new Worker(this.#options.entry, {
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: this.#options.heapMb },
    });
    const member: Member = { worker, ready: false, jobs: [], knows: new Set(), timer: undefined, lastError: '' };
    this.#members.push(member);
    const open = (known: Known): void => {
      worker.postMessage({ type: 'open', model, batchRows, policy: engine, known } satisfies OpenModel);
    };
    this.#opened().then(open, () => {});
    return new Promise((resolve, reject) => {
      worker.on('message', (message: FromWorker) => {
        if (message.type === 'ready') {
          member.ready = true;
          this.evaluator = message.evaluator;
          resolve();
          this.#dispatch();
        } else if (message.type === 'failed') {
          const error = new SluiceError(message.code, message.message);
          this.#failAll(error);
          reject(error);
        } else this.#answered(member, message);
      });
      worker.on('error', (error) => {
        member.lastError = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      });
      worker.on('exit', (code) => {
        const reason = member.lastError || `the worker ended with code ${code}`;
        if (!member.ready) reject(new SluiceError('worker_failed', `a worker did not start: ${reason}`));
        this.#died(member, reason);
      });
    });
  }

  #enqueue(job: Job, front: boolean): void {
    const { stream } = job;
    if (stream.queue.length === 0) {
      if (front) this.#turn.unshift(stream);
      else this.#turn.push(stream);
    }
    if (front) stream.queue.unshift(job);
    else stream.queue.push(job);
  }

  #dispatch(): void {
    while (this.#turn.length > 0) {
      let member: Member | null = null;
      for (const m of this.#members) if (m.ready && m.jobs.length < (member?.jobs.length ?? JOBS_A_WORKER)) member = m;
      if (!member) return;
      const stream = this.#turn.shift()!;
      const job = stream.queue.shift()!;
      if (stream.queue.length > 0) this.#turn.push(stream);
      this.#send(member, job);
    }
  }

  #send(member: Member, job: Job): void {
    const { stream, block } = job;
    const recycled = this.#free.pop() ?? null;
    const message: ToWorker = {
      type: 'score',
      job: job.id,
      kind: stream.kind.id,
      spec: member.knows.has(stream.kind.id) ? null : stream.kind.spec,
      slab: block.slab,
      spans: block.spans,
      faults: block.faults,
      lines: block.lines,
      firstRow: block.firstRow,
      firstByte: block.firstByte,
      recycled,
    };
    member.knows.add(stream.kind.id);
    member.jobs.push(job);
    member.worker.postMessage(message, recycled ? [recycled] : []);
    if (member.jobs.length === 1) this.#watch(member);
  }

  #watch(member: Member): void {
    clearTimeout(member.timer);
    if (member.jobs.length === 0) return;
    member.timer = setTimeout(() => {
      member.lastError = `a job took longer than ${this.#options.jobTimeoutMs} ms`;
      void member.worker.terminate();
    }, this.#options.jobTimeoutMs);
    member.timer.unref();
  }

  #answered(member: Member, message: Extract<FromWorker, { job: number }>): void {
    const job = member.jobs.shift();
    if (!job || job.id !== message.job) throw new Error('a worker answered out of turn');
    this.#deathsInARow = 0;
    if (message.type === 'scored') job.resolve([message.part]);
    else if (job.stream.closed) job.reject(new SluiceError(message.code, message.message));
    else this.#divide(job, RECORD_MODEL_FAILED, new SluiceError(message.code as 'model_failed', message.message));
    this.#watch(member);
    this.#dispatch();
  }

  #died(member: Member, reason: string): void {
    clearTimeout(member.timer);
    const at = this.#members.indexOf(member);
    if (at < 0) return;
    this.#members.splice(at, 1);
    this.#events.onWorkerDeath?.(reason);
    const [suspect, ...waiting] = member.jobs;
    for (const job of waiting.reverse()) this.#enqueue(job, true);
    this.#deathsInARow++;
    if (this.#failure || this.#closing) return;
    if (!member.ready || this.#deathsInARow > MAX_DEATHS_IN_A_ROW) {
      const error = new SluiceError('worker_failed', `worker threads keep dying: ${reason}`);
      suspect?.reject(error);
      this.#failAll(error);
      return;
    }
    if (suspect) {
      suspect.deaths++;
      if (suspect.stream.closed) suspect.reject(new SluiceError('cancelled', 'the stream is closed'));
      else if (suspect.deaths < 2) this.#enqueue(suspect, true);
      else
        this.#divide(
          suspect,
          RECORD_CRASHED,
          new SluiceError('worker_failed', `too many rows bring workers down: ${reason}`),
        );
    }
    this.#spawn().catch(() => {});
    this.#dispatch();
  }

  /** Splits a job that failed in two; a single row is marked as guilty and sent again, to be answered as rejected. */
  #divide(job: Job, fault: number, tooMany: SluiceError): void {
    const { block, stream } = job;
    const records = block.faults.length;
    if (records === 1) {
      if (block.faults[0] !== RECORD_OK || ++stream.guilty > this.#options.maxGuiltyRows) job.reject(tooMany);
      else this.#enqueue({ ...job, deaths: 0, block: { ...block, faults: Uint8Array.of(fault) } }, true);
      return;
    }
    const middle = records >> 1;
    const half = (from: number, to: number) =>
      new Promise<ScoredPart[]>((resolve, reject) => {
        const part: Job['block'] = {
          slab: block.slab,
          firstByte: block.firstByte,
          firstRow: block.firstRow + from,
          spans: block.spans.slice(from * 2, to * 2),
          faults: block.faults.slice(from, to),
          lines: block.lines.slice(from, to),
        };
        this.#enqueue({ id: this.#nextJob++, stream, block: part, deaths: 1, resolve, reject }, true);
      });
    const right = half(middle, records);
    const left = half(0, middle);
    Promise.all([left, right]).then(([a, b]) => job.resolve([...a, ...b]), job.reject);
  }

  #failAll(error: SluiceError): void {
    this.#failure ??= error;
    for (const stream of this.#turn.splice(0)) for (const job of stream.queue.splice(0)) job.reject(error);
    for (const m of this.#members) for (const job of m.jobs.splice(0)) job.reject(error);
  }
}

/** The block, its bytes copied if only this thread can see them. */
function inSharedMemory(block: Block): Job['block'] {
  const { slab, spans } = block;
  if (slab instanceof SharedArrayBuffer) return block;
  const first = spans[0] ?? 0;
  const length = (spans.at(-1) ?? 0) - first;
  const shared = new SharedArrayBuffer(length);
  new Uint8Array(shared).set(new Uint8Array(slab, first, length));
  return { ...block, slab: shared, spans: spans.map((at) => at - first), firstByte: block.firstByte + first };
}
