// Messages between the main thread and scoring workers (threads or processes), and the shared flags of cancelled jobs.
import type { Rejection } from '../core/batch.ts';
import type { BlockColumns } from '../core/block.ts';
import type { ErrorCode } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import type { DecoderChoice, DecoderInput } from '../formats/choose-decoder.ts';
import { asText } from '../formats/columns/column-text.ts';
import type { OutputSpec } from '../formats/write/formatter.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Tally } from './counts.ts';

/** How to read and write the blocks of a stream; the same for all its blocks. */
export interface StreamSpec {
  input: DecoderInput;
  output: OutputSpec;
  /** Report every rejected row, because each record is answered separately. Default: no. */
  records?: boolean;
  /** Include lines of the rejects file in block results. Default: no. */
  rejectLines?: boolean;
  /** Passthrough columns in lines of the rejects file, in order. Default: none. */
  listed?: readonly string[];
  /** Many rows are expected, so compile kernels immediately. Default: compile them after enough rows. */
  large?: boolean;
  /** Default: SLUICE_DECODER, else eager for large streams, else fast. */
  decoder?: DecoderChoice;
}

/** The first message to a worker: the model to serve. Workers start before the model is known. */
export interface OpenModel {
  type: 'open';
  model: ModelPackage;
  batchRows: number;
  policy: EnginePolicy;
  known: Known;
  /** The cells of `CancelledJobs`, shared with a thread; null: the worker is a process and receives messages. */
  cancelled: SharedArrayBuffer | null;
}

/** A range of records of a block, to be scored by one worker. */
export interface ScoreJob {
  type: 'score';
  job: number;
  /** Id of the kind: streams with the same settings share it. */
  kind: number;
  /** Settings of the kind; sent with its first job to a worker, then null. */
  spec: StreamSpec | null;
  slab: ArrayBufferLike;
  spans: Int32Array;
  faults: Uint8Array;
  lines: Int32Array;
  firstRow: number;
  firstByte: number;
  /** The cells of the records if the input has columns; not sent to a process. */
  columns?: BlockColumns;
  /** Interpreting the record failed, so it is scored without interpretation, and the result includes the reason. */
  uninterpreted?: boolean;
  /** The buffer of an earlier result, for reuse. */
  recycled: ArrayBuffer | null;
}

/** Creates the message for a block. `ids.spec`: null if the worker already has the settings of the kind. */
export const scoreJobOf = (
  { job, kind, spec }: Pick<ScoreJob, 'job' | 'kind' | 'spec'>,
  block: Pick<ScoreJob, 'slab' | 'spans' | 'faults' | 'lines' | 'firstRow' | 'firstByte'> & {
    columns?: BlockColumns | undefined;
  },
  recycled: ArrayBuffer | null,
  uninterpreted = false,
): ScoreJob => {
  const { slab, spans, faults, lines, firstRow, firstByte, columns } = block;
  return {
    type: 'score',
    job,
    kind,
    spec,
    slab,
    spans,
    faults,
    lines,
    firstRow,
    firstByte,
    recycled,
    ...(columns ? { columns } : {}),
    ...(uninterpreted ? { uninterpreted } : {}),
  };
};

export type ToWorker =
  | OpenModel
  | ScoreJob
  | { type: 'forget'; kind: number }
  /** To a process: the job was cancelled. */
  | { type: 'cancel'; job: number };

export interface ScoredPart extends Tally {
  /** Formatted predictions; the first `length` bytes of the buffer are valid. */
  output: ArrayBuffer;
  length: number;
  /** Lines of the rejects file without its header; empty unless the stream has `rejectLines`. */
  rejects: string;
  /** For streams with `records`: every rejected row; `index` counts from the first row of the result. */
  rejections: Rejection[];
}

export type FromWorker =
  | { type: 'ready'; evaluator: string }
  | { type: 'failed'; code: ErrorCode; message: string }
  | { type: 'scored'; job: number; part: ScoredPart }
  /** The job makes progress; `explained` counts from its beginning. Sent at most every `PROGRESS_MS`. */
  | { type: 'progress'; job: number; explained: Explained }
  | { type: 'job_failed'; job: number; code: ErrorCode; message: string };

/** The final message of a job. */
export type JobAnswer = Extract<FromWorker, { type: 'scored' | 'job_failed' }>;

/** Minimum interval between progress messages, ms. */
export const PROGRESS_MS = 1000;

/** Maximum number of details in a block result. */
export const MAX_DETAILS = 20;

/** More cells than a worker has jobs at a time. If job numbers share a cell, only a cancellation can be lost. */
const CELLS = 64;

export class CancelledJobs {
  /** Buffer to share with the worker thread. */
  readonly buffer: SharedArrayBuffer;
  readonly #cells: Int32Array;

  constructor(buffer = new SharedArrayBuffer(CELLS * Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#cells = new Int32Array(buffer);
  }

  add(job: number): void {
    Atomics.store(this.#cells, job % CELLS, job);
  }

  has(job: number): boolean {
    return Atomics.load(this.#cells, job % CELLS) === job;
  }
}

// Jobs and results as copies, for the channel of a worker process.

/** A job as sent over the channel; of the slab, only the bytes of its records are included. */
export interface PackedJob extends Omit<ScoreJob, 'slab' | 'recycled' | 'columns'> {
  slab: Uint8Array;
}

export function packed({ recycled: _, ...given }: ScoreJob): PackedJob {
  const job = asText(given);
  const { spans } = job;
  const first = spans[0] ?? 0;
  const last = spans.at(-1) ?? 0;
  // The channel copies its messages, including shared memory.
  const slab = new Uint8Array(job.slab, first, last - first);
  return { ...job, slab, spans: spans.map((at) => at - first), firstByte: job.firstByte + first };
}

export function unpacked(job: PackedJob, recycled: ArrayBuffer | null): ScoreJob {
  const { slab, spans } = job;
  const at = slab.byteOffset;
  return { ...job, slab: slab.buffer, spans: spans.map((p) => p + at), firstByte: job.firstByte - at, recycled };
}

/** The final message from a process; its output is a view of the received message. */
export type PackedAnswer =
  | Exclude<FromWorker, { type: 'scored' }>
  | {
      type: 'scored';
      job: number;
      part: Omit<Extract<FromWorker, { type: 'scored' }>['part'], 'output'> & { output: Uint8Array };
    };
