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

/** How to read and write the blocks of a stream. The same settings apply to all blocks. */
export interface StreamSpec {
  input: DecoderInput;
  output: OutputSpec;
  /** Report every rejected row, because the records are answered one by one. Default: no. */
  records?: boolean;
  /** Include lines of the rejects file in block results. Default: no. */
  rejectLines?: boolean;
  /** Passthrough columns that the lines of the rejects file contain, in order. Default: none. */
  listed?: readonly string[];
  /**
   * Whether to compile kernels immediately, because many rows are expected. Default: kernels are compiled after enough
   * rows.
   */
  large?: boolean;
  /** Default: SLUICE_DECODER, else eager for large streams, else fast. */
  decoder?: DecoderChoice;
}

/** The first message to a worker names the model to serve. Workers start before their model is known. */
export interface OpenModel {
  type: 'open';
  model: ModelPackage;
  batchRows: number;
  policy: EnginePolicy;
  known: Known;
  /**
   * The cells of `CancelledJobs`, shared with a worker thread. Null for a worker process, which receives messages
   * instead.
   */
  cancelled: SharedArrayBuffer | null;
}

/** A range of records of a block, to be scored by one worker. */
export interface ScoreJob {
  type: 'score';
  job: number;
  /** Id of the kind. Streams with the same settings have the same kind. */
  kind: number;
  /** Settings of the kind, sent with the first job of the kind that a worker gets. In later jobs, null. */
  spec: StreamSpec | null;
  slab: ArrayBufferLike;
  spans: Int32Array;
  faults: Uint8Array;
  lines: Int32Array;
  firstRow: number;
  firstByte: number;
  /** The column values of the records, if the input has columns; not sent to a process. */
  columns?: BlockColumns;
  /**
   * Interpreting the record failed. The record is scored without interpretation, and the result includes the reason.
   */
  uninterpreted?: boolean;
  /** The buffer of an earlier result, for reuse. */
  recycled: ArrayBuffer | null;
}

/** Creates the message for a block. `ids.spec` is null if the worker already has the settings of the kind. */
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
  /** To a process only: cancels the job. */
  | { type: 'cancel'; job: number };

export interface ScoredPart extends Tally {
  /** Formatted predictions; the first `length` bytes of the buffer are valid. */
  output: ArrayBuffer;
  length: number;
  /** Lines for the rejects file, without a header. Empty unless the stream has `rejectLines`. */
  rejects: string;
  /** Every rejected row, for streams with `records`. `index` counts from the first row of the result. */
  rejections: Rejection[];
}

export type FromWorker =
  | { type: 'ready'; evaluator: string }
  | { type: 'failed'; code: ErrorCode; message: string }
  | { type: 'scored'; job: number; part: ScoredPart }
  /** Progress of a job. `explained` is the total since the job began. Sent at most every `PROGRESS_MS`. */
  | { type: 'progress'; job: number; explained: Explained }
  | { type: 'job_failed'; job: number; code: ErrorCode; message: string };

/** The final message of a job. */
export type JobAnswer = Extract<FromWorker, { type: 'scored' | 'job_failed' }>;

/** Minimum interval between progress messages, ms. */
export const PROGRESS_MS = 1000;

/** Maximum number of details in a block result. */
export const MAX_DETAILS = 20;

/**
 * More cells than the number of jobs that a worker has at a time. If two job numbers share a cell, the only harm is
 * that a cancellation may get lost.
 */
const CELLS = 64;

export class CancelledJobs {
  /** The buffer that is shared with the worker thread. */
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

// Copies of jobs and results, for the channel of a worker process.

/** A job as it is sent over the channel. `slab` contains only the bytes of the job's records. */
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

/** The final message from a process. `output` is a view of the received message. */
export type PackedAnswer =
  | Exclude<FromWorker, { type: 'scored' }>
  | {
      type: 'scored';
      job: number;
      part: Omit<Extract<FromWorker, { type: 'scored' }>['part'], 'output'> & { output: Uint8Array };
    };
