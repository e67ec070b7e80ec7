// Emits the code that row kernels of all formats share: it iterates over rows, stores cells, lists odd cells, and marks declined rows.

import { MISSING } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Encoding } from '../../inference/encode/encoder.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { RowLocals } from './row-locals.ts';
import { WORD_CODE, WORD_FLOAT, type Words } from './word-table.ts';

/**
 * State that the kernel sets for a row that it declines. A row that the kernel must skip has another non-zero state
 * before the kernel runs.
 */
const DECLINED_BY_KERNEL = 255;

export interface RowField {
  /** Addresses of the arrays that receive the start and end positions of the field. */
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
  /** Whether an odd cell may be valid. If not, an odd cell declines its row. */
  readonly listsOdd: boolean;
  readonly words: Words | null;
  /** Address of the column's numbers or codes. undefined: the column has an `encoding`. */
  readonly at?: number;
  /** How to encode the column directly as model inputs. undefined: its values are stored at `at`. */
  readonly encoding?: Encoding;
}

/**
 * Number of integers in the list entry of an odd cell: its row, 2 · column + (1 in a quoted field), the address of its
 * first byte, and the address after its last byte. An odd cell is a cell of a plain row whose meaning the kernel does
 * not know, such as a word that is not in the table.
 */
export const ODD_CELL = 4;
const ODD_CELL_BYTES = ODD_CELL * 4;

/** Addresses in the kernel's memory. */
export interface RowPlaces {
  readonly records: number;
  readonly states: number;
  /** Two counters: the number of declined rows, followed by the number of odd cells. */
  readonly left: number;
  /** The list of odd cells. */
  readonly odd: number;
  readonly masks: number;
  readonly divisors: number;
  /** Row-major float32 matrices, one per model input. */
  readonly matrices: readonly { at: number; rowBytes: number }[];
}

type Store = 'i32.store' | 'f32.store' | 'f64.store';

/** Emits the function rows(count, shift) of a kernel. The address of a byte is its offset in the block plus `shift`. */
export class RowFrame {
  readonly x: RowLocals;
  readonly #places: RowPlaces;
  /**
   * Which columns are examined to find out that a row is not empty. If there are number columns, only these are
   * examined, because rows without any number are so rare that they can be declined. Otherwise the columns with words
   * are examined. null: there are only texts, which the kernel does not examine.
   */
  readonly #valuedBy: 'numbers' | 'words' | null;

  constructor(fields: readonly RowField[], places: RowPlaces) {
    this.x = new RowLocals(places.matrices.length, places.masks);
    this.#places = places;
    const kinds = fields.flatMap((field) => field.model?.reader.kind ?? []);
    this.#valuedBy = kinds.includes('number') ? 'numbers' : kinds.length > 0 ? 'words' : null;
  }

  /**
   * Emits the function. `record` must emit the code for the record in bytes p to end - 1, which jumps to the label to
   * decline the record.
   */
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

  /**
   * Sets `p` and `end` to the bounds of the record. Declines a record that starts or ends inside a multi-byte
   * character.
   */
  #beginRecord(slow: Label): void {
    const { f, p, end, shift, valued, odd, oddBefore } = this.x;
    const { records } = this.#places;
    f.get(odd).set(oddBefore);
    if (this.#valuedBy) f.i32(0).set(valued);
    this.x.entry(3).memory('i32.load', records).get(shift).op('i32.add').set(p);
    this.x.entry(3).memory('i32.load', records + 4).get(shift).op('i32.add').set(end); // biome-ignore format: one line
    for (const at of [p, end]) f.get(at).memory('i32.load8_u').i32(0xc0).op('i32.and').i32(0x80).op('i32.eq').leaveIf(slow); // biome-ignore format: one line
  }

  /** Stores `value` as the number of the current row. */
  storeNumber(model: FieldModel): void {
    const { f, value, valued } = this.x;
    this.#store(model, 'f64.store', () => f.get(value));
    f.i32(1).set(valued);
  }

  storeMissingNumber(model: FieldModel, slow: Label): void {
    if (!model.mayMiss) this.x.f.leave(slow);
    else this.#store(model, 'f64.store', () => this.x.f.f64(model.encoding?.missing ?? Number.NaN));
  }

  /** Stores the code of the word in the table slot at `slot`, or its float encoding. */
  storeWord(model: FieldModel): void {
    const { f, slot, valued } = this.x;
    if (model.encoding) this.#store(model, 'f32.store', () => f.get(slot).memory('f32.load', WORD_FLOAT));
    else this.#store(model, 'i32.store', () => f.get(slot).memory('i32.load', WORD_CODE));
    if (this.#valuedBy === 'words') {
      f.get(slot).memory('i32.load', WORD_CODE).i32(MISSING).op('i32.ne').get(valued).op('i32.or').set(valued);
    }
  }

  /** Appends the bytes p to q - 1 to the list of odd cells. */
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
    // The kernel has already recognised every text for a missing value that has neither quotes nor surrounding spaces.
    // An unquoted cell that reaches this point is therefore a number or invalid.
    if (reader.readsPlainNumbers && !reader.trims) f.get(quoted).op('i32.eqz').get(valued).op('i32.or').set(valued);
  }

  /** Stores the positions p and q in all arrays that receive the span of the field. */
  storeSpans({ spans }: RowField): void {
    const { p, q } = this.x;
    for (const to of spans) {
      this.x.entry(3).get(p).memory('i32.store', to);
      this.x.entry(3).get(q).memory('i32.store', to + 4); // biome-ignore format: one line
    }
  }

  /** Stores a value in the current row of a column. `cell` emits code that pushes the value. */
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
