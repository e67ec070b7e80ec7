// Jobs and answers as they go over the channel between the program and a worker in a process of its own.
import { asText } from '../io/columns/column-text.ts';
import type { FromWorker, ScoreJob } from './protocol.ts';

/** A job as it goes over the channel: the bytes of its records and nothing else of the slab. */
export interface PackedJob extends Omit<ScoreJob, 'slab' | 'recycled' | 'columns'> {
  slab: Uint8Array;
}

export function packed({ recycled: _, ...given }: ScoreJob): PackedJob {
  const job = asText(given);
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
