// Usual rows of delimited text, from bytes to numbers and codes in one pass of WebAssembly made for the columns of a stream.
import { Arena } from '../core/arena.ts';
import { type ColumnBatch, type ColumnData, MISSING } from '../core/batch.ts';
import { placePowers } from '../core/powers.ts';
import { assemble, loadModule, PAGE, WasmFunction } from '../core/wasm.ts';
import type { ColumnReader } from '../model/column-reader.ts';
import { SOUND } from './cells.ts';
import type { DelimitedLayout } from './csv-parse-decoder.ts';
import { Dictionary, HASH_LAST } from './dictionary.ts';
import { EXACT_DIGITS, MINUS, PLUS, POINT, readsAsNumber } from './number-bytes.ts';

/** What the kernel says of a row that it leaves to others, and what it is told of those it shall not look at. */
export const UNUSUAL = 1;

const QUOTE = 34;
/** Vector loads may touch so many bytes behind the last record. */
const SLACK = 32;
/** Bytes of a slot of a dictionary: length (-1: empty), code, address of the word. */
const SLOT_BYTES = 16;
/** More fields make a function that takes longer to compile than it saves. */
const MAX_FIELDS = 400;

/**
 * A row is usual if no field begins with a quote, numbers are plain decimals of up to 15 digits within the column's range, words
 * are ones the package lists, and there are as many fields as there should be. Whatever is not usual is left to others:
 * the kernel never decides that something is a fault. It reads as `numberAt` and `Dictionary` do, and is faster because
 * nothing but the results goes through memory.
 */
export class RowKernel {
  readonly #memory: WebAssembly.Memory;
  readonly #run: (rows: number, shift: number) => void;
  readonly #bytesAt: number;
  readonly #recordsAt: number;
  readonly #statesAt: number;
  readonly #outputs: readonly { column: number; kind: ColumnData['kind']; at: number }[];
  /** Where the cells lie that are read as texts: pairs of first byte and one past the last. */
  readonly #texts: readonly { column: number; at: number }[];
  readonly #echoes: readonly { passthrough: number; at: number }[];
  #all: Uint8Array;
  #buffer: Buffer;

  private constructor(readers: readonly ColumnReader[], layout: DelimitedLayout, capacity: number) {
    const arena = new Arena();
    const powers = placePowers(arena);
    this.#recordsAt = arena.take(capacity * 8);
    this.#statesAt = arena.take(capacity);
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
      const at = arena.take(capacity * (kind === 'number' ? 8 : 4));
      outputs.push({ column, kind, at });
      plans[field]!.model = { reader, at, words: placeWords(arena, reader) };
    }
    this.#outputs = outputs;
    this.#texts = texts;
    this.#echoes = layout.passthrough.map((field, passthrough) => {
      const at = arena.take(capacity * 8);
      plans[field]!.spans.push(at);
      return { passthrough, at };
    });
    this.#bytesAt = arena.take(0);
    const places = { records: this.#recordsAt, states: this.#statesAt, powers };
    const code = assemble([rowsFunction(plans, layout.delimiter.charCodeAt(0), places)]);
    const { memory, exports } = loadModule(code, arena.build());
    this.#memory = memory;
    this.#run = exports.rows!;
    this.#all = new Uint8Array(this.#memory.buffer);
    this.#buffer = Buffer.from(this.#memory.buffer);
  }

  /** null where a kernel would not pay or cannot be had. */
  static open(readers: readonly ColumnReader[], layout: DelimitedLayout, capacity: number): RowKernel | null {
    if (layout.fields > MAX_FIELDS) return null;
    // A field that two columns read.
    if (new Set(layout.columns).size < layout.columns.length) return null;
    try {
      return new RowKernel(readers, layout, capacity);
    } catch (error) {
      // No memory: there is another way.
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Room for the bytes of a run; who has put them there calls `run`. */
  room(bytes: number): Uint8Array {
    const end = this.#bytesAt + bytes + SLACK;
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

  /** State a row; the caller sets those of rows that are not to be looked at. */
  states(rows: number): Uint8Array {
    return this.#all.subarray(this.#statesAt, this.#statesAt + rows);
  }

  /** Reads the rows into rows `first`.. of the batch. `base`: what the block calls the first byte in the room. */
  run(rows: number, base: number, batch: ColumnBatch, first: number): void {
    this.#run(rows, this.#bytesAt - base);
    const { buffer } = this.#memory;
    for (const { column, kind, at } of this.#outputs) {
      const out = batch.columns[column]!;
      if (kind === 'number') out.numbers.set(new Float64Array(buffer, at, rows), first);
      else out.codes.set(new Int32Array(buffer, at, rows), first);
    }
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

interface Words {
  at: number;
  mask: number;
  factor: number;
}

interface Field {
  /** Where first and last byte of the field go. */
  readonly spans: number[];
  model?: Model;
}

interface Model {
  readonly reader: ColumnReader;
  /** Where the numbers or codes of the rows go. */
  readonly at: number;
  readonly words: Words | null;
}

/** The words of a column that are no fault: those with a code, and those for missing values where one may be missing. */
function placeWords(arena: Arena, reader: ColumnReader): Words | null {
  const probe: ColumnData = { kind: reader.kind, numbers: new Float64Array(1), codes: new Int32Array(1), texts: [] };
  const mayMiss = reader.readMissing(probe, 0) === null;
  const known = reader.kind === 'number' ? [] : [...reader.codes];
  const missing = [...reader.missingTexts].map((word): [string, number] => [word, MISSING]);
  // What is missing and a fault stays unknown here, also where the word has a code.
  const entries = [...missing, ...known.filter(([word]) => !reader.missingTexts.has(word))]
    .filter(([, code]) => code !== MISSING || mayMiss)
    // A cell that begins with a quote is quoted.
    .filter(([word]) => !word.startsWith('"'));
  if (entries.length === 0) return null;
  const dictionary = new Dictionary(entries);
  const slots = dictionary.slots();
  // Side by side: fewer lines of the cache than an address of its own for each.
  let size = 0;
  const offsets = slots.map((slot) => {
    const offset = size;
    if (slot) size += padded(slot.word);
    return offset;
  });
  const words = arena.take(size, (memory, to) => {
    for (const [i, slot] of slots.entries()) if (slot) new Uint8Array(memory, to + offsets[i]!).set(slot.word);
  });
  const at = arena.take(slots.length * SLOT_BYTES, (memory, to) => {
    const table = new Int32Array(memory, to, slots.length * 4);
    for (const [i, slot] of slots.entries()) {
      table.set(slot ? [slot.word.length, slot.code, words + offsets[i]!] : [-1, 0, 0], i * 4);
    }
  });
  return { at, mask: slots.length - 1, factor: dictionary.factor };
}

const padded = (word: Uint8Array): number => Math.max(16, Math.ceil(word.length / 16) * 16);

/** rows(count, shift): the address of a byte of the block is its number there plus `shift`. */
function rowsFunction(
  fields: readonly Field[],
  delimiter: number,
  places: { records: number; states: number; powers: number },
): WasmFunction {
  const f = new WasmFunction('rows', ['i32', 'i32']);
  const [count, shift] = [0, 1] as const;
  const [row, p, q, end, begin] = [f.local('i32'), f.local('i32'), f.local('i32'), f.local('i32'), f.local('i32')];
  const [c, first, last, length] = [f.local('i32'), f.local('i32'), f.local('i32'), f.local('i32')];
  const [slot, at, negative, fraction] = [f.local('i32'), f.local('i32'), f.local('i32'), f.local('i32')];
  const mantissa = f.local('i64');
  const value = f.local('f64');
  const always = (): WasmFunction => f.i32(1);
  const byte = (): WasmFunction => f.get(p).memory('i32.load8_u');
  /** Address of the row's entry in an array of entries of 2^shift bytes. */
  const entry = (shift: number): WasmFunction => f.get(row).i32(shift).op('i32.shl');

  /** q = end of the field that begins at p. */
  const findEnd = (isLast: boolean, slow: number): void => {
    f.get(p).set(q);
    f.block((found) => {
      f.repeat(
        () => {
          f.get(q).memory('v128.load').bytes(delimiter).op('i8x16.eq', 'i8x16.bitmask').tee(c).leaveIf(found);
          f.bump(q, 16);
        },
        () => f.get(q, end).op('i32.lt_u'),
      );
    });
    if (isLast) {
      f.get(c).when(() => f.get(q, c).op('i32.ctz', 'i32.add').get(end).op('i32.lt_u').leaveIf(slow));
      f.get(end).set(q);
    } else {
      f.get(c).op('i32.eqz').leaveIf(slow);
      f.get(q, c).op('i32.ctz', 'i32.add').tee(q).get(end).op('i32.ge_u').leaveIf(slow);
    }
  };

  /** slot = address of the slot of the word p..q-1. */
  const findWord = (words: Words, unknown: number): void => {
    f.get(q, p).op('i32.sub').set(length);
    // first: the first four bytes or as many as there are; last: the last four, or 0.
    f.get(p).memory('i32.load').i32(-1);
    f.i32(1).get(length).i32(3).op('i32.shl', 'i32.shl').i32(1).op('i32.sub');
    f.get(length).i32(4).op('i32.ge_u', 'select', 'i32.and').set(first);
    f.get(q).i32(4).op('i32.sub').memory('i32.load').i32(0).get(length).i32(4).op('i32.ge_u', 'select').set(last);
    f.get(last, length).op('i32.add').i32(HASH_LAST).op('i32.mul').get(first).op('i32.xor');
    f.i32(words.factor).op('i32.mul').tee(first).i32(16).op('i32.shr_u').get(first).op('i32.xor').set(first);
    f.block((found) => {
      f.repeat(() => {
        f.get(first).i32(words.mask).op('i32.and').i32(4).op('i32.shl').i32(words.at).op('i32.add').tee(slot);
        f.memory('i32.load').tee(c).i32(-1).op('i32.eq').leaveIf(unknown);
        f.block((other) => {
          f.get(c, length).op('i32.ne').leaveIf(other);
          f.i32(0).set(at);
          f.repeat(
            () => {
              // Bytes that differ, of those that are left.
              f.get(p, at).op('i32.add').memory('v128.load');
              f.get(slot).memory('i32.load', 8).get(at).op('i32.add').memory('v128.load');
              f.op('i8x16.eq', 'i8x16.bitmask').i32(-1).op('i32.xor');
              f.i32(0xffff).i32(1).get(length, at).op('i32.sub', 'i32.shl').i32(1).op('i32.sub');
              f.get(length, at).op('i32.sub').i32(16).op('i32.ge_u', 'select', 'i32.and').leaveIf(other);
              f.bump(at, 16);
            },
            () => f.get(at, length).op('i32.lt_u'),
          );
          f.leave(found);
        });
        f.bump(first, 1);
      }, always);
    });
  };

  const readDigits = (): void => {
    f.block((stop) => {
      f.repeat(() => {
        byte().i32(48).op('i32.xor').tee(c).i32(9).op('i32.gt_u').leaveIf(stop);
        f.get(mantissa).i64(10).op('i64.mul').get(c).op('i64.extend_i32_u', 'i64.add').set(mantissa);
        f.bump(p, 1);
      }, always);
    });
  };

  /** Reads the number at p and leaves p behind it. */
  const readNumber = (reader: ColumnReader, to: number, none: number, slow: number): void => {
    byte().tee(c).i32(MINUS).op('i32.eq').set(negative);
    f.get(p, negative).get(c).i32(PLUS).op('i32.eq', 'i32.or', 'i32.add').tee(p).set(first);
    f.i64(0).set(mantissa).i32(0).set(fraction);
    readDigits();
    f.get(p, first).op('i32.sub').set(length);
    byte().i32(POINT).op('i32.eq');
    f.when(() => {
      f.bump(p, 1).get(p).set(q);
      readDigits();
      f.get(p, q).op('i32.sub').tee(fraction).get(length).op('i32.add').set(length);
    });
    f.get(length).op('i32.eqz').leaveIf(none);
    f.get(length).i32(EXACT_DIGITS).op('i32.gt_u').leaveIf(slow);
    f.get(mantissa).op('f64.convert_i64_u').get(fraction).i32(3).op('i32.shl').memory('f64.load', places.powers);
    f.op('f64.div').set(value);
    f.get(negative).when(() => f.get(value).op('f64.neg').set(value));
    f.get(value).f64(reader.min).op('f64.ge', 'i32.eqz').leaveIf(slow);
    f.get(value).f64(reader.max).op('f64.le', 'i32.eqz').leaveIf(slow);
    if (reader.wholeNumbers) f.get(value, value).op('f64.trunc', 'f64.ne').leaveIf(slow);
    entry(3).get(value).memory('f64.store', to);
  };

  const numberField = ({ reader, at: to, words }: Model, isLast: boolean, slow: number): void => {
    const missing = (done: number): void => {
      entry(3).f64(Number.NaN).memory('f64.store', to);
      f.get(q).set(p).leave(done);
    };
    f.block((done) => {
      if (words && [...reader.missingTexts].some(readsAsNumber)) {
        f.block((unknown) => {
          findEnd(isLast, slow);
          findWord(words, unknown);
          missing(done);
        });
      }
      f.block((none) => {
        readNumber(reader, to, none, slow);
        if (isLast) f.get(p, end).op('i32.ne').leaveIf(slow);
        else {
          byte().i32(delimiter).op('i32.ne').leaveIf(slow);
          f.get(p, end).op('i32.ge_u').leaveIf(slow);
        }
        f.leave(done);
      });
      if (!words) f.leave(slow);
      else {
        f.get(begin).set(p);
        findEnd(isLast, slow);
        findWord(words, slow);
        missing(done);
      }
    });
  };

  const readField = (field: Field, isLast: boolean, slow: number): void => {
    const { model, spans } = field;
    if (model?.reader.kind === 'number') {
      f.get(p).set(begin);
      numberField(model, isLast, slow);
    } else {
      f.get(p).set(begin);
      findEnd(isLast, slow);
      if (!model) byte().i32(QUOTE).op('i32.eq').leaveIf(slow);
      else if (!model.words) f.leave(slow);
      else {
        findWord(model.words, slow);
        entry(2).get(slot).memory('i32.load', 4).memory('i32.store', model.at);
      }
      f.get(q).set(p);
    }
    for (const to of spans) {
      entry(3).get(begin).memory('i32.store', to);
      entry(3)
        .get(p)
        .memory('i32.store', to + 4);
    }
    if (!isLast) f.bump(p, 1);
  };

  f.repeat(
    () => {
      f.block((next) => {
        f.get(row).memory('i32.load8_u', places.states).leaveIf(next);
        f.block((slow) => {
          entry(3).memory('i32.load', places.records).get(shift).op('i32.add').set(p);
          entry(3)
            .memory('i32.load', places.records + 4)
            .get(shift)
            .op('i32.add')
            .set(end);
          for (const [k, field] of fields.entries()) readField(field, k === fields.length - 1, slow);
          f.leave(next);
        });
        f.get(row).i32(UNUSUAL).memory('i32.store8', places.states);
      });
      f.bump(row, 1);
    },
    () => f.get(row, count).op('i32.lt_u'),
  );
  return f;
}
