// The interface of all decoders, which convert the records of a block into a columnar batch.
import { isUtf8 } from 'node:buffer';
import { type ColumnBatch, type ColumnData, MISSING, type Rejection } from '../../core/batch.ts';
import {
  type Block,
  RECORD_CRASHED,
  RECORD_INTERNAL_ERROR,
  RECORD_MALFORMED,
  RECORD_MODEL_FAILED,
  RECORD_OK,
  RECORD_TOO_DEEP,
  RECORD_TOO_LONG,
} from '../../core/block.ts';
import type { ErrorCode } from '../../core/errors.ts';

/** The properties of a block that a decoder needs. A sub-block shares the slab of its block. */
export type RecordSlice = Pick<Block, 'slab' | 'spans' | 'faults' | 'columns'>;

export interface Decoder {
  /**
   * Decodes records `from` to `to - 1` of a block into `batch`. There may be at most `batch.capacity` records. Sets
   * `rows`, cells, passthrough texts, `rejected` and `rejections`. The content of a record never causes an exception.
   */
  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void;
}

/** Marks row `index` of the batch as rejected. Only the first error of a row is recorded. */
export function reject(
  batch: ColumnBatch,
  index: number,
  code: ErrorCode,
  column: string | null,
  message: string,
): void {
  if (batch.rejected[index] === 1) return;
  batch.rejected[index] = 1;
  const rejection: Rejection = { index, code, column, message };
  const last = batch.rejections.at(-1);
  if (!last || last.index < index) batch.rejections.push(rejection);
  else {
    const at = batch.rejections.findIndex((r) => r.index > index);
    batch.rejections.splice(at, 0, rejection);
  }
}

/**
 * Rejects rows without a value in any model column. Otherwise a model that accepts missing values would score rows that
 * consist only of delimiters. A row that was encoded directly has a value, because the row kernel declines empty rows.
 */
export function rejectEmptyRows(batch: ColumnBatch): void {
  const { rows, rejected, encoded, columns } = batch;
  for (let r = 0; r < rows; r++) {
    if (encoded[r] === 1 || rejected[r] === 1) continue;
    let c = 0;
    while (c < columns.length && isMissing(columns[c]!, r)) c++;
    if (c === columns.length) reject(batch, r, 'empty_row', null, 'no column of the model has a value');
  }
}

function isMissing({ kind, numbers, codes, texts }: ColumnData, row: number): boolean {
  if (kind === 'number') return Number.isNaN(numbers[row]);
  return kind === 'text' ? texts[row] === null || texts[row] === '' : codes[row] === MISSING;
}

/** Clears a batch before `rows` new rows are decoded into it. */
export function beginBatch(batch: ColumnBatch, rows: number): void {
  batch.rows = rows;
  batch.rejected.fill(0, 0, rows);
  batch.encoded.fill(0, 0, rows);
  batch.rejections = [];
  for (const { unseenRows } of batch.columns) unseenRows.length = 0;
  for (const texts of batch.passthrough) texts.fill(null, 0, rows);
}

/**
 * The error message for bytes that are invalid in the encoding of the input. `encoding`: the declared encoding;
 * undefined means UTF-8.
 */
export function notTextMessage(encoding: string | undefined, what = 'the record'): string {
  if (encoding === undefined) {
    return `${what} is not valid UTF-8 (declare encoding: latin1 or windows-1252 if it is in one of these, or windows-1251 for Cyrillic)`;
  }
  const other = encoding === 'latin1' ? ' (windows-1252 defines more of them)' : '';
  return `${what} has bytes that ${encoding} does not define${other}`;
}

const FAULTS: Record<number, { code: ErrorCode; message: string }> = {
  [RECORD_MALFORMED]: {
    code: 'malformed_record',
    message: 'a quoted field is not closed, or text follows its closing quote',
  },
  [RECORD_TOO_LONG]: { code: 'record_too_long', message: 'the record is longer than the limit for one row' },
  [RECORD_TOO_DEEP]: { code: 'nesting_too_deep', message: 'the record is nested deeper than the limit' },
  [RECORD_CRASHED]: { code: 'row_crashed_worker', message: 'scoring this application crashed its worker twice' },
  [RECORD_MODEL_FAILED]: { code: 'model_failed', message: 'the model failed on this application' },
  [RECORD_INTERNAL_ERROR]: { code: 'internal_error', message: 'Sluice failed on this application: please report it' },
};

/** Rejects a record whose error is known before decoding. Returns whether the record was rejected. */
export function rejectFaulty(batch: ColumnBatch, index: number, fault: number): boolean {
  if (fault === RECORD_OK) return false;
  const known = FAULTS[fault] ?? FAULTS[RECORD_MALFORMED]!;
  reject(batch, index, known.code, null, known.message);
  return true;
}

// Copies record bytes from the shared slab, so that a decoder may change them in place.

/** Number of bytes after the last record that a decoder may read and change. */
const SLACK = 8;

/**
 * V8 copies shared memory several bytes at a time only if source and target are aligned. Copying single bytes takes ten
 * times as long.
 */
const ALIGNMENT = 8;

interface Run {
  /** The copy. A decoder may read and change bytes after it. */
  bytes: Uint8Array;
  /** Slab offset of `bytes[0]`. */
  base: number;
  /** Whether the bytes from the first record are valid UTF-8. */
  valid: boolean;
}

/** Copies records `from` to `to - 1` (to > from) and the bytes between them, which takes about 0.07 ms per MB. */
export function copyRun(block: RecordSlice, from: number, to: number, room: (bytes: number) => Uint8Array): Run {
  const start = block.spans[from * 2]!;
  const base = start - (start % ALIGNMENT);
  const length = block.spans[to * 2 - 1]! - base;
  const bytes = room(length);
  bytes.set(new Uint8Array(block.slab, base, length));
  return { bytes, base, valid: isUtf8(bytes.subarray(start - base, length)) };
}

/** Whether a record of a valid run starts or ends inside a multi-byte character. */
const isCut = (run: Uint8Array, start: number, end: number): boolean =>
  continues(run[start]!) || (end < run.length && continues(run[end]!));

/** A run of records that is copied into separate memory. */
export class RecordBytes {
  bytes: Buffer = Buffer.from(new ArrayBuffer(0));
  /** A view of the same bytes. SLACK bytes after the last record may be read too. */
  view: DataView = new DataView(this.bytes.buffer);
  /** Slab offset of `bytes[0]`. */
  base = 0;
  /** The bytes of this run, without remaining bytes of earlier runs. */
  used: Buffer = this.bytes;
  #run: Run = { bytes: this.bytes, base: 0, valid: true };

  /** Copies records `from` to `to - 1` (to > from) and the bytes between them. */
  load(block: RecordSlice, from: number, to: number): void {
    this.#run = copyRun(block, from, to, (length) => {
      if (this.bytes.length < length + SLACK) {
        this.bytes = Buffer.from(new ArrayBuffer(length + (length >> 2) + SLACK));
        this.view = new DataView(this.bytes.buffer);
      }
      return this.bytes.subarray(0, length);
    });
    this.base = this.#run.base;
    this.used = this.bytes.subarray(0, this.#run.bytes.length);
  }

  /**
   * Whether the record `bytes[start..end)` is valid UTF-8. If the run as a whole is valid, only the boundaries of the
   * record are checked.
   */
  isUtf8(start: number, end: number): boolean {
    return this.#run.valid ? !isCut(this.#run.bytes, start, end) : isUtf8(this.bytes.subarray(start, end));
  }
}

/** Whether the byte continues a multi-byte character. */
const continues = (byte: number): boolean => (byte & 0xc0) === 0x80;
