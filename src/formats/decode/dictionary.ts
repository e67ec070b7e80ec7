// A hash table that looks up words by their bytes: categories, texts for true, false and missing values, and JSON keys.

/** The code of a word that is not in the dictionary. */
export const UNKNOWN_WORD = -(2 ** 31);

/** Number of bytes after a word that a lookup may read. */
export const WORD_SLACK = 4;

/** Hash multiplier for the last bytes and the length. */
const HASH_LAST = 0x85ebca6b;
/**
 * Number of integers per slot: the first four bytes of the word, its last four bytes, its length (-1: the slot is
 * empty), and its code.
 */
const SLOT = 4;
/** Words of at most this length are compared only by their length and their first and last four bytes. */
const SHORT = 8;

/**
 * Maximum number of hash functions to try. Fewer collisions make lookups faster, because collisions dominate the lookup
 * time. `MOST_HASHES` reduces the number of tries for many words.
 */
const MOST_TRIES = 256;
const MOST_HASHES = 200_000;
/** How many times the table may be doubled to avoid collisions. */
const DOUBLINGS = 2;

interface Word {
  readonly first: number;
  readonly last: number;
  readonly length: number;
  readonly code: number;
  /** Start of the word in `#words`. */
  readonly at: number;
}

/** The words that can be looked up: all well-formed words, each with the first of its codes. */
export function firstCodes(entries: Iterable<readonly [word: string, code: number]>): Map<string, number> {
  const codes = new Map<string, number>();
  for (const [word, code] of entries) if (word.isWellFormed() && !codes.has(word)) codes.set(word, code);
  return codes;
}

/**
 * A hash table with open addressing over UTF-8 bytes. It is at most a third full and usually without collisions,
 * because it is built once and read for every cell. Bytes are compared four at a time: a loop over single bytes costs a
 * mispredicted branch per word.
 */
export class Dictionary {
  readonly #slots: Int32Array;
  /** Start of each slot's word in `#words`. */
  readonly #starts: Int32Array;
  readonly #mask: number;
  /** Multiplier of the hash function. */
  readonly #factor: number;
  readonly #words: DataView;

  /** If a word occurs several times, its first code is used. */
  constructor(entries: Iterable<readonly [word: string, code: number]>) {
    const codes = firstCodes(entries);
    let capacity = 16;
    while (capacity < codes.size * 3) capacity *= 2;
    const bytes = Buffer.from([...codes.keys()].join(''));
    this.#words = new DataView(new ArrayBuffer(bytes.length + WORD_SLACK));
    new Uint8Array(this.#words.buffer).set(bytes);
    let at = 0;
    const words = Array.from(codes, ([word, code]): Word => {
      const length = Buffer.byteLength(word);
      const start = at;
      at += length;
      const last = lastBytes(this.#words, at, length);
      return { first: firstBytes(this.#words, start, length), last, length, code, at: start };
    });
    let factor = bestFactor(words, capacity - 1);
    for (let i = 0; i < DOUBLINGS && collisions(words, factor, capacity - 1) > 0; i++) {
      capacity *= 2;
      factor = bestFactor(words, capacity - 1);
    }
    this.#factor = factor;
    this.#mask = capacity - 1;
    this.#slots = new Int32Array(capacity * SLOT);
    this.#starts = new Int32Array(capacity);
    for (let s = 0; s < capacity; s++) this.#slots[s * SLOT + 2] = -1;
    for (const { first, last, length, code, at } of words) {
      let slot = slotOf(first, last, length, this.#factor, this.#mask);
      while (this.#slots[slot * SLOT + 2] !== -1) slot = (slot + 1) & this.#mask;
      this.#slots.set([first, last, length, code], slot * SLOT);
      this.#starts[slot] = at;
    }
  }

  /**
   * The code of the word in bytes `start` to `end - 1`, or UNKNOWN_WORD. The view must extend at least WORD_SLACK bytes
   * beyond `end`.
   */
  find(bytes: DataView, start: number, end: number): number {
    const slots = this.#slots;
    const length = end - start;
    const first = firstBytes(bytes, start, length);
    const last = lastBytes(bytes, end, length);
    const slot = slotOf(first, last, length, this.#factor, this.#mask);
    const s = slot * SLOT;
    if (slots[s] === first && slots[s + 1] === last && slots[s + 2] === length && length <= SHORT) return slots[s + 3]!;
    return slots[s + 2] === -1 ? UNKNOWN_WORD : this.#search(bytes, start, length, first, last, slot);
  }

  /**
   * Looks up cells `at`, `at + step`, … of all `rows` rows whose `skip` is 0, and writes their codes starting at index
   * `to`. Gives the same results as one `find` per cell, in a third of the time, because the lookup state stays in
   * registers.
   */
  findAll(
    bytes: DataView,
    starts: Int32Array,
    ends: Int32Array,
    at: number,
    step: number,
    rows: number,
    skip: Uint8Array,
    codes: Int32Array,
    to: number,
  ): void {
    const slots = this.#slots;
    const factor = this.#factor;
    const mask = this.#mask;
    for (let r = 0; r < rows; r++, at += step) {
      if (skip[r] !== 0) continue;
      const start = starts[at]!;
      const end = ends[at]!;
      const length = end - start;
      const first = firstBytes(bytes, start, length);
      const last = lastBytes(bytes, end, length);
      const slot = slotOf(first, last, length, factor, mask);
      const s = slot * SLOT;
      if (slots[s] === first && slots[s + 1] === last && slots[s + 2] === length && length <= SHORT) {
        codes[to + r] = slots[s + 3]!;
      } else codes[to + r] = this.#search(bytes, start, length, first, last, slot);
    }
  }

  /** Finds a long word, or a word that is not in the slot of its hash because of a collision. */
  #search(bytes: DataView, start: number, length: number, first: number, last: number, slot: number): number {
    const slots = this.#slots;
    for (; slots[slot * SLOT + 2] !== -1; slot = (slot + 1) & this.#mask) {
      const s = slot * SLOT;
      if (slots[s] !== first || slots[s + 1] !== last || slots[s + 2] !== length) continue;
      if (length <= SHORT || sameBytes(this.#words, this.#starts[slot]!, bytes, start, length)) return slots[s + 3]!;
    }
    return UNKNOWN_WORD;
  }
}

function collisions(words: readonly Word[], factor: number, mask: number): number {
  return words.length - new Set(words.map((w) => slotOf(w.first, w.last, w.length, factor, mask))).size;
}

function bestFactor(words: readonly Word[], mask: number): number {
  let best = 1;
  let fewest = words.length + 1;
  const tries = Math.min(MOST_TRIES, MOST_HASHES / words.length);
  for (let i = 1; i <= tries && fewest > 0; i++) {
    const factor = Math.imul(i, 0x9e3779b1) | 1;
    const found = collisions(words, factor, mask);
    if (found < fewest) [best, fewest] = [factor, found];
  }
  return best;
}

/** Whether `length` bytes (at least 4) are equal. */
function sameBytes(a: DataView, aStart: number, b: DataView, bStart: number, length: number): boolean {
  const last = length - 4;
  for (let i = 0; i < last; i += 4) {
    if (a.getInt32(aStart + i, true) !== b.getInt32(bStart + i, true)) return false;
  }
  return a.getInt32(aStart + last, true) === b.getInt32(bStart + last, true);
}

const firstBytes = (bytes: DataView, start: number, length: number): number =>
  length >= 4 ? bytes.getInt32(start, true) : bytes.getInt32(start, true) & ((1 << (length * 8)) - 1);

const lastBytes = (bytes: DataView, end: number, length: number): number =>
  length >= 4 ? bytes.getInt32(end - 4, true) : 0;

function slotOf(first: number, last: number, length: number, factor: number, mask: number): number {
  const hash = Math.imul(first ^ Math.imul(last + length, HASH_LAST), factor);
  return ((hash >>> 16) ^ hash) & mask;
}
