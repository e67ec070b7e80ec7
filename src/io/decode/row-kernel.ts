// Usual rows of delimited text, from bytes to numbers and codes in one pass of WebAssembly made for the columns of a stream.

import { QUOTE } from '../../core/ascii.ts';
import { type ColumnBatch, type ColumnData, MISSING, UNSEEN } from '../../core/batch.ts';
import { PAGE } from '../../core/page.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { DirectEncoding, EncodedInput, Encoding } from '../../inference/encode/encoder.ts';
import { Arena } from '../../wasm/arena.ts';
import { WasmFunction } from '../../wasm/function.ts';
import { assemble, loadModule } from '../../wasm/module.ts';
import { POWERS } from '../../wasm/powers-of-ten.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { SOUND } from './cells.ts';
import type { DelimitedLayout } from './csv-parse-decoder.ts';
import { firstCodes } from './dictionary.ts';
import { EXACT_DIGITS, MINUS, PLUS, POINT, readsAsNumber } from './number-bytes.ts';

/** What the kernel says of a row that it leaves to others. What it shall not look at comes with another state than SOUND. */
const UNUSUAL = 255;

const ZERO = 48;
/** 10 · 256 + 1 */
const PAIR = 2561;
/** Larger than any number of EXACT_DIGITS digits. */
const LARGEST = 10 ** EXACT_DIGITS;
/** Vector loads may touch so many bytes behind the last record, and so many more a field where a record has too few. */
const SLACK = 32;
const FIELD_SLACK = 20;
/** More fields make a function that takes longer to compile than it saves. */
const MAX_FIELDS = 400;

/**
 * A row is usual if no field begins with a quote (or those that do have no other quote but that at the end), numbers are plain
 * decimals of up to 15 digits within the column's range, words are ones the package lists, and there are as many fields as
 * there should be. Whatever is not usual is left to others: the kernel never decides that something is a fault. It reads as
 * `numberAt` and `Dictionary` do, and is faster because it takes 16 bytes at a time and nothing but the results goes through
 * memory.
 */
export class RowKernel {
  readonly #memory: WebAssembly.Memory;
  readonly #run: (rows: number, shift: number) => void;
  readonly #bytesAt: number;
  readonly #recordsAt: number;
  readonly #statesAt: number;
  /** How many rows were left to others. */
  readonly #leftAt: number;
  readonly #outputs: readonly { column: number; kind: ColumnData['kind']; at: number }[];
  /** Inputs of the model with columns that are written here, and their rows. */
  readonly #inputs: readonly { input: EncodedInput; at: number }[];
  /** Where the cells lie that are read as texts: pairs of first byte and one past the last. */
  readonly #texts: readonly { column: number; at: number }[];
  readonly #echoes: readonly { passthrough: number; at: number }[];
  readonly #slack: number;
  #all: Uint8Array;
  #buffer: Buffer;

  private constructor(
    readers: readonly ColumnReader[],
    layout: DelimitedLayout,
    capacity: number,
    direct: DirectEncoding | null,
    quoting: boolean,
  ) {
    const arena = new Arena();
    const divisors = placeDivisors(arena);
    const masks = placeMasks(arena);
    this.#recordsAt = arena.take(capacity * 8);
    this.#statesAt = arena.take(capacity);
    this.#leftAt = arena.take(4);
    const used = new Set(direct?.columns.flatMap((c) => c?.places.map((p) => p.input) ?? []));
    const matrices = (direct?.inputs ?? []).map((input, i) => {
      const at = used.has(i) ? arena.take(capacity * input.width * 4) : 0;
      return { input, at, rowBytes: input.width * 4 };
    });
    this.#inputs = matrices.filter((_, i) => used.has(i));
    const plans: Field[] = Array.from({ length: layout.fields }, () => ({ spans: [] }));
    const outputs: { column: number; kind: ColumnData['kind']; at: number }[] = [];
    const texts: { column: number; at: number }[] = [];
    for (const [column, reader] of readers.entries()) {
      const field = layout.columns[column]!;
      const { kind } = reader;
      if (kind === 'text') {
        const at = arena.take(capacity * 8);
        plans[field]!.spans.push(at);
        texts.push({ column, at });
        continue;
      }
      const encoding = direct?.columns[column] ?? null;
      const words = placeWords(arena, reader, encoding);
      if (encoding) plans[field]!.model = { reader, words, encoding };
      else {
        const at = arena.take(capacity * (kind === 'number' ? 8 : 4));
        outputs.push({ column, kind, at });
        plans[field]!.model = { reader, words, at };
      }
    }
    this.#slack = SLACK + FIELD_SLACK * layout.fields;
    this.#outputs = outputs;
    this.#texts = texts;
    this.#echoes = layout.passthrough.map((field, passthrough) => {
      const at = arena.take(capacity * 8);
      plans[field]!.spans.push(at);
      return { passthrough, at };
    });
    this.#bytesAt = arena.take(0);
    const places = {
      records: this.#recordsAt,
      states: this.#statesAt,
      left: this.#leftAt,
      masks,
      divisors,
      matrices,
    };
    const code = assemble('row-kernel', [rowsFunction(plans, layout.delimiter.charCodeAt(0), quoting, places)]);
    const { memory, exports } = loadModule(code, arena.build());
    this.#memory = memory;
    this.#run = exports.rows!;
    this.#all = new Uint8Array(this.#memory.buffer);
    this.#buffer = Buffer.from(this.#memory.buffer);
  }

  /**
   * `direct`: where numbers go instead of into columns. `quoting`: fields in quotes are usual, too. null where a kernel would not
   * pay or cannot be had.
   */
  static open(
    readers: readonly ColumnReader[],
    layout: DelimitedLayout,
    capacity: number,
    direct: DirectEncoding | null,
    quoting: boolean,
  ): RowKernel | null {
    if (layout.fields > MAX_FIELDS) return null;
    // A field that two columns read.
    if (new Set(layout.columns).size < layout.columns.length) return null;
    try {
      return new RowKernel(readers, layout, capacity, direct, quoting);
    } catch (error) {
      // No memory: there is another way.
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Room for the bytes of a run; who has put them there calls `run`. */
  room(bytes: number): Uint8Array {
    const end = this.#bytesAt + bytes + this.#slack;
    if (end > this.#all.length) {
      this.#memory.grow(Math.ceil((end - this.#all.length) / PAGE));
      this.#all = new Uint8Array(this.#memory.buffer);
      this.#buffer = Buffer.from(this.#memory.buffer);
    }
    return this.#all.subarray(this.#bytesAt, this.#bytesAt + bytes);
  }

  /** First and one past the last byte of each record, as the block counts them; the caller writes them. */
  records(rows: number): Int32Array {
    return new Int32Array(this.#memory.buffer, this.#recordsAt, rows * 2);
  }

  /** State a row; the caller sets them all, those of rows that are not to be looked at to another than SOUND. */
  states(rows: number): Uint8Array {
    return this.#all.subarray(this.#statesAt, this.#statesAt + rows);
  }

  /**
   * Reads the rows into rows `first`.. of the batch; gives how many are left to others. `base`: what the block calls the first
   * byte in the room.
   */
  run(rows: number, base: number, batch: ColumnBatch, first: number): number {
    this.#run(rows, this.#bytesAt - base);
    const { buffer } = this.#memory;
    for (const { input, at } of this.#inputs) {
      (input.data as Float32Array).set(new Float32Array(buffer, at, rows * input.width), first * input.width);
    }
    if (this.#inputs.length > 0) batch.encoded.fill(1, first, first + rows);
    for (const { column, kind, at } of this.#outputs) {
      const out = batch.columns[column]!;
      if (kind === 'number') out.numbers.set(new Float64Array(buffer, at, rows), first);
      else out.codes.set(new Int32Array(buffer, at, rows), first);
    }
    return new Int32Array(buffer, this.#leftAt, 1)[0]!;
  }

  /** Texts of passthrough columns, and of the model's columns of texts through `take`, for the sound rows. */
  texts(
    rows: number,
    batch: ColumnBatch,
    first: number,
    take: (column: number, text: string, row: number) => void,
  ): void {
    if (this.#texts.length + this.#echoes.length === 0) return;
    const states = this.states(rows);
    const each = (at: number, use: (text: string, r: number) => void): void => {
      const spans = new Int32Array(this.#memory.buffer, at, rows * 2);
      for (let r = 0; r < rows; r++) {
        if (states[r] === SOUND) use(this.#buffer.toString('utf8', spans[r * 2]!, spans[r * 2 + 1]!), r);
      }
    };
    for (const { column, at } of this.#texts) each(at, (text, r) => take(column, text, first + r));
    for (const { passthrough, at } of this.#echoes) {
      const out = batch.passthrough[passthrough]!;
      each(at, (text, r) => {
        out[first + r] = text;
      });
    }
  }
}

/** A closed hash table of words. */
interface Words {
  readonly at: number;
  /** Logarithm of the number of slots that a hash can name. */
  readonly bits: number;
  readonly factor: bigint;
  /** Bytes of the longest word. */
  readonly longest: number;
}

interface Field {
  /** Where first and last byte of the field go. */
  readonly spans: number[];
  model?: Model;
}

interface Model {
  readonly reader: ColumnReader;
  readonly words: Words | null;
  /** Where the numbers or codes of the rows go, … */
  readonly at?: number;
  /** … or how they become numbers that the model takes. */
  readonly encoding?: Encoding;
}

/** The words of a column that are no fault: those with a code, and those for missing values where one may be missing. */
function placeWords(arena: Arena, reader: ColumnReader, encoding: Encoding | null): Words | null {
  const probe: ColumnData = { kind: reader.kind, numbers: new Float64Array(1), codes: new Int32Array(1), texts: [] };
  const mayMiss = reader.readMissing(probe, 0) === null;
  const known = reader.kind === 'number' ? [] : [...reader.codes];
  const missing = [...reader.missingTexts].map((word): [string, number] => [word, MISSING]);
  // What is missing and a fault stays unknown here, also where the word has a code.
  const entries = [...missing, ...known.filter(([word]) => !reader.missingTexts.has(word))]
    .filter(([, code]) => code !== MISSING || mayMiss)
    // A cell that begins with a quote is quoted.
    .filter(([word]) => !word.startsWith('"'));
  const codes = firstCodes(entries);
  return codes.size === 0 ? null : placeTable(arena, codes, (code) => encoding?.values?.[code - UNSEEN] ?? 0);
}

/** A slot: the head of its word, its length (-1: empty), its code, the address of all of it, what it becomes as a float32. */
const SLOT_BYTES = 32;
/** Bytes that are compared at once: the head of a word, zeros behind shorter ones. */
const HEAD = 16;
/** Most hash functions that are tried for the one with the fewest collisions, and most hashes for it: they take their time. */
const MOST_TRIES = 16;
const MOST_HASHES = 16_000;
/** Dictionaries of up to so many words get eight slots a word, larger ones two. */
const FEW_WORDS = 1_000;
/** Odd numbers with bits all over. */
const MIX = 0x9e3779b97f4a7c15n;
const MIX_TAIL = 0xc2b2ae3d27d4eb4fn;

/** Words that may not end within their head. */
const isLong = (longest: number): boolean => longest >= HEAD;

/** What a word is told apart by: its head, and its last bytes where it is longer. */
function mixed(bytes: Buffer, longest: number): bigint {
  const part = (from: number): [bigint, bigint] => {
    const all = Buffer.alloc(HEAD);
    bytes.copy(all, 0, from);
    return [all.readBigUInt64LE(0), all.readBigUInt64LE(8)];
  };
  const [a, b] = part(0);
  if (longest <= HEAD / 2) return a;
  const head = a ^ (b * MIX);
  if (!isLong(longest)) return head;
  const [c, d] = part(Math.max(0, bytes.length - HEAD));
  return head ^ ((c ^ d) * MIX_TAIL);
}

function placeTable(arena: Arena, codes: ReadonlyMap<string, number>, becomes: (code: number) => number): Words {
  const longest = [...codes.keys()].reduce((n, text) => Math.max(n, Buffer.byteLength(text)), 0);
  const words = [...codes].map(([text, code]) => {
    const bytes = Buffer.from(text);
    return { bytes, code, mixed: mixed(bytes, longest) };
  });
  let bits = 4;
  while (1 << bits < words.length * (words.length > FEW_WORDS ? 2 : 8)) bits++;
  const slotOf = (mixed: bigint, factor: bigint): number =>
    Number(BigInt.asUintN(64, mixed * factor) >> BigInt(64 - bits));
  let factor = MIX;
  let most = 0;
  const tries = Math.min(MOST_TRIES, Math.ceil(MOST_HASHES / words.length));
  for (let i = 0; i < tries && most < words.length; i++) {
    const other = BigInt.asUintN(64, MIX * BigInt(2 * i + 1));
    const used = new Set(words.map((w) => slotOf(w.mixed, other))).size;
    if (used > most) [factor, most] = [other, used];
  }
  const texts = words.map(({ bytes }) =>
    bytes.length <= HEAD ? 0 : arena.take(bytes.length + HEAD, (memory, to) => new Uint8Array(memory, to).set(bytes)),
  );
  // Who finds a slot taken goes on to the next: an empty one follows at the latest behind all words.
  const slots = (1 << bits) + words.length + 1;
  const at = arena.take(slots * SLOT_BYTES, (memory, to) => {
    const table = Buffer.from(memory, to, slots * SLOT_BYTES);
    for (let s = 0; s < table.length; s += SLOT_BYTES) table.writeInt32LE(-1, s + HEAD);
    for (const [i, { bytes, code, mixed }] of words.entries()) {
      let s = slotOf(mixed, factor) * SLOT_BYTES;
      while (table.readInt32LE(s + HEAD) >= 0) s += SLOT_BYTES;
      bytes.copy(table, s, 0, HEAD);
      table.writeInt32LE(bytes.length, s + HEAD);
      table.writeInt32LE(code, s + HEAD + 4);
      table.writeInt32LE(texts[i]!, s + HEAD + 8);
      table.writeFloatLE(becomes(code), s + HEAD + 12);
    }
  });
  return { at, bits, factor, longest };
}

/** Vectors whose first 0 to 16 bytes are ones. */
const placeMasks = (arena: Arena): number =>
  arena.take((HEAD + 1) * 16, (memory, at) => {
    for (let n = 0; n <= HEAD; n++) new Uint8Array(memory, at + n * 16, n).fill(0xff);
  });

/** What a number is divided by: entry i for one with its point at byte i - 1 of 16, entry 0 for one without. */
const placeDivisors = (arena: Arena): number =>
  arena.take((HEAD + 1) * 8, (memory, at) => {
    new Float64Array(memory, at, HEAD + 1).set([1, ...POWERS.slice(0, HEAD).reverse()]);
  });

interface Places {
  readonly records: number;
  readonly states: number;
  /** How many rows were left to others. */
  readonly left: number;
  readonly masks: number;
  readonly divisors: number;
  /** Row-major float32, an entry an input of the model. */
  readonly matrices: readonly { at: number; rowBytes: number }[];
}

/** rows(count, shift): the address of a byte of the block is its number there plus `shift`. */
function rowsFunction(fields: readonly Field[], delimiter: number, quoting: boolean, places: Places): WasmFunction {
  const f = new WasmFunction('rows', { count: 'i32', shift: 'i32' });
  const { count, shift } = f.params;
  const { row, p, q, end, quoted } = f.locals('i32', 'row', 'p', 'q', 'end', 'quoted');
  const { c, length, slot, at, negative } = f.locals('i32', 'c', 'length', 'slot', 'at', 'negative');
  const left = f.local('i32', 'left');
  const { head, digits } = f.locals('v128', 'head', 'digits');
  const value = f.local('f64', 'value');
  const always = (): WasmFunction => f.i32(1);
  const byte = (): WasmFunction => f.get(p).memory('i32.load8_u');
  /** Address of the row's entry in an array of entries of 2^shift bytes. */
  const entry = (shift: number): WasmFunction => f.get(row).i32(shift).op('i32.shl');
  /** The mask whose number is on the stack. */
  const mask = (): WasmFunction => f.i32(4).op('i32.shl').memory('v128.load', places.masks);
  /** The row's place in each of the matrices. */
  const matrixRows = places.matrices.map((_, i) => f.local('i32', `matrix${i}`));
  /** Stores the row's cell of a column: what `cell` leaves on the stack. */
  const store = ({ at, encoding }: Model, op: 'i32.store' | 'f32.store' | 'f64.store', cell: () => void): void => {
    if (!encoding) {
      entry(op === 'f64.store' ? 3 : 2);
      cell();
      f.memory(op, at!);
      return;
    }
    for (const { input, column } of encoding.places) {
      f.get(matrixRows[input]!);
      cell();
      if (op === 'f64.store') f.op('f32.demote_f64');
      f.memory('f32.store', places.matrices[input]!.at + column * 4);
    }
  };
  /** c = which of the 16 bytes from q on are `stop`; if the field may be `long`, of the first 16 with one, before the end. */
  const seek = (stop: number, long: boolean): void => {
    const look = (): WasmFunction =>
      f.get(q).memory('v128.load').tee(head).bytes(stop).op('i8x16.eq', 'i8x16.bitmask').set(c);
    f.get(p).set(q);
    if (!long) look();
    else {
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
  };

  const plainEnd = (isLast: boolean, long: boolean, slow: Label): void => {
    seek(delimiter, long);
    if (isLast) {
      f.get(c).when(() => f.get(q, c).op('i32.ctz', 'i32.add').get(end).op('i32.lt_u').leaveIf(slow));
      f.get(end).set(q);
    } else {
      f.get(c).op('i32.eqz').leaveIf(slow);
      f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    }
  };

  /** A field in quotes ends at the next one, or is left to others. */
  const quotedEnd = (isLast: boolean, long: boolean, slow: Label): void => {
    f.i32(1).set(quoted).bump(p, 1);
    seek(QUOTE, long);
    f.get(c).op('i32.eqz').leaveIf(slow);
    f.get(q, c).op('i32.ctz', 'i32.add').set(q);
    if (isLast) f.get(q).i32(1).op('i32.add').get(end).op('i32.ne').leaveIf(slow);
    else f.get(q).memory('i32.load8_u', 1).i32(delimiter).op('i32.ne').leaveIf(slow);
  };

  /**
   * p = beginning of the text of the field that begins at p, q = its end; `head`: its first 16 bytes, unless it may be `long`. A
   * field that is too long is left to others. That the delimiter found still belongs to the row is made sure at the last field:
   * till then nothing is believed, and what may be read in vain is there (SLACK and FIELD_SLACK).
   */
  const findEnd = (isLast: boolean, long: boolean, slow: Label): void => {
    if (isLast) f.get(p, end).op('i32.gt_u').leaveIf(slow);
    if (!quoting) plainEnd(isLast, long, slow);
    else {
      f.i32(0).set(quoted);
      f.block('ready', (ready) => {
        f.block('plain', (plain) => {
          byte().i32(QUOTE).op('i32.ne').leaveIf(plain);
          quotedEnd(isLast, long, slow);
          f.leave(ready);
        });
        plainEnd(isLast, long, slow);
      });
    }
  };

  /** slot = address of the slot of the word p..q-1; `head` is its first vector where all words are short. */
  const findWord = (words: Words, unknown: Label): void => {
    const long = isLong(words.longest);
    f.get(q, p).op('i32.sub').tee(length).i32(words.longest).op('i32.gt_u').leaveIf(unknown);
    // All that follows the word is cut off.
    if (long) f.get(p).memory('v128.load').i32(HEAD).get(length, length).i32(HEAD).op('i32.gt_u', 'select').tee(c);
    else f.get(head, length);
    mask().op('v128.and').tee(head).lane('i64x2', 0);
    if (words.longest > HEAD / 2) f.get(head).lane('i64x2', 1).i64(MIX).op('i64.mul', 'i64.xor');
    if (long) {
      f.get(p, length).op('i32.add').get(c).op('i32.sub').memory('v128.load').get(c);
      mask().op('v128.and').tee(digits).lane('i64x2', 0).get(digits).lane('i64x2', 1).op('i64.xor');
      f.i64(MIX_TAIL).op('i64.mul', 'i64.xor');
    }
    f.i64(words.factor)
      .op('i64.mul')
      .i64(BigInt(64 - words.bits))
      .op('i64.shr_u', 'i32.wrap_i64');
    f.i32(Math.log2(SLOT_BYTES)).op('i32.shl').i32(words.at).op('i32.add').set(slot);
    f.block('found', (found) => {
      f.repeat(() => {
        f.block('other', (other) => {
          f.get(slot).memory('v128.load').get(head).op('v128.xor', 'v128.any_true');
          f.get(slot).memory('i32.load', HEAD).get(length).op('i32.ne', 'i32.or').leaveIf(other);
          if (long) {
            f.get(length).i32(HEAD).op('i32.le_u').leaveIf(found);
            f.i32(HEAD).set(at);
            f.repeat(
              () => {
                f.get(p, at).op('i32.add').memory('v128.load');
                f.get(slot)
                  .memory('i32.load', HEAD + 8)
                  .get(at)
                  .op('i32.add')
                  .memory('v128.load')
                  .op('v128.xor');
                f.i32(HEAD).get(length, at).op('i32.sub').tee(c).get(c).i32(HEAD).op('i32.gt_u', 'select');
                mask().op('v128.and', 'v128.any_true').leaveIf(other);
                f.bump(at, HEAD);
              },
              () => f.get(at, length).op('i32.lt_u'),
            );
          }
          f.leave(found);
        });
        f.get(slot).memory('i32.load', HEAD).i32(-1).op('i32.eq').leaveIf(unknown);
        f.bump(slot, SLOT_BYTES);
      }, always);
    });
  };
  /**
   * Reads the number p..q-1. Its last 16 bytes are looked at at once: the bytes before the point move behind it, so that there
   * is one run of digits, whose pairs are added up, then pairs of those.
   */
  const readNumber = (model: Model, none: Label, slow: Label): void => {
    const { reader } = model;
    f.get(q, p).op('i32.sub').tee(length).i32(1).op('i32.sub').i32(HEAD).op('i32.ge_u').leaveIf(none);
    byte().tee(c).i32(MINUS).op('i32.eq').set(negative);
    f.get(q).i32(HEAD).op('i32.sub').memory('v128.load').tee(digits).bytes(POINT).op('i8x16.eq', 'i8x16.bitmask');
    f.i32(0xffff).i32(HEAD).get(length).op('i32.sub', 'i32.shl', 'i32.and').tee(at);
    // 1 + the place of the first point, 0 if there is none.
    f.i32(1).op('i32.shl', 'i32.ctz').i32(31).op('i32.and').set(slot);
    f.get(length, negative).get(c).i32(PLUS).op('i32.eq', 'i32.or', 'i32.sub');
    f.get(at).i32(0).op('i32.ne', 'i32.sub').tee(length);
    f.i32(1).op('i32.sub').i32(EXACT_DIGITS).op('i32.ge_u').leaveIf(none);
    f.get(q)
      .i32(HEAD + 1)
      .op('i32.sub')
      .memory('v128.load')
      .get(digits, slot);
    mask().op('v128.bitselect').bytes(ZERO).op('i8x16.sub').i32(HEAD).get(length).op('i32.sub');
    mask().op('v128.andnot').tee(digits).bytes(9).op('i8x16.gt_u', 'v128.any_true').leaveIf(none);
    // (10 a + b) 256 + a in each pair of bytes.
    f.get(digits).shorts(PAIR, PAIR, PAIR, PAIR, PAIR, PAIR, PAIR, PAIR).op('i16x8.mul').i32(8).op('i16x8.shr_u');
    f.shorts(100, 1, 100, 1, 100, 1, 100, 1).op('i32x4.dot_i16x8_s').tee(digits).get(digits).op('i16x8.narrow_i32x4_s');
    f.shorts(10_000, 1, 10_000, 1, 0, 0, 0, 0).op('i32x4.dot_i16x8_s', 'f64x2.convert_low_i32x4_s').tee(digits);
    f.lane('f64x2', 0).f64(1e8).op('f64.mul').get(digits).lane('f64x2', 1).op('f64.add');
    f.get(slot).i32(3).op('i32.shl').memory('f64.load', places.divisors).op('f64.div').tee(value).op('f64.neg');
    f.get(value, negative).op('select').set(value);
    // No number of so many digits is larger.
    if (reader.min > -LARGEST) f.get(value).f64(reader.min).op('f64.ge', 'i32.eqz').leaveIf(slow);
    if (reader.max < LARGEST) f.get(value).f64(reader.max).op('f64.le', 'i32.eqz').leaveIf(slow);
    if (reader.wholeNumbers) f.get(value, value).op('f64.trunc', 'f64.ne').leaveIf(slow);
    store(model, 'f64.store', () => f.get(value));
  };

  const numberField = (model: Model, isLast: boolean, slow: Label): void => {
    const { reader, words } = model;
    findEnd(isLast, words !== null && isLong(words.longest), slow);
    f.block('done', (done) => {
      const missing = (otherwise: Label): void => {
        findWord(words!, otherwise);
        store(model, 'f64.store', () => f.f64(model.encoding?.missing ?? Number.NaN));
        f.leave(done);
      };
      if (words && [...reader.missingTexts].some(readsAsNumber)) f.block('noWord', missing);
      f.block('none', (none) => {
        readNumber(model, words ? none : slow, slow);
        f.leave(done);
      });
      if (words) missing(slow);
    });
  };

  const readField = ({ model, spans }: Field, isLast: boolean, slow: Label): void => {
    if (model?.reader.kind === 'number') numberField(model, isLast, slow);
    else {
      findEnd(isLast, !model?.words || isLong(model.words.longest), slow);
      if (!model) {
        if (!quoting) byte().i32(QUOTE).op('i32.eq').leaveIf(slow);
      } else if (!model.words) f.leave(slow);
      else {
        findWord(model.words, slow);
        if (model.encoding) store(model, 'f32.store', () => f.get(slot).memory('f32.load', HEAD + 12));
        else store(model, 'i32.store', () => f.get(slot).memory('i32.load', HEAD + 4));
      }
    }
    for (const to of spans) {
      entry(3).get(p).memory('i32.store', to);
      entry(3)
        .get(q)
        .memory('i32.store', to + 4);
    }
    if (quoting) f.get(q, quoted).op('i32.add').set(q);
    if (!isLast) f.get(q).i32(1).op('i32.add').set(p);
  };

  f.repeat(
    () => {
      f.block('next', (next) => {
        f.get(row).memory('i32.load8_u', places.states).leaveIf(next);
        f.block('slow', (slow) => {
          entry(3).memory('i32.load', places.records).get(shift).op('i32.add').set(p);
          entry(3)
            .memory('i32.load', places.records + 4)
            .get(shift)
            .op('i32.add')
            .set(end);
          // A record that was cut inside a character.
          for (const at of [p, end])
            f.get(at).memory('i32.load8_u').i32(0xc0).op('i32.and').i32(0x80).op('i32.eq').leaveIf(slow);
          for (const [k, field] of fields.entries()) readField(field, k === fields.length - 1, slow);
          f.leave(next);
        });
        f.get(row).i32(UNUSUAL).memory('i32.store8', places.states);
      });
      f.get(row).memory('i32.load8_u', places.states).i32(0).op('i32.ne').get(left).op('i32.add').set(left);
      for (const [i, { rowBytes }] of places.matrices.entries()) f.bump(matrixRows[i]!, rowBytes);
      f.bump(row, 1);
    },
    () => f.get(row, count).op('i32.lt_u'),
  );
  f.i32(0).get(left).memory('i32.store', places.left);
  return f.end();
}
