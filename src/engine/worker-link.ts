// Connection to a worker: a thread if the model is compiled, a process if the model runs in ONNX Runtime. A process may
// be terminated at any time; a thread, only while it runs compiled WebAssembly.
import { faultOf, kindOf, named, type Word, words } from '../core/log.ts';
import { limitsFor, startLimited, usageOf, type Watch, watchUsage } from '../inference/sandbox/limited-process.ts';
import { threadOf } from './early-thread.ts';
import {
  CancelledJobs,
  type FromWorker,
  type OpenModel,
  type PackedAnswer,
  packed,
  type ScoreJob,
} from './protocol.ts';

export interface LinkEvents {
  onMessage(message: FromWorker): void;
  /**
   * Called when the worker has ended. `refused`: the worker was terminated because its model exceeds the resource
   * limits.
   */
  onExit(reason: Word, refused: boolean): void;
}

export interface WorkerLink {
  open(message: Omit<OpenModel, 'cancelled'>): void;
  /** Takes ownership of the job's `recycled` buffer. */
  score(job: ScoreJob): void;
  forget(kind: number): void;
  /** Cancels the job. The worker reports the cancellation at its next check. */
  cancel(job: number): void;
  /** Terminates the worker, whatever it is doing. Idempotent. */
  end(): Promise<void>;
}

/** Starts a worker thread. Only for compiled models: terminating a thread inside ONNX Runtime aborts the process. */
export function threadLink(entry: URL, heapMb: number, events: LinkEvents): WorkerLink {
  const cancelled = new CancelledJobs();
  let lastError: Word | null = null;
  const worker = threadOf(entry, heapMb);
  worker.on('message', (message: FromWorker) => events.onMessage(message));
  worker.on('error', (error) => {
    // The text of the error is not used, because some error messages, such as those of JSON.parse, quote the input.
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

// Starts a worker process with the resource limits of its model. Blocks and results are copied over its channel.

/** CPU seconds for starting Node and loading the program. The CPU seconds for the model are added. */
const START_CPU_SECONDS = 2;

/** `modelBytes`: size of the model file in bytes, which determines the limits. */
export function processLink(entry: URL, heapMb: number, modelBytes: number, events: LinkEvents): WorkerLink {
  const { memoryBytes, openCpuSeconds } = limitsFor(modelBytes);
  const child = startLimited(entry, { heapMb, memoryBytes, cpuSeconds: null });
  const recycled: (ArrayBuffer | null)[] = [];
  let refused: Word | null = null;
  let gone = false;
  const exited = Promise.withResolvers<void>();
  const leave = (reason: Word): void => {
    if (gone) return;
    gone = true;
    opening?.stop();
    exited.resolve();
    events.onExit(refused ?? reason, refused !== null);
  };
  const opening: Watch | null =
    child.pid === undefined
      ? null
      : watchUsage(child, { cpuSeconds: START_CPU_SECONDS + openCpuSeconds, memoryBytes }, (reason) => {
          refused = named(reason);
        });
  child.on('message', (message: PackedAnswer) => {
    if (message.type === 'ready' || message.type === 'failed') opening?.stop();
    if (message.type === 'scored') {
      const output = intoBuffer(message.part.output, recycled.shift() ?? null);
      events.onMessage({ ...message, part: { ...message.part, output } });
      return;
    }
    if (message.type === 'job_failed') recycled.shift();
    events.onMessage(message);
  });
  child.on('error', (error) => leave(words`the worker failed to start: ${kindOf(error)}`));
  child.on('exit', (code, signal) =>
    leave(words`the worker's process ended with ${signal === null ? words`code ${code ?? 0}` : named(signal)}`),
  );
  const send = (message: object): void => {
    // The error is ignored: if the process has ended, its exit event reports it.
    if (child.connected) child.send(message, () => {});
  };
  return {
    open: (message) => send({ ...message, cancelled: null } satisfies OpenModel),
    score: (job) => {
      recycled.push(job.recycled);
      send(packed(job));
    },
    forget: (kind) => send({ type: 'forget', kind }),
    cancel: (job) => send({ type: 'cancel', job }),
    end: async () => {
      if (!gone) note(child.pid);
      child.kill('SIGKILL');
      await exited.promise;
    },
  };
}

const ended = { cpuSeconds: 0, peakBytes: 0 };

function note(pid: number | undefined): void {
  const usage = pid === undefined ? null : usageOf(pid);
  ended.cpuSeconds += usage?.cpuSeconds ?? 0;
  ended.peakBytes += usage?.peakBytes ?? 0;
}

/** CPU time and memory of all worker processes that have ended. The memory is the sum of the peaks of the processes. */
export const workerProcessUsage = (): Readonly<typeof ended> => ended;

/** Copies the bytes into `recycled` if that buffer is large enough, otherwise into a new buffer. */
function intoBuffer(bytes: Uint8Array, recycled: ArrayBuffer | null): ArrayBuffer {
  if (!recycled || recycled.byteLength < bytes.length) return new Uint8Array(bytes).buffer;
  new Uint8Array(recycled).set(bytes);
  return recycled;
}
