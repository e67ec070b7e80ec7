// Starts the workers of a pool, watches whether their jobs come on, and replaces those that die.
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
  /** File a worker starts with. */
  entry: URL;
  heapMb: number;
  jobTimeoutMs: number;
  /** The model is not compiled, which is known beforehand: workers are processes from the start. */
  processes: boolean;
  /** What a worker opens. @throws SluiceError where the model cannot be opened */
  open: () => Promise<Opening>;
}

export interface Opening {
  message: Omit<OpenModel, 'cancelled'>;
  /** Size of the model file. */
  modelBytes: number;
}

/** Bytes of the model file; 0 where it cannot be read, which shows when it is opened. */
export const modelSize = async ({ folder, manifest }: ModelPackage): Promise<number> =>
  (await stat(path.join(folder, manifest.onnx.file)).catch(() => null))?.size ?? 0;

/** Before there is a worker, and between a thread and the process that takes its place. */
const NOTHING: WorkerLink = {
  open: () => {},
  score: () => {},
  forget: () => {},
  cancel: () => {},
  end: async () => {},
};

export interface SupervisorEvents {
  /** A worker takes jobs from now on. */
  onReady(evaluator: string): void;
  /** A worker could not load the model. */
  onRefused(error: SluiceError): void;
  onAnswer(job: BlockJob, message: JobAnswer): void;
  /** A worker has come on with a job: what of its effects is done. */
  onProgress(job: BlockJob, explained: Explained): void;
  /** `suspect`: the job it worked on; `waiting`: those it had not begun. `final`: a replacement would die, too. */
  onDeath(reason: Word, jobs: { suspect: BlockJob | undefined; waiting: BlockJob[]; final: boolean }): void;
}

interface SupervisedWorker {
  link: WorkerLink;
  ready: boolean;
  /** In the order the worker takes them: the first is the one it works on. */
  readonly jobs: BlockJob[];
  /** Kinds of streams that have been described to it. */
  readonly kinds: Set<number>;
  timer: Timer | undefined;
  /** Why the supervisor ended it. */
  ended: Word | null;
}

/** Jobs a worker holds: the one it works on and the next, so that it never waits for the main thread. */
const JOBS_A_WORKER = 2;
/** Consecutive deaths, with no job finished in between, before the pool is given up. */
const MAX_DEATHS_IN_A_ROW = 40;
/** Milliseconds a worker has to look whether its job is still wanted; then it is ended and replaced. */
const CANCEL_MS = 2000;

/**
 * Modes of a worker: starting → ready → dead (replaced, unless it never became ready or workers keep dying). It starts as a
 * thread, before it is known what serves the model; where that is ONNX Runtime a process takes the place of the thread, which
 * has loaded nothing yet. Of processes the first tries the model alone: what one model may do, it may do once.
 */
export class WorkerSupervisor {
  readonly #options: SupervisorOptions;
  readonly #events: SupervisorEvents;
  readonly #workers: SupervisedWorker[] = [];
  #deathsInARow = 0;
  #givenUp = false;
  #closed = false;
  /** Workers are processes: known from the first one on. */
  #processes: boolean;
  /** The first process, which others wait for. */
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
      // It loads the program meanwhile.
      await first;
      if (this.#closed || this.#givenUp) return;
      member.link.open(opening.message);
      await ready;
    })();
    this.#firstProcess ??= started;
    return started;
  }

  /** Resolves when the worker is ready. */
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

  /** Workers that take jobs. */
  get ready(): number {
    return this.#workers.reduce((n, w) => n + Number(w.ready), 0);
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
    const spec = member.kinds.has(kind.id) ? null : kind.spec;
    const message = scoreJobOf({ job: job.id, kind: kind.id, spec }, job.block, recycled, job.uninterpreted);
    member.kinds.add(kind.id);
    member.jobs.push(job);
    member.link.score(message);
    if (member.jobs.length === 1) this.#watch(member);
  }

  /** No stream of this kind is open any more. */
  forget(kind: number): void {
    for (const { kinds, link } of this.#workers) if (kinds.delete(kind)) link.forget(kind);
  }

  /** The jobs of a stream are wanted no more. A worker that does not look for it, because its model does not let it, is ended. */
  cancel(stream: JobStream): void {
    for (const member of this.#workers) {
      const unwanted = member.jobs.filter((job) => job.stream === stream);
      for (const job of unwanted) member.link.cancel(job.id);
      if (unwanted.length === 0) continue;
      this.#awaitLook(member, unwanted);
    }
  }

  /** Ends the worker if it works on one of these jobs, and does not look whether it is wanted. */
  #awaitLook(member: SupervisedWorker, unwanted: readonly BlockJob[]): void {
    const [head] = member.jobs;
    const timer = startTimer(() => {
      if (!unwanted.some((job) => member.jobs.includes(job))) return;
      // One that it has only begun meanwhile has its time, too.
      if (member.jobs[0] !== head || !unwanted.includes(head!)) return this.#awaitLook(member, unwanted);
      member.ended = words`it ignored cancellation and was terminated`;
      inBackground('ending a worker', () => member.link.end());
    }, CANCEL_MS);
    timer.unref();
  }

  /** Stops replacing workers and takes their jobs from them. */
  giveUp(): BlockJob[] {
    this.#givenUp = true;
    return this.#workers.flatMap((w) => w.jobs.splice(0));
  }

  /** Ends the workers. Idempotent. */
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

  /** Ends the worker if its job does not come on within the time limit of a job. */
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
    // Its caller has been rejected already.
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
