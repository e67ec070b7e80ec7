// Emits the frame of a row kernel for any format: iterates over rows, stores cells, lists odd cells, and marks declined rows.

import { MISSING } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Encoding } from '../../inference/encode/encoder.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { RowLocals } from './row-locals.ts';
import { WORD_CODE, WORD_FLOAT, type Words } from './word-table.ts';

/** State of a row that the kernel declines. Rows to skip have another non-zero state initially. */
const DECLINED_BY_KERNEL = 255;

export interface RowField {
  /** Addresses of the arrays for the start and end of the field. */
  readonly spans: number[];
  model?: FieldModel;
}

/** How the model uses a field. */
export interface FieldModel {
  /** Index of the column. */
  readonly column: number;
  readonly reader: ColumnReader;
  /** Whether missing values are valid. Otherwise they decline their row. */
  readonly mayMiss: boolean;
  /** Whether odd cells may be valid. Otherwise they decline their row. */
  readonly listsOdd: boolean;
  readonly words: Words | null;
  /** Address of the numbers or codes of the rows, … */
  readonly at?: number;
  /** … or how to encode them as model inputs. */
  readonly encoding?: Encoding;
}

/**
 * An odd cell is a cell of a plain row whose meaning the kernel does not know, such as a word that is not in the table.
 * Numbers of its list entry: row, 2 · column + (1 in a quoted field), address of its first byte, and of the byte after
 * the last one.
 */
export const ODD_CELL = 4;
const ODD_CELL_BYTES = ODD_CELL * 4;

/** Addresses in the kernel's memory. */
export interface RowPlaces {
  readonly records: number;
  readonly states: number;
  /** The number of declined rows, then the number of odd cells. */
  readonly left: number;
  /** The list of odd cells. */
  readonly odd: number;
  readonly masks: number;
  readonly divisors: number;
  /** Row-major float32 matrices, one per model input. */
  readonly matrices: readonly { at: number; rowBytes: number }[];
}

type Store = 'i32.store' | 'f32.store' | 'f64.store';

/** Emits rows(count, shift). The address of a byte is its offset in the block plus `shift`. */
export class RowFrame {
  readonly x: RowLocals;
  readonly #places: RowPlaces;
  /**
   * The columns that can show that a row is not empty. If there are number columns, only they count, because a row
   * without any number is rare enough to be declined; else the columns with codes. null: only texts, which the kernel
   * does not examine.
   */
  readonly #valuedBy: 'numbers' | 'words' | null;

  constructor(fields: readonly RowField[], places: RowPlaces) {
    this.x = new RowLocals(places.matrices.length, places.masks);
    this.#places = places;
    const kinds = fields.flatMap((field) => field.model?.reader.kind ?? []);
    this.#valuedBy = kinds.includes('number') ? 'numbers' : kinds.length > 0 ? 'words' : null;
  }

  /** Emits the function. `record` reads the record p..end - 1 and jumps to the label to decline it. */
  emit(record: (slow: Label) => void): WasmFunction {
    const { f, row, left, count, odd, oddBefore, matrixRows } = this.x;
    const { states, matrices } = this.#places;
    f.repeat(
      () => {
        f.block('next', (next) => {
          f.get(row).memory('i32.load8_u', states).leaveIf(next);
          f.block('slow', (slow) => {
            this.#beginRecord(slow);
            record(slow);
            if (this.#valuedBy) f.get(this.x.valued).op('i32.eqz').leaveIf(slow);
            f.leave(next);
          });
          f.get(row).i32(DECLINED_BY_KERNEL).memory('i32.store8', states);
          f.get(oddBefore).set(odd);
        });
        f.get(row).memory('i32.load8_u', states).i32(0).op('i32.ne').get(left).op('i32.add').set(left);
        for (const [i, { rowBytes }] of matrices.entries()) f.bump(matrixRows[i]!, rowBytes);
        f.bump(row, 1);
      },
      () => f.get(row, count).op('i32.lt_u'),
    );
    f.i32(0).get(left).memory('i32.store', this.#places.left);
    f.i32(0)
      .get(odd)
      .i32(Math.log2(ODD_CELL_BYTES))
      .op('i32.shr_u')
      .memory('i32.store', this.#places.left + 4);
    return f.end();
  }

  /** Sets `p` and `end` of the record. Declines a record that starts or ends inside a character. */
  #beginRecord(slow: Label): void {
    const { f, p, end, shift, valued, odd, oddBefore } = this.x;
    const { records } = this.#places;
    f.get(odd).set(oddBefore);
    if (this.#valuedBy) f.i32(0).set(valued);
    this.x.entry(3).memory('i32.load', records).get(shift).op('i32.add').set(p);
    this.x.entry(3).memory('i32.load', records + 4).get(shift).op('i32.add').set(end); // biome-ignore format: one line
    for (const at of [p, end]) f.get(at).memory('i32.load8_u').i32(0xc0).op('i32.and').i32(0x80).op('i32.eq').leaveIf(slow); // biome-ignore format: one line
  }

  /** Stores `value` as the row's number. */
  storeNumber(model: FieldModel): void {
    const { f, value, valued } = this.x;
    this.#store(model, 'f64.store', () => f.get(value));
    f.i32(1).set(valued);
  }

  storeMissingNumber(model: FieldModel, slow: Label): void {
    if (!model.mayMiss) this.x.f.leave(slow);
    else this.#store(model, 'f64.store', () => this.x.f.f64(model.encoding?.missing ?? Number.NaN));
  }

  /** Stores the code or float of the word at `slot`. */
  storeWord(model: FieldModel): void {
    const { f, slot, valued } = this.x;
    if (model.encoding) this.#store(model, 'f32.store', () => f.get(slot).memory('f32.load', WORD_FLOAT));
    else this.#store(model, 'i32.store', () => f.get(slot).memory('i32.load', WORD_CODE));
    if (this.#valuedBy === 'words') {
      f.get(slot).memory('i32.load', WORD_CODE).i32(MISSING).op('i32.ne').get(valued).op('i32.or').set(valued);
    }
  }

  /** Lists p..q-1 as an odd cell. */
  storeOdd({ column, listsOdd, reader }: FieldModel, slow: Label): void {
    const { f, row, p, q, c, quoted, odd, valued } = this.x;
    if (!listsOdd) {
      f.leave(slow);
      return;
    }
    const to = this.#places.odd;
    f.i32(column * 2)
      .get(quoted)
      .op('i32.or')
      .set(c);
    for (const [i, number] of [row, c, p, q].entries()) f.get(odd, number).memory('i32.store', to + i * 4);
    f.bump(odd, ODD_CELL_BYTES);
    // Without quotes and spaces, the kernel knows each word for a missing value, so the cell is a number or invalid.
    if (reader.readsPlainNumbers && !reader.trims) f.get(quoted).op('i32.eqz').get(valued).op('i32.or').set(valued);
  }

  /** Stores p..q-1 wherever the field's text is needed. */
  storeSpans({ spans }: RowField): void {
    const { p, q } = this.x;
    for (const to of spans) {
      this.x.entry(3).get(p).memory('i32.store', to);
      this.x.entry(3).get(q).memory('i32.store', to + 4); // biome-ignore format: one line
    }
  }

  /** Stores the row's cell of a column; `cell` pushes its value. */
  #store({ at, encoding }: FieldModel, op: Store, cell: () => void): void {
    const { f, matrixRows } = this.x;
    if (!encoding) {
      this.x.entry(op === 'f64.store' ? 3 : 2);
      cell();
      f.memory(op, at!);
      return;
    }
    for (const { input, column } of encoding.places) {
      f.get(matrixRows[input]!);
      cell();
      if (op === 'f64.store') f.op('f32.demote_f64');
      f.memory('f32.store', this.#places.matrices[input]!.at + column * 4);
    }
  }
}
