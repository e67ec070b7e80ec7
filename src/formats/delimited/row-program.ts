// Emits a row kernel for delimited text: it splits rows into fields, and stores the numbers and codes of a stream's columns.

import { QUOTE } from '../../core/ascii.ts';
import type { ColumnData } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { numberAt } from '../decode/number-bytes.ts';
import { readNumber } from '../decode/number-program.ts';
import { type FieldModel, type RowField, RowFrame, type RowPlaces } from '../decode/row-frame.ts';
import type { OddCell, RowSyntax } from '../decode/row-kernel.ts';
import { type RowLocals, VECTOR } from '../decode/row-locals.ts';
import { findWord, placeWords } from '../decode/word-table.ts';

interface RowProgramOptions {
  fields: readonly RowField[];
  delimiter: number;
  /** Whether the kernel also reads quoted fields. */
  quoting: boolean;
  places: RowPlaces;
}

/**
 * The syntax of delimited text. A row is plain if no field begins with a quote or, if `quoting`, all quoted fields are
 * closed, and quoted fields whose text is copied contain no quote.
 */
export const delimitedRows = (delimiter: string, quoting: boolean): RowSyntax => ({
  name: 'row-kernel',
  between: 0,
  words: placeWords,
  readOdd: readOddField,
  program: (fields, places) => new RowProgram({ fields, delimiter: delimiter.charCodeAt(0), quoting, places }).emit(),
});

/** Decodes an odd field. Creates the text of the field only if its value depends on the text. */
function readOddField(reader: ColumnReader, cell: OddCell, out: ColumnData, row: number): boolean {
  const { bytes, from, to, quoted, keepsText } = cell;
  if (reader.readsPlainNumbers) {
    const value = numberAt(bytes, from, to);
    if (!Number.isNaN(value)) return reader.readNumber(value, out, row) === null;
  } else if (!keepsText && reader.scoresUnseen && !hasByte(bytes, from, to, 0, quoted ? QUOTE : 0)) {
    return reader.readUnseen(out, row) === null;
  }
  const text = bytes.toString('utf8', from, to);
  return reader.readText(quoted && text.includes('"') ? text.replaceAll('""', '"') : text, out, row) === null;
}

/** Whether one of the bytes `from` to `to - 1` is `a` or `b`. */
function hasByte(bytes: Uint8Array, from: number, to: number, a: number, b: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] === a || bytes[at] === b) return true;
  return false;
}

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
    f.block(`field ${model?.reader.name ?? ''}`, (done) => {
      f.block('odd', (odd) => {
        // A field with escaped quotes is an odd cell. If its text is copied, it declines the row, because a copy would
        // contain the escapes.
        this.#findEnd(isLast, field.spans.length > 0 ? slow : odd, slow);
        if (model?.reader.kind === 'number') this.#number(model, { done, odd, slow });
        else if (model?.words) {
          findWord(this.#x, model.words, odd);
          this.#frame.storeWord(model);
          f.leave(done);
        }
      });
      if (!this.#quoting) this.#x.byte().i32(QUOTE).op('i32.eq').leaveIf(slow);
      if (model) this.#frame.storeOdd(model, slow);
    });
    this.#frame.storeSpans(field);
    if (this.#quoting) f.get(q, quoted).op('i32.add').set(q);
    if (!isLast) f.get(q).i32(1).op('i32.add').set(p);
  }

  #number(model: FieldModel, { done, odd, slow }: Record<'done' | 'odd' | 'slow', Label>): void {
    const { f } = this.#x;
    const { reader, words } = model;
    const divisors = this.#divisors;
    const missing = (otherwise: Label): void => {
      findWord(this.#x, words!, otherwise);
      this.#frame.storeMissingNumber(model, slow);
      f.leave(done);
    };
    // Texts for missing values that look like numbers are checked first.
    if (words && reader.missingNumbers) f.block('noWord', missing);
    f.block('none', (none) => {
      readNumber(this.#x, { reader, divisors, none: words ? none : odd, slow: odd });
      this.#frame.storeNumber(model);
      f.leave(done);
    });
    if (words) missing(odd);
  }

  /**
   * Sets `p` to the start and `q` to the end of the field's text. If the text has fewer than 16 bytes, `head` contains
   * its first vector. Jumps to `escaped` if the text has escaped quotes. Only the code of the last field checks that
   * all delimiters are inside the row. Before this check no result is final, and reads beyond the record stay in the
   * kernel's memory (SLACK and FIELD_SLACK of the kernel).
   */
  #findEnd(isLast: boolean, escaped: Label, slow: Label): void {
    const { f, p, q, end, quoted } = this.#x;
    if (isLast) f.get(p, end).op('i32.gt_u').leaveIf(slow);
    if (!this.#quoting) {
      this.#plainEnd(isLast, slow);
      return;
    }
    f.i32(0).set(quoted);
    f.block('ready', (ready) => {
      f.block('plain', (plain) => {
        this.#x.byte().i32(QUOTE).op('i32.ne').leaveIf(plain);
        f.i32(1).set(quoted).bump(p, 1).get(p).set(q);
        this.#closingQuote(isLast, ready, slow);
        this.#afterEscape(isLast, escaped, slow);
      });
      this.#plainEnd(isLast, slow);
    });
  }

  #plainEnd(isLast: boolean, slow: Label): void {
    const { f, p, q, c, end } = this.#x;
    f.get(p).set(q);
    this.#seek(this.#delimiter);
    if (isLast) {
      f.get(c).when(() => f.get(q, c).op('i32.ctz', 'i32.add').get(end).op('i32.lt_u').leaveIf(slow));
      f.get(end).set(q);
    } else {
      f.get(c).op('i32.eqz').leaveIf(slow);
      f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    }
  }

  /**
   * Advances `q` to the next quote. Jumps to `closed` if this quote closes the field. Otherwise the next byte must be a
   * quote too, which makes it an escaped quote.
   */
  #closingQuote(isLast: boolean, closed: Label, slow: Label): void {
    const { f, q, c, end } = this.#x;
    this.#seek(QUOTE);
    f.get(c).op('i32.eqz').leaveIf(slow);
    f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    if (isLast) f.get(q).i32(1).op('i32.add').get(end).op('i32.eq').leaveIf(closed);
    else f.get(q).memory('i32.load8_u', 1).i32(this.#delimiter).op('i32.eq').leaveIf(closed);
    f.get(q).memory('i32.load8_u', 1).i32(QUOTE).op('i32.ne').leaveIf(slow);
  }

  /** Advances `q` from an escaped quote to the quote that closes the field, and jumps to `escaped`. */
  #afterEscape(isLast: boolean, escaped: Label, slow: Label): void {
    const { f, q, end } = this.#x;
    f.repeat(
      () => {
        f.bump(q, 2).get(q, end).op('i32.ge_u').leaveIf(slow);
        this.#closingQuote(isLast, escaped, slow);
      },
      () => f.i32(1),
    );
    f.leave(slow);
  }

  /**
   * Advances `q` to the next 16 bytes that contain the byte `stop`, and sets `c` to the bit mask of its positions. `c`
   * is 0 if `stop` does not occur before the end.
   */
  #seek(stop: number): void {
    const { f, q, c, end, head } = this.#x;
    const look = (): WasmFunction =>
      f.get(q).memory('v128.load').tee(head).bytes(stop).op('i8x16.eq', 'i8x16.bitmask').tee(c);
    f.block('found', (found) => {
      look().leaveIf(found);
      f.repeat(
        () => {
          f.bump(q, VECTOR).get(q, end).op('i32.ge_u').leaveIf(found);
          look();
        },
        () => f.op('i32.eqz'),
      );
    });
  }
}
