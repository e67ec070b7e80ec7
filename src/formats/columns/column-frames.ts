// Frames of typed arrays that carry predictions from a worker to a columnar sink, one frame per micro-batch.
//
// A frame starts with four Int32: its size in bytes, number of rows, `layoutOf` its columns, and 0. The columns of
// `outputColumns` follow in order. A column starts with two Int32: its form, and the size of its remaining bytes. If
// the form is SOME, a validity byte per row follows. Then follow the cells: an Int32 for an integer, a Float64 for a
// number, a byte for a boolean, and an Int32 word index for a text with a word list. Other texts are stored as an Int32
// length in UTF-8 bytes per row (-1: no text), followed by all texts. Every section is padded to a multiple of 8 bytes.
// The byte order is that of the machine.
import type { ByteWriter } from '../write/byte-writer.ts';
import type { PredictionColumn } from '../write/prediction-fields.ts';

/** Forms of a column: no row has a value, every row has a value, or validity bytes mark the rows with a value. */
const NONE = 0;
const ALL = 1;
const SOME = 2;

const HEAD_BYTES = 16;
const COLUMN_HEAD_BYTES = 8;
/** Stored instead of a length if the text is missing. */
export const NO_TEXT = -1;

const padded = (bytes: number): number => (bytes + 7) & ~7;

/**
 * A checksum of the column names in order (FNV-1a). The writer and the reader of a frame determine the columns
 * independently. The checksum detects if they disagree, which would put values into the wrong columns.
 */
export function layoutOf(columns: readonly Pick<PredictionColumn, 'name'>[]): number {
  let hash = 0x811c9dc5;
  for (const byte of Buffer.from(JSON.stringify(columns.map(({ name }) => name)))) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash | 0;
}

export type Cells = Int32Array | Float64Array | Uint8Array;

/** Writes one frame, column by column. */
export class FrameWriter {
  readonly #out: ByteWriter;
  readonly #rows: number;
  readonly #at: number;
  readonly #lengths: Int32Array;

  /**
   * `layout`: checksum of the columns; `lengths`: scratch space for one number per row. A frame must start at a
   * multiple of 8 bytes.
   */
  constructor(out: ByteWriter, rows: number, layout: number, lengths: Int32Array) {
    this.#out = out;
    this.#rows = rows;
    this.#at = out.length;
    this.#lengths = lengths;
    this.#head(0, rows);
    this.#head(layout, 0);
  }

  nothing(): void {
    this.#head(NONE, 0);
  }

  /**
   * Writes a column of cells. `valid`: 1 for rows with a value; the cells of other rows are 0. null: every row has a
   * value.
   */
  cells(cells: Cells, valid: Uint8Array | null): void {
    const rows = this.#rows;
    const size = cells.BYTES_PER_ELEMENT * rows;
    this.#head(valid ? SOME : ALL, (valid ? padded(rows) : 0) + padded(size));
    if (valid) this.#bytes(valid.subarray(0, rows));
    this.#bytes(new Uint8Array(cells.buffer, cells.byteOffset, size));
  }

  /** Writes a column of texts. `textOf` returns null for a row without a text. */
  texts(textOf: (row: number) => string | null): void {
    const out = this.#out;
    const rows = this.#rows;
    const lengths = this.#lengths;
    const head = out.length;
    const room = COLUMN_HEAD_BYTES + padded(4 * rows);
    out.room(room);
    out.length += room;
    let any = false;
    for (let r = 0; r < rows; r++) {
      const text = textOf(r);
      const from = out.length;
      if (text === null) lengths[r] = NO_TEXT;
      else {
        out.utf8(text);
        lengths[r] = out.length - from;
        any = true;
      }
    }
    const bytes = padded(out.length - head - COLUMN_HEAD_BYTES);
    const end = head + COLUMN_HEAD_BYTES + bytes;
    out.room(end - out.length);
    out.length = head;
    if (!any) {
      this.nothing();
      return;
    }
    this.#head(ALL, bytes);
    this.#bytes(new Uint8Array(lengths.buffer, lengths.byteOffset, 4 * rows));
    out.length = end;
  }

  end(): void {
    const end = this.#out.length;
    this.#out.length = this.#at;
    this.#head(end - this.#at, this.#rows);
    this.#out.length = end;
  }

  #head(a: number, b: number): void {
    const to = this.#out.room(8);
    const at = this.#out.length;
    const view = new DataView(to.buffer, to.byteOffset + at, 8);
    view.setInt32(0, a, true);
    view.setInt32(4, b, true);
    this.#out.length = at + 8;
  }

  #bytes(bytes: Uint8Array): void {
    const size = padded(bytes.length);
    const to = this.#out.room(size);
    to.set(bytes, this.#out.length);
    this.#out.length += size;
  }
}

/** The cells of a column in a frame. */
export interface FrameColumn {
  /**
   * 1 for each row with a value; null: all rows have a value, or the column has texts whose length marks missing
   * values.
   */
  readonly valid: Uint8Array | null;
  /** null: no row has a value. For texts without a word list: their lengths. */
  readonly cells: Cells | null;
  /** The texts of a column without a word list, concatenated. */
  readonly text: Uint8Array | null;
}

export interface ColumnFrame {
  readonly rows: number;
  readonly columns: readonly FrameColumn[];
}

const NOTHING: FrameColumn = { valid: null, cells: null, text: null };

/**
 * Yields the frames of a block result as views of its bytes, which must be whole frames.
 * @throws Error if the columns differ
 */
export function* columnFrames(
  bytes: Uint8Array,
  columns: readonly Pick<PredictionColumn, 'name' | 'kind' | 'words'>[],
): Generator<ColumnFrame> {
  const aligned = bytes.byteOffset % 8 === 0 ? bytes : new Uint8Array(bytes);
  const { buffer } = aligned;
  const end = aligned.byteOffset + aligned.length;
  const expected = layoutOf(columns);
  for (let at = aligned.byteOffset; at < end; ) {
    const [size, rows, layout] = new Int32Array(buffer, at, 3) as unknown as [number, number, number];
    if (layout !== expected) throw new Error('predictions have other columns than the output');
    let next = at + HEAD_BYTES;
    const found = columns.map((column): FrameColumn => {
      const [form, length] = new Int32Array(buffer, next, 2) as unknown as [number, number];
      const from = next + COLUMN_HEAD_BYTES;
      next = from + length;
      return form === NONE ? NOTHING : columnAt(buffer, from, next, rows, column, form === SOME);
    });
    yield { rows, columns: found };
    at += size;
  }
}

function columnAt(
  buffer: ArrayBufferLike,
  from: number,
  to: number,
  rows: number,
  { kind, words }: Pick<PredictionColumn, 'kind' | 'words'>,
  some: boolean,
): FrameColumn {
  const valid = some ? new Uint8Array(buffer, from, rows) : null;
  const at = some ? from + padded(rows) : from;
  if (kind === 'number') return { valid, cells: new Float64Array(buffer, at, rows), text: null };
  if (kind === 'boolean') return { valid, cells: new Uint8Array(buffer, at, rows), text: null };
  const cells = new Int32Array(buffer, at, rows);
  if (kind === 'integer' || words) return { valid, cells, text: null };
  const texts = at + padded(4 * rows);
  return { valid, cells, text: new Uint8Array(buffer, texts, to - texts) };
}
