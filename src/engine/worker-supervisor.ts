// Starts the workers of a pool, watches the progress of their jobs, and replaces workers that die.
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { inBackground } from '../core/async.ts';
import { startTimer, stopTimer, type Timer } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import { type Word, words } from '../core/log.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { BlockJob, JobStream } from './job-queue.ts';
import { type JobAnswer, type OpenModel, scoreJobOf } from './protocol.ts';
import { type LinkEvents, processLink, threadLink, type WorkerLink } from './worker-link.ts';

interface SupervisorOptions {
  /** Module that workers start with. */
  entry: URL;
  heapMb: number;
  jobTimeoutMs: number;
  /** Whether the model is known not to be compiled. Workers are then processes from the start. */
  processes: boolean;
  /** Returns the message that opens the model. @throws SluiceError if the model cannot be opened */
  open: () => Promise<Opening>;
}

export interface Opening {
  message: Omit<OpenModel, 'cancelled'>;
  /** Size of the model file in bytes. */
  modelBytes: number;
}

/** Size of the model file in bytes; 0 if the file cannot be read. The error is reported when the model is opened. */
export const modelSize = async ({ folder, manifest }: ModelPackage): Promise<number> =>
  (await stat(path.join(folder, manifest.onnx.file)).catch(() => null))?.size ?? 0;

/** Placeholder for the link of a worker that has not started yet, or whose thread is being replaced by a process. */
const NOTHING: WorkerLink = {
  open: () => {},
  score: () => {},
  forget: () => {},
  cancel: () => {},
  end: async () => {},
};

export interface SupervisorEvents {
  /** Called when a worker begins to accept jobs. */
  onReady(evaluator: string): void;
  /** Called when a worker could not load the model. */
  onRefused(error: SluiceError): void;
  onAnswer(job: BlockJob, message: JobAnswer): void;
  /** Called when a worker made progress with a job. `explained`: effects computed so far. */
  onProgress(job: BlockJob, explained: Explained): void;
  /**
   * Called when a worker died. `suspect`: the job that it was scoring; `waiting`: the jobs that it had not started.
   * `final`: a replacement would die, too.
   */
  onDeath(reason: Word, jobs: { suspect: BlockJob | undefined; waiting: BlockJob[]; final: boolean }): void;
}

interface SupervisedWorker {
  link: WorkerLink;
  ready: boolean;
  /** Jobs in the order in which the worker scores them. The first job is in progress. */
  readonly jobs: BlockJob[];
  /** Kinds whose settings were sent to the worker. */
  readonly kinds: Set<number>;
  timer: Timer | undefined;
  /** Why the supervisor terminated the worker; null if it did not terminate it. */
  ended: Word | null;
}

/** Jobs per worker: one in progress and one waiting, so that the worker never waits for the main thread. */
const JOBS_A_WORKER = 2;
/** The pool fails after this many consecutive deaths without a finished job. */
const MAX_DEATHS_IN_A_ROW = 40;
/** Time in ms within which a worker must react to a cancellation; otherwise it is terminated and replaced. */
const CANCEL_MS = 2000;

/**
 * States of a worker: starting → ready → dead. A dead worker is replaced, unless it never became ready or workers die
 * repeatedly. A worker starts as a thread before the evaluator of its model is known. If the evaluator is ONNX Runtime,
 * a process replaces the thread, which has not loaded a model yet. The first process tries the model alone, so that a
 * harmful model does its damage only once.
 */
export class WorkerSupervisor {
  readonly #options: SupervisorOptions;
  readonly #events: SupervisorEvents;
  readonly #workers: SupervisedWorker[] = [];
  #deathsInARow = 0;
  #givenUp = false;
  #closed = false;
  /** Whether workers are processes; known once the first worker has started. */
  #processes: boolean;
  /** The first process; other processes wait for it. */
  #firstProcess: Promise<void> | null = null;

  constructor(options: SupervisorOptions, events: SupervisorEvents) {
    this.#options = options;
    this.#events = events;
    this.#processes = options.processes;
  }

  /** Starts a worker and waits until it has loaded the model. @throws SluiceError worker_failed | model_invalid | … */
  async start(): Promise<void> {
    const member: SupervisedWorker = {
      link: NOTHING,
      ready: false,
      jobs: [],
      kinds: new Set(),
      timer: undefined,
      ended: null,
    };
    this.#workers.push(member);
    const thread = this.#processes ? null : this.#connect(member, false);
    thread?.catch(() => {});
    let opening: Opening;
    try {
      opening = await this.#options.open();
    } catch (error) {
      this.#remove(member);
      await member.link.end();
      throw error;
    }
    if (this.#closed) return;
    this.#processes = opening.message.known.plan === null;
    if (!this.#processes) {
      member.link.open(opening.message);
      return thread!;
    }
    const unused = member.link;
    member.link = NOTHING;
    await unused.end();
    const first = this.#firstProcess;
    const started = (async () => {
      const ready = this.#connect(member, true, opening.modelBytes);
      // During this wait, the process loads the program.
      await first;
      if (this.#closed || this.#givenUp) return;
      member.link.open(opening.message);
      await ready;
    })();
    this.#firstProcess ??= started;
    return started;
  }

  /** Connects a thread or a process. Resolves when the worker is ready. */
  #connect(member: SupervisedWorker, process: boolean, modelBytes = 0): Promise<void> {
    const { entry, heapMb } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const events: LinkEvents = {
      onMessage: (message) => {
        if (member.link !== link) return;
        if (message.type === 'ready') {
          member.ready = true;
          resolve();
          this.#events.onReady(message.evaluator);
        } else if (message.type === 'failed') {
          const error = new SluiceError(message.code, message.message);
          this.#events.onRefused(error);
          reject(error);
        } else if (message.type === 'progress') {
          const [job] = member.jobs;
          if (job?.id !== message.job) return;
          this.#watch(member);
          this.#events.onProgress(job, message.explained);
        } else this.#answered(member, message);
      },
      onExit: (died, refused) => {
        if (member.link !== link) return;
        const reason = member.ended ?? died;
        if (!member.ready) {
          const error = refused
            ? new SluiceError('model_invalid', reason)
            : new SluiceError('worker_failed', `a worker failed to start: ${reason}`);
          if (refused) this.#events.onRefused(error);
          reject(error);
        }
        this.#died(member, reason);
      },
    };
    const link: WorkerLink = process
      ? processLink(entry, heapMb, modelBytes, events)
      : threadLink(entry, heapMb, events);
    member.link = link;
    promise.catch(() => {});
    return promise;
  }

  /** Number of workers that accept jobs. */
  get ready(): number {
    return this.#workers.reduce((n, w) => n + Number(w.ready), 0);
  }

  /** The worker with the fewest jobs; null if every worker has JOBS_A_WORKER jobs. */
  idlest(): SupervisedWorker | null {
    let idlest: SupervisedWorker | null = null;
    for (const w of this.#workers) if (w.ready && w.jobs.length < (idlest?.jobs.length ?? JOBS_A_WORKER)) idlest = w;
    return idlest;
  }

  /** Whether any worker has a job that waits behind another job. */
  get isBehind(): boolean {
    return this.#workers.some(({ jobs }) => jobs.length > 1);
  }

  /** `recycled`: a buffer for the result. */
  send(member: SupervisedWorker, job: BlockJob, recycled: ArrayBuffer | null): void {
    const { kind } = job.stream;
    const spec = member.kinds.has(kind.id) ? null : kind.spec;
    const message = scoreJobOf({ job: job.id, kind: kind.id, spec }, job.block, recycled, job.uninterpreted);
    member.kinds.add(kind.id);
    member.jobs.push(job);
    member.link.score(message);
    if (member.jobs.length === 1) this.#watch(member);
  }

  /** Makes workers drop the cached data of a kind without open streams. */
  forget(kind: number): void {
    for (const { kinds, link } of this.#workers) if (kinds.delete(kind)) link.forget(kind);
  }

  /** Cancels the jobs of a stream. A worker that does not react because its model blocks it is terminated. */
  cancel(stream: JobStream): void {
    for (const member of this.#workers) {
      const unwanted = member.jobs.filter((job) => job.stream === stream);
      for (const job of unwanted) member.link.cancel(job.id);
      if (unwanted.length === 0) continue;
      this.#awaitLook(member, unwanted);
    }
  }

  /** Terminates the worker if it does not react to the cancellation of the job that it is scoring. */
  #awaitLook(member: SupervisedWorker, unwanted: readonly BlockJob[]): void {
    const [head] = member.jobs;
    const timer = startTimer(() => {
      if (!unwanted.some((job) => member.jobs.includes(job))) return;
      // A cancelled job that started after the timer also gets the full time to react.
      if (member.jobs[0] !== head || !unwanted.includes(head!)) return this.#awaitLook(member, unwanted);
      member.ended = words`it ignored cancellation and was terminated`;
      inBackground('ending a worker', () => member.link.end());
    }, CANCEL_MS);
    timer.unref();
  }

  /** Ends a worker if all workers are without jobs. Returns whether it did. */
  endIdle(): boolean {
    const idle = this.#workers.find(({ ready }) => ready);
    if (!idle || this.#workers.some(({ jobs }) => jobs.length > 0)) return false;
    this.#remove(idle);
    inBackground('ending a worker', () => idle.link.end());
    return true;
  }

  /** Stops replacing workers. Returns the jobs of the workers. */
  giveUp(): BlockJob[] {
    this.#givenUp = true;
    return this.#workers.flatMap((w) => w.jobs.splice(0));
  }

  /** Terminates the workers. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true;
    const workers = this.#workers.splice(0);
    await Promise.all(
      workers.map(({ timer, link }) => {
        stopTimer(timer);
        return link.end();
      }),
    );
  }

  /** Terminates the worker if its job makes no progress within the time limit. */
  #watch(member: SupervisedWorker): void {
    stopTimer(member.timer);
    if (member.jobs.length === 0) return;
    member.timer = startTimer(() => {
      member.ended = words`no progress on a block for ${this.#options.jobTimeoutMs} ms`;
      inBackground('terminate a stuck worker', () => member.link.end());
    }, this.#options.jobTimeoutMs);
    member.timer.unref();
  }

  #remove(member: SupervisedWorker): boolean {
    const at = this.#workers.indexOf(member);
    if (at >= 0) this.#workers.splice(at, 1);
    return at >= 0;
  }

  #answered(member: SupervisedWorker, message: JobAnswer): void {
    // The callers of these jobs have already received an error.
    if (this.#givenUp) return;
    const job = member.jobs.shift();
    if (!job || job.id !== message.job) throw new Error('a worker sent an unexpected response');
    this.#deathsInARow = 0;
    this.#watch(member);
    this.#events.onAnswer(job, message);
  }

  #died(member: SupervisedWorker, reason: Word): void {
    stopTimer(member.timer);
    if (!this.#remove(member)) return;
    const [suspect, ...waiting] = member.jobs.splice(0);
    const final = !member.ready || ++this.#deathsInARow > MAX_DEATHS_IN_A_ROW;
    this.#events.onDeath(reason, { suspect, waiting, final });
    if (!this.#givenUp) this.start().catch(() => {});
  }
}
