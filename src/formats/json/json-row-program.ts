// Emits a row kernel for JSON objects.
// The kernel reads values in place, for the keys of a stream in one order or in any order.

import { QUOTE } from '../../core/ascii.ts';
import type { ColumnData } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Local, WasmFunction } from '../../wasm/function.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { MINUS, numberAt, POINT } from '../decode/number-bytes.ts';
import { readNumber } from '../decode/number-program.ts';
import { type FieldModel, type RowField, RowFrame, type RowPlaces } from '../decode/row-frame.ts';
import type { OddCell, RowSyntax } from '../decode/row-kernel.ts';
import { type RowLocals, VECTOR } from '../decode/row-locals.ts';
import { findWord, placeJsonKeys, placeJsonWords, placeTokens, WORD_CODE, type Words } from '../decode/word-table.ts';

const BACKSLASH = 92;
const COLON = 58;
const COMMA = 44;
const OPEN = 123;
const CLOSE = 125;
const ZERO = 48;
const BLANK = 32;
/** Bit mask of the JSON white space characters: bit c is set for character code c. */
const SPACES = 0x1_0000_2600n;

/** A member of the objects of a stream. */
interface JsonMember {
  /** The quoted key as JSON.stringify writes it. */
  key: Buffer;
  /** Whether the value is a free text that the model reads. */
  isText: boolean;
}

const ANY_NUMBER: Pick<ColumnReader, 'min' | 'max' | 'wholeNumbers' | 'notation' | 'nullNumbers'> = {
  min: -Infinity,
  max: Infinity,
  wholeNumbers: false,
  notation: null,
  nullNumbers: new Set(),
};

/**
 * The syntax of JSON objects. An object is plain if it has exactly these keys, written as by JSON.stringify, and no
 * nested values. Unless `anyOrder`, the keys must have this order. Copied values must have no escapes. `mixed`: columns
 * with values of an unusual JSON type (strings in a number column, or numbers in a column of words).
 */
export const jsonRows = (
  members: readonly JsonMember[],
  mixed: ReadonlySet<ColumnReader>,
  anyOrder: boolean,
): RowSyntax => {
  let others: Words;
  let keys: Words | null = null;
  return {
    name: 'json-row-kernel',
    between: Math.max(...members.map(({ key }) => key.length)) + VECTOR,
    place: (arena) => {
      others = placeJsonWords(arena);
      if (anyOrder) keys = placeJsonKeys(arena, members.map(({ key }) => key)); // biome-ignore format: one line
    },
    words: (arena, reader, encoding) => placeTokens(arena, reader, encoding, mixed.has(reader)),
    readOdd: readOddToken,
    program: (fields, places) => new JsonRowProgram({ fields, members, mixed, places, others, keys }).emit(),
  };
};

/** Maximum number of members of objects whose keys may be in any order: a 64-bit integer has one bit per member. */
export const MOST_IN_ANY_ORDER = 64;

/**
 * Decodes an odd token. `cell` ends before the byte that follows the value, or before the closing quote of a string
 * (`quoted`).
 */
function readOddToken(reader: ColumnReader, cell: OddCell, out: ColumnData, row: number): boolean {
  const { bytes, from, to, quoted, keepsText } = cell;
  if (reader.readsPlainNumbers && isJsonNumber(bytes, from, to)) {
    const number = numberAt(bytes, from, to);
    if (!Number.isNaN(number)) return reader.readNumber(number, out, row) === null;
  } else if (quoted && !keepsText && reader.scoresUnseen && isPlainText(bytes, from + 1, to)) {
    return reader.readUnseen(out, row) === null;
  }
  const text = bytes.toString('utf8', from, to);
  let value: unknown;
  try {
    value = JSON.parse(quoted ? `${text}"` : text);
  } catch {
    return false;
  }
  return reader.readNative(value, out, row) === null;
}

/** Whether a number is valid JSON: without a plus sign and leading zeros, and with digits around the point. */
function isJsonNumber(bytes: Uint8Array, from: number, to: number): boolean {
  const first = bytes[from] === MINUS ? from + 1 : from;
  const isDigit = (at: number): boolean => at < to && (bytes[at]! ^ 48) <= 9;
  if (!isDigit(first) || (bytes[first] === 48 && isDigit(first + 1))) return false;
  let at = first;
  while (isDigit(at)) at++;
  return at === to || bytes[at] !== POINT || isDigit(at + 1);
}

/** Whether a text has neither escapes nor control characters. */
function isPlainText(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at]! < BLANK || bytes[at] === BACKSLASH) return false;
  return true;
}

interface JsonRowProgramOptions {
  fields: readonly RowField[];
  members: readonly JsonMember[];
  mixed: ReadonlySet<ColumnReader>;
  places: RowPlaces;
  others: Words;
  /** The word table of the keys; null: the keys have a fixed order. */
  keys: Words | null;
}

class JsonRowProgram {
  readonly #frame: RowFrame;
  readonly #x: RowLocals;
  readonly #fields: readonly RowField[];
  readonly #members: readonly JsonMember[];
  readonly #mixed: ReadonlySet<ColumnReader>;
  readonly #divisors: number;
  readonly #keys: Words | null;
  /** Word table of null, true and false. */
  readonly #others: Words;

  constructor({ fields, members, mixed, places, others, keys }: JsonRowProgramOptions) {
    this.#frame = new RowFrame(fields, places);
    this.#x = this.#frame.x;
    this.#fields = fields;
    this.#members = members;
    this.#mixed = mixed;
    this.#divisors = places.divisors;
    this.#keys = keys;
    this.#others = others;
  }

  emit(): WasmFunction {
    return this.#frame.emit((slow) => {
      this.#spaces(slow);
      this.#expect(OPEN, slow);
      if (this.#keys) this.#inAnyOrder(this.#keys, slow);
      else this.#inOrder(slow);
      this.#expect(CLOSE, slow);
      this.#toEnd(slow);
    });
  }

  #inOrder(slow: Label): void {
    for (const [k, { key }] of this.#members.entries()) {
      if (k > 0) this.#expect(COMMA, slow);
      this.#spaces(slow);
      this.#key(key, slow);
      this.#colon(slow);
      this.#value(k, slow);
      this.#spaces(slow);
    }
  }

  #inAnyOrder(keys: Words, slow: Label): void {
    const { f, p, q, c, head, slot } = this.#x;
    const member = f.local('i32', 'member');
    const { seen, bit } = f.locals('i64', 'seen', 'bit');
    f.i64(0n).set(seen);
    f.repeat(
      () => {
        this.#spaces(slow);
        this.#text(slow);
        f.get(p).memory('v128.load').set(head);
        findWord(this.#x, keys, slow);
        f.get(slot).memory('i32.load', WORD_CODE).set(member);
        f.i64(1n).get(member).op('i64.extend_i32_u', 'i64.shl').tee(bit).get(seen);
        f.op('i64.and').i64(0n).op('i64.ne').leaveIf(slow);
        f.get(seen, bit).op('i64.or').set(seen);
        f.get(q).i32(1).op('i32.add').set(p);
        this.#colon(slow);
        f.block('stored', (stored) => this.#valueOf(member, stored, slow));
        this.#spaces(slow);
        this.#x.byte().i32(COMMA).op('i32.eq').tee(c).get(p).op('i32.add').set(p);
      },
      () => f.get(c),
    );
    f.get(seen)
      .i64(BigInt.asIntN(64, (1n << BigInt(this.#members.length)) - 1n))
      .op('i64.ne')
      .leaveIf(slow);
  }

  /**
   * Emits a jump to the code that reads the value of a member, given its index in a local variable. That code jumps to
   * `stored` at its end.
   */
  #valueOf(member: Local, stored: Label, slow: Label): void {
    const { f } = this.#x;
    const labels: Label[] = [];
    const nest = (k: number): void => {
      f.block(`member ${k}`, (label) => {
        labels.push(label);
        if (k + 1 < this.#members.length) nest(k + 1);
        else f.get(member).leaveAt(labels, slow);
      });
      this.#value(k, slow);
      f.leave(stored);
    };
    nest(0);
  }

  #colon(slow: Label): void {
    this.#spaces(slow);
    this.#expect(COLON, slow);
    this.#spaces(slow);
  }

  /** Reads the value of member `k` at `p`, then sets `p` to its end. */
  #value(k: number, slow: Label): void {
    const { f, p, q, quoted } = this.#x;
    const field = this.#fields[k]!;
    const member = this.#members[k]!;
    if (field.model?.reader.kind === 'number') this.#number(field.model, slow);
    else if (field.model) this.#word(field.model, slow);
    else if (member.isText) this.#text(slow);
    else this.#anything(slow);
    this.#frame.storeSpans(field);
    f.get(q);
    // For model columns and texts, `q` is before the closing quote, which is skipped here. The span of a passthrough
    // value includes the quote.
    if (field.model || member.isText) f.get(quoted).op('i32.add');
    f.set(p);
  }

  /** Consumes the byte at `p`, which must be `byte`. */
  #expect(byte: number, slow: Label): void {
    const { f, p } = this.#x;
    this.#x.byte().i32(byte).op('i32.ne').leaveIf(slow);
    f.bump(p, 1);
  }

  /** Declines the row if the character code `c`, which is at most 32, is not white space. */
  #isSpace(slow: Label): void {
    const { f, c } = this.#x;
    f.i64(SPACES).get(c).op('i64.extend_i32_u', 'i64.shr_u', 'i32.wrap_i64').i32(1).op('i32.and', 'i32.eqz');
    f.leaveIf(slow);
  }

  /** Advances `p` to the next byte that is not white space. The loop ends because NUL follows the bytes of a run. */
  #spaces(slow: Label): void {
    const { f, p, c } = this.#x;
    f.block('space', (done) => {
      f.repeat(
        () => {
          this.#x.byte().tee(c).i32(BLANK).op('i32.gt_u').leaveIf(done);
          this.#isSpace(slow);
          f.bump(p, 1);
        },
        () => f.i32(1),
      );
    });
  }

  /** Declines the row unless only white space follows up to the end of the record, and `p` stops exactly there. */
  #toEnd(slow: Label): void {
    const { f, p, c, end } = this.#x;
    f.block('ended', (ended) => {
      f.repeat(
        () => {
          f.get(p, end).op('i32.ge_u').leaveIf(ended);
          this.#x.byte().tee(c).i32(BLANK).op('i32.gt_u').leaveIf(slow);
          this.#isSpace(slow);
          f.bump(p, 1);
        },
        () => f.i32(1),
      );
    });
    f.get(p, end).op('i32.ne').leaveIf(slow);
  }

  /**
   * Declines the row unless the key is at `p`, and skips the key. The key is compared one vector at a time. The last
   * vector ends with the key; if the key is shorter than a vector, the bytes after it are masked.
   */
  #key(key: Buffer, slow: Label): void {
    const { f, p } = this.#x;
    for (let at = 0; at < key.length; at += VECTOR) {
      const from = key.length < VECTOR ? 0 : Math.min(at, key.length - VECTOR);
      const part = Buffer.alloc(VECTOR);
      key.copy(part, 0, from);
      const length = Math.min(VECTOR, key.length);
      f.get(p).memory('v128.load', from).shorts(...shortsOf(part)).op('v128.xor'); // biome-ignore format: one line
      if (length < VECTOR) f.shorts(...shortsOf(Buffer.alloc(VECTOR).fill(255, 0, length))).op('v128.and');
      f.op('v128.any_true').leaveIf(slow);
    }
    f.bump(p, key.length);
  }

  /**
   * Sets `q` to the end of the token at `p`. For a string, this is its closing quote, and `quoted` becomes 1. For other
   * values it is the first byte that may follow a value. If the token is shorter than 16 bytes, `head` contains its
   * first vector.
   */
  #token(slow: Label): void {
    const { f, p, q, c, end, head, quoted } = this.#x;
    const look = (): void => {
      f.get(q).memory('v128.load').set(head).get(quoted);
      f.when(
        () => f.get(head).bytes(QUOTE).op('i8x16.eq', 'i8x16.bitmask'),
        () => {
          f.get(head).bytes(COMMA).op('i8x16.eq').get(head).bytes(CLOSE).op('i8x16.eq', 'v128.or');
          f.bytes(BLANK + 1).get(head).op('i8x16.gt_u', 'v128.or', 'i8x16.bitmask'); // biome-ignore format: one line
        },
        'i32',
      ).set(c);
    };
    this.#x.byte().i32(QUOTE).op('i32.eq').set(quoted);
    f.get(p).set(q);
    look();
    // Clears the bit of the opening quote.
    f.get(c).i32(-1).get(quoted).op('i32.xor', 'i32.and').set(c);
    f.block('found', (found) => {
      f.get(c).leaveIf(found);
      f.repeat(
        () => {
          f.bump(q, VECTOR).get(q, end).op('i32.ge_u').leaveIf(slow);
          look();
        },
        () => f.get(c).op('i32.eqz'),
      );
    });
    f.get(q, c).op('i32.ctz', 'i32.add').set(q);
  }

  #number(model: FieldModel, slow: Label): void {
    const { f, p, quoted } = this.#x;
    const { reader, words } = model;
    const divisors = this.#divisors;
    this.#token(slow);
    f.block(`number ${reader.name}`, (done) => {
      const store = (): void => {
        this.#frame.storeNumber(model);
        f.leave(done);
      };
      f.block('none', (none) => {
        f.get(quoted).leaveIf(none);
        readNumber(this.#x, { reader: { ...numberRules(reader), notation: null }, divisors, none, slow: none });
        this.#grammar(slow);
        store();
      });
      f.block('unknown', (unknown) => {
        if (!words) f.leave(unknown);
        else {
          findWord(this.#x, words, unknown);
          this.#frame.storeMissingNumber(model, slow);
          f.leave(done);
        }
      });
      // A string declines the row, because it should be read by a kernel for mixed columns, which takes less time.
      if (!this.#mixed.has(reader)) f.get(quoted).leaveIf(slow);
      else {
        f.get(quoted);
        f.when(() => {
          f.bump(p, 1);
          f.block('odd', (odd) => {
            readNumber(this.#x, { reader, divisors, none: odd, slow: odd });
            store();
          });
          f.bump(p, -1);
        });
      }
      this.#frame.storeOdd(model, slow);
    });
  }

  /**
   * Declines a number that is invalid in JSON: with a plus sign, a redundant leading zero, or a point as its first or
   * last character.
   */
  #grammar(slow: Label): void {
    const { f, p, q, negative, at } = this.#x;
    f.get(p, negative).op('i32.add').tee(at).memory('i32.load8_u').i32(ZERO).op('i32.sub').i32(10).op('i32.ge_u');
    f.get(q).i32(1).op('i32.sub').memory('i32.load8_u').i32(POINT).op('i32.eq', 'i32.or');
    f.get(at).memory('i32.load8_u').i32(ZERO).op('i32.eq');
    f.get(at).memory('i32.load8_u', 1).i32(ZERO).op('i32.sub').i32(10).op('i32.lt_u', 'i32.and', 'i32.or').leaveIf(slow); // biome-ignore format: one line
  }

  #word(model: FieldModel, slow: Label): void {
    const { f, quoted } = this.#x;
    this.#token(slow);
    f.block(`word ${model.reader.name}`, (done) => {
      f.block('odd', (odd) => {
        if (!model.words) f.leave(odd);
        else {
          findWord(this.#x, model.words, odd);
          this.#frame.storeWord(model);
          f.leave(done);
        }
      });
      // A number declines the row, because it should be read by a kernel for mixed columns, which takes less time.
      if (!this.#mixed.has(model.reader)) f.get(quoted).op('i32.eqz').leaveIf(slow);
      this.#afterEscapes(slow);
      this.#frame.storeOdd(model, slow);
    });
  }

  /** `q` is the first quote of a string. If this quote may be escaped, sets `q` to the closing quote. */
  #afterEscapes(slow: Label): void {
    const { f, p, q, c, end, quoted } = this.#x;
    f.get(q).i32(1).op('i32.sub').memory('i32.load8_u').i32(BACKSLASH).op('i32.eq').get(quoted).op('i32.and');
    f.when(() => {
      f.get(p).i32(1).op('i32.add').set(q);
      f.block('closed', (closed) => {
        f.repeat(
          () => {
            f.get(q).memory('i32.load8_u').tee(c).i32(QUOTE).op('i32.eq').leaveIf(closed);
            // Skips an escape as two bytes. The hexadecimal digits of a longer escape are read like text.
            f.get(q).i32(1).op('i32.add').get(c).i32(BACKSLASH).op('i32.eq', 'i32.add').set(q);
          },
          () => f.get(q, end).op('i32.lt_u'),
        );
        f.leave(slow);
      });
    });
  }

  /** Reads a string without escapes; its text is bytes p to q - 1. */
  #text(slow: Label): void {
    const { f, p, q, quoted } = this.#x;
    this.#expect(QUOTE, slow);
    f.get(p).set(q).i32(1).set(quoted);
    this.#string(slow);
  }

  /** Sets `q` to the closing quote of a string without escapes whose text begins at `q`. */
  #string(slow: Label): void {
    const { f, q, c, end, head } = this.#x;
    f.block('closed', (closed) => {
      f.repeat(
        () => {
          f.get(q).memory('v128.load').tee(head).bytes(QUOTE).op('i8x16.eq');
          f.get(head).bytes(BACKSLASH).op('i8x16.eq', 'v128.or').bytes(BLANK).get(head).op('i8x16.gt_u', 'v128.or');
          f.op('i8x16.bitmask').tee(c).leaveIf(closed);
          f.bump(q, VECTOR);
        },
        () => f.get(q, end).op('i32.lt_u'),
      );
    });
    f.get(c).op('i32.eqz').leaveIf(slow);
    f.get(q, c).op('i32.ctz', 'i32.add').tee(q).memory('i32.load8_u').i32(QUOTE).op('i32.ne').leaveIf(slow);
  }

  /** Reads a value outside the model; its token is bytes p to q - 1. */
  #anything(slow: Label): void {
    const { f, p, q } = this.#x;
    f.block('taken', (taken) => {
      this.#x.byte().i32(QUOTE).op('i32.eq');
      f.when(() => {
        f.get(p).i32(1).op('i32.add').set(q);
        this.#string(slow);
        f.bump(q, 1).leave(taken);
      });
      this.#token(slow);
      f.block('none', (none) => {
        readNumber(this.#x, { reader: ANY_NUMBER, divisors: this.#divisors, none, slow });
        this.#grammar(slow);
        f.leave(taken);
      });
      findWord(this.#x, this.#others, slow);
    });
  }
}

const numberRules = ({ min, max, wholeNumbers, nullNumbers }: ColumnReader) => ({
  min,
  max,
  wholeNumbers,
  nullNumbers,
});

const shortsOf = (bytes: Buffer): number[] =>
  Array.from({ length: bytes.length / 2 }, (_, i) => bytes.readInt16LE(i * 2));
