// The function of a row kernel: emitted for the columns of a stream, it takes rows apart and writes numbers and codes where they go.

import { QUOTE } from '../../core/ascii.ts';
import { MISSING } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Encoding } from '../../inference/encode/encoder.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { readNumber } from './number-program.ts';
import { RowLocals } from './row-locals.ts';
import { findWord, isLong, WORD_CODE, WORD_FLOAT, type Words } from './word-table.ts';

/** State of a row that the kernel declines; rows to be skipped come with a state of their own. */
const DECLINED_BY_KERNEL = 255;

export interface RowField {
  /** Where first and last byte of the field go. */
  readonly spans: number[];
  model?: FieldModel;
}

/** What a field means to the model. */
export interface FieldModel {
  readonly reader: ColumnReader;
  readonly words: Words | null;
  /** Where the numbers or codes of the rows go, … */
  readonly at?: number;
  /** … or how they become numbers that the model takes. */
  readonly encoding?: Encoding;
}

/** Addresses. */
export interface RowPlaces {
  readonly records: number;
  readonly states: number;
  /** How many rows were declined. */
  readonly left: number;
  readonly masks: number;
  readonly divisors: number;
  /** Row-major float32, an entry an input of the model. */
  readonly matrices: readonly { at: number; rowBytes: number }[];
}

export interface RowProgramOptions {
  fields: readonly RowField[];
  delimiter: number;
  /** Fields in quotes are read, too. */
  quoting: boolean;
  places: RowPlaces;
}

/** rows(count, shift): the address of a byte of the block is its number there plus `shift`. */
export const rowsFunction = (options: RowProgramOptions): WasmFunction => new RowProgram(options).emit();

type Store = 'i32.store' | 'f32.store' | 'f64.store';

class RowProgram {
  readonly #x: RowLocals;
  readonly #fields: readonly RowField[];
  readonly #delimiter: number;
  readonly #quoting: boolean;
  readonly #places: RowPlaces;
  /**
   * Which columns show that a row is not empty: numbers where there are any, because a row without one is rare enough to be
   * declined; else the columns with codes. null: texts only, which are not looked at here.
   */
  readonly #valuedBy: 'numbers' | 'words' | null;

  constructor({ fields, delimiter, quoting, places }: RowProgramOptions) {
    this.#x = new RowLocals(places.matrices.length, places.masks);
    this.#fields = fields;
    this.#delimiter = delimiter;
    this.#quoting = quoting;
    this.#places = places;
    const kinds = fields.flatMap((field) => field.model?.reader.kind ?? []);
    this.#valuedBy = kinds.includes('number') ? 'numbers' : kinds.length > 0 ? 'words' : null;
  }

  emit(): WasmFunction {
    const { f, row, left, count, matrixRows } = this.#x;
    const { states, matrices } = this.#places;
    f.repeat(
      () => {
        f.block('next', (next) => {
          f.get(row).memory('i32.load8_u', states).leaveIf(next);
          f.block('slow', (slow) => {
            this.#beginRecord(slow);
            for (const [k, field] of this.#fields.entries()) this.#field(field, k === this.#fields.length - 1, slow);
            if (this.#valuedBy) f.get(this.#x.valued).op('i32.eqz').leaveIf(slow);
            f.leave(next);
          });
          f.get(row).i32(DECLINED_BY_KERNEL).memory('i32.store8', states);
        });
        f.get(row).memory('i32.load8_u', states).i32(0).op('i32.ne').get(left).op('i32.add').set(left);
        for (const [i, { rowBytes }] of matrices.entries()) f.bump(matrixRows[i]!, rowBytes);
        f.bump(row, 1);
      },
      () => f.get(row, count).op('i32.lt_u'),
    );
    f.i32(0).get(left).memory('i32.store', this.#places.left);
    return f.end();
  }

  /** p and end of the record; one that was cut inside a character is declined. */
  #beginRecord(slow: Label): void {
    const { f, p, end, shift, valued } = this.#x;
    const { records } = this.#places;
    if (this.#valuedBy) f.i32(0).set(valued);
    this.#x.entry(3).memory('i32.load', records).get(shift).op('i32.add').set(p);
    this.#x.entry(3).memory('i32.load', records + 4).get(shift).op('i32.add').set(end); // biome-ignore format: one line
    for (const at of [p, end]) f.get(at).memory('i32.load8_u').i32(0xc0).op('i32.and').i32(0x80).op('i32.eq').leaveIf(slow); // biome-ignore format: one line
  }

  /** Reads the field that begins at p; p = beginning of the next. */
  #field({ model, spans }: RowField, isLast: boolean, slow: Label): void {
    const { f, p, q, quoted } = this.#x;
    if (model?.reader.kind === 'number') this.#number(model, isLast, slow);
    else this.#word(model, isLast, slow);
    for (const to of spans) {
      this.#x.entry(3).get(p).memory('i32.store', to);
      this.#x.entry(3).get(q).memory('i32.store', to + 4); // biome-ignore format: one line
    }
    if (this.#quoting) f.get(q, quoted).op('i32.add').set(q);
    if (!isLast) f.get(q).i32(1).op('i32.add').set(p);
  }

  #number(model: FieldModel, isLast: boolean, slow: Label): void {
    const { f, value, valued } = this.#x;
    const { reader, words } = model;
    const { divisors } = this.#places;
    this.#findEnd(isLast, words !== null && isLong(words.longest), slow);
    f.block(`number ${reader.name}`, (done) => {
      const missing = (otherwise: Label): void => {
        findWord(this.#x, words!, otherwise);
        this.#store(model, 'f64.store', () => f.f64(model.encoding?.missing ?? Number.NaN));
        f.leave(done);
      };
      // A word for a missing value that looks like a number comes first.
      if (words && reader.missingNumbers) f.block('noWord', missing);
      f.block('none', (none) => {
        readNumber(this.#x, { reader, divisors, none: words ? none : slow, slow });
        this.#store(model, 'f64.store', () => f.get(value));
        f.i32(1).set(valued);
        f.leave(done);
      });
      if (words) missing(slow);
    });
  }

  /** A field with a code, or one whose text is only passed on. */
  #word(model: FieldModel | undefined, isLast: boolean, slow: Label): void {
    const { f, slot, valued } = this.#x;
    this.#findEnd(isLast, !model?.words || isLong(model.words.longest), slow);
    if (!model) {
      if (!this.#quoting) this.#x.byte().i32(QUOTE).op('i32.eq').leaveIf(slow);
    } else if (!model.words) f.leave(slow);
    else {
      findWord(this.#x, model.words, slow);
      if (model.encoding) this.#store(model, 'f32.store', () => f.get(slot).memory('f32.load', WORD_FLOAT));
      else this.#store(model, 'i32.store', () => f.get(slot).memory('i32.load', WORD_CODE));
      if (this.#valuedBy === 'words') {
        f.get(slot).memory('i32.load', WORD_CODE).i32(MISSING).op('i32.ne').get(valued).op('i32.or').set(valued);
      }
    }
  }

  /** Stores the row's cell of a column: what `cell` leaves on the stack. */
  #store({ at, encoding }: FieldModel, op: Store, cell: () => void): void {
    const { f, matrixRows } = this.#x;
    if (!encoding) {
      this.#x.entry(op === 'f64.store' ? 3 : 2);
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

  /**
   * p = beginning of the text of the field that begins at p, q = its end; `head`: its first 16 bytes, unless it may be `long`. A
   * field that is too long is declined. That the delimiter found still belongs to the row is made sure at the last field:
   * until then nothing is committed, and reads beyond the record stay in memory (SLACK and FIELD_SLACK of the kernel).
   */
  #findEnd(isLast: boolean, long: boolean, slow: Label): void {
    const { f, p, end, quoted } = this.#x;
    if (isLast) f.get(p, end).op('i32.gt_u').leaveIf(slow);
    if (!this.#quoting) {
      this.#plainEnd(isLast, long, slow);
      return;
    }
    f.i32(0).set(quoted);
    f.block('ready', (ready) => {
      f.block('plain', (plain) => {
        this.#x.byte().i32(QUOTE).op('i32.ne').leaveIf(plain);
        this.#quotedEnd(isLast, long, slow);
        f.leave(ready);
      });
      this.#plainEnd(isLast, long, slow);
    });
  }

  #plainEnd(isLast: boolean, long: boolean, slow: Label): void {
    const { f, q, c, end } = this.#x;
    this.#seek(this.#delimiter, long);
    if (isLast) {
      f.get(c).when(() => f.get(q, c).op('i32.ctz', 'i32.add').get(end).op('i32.lt_u').leaveIf(slow));
      f.get(end).set(q);
    } else {
      f.get(c).op('i32.eqz').leaveIf(slow);
      f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    }
  }

  /** A field in quotes ends at the next one, or is declined. */
  #quotedEnd(isLast: boolean, long: boolean, slow: Label): void {
    const { f, p, q, c, end, quoted } = this.#x;
    f.i32(1).set(quoted).bump(p, 1);
    this.#seek(QUOTE, long);
    f.get(c).op('i32.eqz').leaveIf(slow);
    f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    if (isLast) f.get(q).i32(1).op('i32.add').get(end).op('i32.ne').leaveIf(slow);
    else f.get(q).memory('i32.load8_u', 1).i32(this.#delimiter).op('i32.ne').leaveIf(slow);
  }

  /** c = which of the 16 bytes from q on are `stop`; if the field may be `long`, of the first 16 with one, before the end. */
  #seek(stop: number, long: boolean): void {
    const { f, p, q, c, end, head } = this.#x;
    const look = (): WasmFunction =>
      f.get(q).memory('v128.load').tee(head).bytes(stop).op('i8x16.eq', 'i8x16.bitmask').set(c);
    f.get(p).set(q);
    if (!long) {
      look();
      return;
    }
    f.block('found', (found) => {
      f.repeat(
        () => {
          look().get(c).leaveIf(found);
          f.bump(q, 16);
        },
        () => f.get(q, end).op('i32.lt_u'),
      );
    });
  }
}
