// Starts the worker threads of a pool, watches the time their jobs take, and replaces those that die.
import { Worker } from 'node:worker_threads';
import { SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import type { BlockJob } from './job-queue.ts';
import type { FromWorker, OpenModel, ToWorker } from './protocol.ts';

export interface SupervisorOptions {
  /** File a worker starts with. */
  entry: URL;
  heapMb: number;
  jobTimeoutMs: number;
  /** First message of a worker; one whose model cannot be opened gets none, and is ended by `close`. */
  open: () => Promise<OpenModel>;
}

export interface SupervisorEvents {
  /** A worker takes jobs from now on. */
  onReady(evaluator: string): void;
  /** A worker could not load the model. */
  onRefused(error: SluiceError): void;
  onAnswer(job: BlockJob, message: Extract<FromWorker, { job: number }>): void;
  /** `suspect`: the job it worked on; `waiting`: those it had not begun. `final`: a replacement would die, too. */
  onDeath(reason: string, jobs: { suspect: BlockJob | undefined; waiting: BlockJob[]; final: boolean }): void;
}

export interface SupervisedWorker {
  readonly worker: Worker;
  ready: boolean;
  /** In the order the worker takes them: the first is the one it works on. */
  readonly jobs: BlockJob[];
  /** Kinds of streams that have been described to it. */
  readonly kinds: Set<number>;
  timer: NodeJS.Timeout | undefined;
  lastError: string;
}

/** Jobs a worker holds: the one it works on and the next, so that it never waits for the main thread. */
const JOBS_A_WORKER = 2;
/** Consecutive deaths, with no job finished in between, before the pool is given up. */
const MAX_DEATHS_IN_A_ROW = 40;

/** Modes of a worker: starting → ready → dead (replaced, unless it never became ready or workers keep dying). */
export class WorkerSupervisor {
  readonly #options: SupervisorOptions;
  readonly #events: SupervisorEvents;
  readonly #workers: SupervisedWorker[] = [];
  #deathsInARow = 0;
  #givenUp = false;

  constructor(options: SupervisorOptions, events: SupervisorEvents) {
    this.#options = options;
    this.#events = events;
  }

  /** Starts a worker and waits until it has loaded the model. @throws SluiceError worker_failed | model_invalid | … */
  start(): Promise<void> {
    const worker = new Worker(this.#options.entry, {
      execArgv: [],
      resourceLimits: { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: this.#options.heapMb },
    });
    const member: SupervisedWorker = {
      worker,
      ready: false,
      jobs: [],
      kinds: new Set(),
      timer: undefined,
      lastError: '',
    };
    this.#workers.push(member);
    const open = (message: OpenModel): void => worker.postMessage(message);
    this.#options.open().then(open, () => {});
    return new Promise((resolve, reject) => {
      worker.on('message', (message: FromWorker) => {
        if (message.type === 'ready') {
          member.ready = true;
          resolve();
          this.#events.onReady(message.evaluator);
        } else if (message.type === 'failed') {
          const error = new SluiceError(message.code, message.message);
          this.#events.onRefused(error);
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

  /** The worker with the fewest jobs, or null when none takes another. */
  idlest(): SupervisedWorker | null {
    let idlest: SupervisedWorker | null = null;
    for (const w of this.#workers) if (w.ready && w.jobs.length < (idlest?.jobs.length ?? JOBS_A_WORKER)) idlest = w;
    return idlest;
  }

  /** `recycled`: a buffer for the answer to be written to. */
  send(member: SupervisedWorker, job: BlockJob, recycled: ArrayBuffer | null): void {
    const { kind } = job.stream;
    const { slab, spans, faults, lines, firstRow, firstByte } = job.block;
    const spec = member.kinds.has(kind.id) ? null : kind.spec;
    const message: ToWorker = {
      type: 'score',
      job: job.id,
      kind: kind.id,
      spec,
      slab,
      spans,
      faults,
      lines,
      firstRow,
      firstByte,
      recycled,
    };
    member.kinds.add(kind.id);
    member.jobs.push(job);
    member.worker.postMessage(message, recycled ? [recycled] : []);
    if (member.jobs.length === 1) this.#watch(member);
  }

  /** No stream of this kind is open any more. */
  forget(kind: number): void {
    for (const { kinds, worker } of this.#workers) {
      if (kinds.delete(kind)) worker.postMessage({ type: 'forget', kind } satisfies ToWorker);
    }
  }

  /** Stops replacing workers and takes their jobs from them. */
  giveUp(): BlockJob[] {
    this.#givenUp = true;
    return this.#workers.flatMap((w) => w.jobs.splice(0));
  }

  /** Ends the workers. Idempotent. */
  async close(): Promise<void> {
    const workers = this.#workers.splice(0);
    await Promise.all(
      workers.map((w) => {
        clearTimeout(w.timer);
        return w.worker.terminate();
      }),
    );
  }

  #watch(member: SupervisedWorker): void {
    clearTimeout(member.timer);
    if (member.jobs.length === 0) return;
    member.timer = setTimeout(() => {
      member.lastError = `a job took longer than ${this.#options.jobTimeoutMs} ms`;
      inBackground('ending a stuck worker', () => member.worker.terminate());
    }, this.#options.jobTimeoutMs);
    member.timer.unref();
  }

  #answered(member: SupervisedWorker, message: Extract<FromWorker, { job: number }>): void {
    // Its caller has been rejected already.
    if (this.#givenUp) return;
    const job = member.jobs.shift();
    if (!job || job.id !== message.job) throw new Error('a worker answered out of turn');
    this.#deathsInARow = 0;
    this.#watch(member);
    this.#events.onAnswer(job, message);
  }

  #died(member: SupervisedWorker, reason: string): void {
    clearTimeout(member.timer);
    const at = this.#workers.indexOf(member);
    if (at < 0) return;
    this.#workers.splice(at, 1);
    const [suspect, ...waiting] = member.jobs;
    const final = !member.ready || ++this.#deathsInARow > MAX_DEATHS_IN_A_ROW;
    this.#events.onDeath(reason, { suspect, waiting, final });
    if (!this.#givenUp) this.start().catch(() => {});
  }
}
