// The way to a worker: a thread where its model is compiled, a process where ONNX Runtime serves it. Only what can be ended at
// any moment may be ended from outside: compiled WebAssembly in a thread, anything in a process of its own.
import { faultOf, type Word, words } from '../core/log.ts';
import { CancelledJobs } from './cancelled-jobs.ts';
import { threadOf } from './early-thread.ts';
import type { FromWorker, OpenModel, ScoreJob } from './protocol.ts';

export interface LinkEvents {
  onMessage(message: FromWorker): void;
  /** The worker is gone; `refused`: it was ended because its model takes more than a model may. */
  onExit(reason: Word, refused: boolean): void;
}

export interface WorkerLink {
  open(message: Omit<OpenModel, 'cancelled'>): void;
  /** `recycled` of the job is taken over. */
  score(job: ScoreJob): void;
  forget(kind: number): void;
  /** The job is wanted no more: it is answered as cancelled as soon as the worker looks. */
  cancel(job: number): void;
  /** Ends the worker wherever it is. Idempotent. */
  end(): Promise<void>;
}

/** A worker thread. Its model must be compiled: ending a thread inside ONNX Runtime aborts the process. */
export function threadLink(entry: URL, heapMb: number, events: LinkEvents): WorkerLink {
  const cancelled = new CancelledJobs();
  let lastError: Word | null = null;
  const worker = threadOf(entry, heapMb);
  worker.on('message', (message: FromWorker) => events.onMessage(message));
  worker.on('error', (error) => {
    // Not its message: that of JSON.parse, for one, quotes what it was given.
    lastError = faultOf(error);
  });
  worker.on('exit', (code) => events.onExit(lastError ?? words`the worker ended with code ${code}`, false));
  return {
    open: (message) => worker.postMessage({ ...message, cancelled: cancelled.buffer } satisfies OpenModel),
    score: (job) => worker.postMessage(job, job.recycled ? [job.recycled] : []),
    forget: (kind) => worker.postMessage({ type: 'forget', kind }),
    cancel: (job) => cancelled.add(job),
    end: async () => {
      await worker.terminate();
    },
  };
}
