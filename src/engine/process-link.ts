// A worker in a process of its own, within the limits of its model: bytes go over and come back as copies.
import { limitsFor, startLimited, usageOf, type Watch, watchUsage } from '../inference/sandbox/limited-process.ts';
import type { FromWorker, OpenModel, ScoreJob } from './protocol.ts';
import type { LinkEvents, WorkerLink } from './worker-link.ts';

/** Seconds of CPU time of starting Node and loading the program, beside those of the model. */
const START_CPU_SECONDS = 2;

/** A job as it goes over the channel: the bytes of its records and nothing else of the slab. */
export interface PackedJob extends Omit<ScoreJob, 'slab' | 'recycled'> {
  slab: Uint8Array;
}

export function packed({ recycled: _, ...job }: ScoreJob): PackedJob {
  const { spans } = job;
  const first = spans[0] ?? 0;
  const last = spans.at(-1) ?? 0;
  // The channel copies what it is given, shared memory too.
  const slab = new Uint8Array(job.slab, first, last - first);
  return { ...job, slab, spans: spans.map((at) => at - first), firstByte: job.firstByte + first };
}

export function unpacked(job: PackedJob, recycled: ArrayBuffer | null): ScoreJob {
  const { slab, spans } = job;
  const at = slab.byteOffset;
  return { ...job, slab: slab.buffer, spans: spans.map((p) => p + at), firstByte: job.firstByte - at, recycled };
}

/** The answer of a process: its output is a view of the message it came with. */
export type PackedAnswer =
  | Exclude<FromWorker, { type: 'scored' }>
  | {
      type: 'scored';
      job: number;
      part: Omit<Extract<FromWorker, { type: 'scored' }>['part'], 'output'> & { output: Uint8Array };
    };

/** `modelBytes`: size of the model file, from which the limits follow. */
export function processLink(entry: URL, heapMb: number, modelBytes: number, events: LinkEvents): WorkerLink {
  const { memoryBytes, openCpuSeconds } = limitsFor(modelBytes);
  const child = startLimited(entry, { heapMb, memoryBytes, cpuSeconds: null });
  const recycled: (ArrayBuffer | null)[] = [];
  let refused = '';
  let gone = false;
  const exited = Promise.withResolvers<void>();
  const leave = (reason: string): void => {
    if (gone) return;
    gone = true;
    opening?.stop();
    exited.resolve();
    events.onExit(refused || reason, refused !== '');
  };
  const opening: Watch | null =
    child.pid === undefined
      ? null
      : watchUsage(child, { cpuSeconds: START_CPU_SECONDS + openCpuSeconds, memoryBytes }, (reason) => {
          refused = reason;
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
  child.on('error', (error) => leave(`the worker does not start: ${error.message}`));
  child.on('exit', (code, signal) => leave(`the worker's process ended with ${signal ?? `code ${code}`}`));
  const send = (message: object): void => {
    // Where the process is gone, its exit says so.
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

/** What all worker processes that were ended have taken together; their peaks are added up. */
export const workerProcessUsage = (): Readonly<typeof ended> => ended;

/** The bytes at the beginning of a buffer of their own: `recycled` where it is large enough. */
function intoBuffer(bytes: Uint8Array, recycled: ArrayBuffer | null): ArrayBuffer {
  if (!recycled || recycled.byteLength < bytes.length) return new Uint8Array(bytes).buffer;
  new Uint8Array(recycled).set(bytes);
  return recycled;
}
