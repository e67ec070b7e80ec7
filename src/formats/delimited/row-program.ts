// Emits a row kernel for delimited text: it splits rows and stores numbers and codes, for the columns of a stream.

import { QUOTE } from '../../core/ascii.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { readNumber } from '../decode/number-program.ts';
import { type FieldModel, type RowField, RowFrame, type RowPlaces } from '../decode/row-frame.ts';
import type { RowSyntax } from '../decode/row-kernel.ts';
import type { RowLocals } from '../decode/row-locals.ts';
import { findWord, isLong, placeWords } from '../decode/word-table.ts';

interface RowProgramOptions {
  fields: readonly RowField[];
  delimiter: number;
  /** Whether the kernel also reads quoted fields. */
  quoting: boolean;
  places: RowPlaces;
}

/**
 * The syntax of delimited text. A row is plain if no field begins with a quote or, if `quoting`, quoted fields contain
 * no quote but the closing one.
 */
export const delimitedRows = (delimiter: string, quoting: boolean): RowSyntax => ({
  name: 'row-kernel',
  between: 0,
  words: placeWords,
  program: (fields, places) => new RowProgram({ fields, delimiter: delimiter.charCodeAt(0), quoting, places }).emit(),
});

class RowProgram {
  readonly #frame: RowFrame;
  readonly #x: RowLocals;
  readonly #fields: readonly RowField[];
  readonly #delimiter: number;
  readonly #quoting: boolean;
  readonly #divisors: number;

  constructor({ fields, delimiter, quoting, places }: RowProgramOptions) {
    this.#frame = new RowFrame(fields, places);
    this.#x = this.#frame.x;
    this.#fields = fields;
    this.#delimiter = delimiter;
    this.#quoting = quoting;
    this.#divisors = places.divisors;
  }

  emit(): WasmFunction {
    return this.#frame.emit((slow) => {
      for (const [k, field] of this.#fields.entries()) this.#field(field, k === this.#fields.length - 1, slow);
    });
  }

  /** Reads the field at `p`, then sets `p` to the start of the next field. */
  #field(field: RowField, isLast: boolean, slow: Label): void {
    const { f, p, q, quoted } = this.#x;
    const { model } = field;
    if (model?.reader.kind === 'number') this.#number(model, isLast, slow);
    else this.#word(model, isLast, slow);
    this.#frame.storeSpans(field);
    if (this.#quoting) f.get(q, quoted).op('i32.add').set(q);
    if (!isLast) f.get(q).i32(1).op('i32.add').set(p);
  }

  #number(model: FieldModel, isLast: boolean, slow: Label): void {
    const { f } = this.#x;
    const { reader, words } = model;
    const divisors = this.#divisors;
    this.#findEnd(isLast, words !== null && isLong(words.longest), slow);
    f.block(`number ${reader.name}`, (done) => {
      const missing = (otherwise: Label): void => {
        findWord(this.#x, words!, otherwise);
        this.#frame.storeMissingNumber(model);
        f.leave(done);
      };
      // Words for missing values that look like numbers are checked first.
      if (words && reader.missingNumbers) f.block('noWord', missing);
      f.block('none', (none) => {
        readNumber(this.#x, { reader, divisors, none: words ? none : slow, slow });
        this.#frame.storeNumber(model);
        f.leave(done);
      });
      if (words) missing(slow);
    });
  }

  /** Reads a field with a code, or one that is only passed through. */
  #word(model: FieldModel | undefined, isLast: boolean, slow: Label): void {
    const { f } = this.#x;
    this.#findEnd(isLast, !model?.words || isLong(model.words.longest), slow);
    if (!model) {
      if (!this.#quoting) this.#x.byte().i32(QUOTE).op('i32.eq').leaveIf(slow);
    } else if (!model.words) f.leave(slow);
    else {
      findWord(this.#x, model.words, slow);
      this.#frame.storeWord(model);
    }
  }

  /**
   * Sets `p` to the start and `q` to the end of the field's text, and `head` to its first 16 bytes unless it may be
   * `long`. Declines a field that is too long. The last field verifies that the delimiters found are inside the row.
   * Until then no result is final, and reads beyond the record stay in memory (SLACK and FIELD_SLACK of the kernel).
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

  /** Finds the end of a quoted field at the next quote, or declines it. */
  #quotedEnd(isLast: boolean, long: boolean, slow: Label): void {
    const { f, p, q, c, end, quoted } = this.#x;
    f.i32(1).set(quoted).bump(p, 1);
    this.#seek(QUOTE, long);
    f.get(c).op('i32.eqz').leaveIf(slow);
    f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    if (isLast) f.get(q).i32(1).op('i32.add').get(end).op('i32.ne').leaveIf(slow);
    else f.get(q).memory('i32.load8_u', 1).i32(this.#delimiter).op('i32.ne').leaveIf(slow);
  }

  /**
   * Sets `c` to the mask of the bytes equal to `stop` among the 16 bytes from `q`. If the field may be `long`, advances
   * `q` to the first 16 bytes with a match, before the end.
   */
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
