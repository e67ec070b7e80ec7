// The words of a column in the memory of a row kernel: a closed hash table, how it is laid out and how it is looked up.

import { type ColumnData, MISSING, UNSEEN } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import type { Encoding } from '../../inference/encode/encoder.ts';
import type { Arena } from '../../wasm/arena.ts';
import type { Label } from '../../wasm/type-stack.ts';
import { firstCodes } from './dictionary.ts';
import { type RowLocals, VECTOR } from './row-locals.ts';

/** A closed hash table of words. */
export interface Words {
  readonly at: number;
  /** Logarithm of the number of slots that a hash can name. */
  readonly bits: number;
  readonly factor: bigint;
  /** Bytes of the longest word. */
  readonly longest: number;
}

/** The valid words of a column: those with a code, and those for missing values where one may be missing. */
export function placeWords(arena: Arena, reader: ColumnReader, encoding: Encoding | null): Words | null {
  const probe: ColumnData = {
    kind: reader.kind,
    numbers: new Float64Array(1),
    codes: new Int32Array(1),
    texts: [],
    unseenRows: [],
  };
  const mayMiss = reader.readMissing(probe, 0) === null;
  const known = reader.kind === 'number' ? [] : [...reader.codes];
  const missing = [...reader.missingTexts].map((word): [string, number] => [word, MISSING]);
  // A missing value that is a fault stays unknown here, also where the word has a code.
  const entries = [...missing, ...known.filter(([word]) => !reader.missingTexts.has(word))]
    .filter(([, code]) => code !== MISSING || mayMiss)
    // A cell that begins with a quote is quoted.
    .filter(([word]) => !word.startsWith('"'));
  const codes = firstCodes(entries);
  return codes.size === 0 ? null : placeTable(arena, codes, (code) => encoding?.values?.[code - UNSEEN] ?? 0);
}

/** A slot: the head of its word, its length (-1: empty), its code, the address of all of it, what it becomes as a float32. */
const SLOT_BYTES = 32;
const WORD_LENGTH = VECTOR;
export const WORD_CODE = VECTOR + 4;
const WORD_TEXT = VECTOR + 8;
export const WORD_FLOAT = VECTOR + 12;
/** Limits of the search for a hash function with few collisions: functions tried, and hashes computed in all. */
const MOST_TRIES = 16;
const MOST_HASHES = 16_000;
/** Dictionaries of up to so many words get eight slots a word, larger ones two. */
const FEW_WORDS = 1_000;
/** Odd multipliers with well spread bits. */
const MIX = 0x9e3779b97f4a7c15n;
const MIX_TAIL = 0xc2b2ae3d27d4eb4fn;

/** Words that may not end within their head. */
export const isLong = (longest: number): boolean => longest >= VECTOR;

/** What is hashed of a word: its head, and its last bytes where it is longer. */
function mixed(bytes: Buffer, longest: number): bigint {
  const part = (from: number): [bigint, bigint] => {
    const all = Buffer.alloc(VECTOR);
    bytes.copy(all, 0, from);
    return [all.readBigUInt64LE(0), all.readBigUInt64LE(8)];
  };
  const [a, b] = part(0);
  if (longest <= VECTOR / 2) return a;
  const head = a ^ (b * MIX);
  if (!isLong(longest)) return head;
  const [c, d] = part(Math.max(0, bytes.length - VECTOR));
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
    bytes.length <= VECTOR
      ? 0
      : arena.take(bytes.length + VECTOR, (memory, to) => new Uint8Array(memory, to).set(bytes)),
  );
  // Linear probing: an empty slot follows at the latest behind all words.
  const slots = (1 << bits) + words.length + 1;
  const at = arena.take(slots * SLOT_BYTES, (memory, to) => {
    const table = Buffer.from(memory, to, slots * SLOT_BYTES);
    for (let s = 0; s < table.length; s += SLOT_BYTES) table.writeInt32LE(-1, s + WORD_LENGTH);
    for (const [i, { bytes, code, mixed }] of words.entries()) {
      let s = slotOf(mixed, factor) * SLOT_BYTES;
      while (table.readInt32LE(s + WORD_LENGTH) >= 0) s += SLOT_BYTES;
      bytes.copy(table, s, 0, VECTOR);
      table.writeInt32LE(bytes.length, s + WORD_LENGTH);
      table.writeInt32LE(code, s + WORD_CODE);
      table.writeInt32LE(texts[i]!, s + WORD_TEXT);
      table.writeFloatLE(becomes(code), s + WORD_FLOAT);
    }
  });
  return { at, bits, factor, longest };
}

/** Emits: slot = address of the slot of the word p..q-1; `head` is its first vector where all words are short. */
export function findWord(x: RowLocals, words: Words, unknown: Label): void {
  const { f, p, q, length, c, head, digits, slot, at } = x;
  const long = isLong(words.longest);
  f.get(q, p).op('i32.sub').tee(length).i32(words.longest).op('i32.gt_u').leaveIf(unknown);
  // Bytes behind the word are masked off.
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
