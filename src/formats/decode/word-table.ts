// Writes the words of a column to a row kernel's memory as a hash table with open addressing, and emits the lookup.

import { type ColumnData, MISSING, UNSEEN } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Encoding } from '../../inference/encode/encoder.ts';
import type { Arena } from '../../wasm/arena.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { firstCodes } from './dictionary.ts';
import { type RowLocals, VECTOR } from './row-locals.ts';

/** The hash table of a column's words. `at`: its address. */
export interface Words {
  readonly at: number;
  /** Binary logarithm of the number of slots that a hash can select. */
  readonly bits: number;
  readonly factor: bigint;
  /** Length of the longest word, bytes. */
  readonly longest: number;
}

/**
 * The words of a column with their codes: the texts for missing values, if the column accepts them, and the categories.
 * A number column always has its texts for missing values, because they can look like numbers.
 */
function wordsOf(reader: ColumnReader): [word: string, code: number][] {
  const missing = [...reader.missingTexts].map((word): [string, number] => [word, MISSING]);
  if (reader.kind === 'number') return missing;
  // If the column does not accept missing values, the table omits their texts, even those that have a code.
  const known = [...reader.codes].filter(([word]) => !reader.missingTexts.has(word));
  return mayMiss(reader) ? [...missing, ...known] : known;
}

/** Whether the column accepts missing values. */
export function mayMiss(reader: ColumnReader): boolean {
  const probe: ColumnData = {
    kind: reader.kind,
    numbers: new Float64Array(1),
    codes: new Int32Array(1),
    texts: [],
    unseenRows: [],
  };
  return reader.readMissing(probe, 0) === null;
}

const placeCodes = (arena: Arena, codes: ReadonlyMap<string, number>, encoding: Encoding | null): Words | null =>
  codes.size === 0 ? null : placeTable(arena, codes, (code) => encoding?.values?.[code - UNSEEN] ?? 0);

/**
 * Writes the word table of a column of delimited text. It omits words that begin with a quote, because such a cell
 * would be a quoted field.
 */
export const placeWords = (arena: Arena, reader: ColumnReader, encoding: Encoding | null): Words | null =>
  placeCodes(arena, firstCodes(wordsOf(reader).filter(([word]) => !word.startsWith('"'))), encoding);

/** Matches JSON integers that have the same text in JavaScript. */
const SHORT_WHOLE = /^(?:0|-?[1-9]\d{0,14})$/;

/**
 * Writes the table of the JSON tokens of a column's words. Strings are stored without their closing quote. A string
 * that contains a quote is omitted, because it would seem to end at that quote. If there are few words, strings are
 * also stored with all non-ASCII characters escaped. The table also has the tokens null, true and false and, if
 * `numbers`, numbers.
 */
export function placeTokens(
  arena: Arena,
  reader: ColumnReader,
  encoding: Encoding | null,
  numbers: boolean,
): Words | null {
  const words = firstCodes(wordsOf(reader));
  const tokens = new Map<string, number>();
  for (const [word, code] of words) {
    const token = JSON.stringify(word).slice(0, -1);
    if (token.indexOf('"', 1) >= 0) continue;
    tokens.set(token, code);
    if (words.size <= FEW_WORDS) tokens.set(inAscii(token), code);
  }
  if (mayMiss(reader)) tokens.set('null', MISSING);
  if (reader.kind === 'number') return placeCodes(arena, tokens, encoding);
  const wholes = numbers && reader.takesNumbers;
  for (const [word, code] of words) if (wholes && SHORT_WHOLE.test(word)) tokens.set(word, code);
  for (const word of ['true', 'false']) {
    const code = reader.kind === 'boolean' ? Number(word === 'true') : words.get(word);
    if (code !== undefined && reader.takesBooleans) tokens.set(word, code);
  }
  return placeCodes(arena, tokens, encoding);
}

/** Writes the table of null, true and false: the passthrough values that are neither strings nor numbers. */
export const placeJsonWords = (arena: Arena): Words =>
  placeTable(arena, new Map(['null', 'true', 'false'].map((word) => [word, 0])), () => 0);

/** Writes the table of JSON keys. `keys` include their quotes, the table omits them. The code of a key is its index. */
export const placeJsonKeys = (arena: Arena, keys: readonly Buffer[]): Words =>
  placeTable(arena, new Map(keys.map((key, i) => [key.toString().slice(1, -1), i])), () => 0);

const inAscii = (token: string): string =>
  token.replace(/[^\x00-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);

/**
 * Layout of a slot: the first 16 bytes of the word, its length (-1: empty slot), its code, the address of its full
 * text, and its float32 encoding.
 */
const SLOT_BYTES = 32;
const WORD_LENGTH = VECTOR;
export const WORD_CODE = VECTOR + 4;
const WORD_TEXT = VECTOR + 8;
export const WORD_FLOAT = VECTOR + 12;
/** Limits of the search for a hash function with few collisions: functions tried, and total hashes computed. */
const MOST_TRIES = 16;
const MOST_HASHES = 16_000;
/** Tables of up to this many words have at least eight slots per word, larger tables at least two. */
const FEW_WORDS = 1_000;
/** Odd multipliers with well-distributed bits. */
const MIX = 0x9e3779b97f4a7c15n;
const MIX_TAIL = 0xc2b2ae3d27d4eb4fn;

/** Whether words may be longer than their first vector. */
export const isLong = (longest: number): boolean => longest >= VECTOR;

/** The bytes of all words, concatenated. */
interface Texts {
  readonly bytes: Buffer;
  /** Start of each word, followed by the end of the last word. */
  readonly starts: Int32Array;
}

function textsOf(words: readonly string[]): Texts {
  const bytes = Buffer.from(words.join(''));
  const starts = new Int32Array(words.length + 1);
  for (const [i, word] of words.entries()) starts[i + 1] = starts[i]! + Buffer.byteLength(word);
  return { bytes, starts };
}

/** The hash input of each word: its first bytes and, if the word is long, also its last bytes. */
function mixedOf({ bytes, starts }: Texts, longest: number): BigUint64Array {
  const part = Buffer.alloc(VECTOR);
  const mixed = new BigUint64Array(starts.length - 1);
  for (let i = 0; i < mixed.length; i++) {
    const [from, to] = [starts[i]!, starts[i + 1]!];
    bytes.copy(part.fill(0), 0, from, to);
    let hash = part.readBigUInt64LE(0);
    if (longest > VECTOR / 2) hash ^= BigInt.asUintN(64, part.readBigUInt64LE(8) * MIX);
    if (isLong(longest)) {
      bytes.copy(part.fill(0), 0, Math.max(from, to - VECTOR), to);
      hash ^= BigInt.asUintN(64, (part.readBigUInt64LE(0) ^ part.readBigUInt64LE(8)) * MIX_TAIL);
    }
    mixed[i] = hash;
  }
  return mixed;
}

/** The multiplier that spreads the words over the most slots, and the slot of each word. */
function slotsOf(mixed: BigUint64Array, bits: number): [factor: bigint, slots: Int32Array] {
  const by = (factor: bigint): Int32Array =>
    Int32Array.from(mixed, (hash) => Number(BigInt.asUintN(64, hash * factor) >> BigInt(64 - bits)));
  let best: [bigint, Int32Array] = [MIX, by(MIX)];
  let most = 0;
  const tries = Math.min(MOST_TRIES, Math.floor(MOST_HASHES / mixed.length));
  for (let i = 0; i < tries && most < mixed.length; i++) {
    const factor = BigInt.asUintN(64, MIX * BigInt(2 * i + 1));
    const slots = by(factor);
    const used = new Set(slots).size;
    if (used > most) [best, most] = [[factor, slots], used];
  }
  return best;
}

function placeTable(arena: Arena, codes: ReadonlyMap<string, number>, becomes: (code: number) => number): Words {
  const all = textsOf([...codes.keys()]);
  const { bytes, starts } = all;
  const lengthOf = (i: number): number => starts[i + 1]! - starts[i]!;
  const longest = starts.reduce((n, _, i) => (i < codes.size ? Math.max(n, lengthOf(i)) : n), 0);
  let bits = 4;
  while (1 << bits < codes.size * (codes.size > FEW_WORDS ? 2 : 8)) bits++;
  const [factor, slotOf] = slotsOf(mixedOf(all, longest), bits);
  // The lookup may read up to a vector beyond the last word.
  const texts = isLong(longest)
    ? arena.take(bytes.length + VECTOR, (memory, to) => new Uint8Array(memory, to).set(bytes))
    : 0;
  // Linear probing ends at an empty slot. The table does not wrap around, so it has additional slots for all words.
  const slots = (1 << bits) + codes.size + 1;
  const at = arena.take(slots * SLOT_BYTES, (memory, to) => {
    const table = Buffer.from(memory, to, slots * SLOT_BYTES);
    for (let s = 0; s < table.length; s += SLOT_BYTES) table.writeInt32LE(-1, s + WORD_LENGTH);
    let i = 0;
    for (const code of codes.values()) {
      let s = slotOf[i]! * SLOT_BYTES;
      while (table.readInt32LE(s + WORD_LENGTH) >= 0) s += SLOT_BYTES;
      bytes.copy(table, s, starts[i]!, Math.min(starts[i + 1]!, starts[i]! + VECTOR));
      table.writeInt32LE(lengthOf(i), s + WORD_LENGTH);
      table.writeInt32LE(code, s + WORD_CODE);
      table.writeInt32LE(texts + starts[i]!, s + WORD_TEXT);
      table.writeFloatLE(becomes(code), s + WORD_FLOAT);
      i++;
    }
  });
  return { at, bits, factor, longest };
}

/**
 * Emits code that sets `slot` to the address of the slot of the word in bytes p to q - 1. If all words are short,
 * `head` must contain the first vector of the word.
 */
export function findWord(x: RowLocals, words: Words, unknown: Label): void {
  const { f, p, q, length, c, head, digits, slot, at } = x;
  const long = isLong(words.longest);
  f.get(q, p).op('i32.sub').tee(length).i32(words.longest).op('i32.gt_u').leaveIf(unknown);
  // Clears the bytes after the word.
  if (long) f.get(p).memory('v128.load').i32(VECTOR).get(length, length).i32(VECTOR).op('i32.gt_u', 'select').tee(c);
  else f.get(head, length);
  x.mask().op('v128.and').tee(head).lane('i64x2', 0);
  if (words.longest > VECTOR / 2) f.get(head).lane('i64x2', 1).i64(MIX).op('i64.mul', 'i64.xor');
  if (long) {
    f.get(p, length).op('i32.add').get(c).op('i32.sub').memory('v128.load').get(c);
    x.mask().op('v128.and').tee(digits).lane('i64x2', 0).get(digits).lane('i64x2', 1).op('i64.xor');
    f.i64(MIX_TAIL).op('i64.mul', 'i64.xor');
  }
  f.i64(words.factor)
    .op('i64.mul')
    .i64(BigInt(64 - words.bits))
    .op('i64.shr_u', 'i32.wrap_i64');
  f.i32(Math.log2(SLOT_BYTES)).op('i32.shl').i32(words.at).op('i32.add').set(slot);
  f.block('found', (found) => {
    f.repeat(
      () => {
        f.block('other', (other) => {
          f.get(slot).memory('v128.load').get(head).op('v128.xor', 'v128.any_true');
          f.get(slot).memory('i32.load', WORD_LENGTH).get(length).op('i32.ne', 'i32.or').leaveIf(other);
          if (long) {
            f.get(length).i32(VECTOR).op('i32.le_u').leaveIf(found);
            f.i32(VECTOR).set(at);
            f.repeat(
              () => {
                f.get(p, at).op('i32.add').memory('v128.load');
                f.get(slot).memory('i32.load', WORD_TEXT).get(at).op('i32.add').memory('v128.load').op('v128.xor');
                f.i32(VECTOR).get(length, at).op('i32.sub').tee(c).get(c).i32(VECTOR).op('i32.gt_u', 'select');
                x.mask().op('v128.and', 'v128.any_true').leaveIf(other);
                f.bump(at, VECTOR);
              },
              () => f.get(at, length).op('i32.lt_u'),
            );
          }
          f.leave(found);
        });
        f.get(slot).memory('i32.load', WORD_LENGTH).i32(-1).op('i32.eq').leaveIf(unknown);
        f.bump(slot, SLOT_BYTES);
      },
      () => f.i32(1),
    );
  });
}
