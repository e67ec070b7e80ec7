// Messages between the main thread and the scoring workers, in threads or processes, and the shared flags of cancelled jobs.
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

/** How the blocks of one stream are to be read and written; the same for all its blocks. */
export interface StreamSpec {
  input: DecoderInput;
  output: OutputSpec;
  /** Each record is answered on its own: parts report every rejected row. Default: no. */
  records?: boolean;
  /** Parts have the lines of the rejects file. Default: no. */
  rejectLines?: boolean;
  /** Passthrough columns that lines of the rejects file have, in their order there. Default: none. */
  listed?: readonly string[];
  /** Many rows are expected: kernels are compiled at once. Default: after enough rows have been seen. */
  large?: boolean;
  /** Default: that of SLUICE_DECODER, else eager for large streams, else fast. */
  decoder?: DecoderChoice;
}

/** The first message: the model a worker serves. Workers start before it is known. */
export interface OpenModel {
  type: 'open';
  model: ModelPackage;
  batchRows: number;
  policy: EnginePolicy;
  known: Known;
  /** The cells of `CancelledJobs`, which a thread shares; null: a process, which receives messages. */
  cancelled: SharedArrayBuffer | null;
}

/** Records `from`..`to - 1` of a block, to be scored by one worker. */
export interface ScoreJob {
  type: 'score';
  job: number;
  /** Number of `spec`: streams that are read and written alike share it. */
  kind: number;
  /** Sent with the first job of a kind to a worker. */
  spec: StreamSpec | null;
  slab: ArrayBufferLike;
  spans: Int32Array;
  faults: Uint8Array;
  lines: Int32Array;
  firstRow: number;
  firstByte: number;
  /** The cells of the records, where they came as columns; not to a process. */
  columns?: BlockColumns;
  /** Interpreting the record failed: it is scored without, and its answer has the reason. */
  uninterpreted?: boolean;
  /** The buffer of an earlier result, for reuse. */
  recycled: ArrayBuffer | null;
}

/** The message for a block. `ids.spec`: null if the worker has that of the kind. */
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
  /** To a process: the job is wanted no more. */
  | { type: 'cancel'; job: number };

export interface ScoredPart extends Tally {
  /** Formatted predictions; `length` bytes of the buffer are valid. */
  output: ArrayBuffer;
  length: number;
  /** Lines of the rejects file, without its header; empty unless the stream has `rejectLines`. */
  rejects: string;
  /** Of a stream of `records`: every rejected row, `index` counted from the first row of the part. */
  rejections: Rejection[];
}

export type FromWorker =
  | { type: 'ready'; evaluator: string }
  | { type: 'failed'; code: ErrorCode; message: string }
  | { type: 'scored'; job: number; part: ScoredPart }
  /** It works on the job and has come on, `explained` from its beginning: not more often than `PROGRESS_MS`. */
  | { type: 'progress'; job: number; explained: Explained }
  | { type: 'job_failed'; job: number; code: ErrorCode; message: string };

/** What a job comes to. */
export type JobAnswer = Extract<FromWorker, { type: 'scored' | 'job_failed' }>;

/** Milliseconds between two messages of progress. */
export const PROGRESS_MS = 1000;

/** Maximum number of details in a part. */
export const MAX_DETAILS = 20;

/** More than a worker holds at a time; jobs whose numbers share a cell only lose a cancellation. */
const CELLS = 64;

export class CancelledJobs {
  /** For the worker thread that shares them. */
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

// Jobs and results as copies for the channel of a worker process.

/** A job as it goes over the channel: the bytes of its records and nothing else of the slab. */
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

/** The answer of a process: its output is a view of the message it came with. */
export type PackedAnswer =
  | Exclude<FromWorker, { type: 'scored' }>
  | {
      type: 'scored';
      job: number;
      part: Omit<Extract<FromWorker, { type: 'scored' }>['part'], 'output'> & { output: Uint8Array };
    };
