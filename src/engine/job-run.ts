// Runs one job in a worker: decodes the records and formats the predictions, one micro-batch at a time.
import { type ColumnBatch, type ColumnData, newBatch, type Rejection } from '../core/batch.ts';
import { monotonicMs } from '../core/clock.ts';
import type { ErrorCode, ErrorDetail } from '../core/errors.ts';
import type { DriftCounter } from '../drift/drift-counter.ts';
import { createDecoder } from '../formats/choose-decoder.ts';
import { createFormatter } from '../formats/choose-formatter.ts';
import { type Decoder, rejectEmptyRows } from '../formats/decode/decoder.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import { passthroughText } from '../formats/delimited/delimited-formatter.ts';
import { rejectLine } from '../formats/delimited/rejects.ts';
import type { ByteWriter } from '../formats/write/byte-writer.ts';
import type { Formatter } from '../formats/write/formatter.ts';
import { type ColumnReader, columnReaders } from '../inference/encode/column-reader.ts';
import type { Encoder } from '../inference/encode/encoder.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import type { BatchInterpretation, InterpretationSpec } from '../inference/explain/interpretation.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { ColumnRejects } from './counts.ts';
import { MAX_DETAILS, type ScoredPart, type ScoreJob, type StreamSpec } from './protocol.ts';

/** Decoder and formatter of all streams of a kind. */
export interface Kind {
  decoder: Decoder;
  formatter: Formatter;
  batch: ColumnBatch;
  interpretation: InterpretationSpec | null;
  /** Whether to report rejected rows individually instead of as lines of the rejects file. */
  records: boolean;
  rejectLines: boolean;
  /** Returns those passthrough columns of a batch row that the rejects file contains. */
  echoed: (row: number) => (string | null)[];
  /** Whether the model has a column of this name. */
  isColumn: (name: string) => boolean;
}

/** A job in progress, one micro-batch at a time: `next` decodes it, `write` formats it. */
export class JobRun {
  readonly kind: Kind;
  readonly #job: ScoreJob;
  readonly #out: ByteWriter;
  readonly #capacity: number;
  readonly #drift: DriftCounter | null;
  readonly #began = monotonicMs();
  readonly #rejectedByCode: ScoredPart['rejectedByCode'] = {};
  readonly #details: ErrorDetail[] = [];
  readonly #rejections: Rejection[] = [];
  #from = 0;
  #to = 0;
  /** Lines of the rejects file, one buffer per micro-batch. */
  readonly #rejects: Buffer[] = [];
  #rejected = 0;
  #interpreted = 0;
  #inexact = 0;
  #evaluations = 0;
  /** Rows rejected because of a column of the model, by code and column; null if there are none. */
  #byColumn: Map<string, ColumnRejects> | null = null;

  constructor(job: ScoreJob, kind: Kind, out: ByteWriter, capacity: number, drift: DriftCounter | null) {
    this.kind = kind;
    this.#job = job;
    this.#out = out;
    this.#capacity = capacity;
    this.#drift = drift;
    drift?.begin();
  }

  /** Decodes the next micro-batch of at most `limit` rows. Returns false if no rows are left. */
  next(limit = this.#capacity): boolean {
    const rows = this.#job.faults.length;
    if (this.#to >= rows) return false;
    this.#from = this.#to;
    this.#to = Math.min(rows, this.#from + Math.min(limit, this.#capacity));
    this.kind.decoder.decode(this.#job, this.#from, this.#to, this.kind.batch);
    rejectEmptyRows(this.kind.batch);
    return true;
  }

  /** Whether the micro-batch has any valid row. */
  get hasRows(): boolean {
    const { batch } = this.kind;
    return batch.rejections.length < batch.rows;
  }

  write(scores: Scores | null, interpretation: BatchInterpretation | null): void {
    const job = this.#job;
    const { batch, formatter } = this.kind;
    if (interpretation) {
      this.#interpreted += interpretation.explained;
      this.#inexact += interpretation.inexact;
      this.#evaluations += interpretation.evaluations;
    }
    formatter.write(this.#out, batch, scores, job.firstRow + this.#from, interpretation);
    let lines = '';
    for (const r of batch.rejections) {
      const i = this.#from + r.index;
      const row = job.firstRow + i;
      this.#rejected++;
      this.#rejectedByCode[r.code] = (this.#rejectedByCode[r.code] ?? 0) + 1;
      if (r.column !== null && this.kind.isColumn(r.column)) this.#countByColumn(r.column, r.code);
      if (this.kind.records) this.#rejections.push({ ...r, index: i });
      else if (this.kind.rejectLines) {
        const byteOffset = job.firstByte + job.spans[i * 2]!;
        lines += rejectLine({ row, line: job.lines[i]!, byteOffset, echoed: this.kind.echoed(r.index) }, r);
      }
      if (this.#details.length < MAX_DETAILS) {
        const column = r.column === null ? {} : { column: r.column };
        this.#details.push({ code: r.code, message: r.message, row, ...column });
      }
    }
    // The lines are stored as bytes, because a string that was concatenated from many pieces takes a multiple of its
    // size in memory.
    if (lines !== '') this.#rejects.push(Buffer.from(lines));
  }

  #countByColumn(column: string, code: ErrorCode): void {
    this.#byColumn ??= new Map();
    const key = `${code} ${column}`;
    const known = this.#byColumn.get(key);
    if (known) known.rows++;
    else this.#byColumn.set(key, { column, code, rows: 1 });
  }

  end(): ScoredPart {
    const { buffer, length } = this.#out.detach();
    const rows = this.#job.faults.length;
    return {
      rows,
      scored: rows - this.#rejected,
      rejected: this.#rejected,
      output: buffer,
      length,
      rejects: this.#rejects.length === 0 ? '' : Buffer.concat(this.#rejects).toString(),
      rejectedByCode: this.#rejectedByCode,
      rejections: this.#rejections,
      interpreted: this.#interpreted,
      inexact: this.#inexact,
      ...(this.#evaluations === 0 ? {} : { evaluations: this.#evaluations }),
      details: this.#details,
      drift: this.#drift?.end() ?? null,
      workMs: monotonicMs() - this.#began,
      ...(this.#byColumn === null ? {} : { rejectedByColumn: [...this.#byColumn.values()] }),
    };
  }
}

/** Data about the model that a worker prepares before the first stream. */
interface WorkerColumns {
  manifest: Manifest;
  readers: ColumnReader[];
  names: ReadonlySet<string>;
  columns: ColumnData[];
  /** Rows per micro-batch. */
  capacity: number;
  encoder: Encoder;
}

export function streamKind(
  spec: StreamSpec,
  { manifest, readers: own, names, columns, capacity, encoder }: WorkerColumns,
): Kind {
  const { input, output, records = false, rejectLines = false, listed = [], large = false, decoder: asked } = spec;
  const decoder = asked ?? decoderOverride() ?? (large ? 'eager' : 'fast');
  // The reference path uses no kernels, not even to write predictions.
  const answerKernelAfter = decoder === 'reference' ? Infinity : large ? 0 : undefined;
  // An interpretation lists the values of columns, so the decoder must retain them.
  const direct = output.interpretation ? null : encoder;
  const batch = newBatch(columns, capacity, output.passthrough.length);
  const at = listed.map((name) => output.passthrough.indexOf(name));
  const { texts, decimals } = input;
  const readers = texts || decimals ? columnReaders(manifest, texts, decimals) : own;
  return {
    decoder: createDecoder(readers, input, decoder, direct),
    formatter: createFormatter(output, manifest, answerKernelAfter),
    interpretation: output.interpretation,
    records,
    rejectLines,
    isColumn: (name) => names.has(name),
    echoed: (row) => at.map((column) => passthroughText(batch, column, row, output.passthroughIsJson)),
    batch,
  };
}
