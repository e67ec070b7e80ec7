// A worker in a process of its own, within the limits of its model: bytes go over and come back as copies.
import { kindOf, named, type Word, words } from '../core/log.ts';
import { limitsFor, startLimited, usageOf, type Watch, watchUsage } from '../inference/sandbox/limited-process.ts';
import { type PackedAnswer, packed } from './packed-job.ts';
import type { OpenModel } from './protocol.ts';
import type { LinkEvents, WorkerLink } from './worker-link.ts';

/** Seconds of CPU time of starting Node and loading the program, beside those of the model. */
const START_CPU_SECONDS = 2;

/** `modelBytes`: size of the model file, from which the limits follow. */
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
  child.on('error', (error) => leave(words`the worker does not start: ${kindOf(error)}`));
  child.on('exit', (code, signal) =>
    leave(words`the worker's process ended with ${signal === null ? words`code ${code ?? 0}` : named(signal)}`),
  );
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
