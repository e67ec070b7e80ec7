// Words looked up by their bytes: categories, words for true, false and missing, keys of JSON objects.

/** The code of a word that is not in the dictionary. */
export const UNKNOWN_WORD = -(2 ** 31);

/** Bytes behind a word that a look-up may touch. */
export const WORD_SLACK = 4;

/** Numbers a slot takes: first four bytes, last four, length (-1: empty slot), code. */
const SLOT = 4;
/** Words up to this length are told apart by their first and last four bytes alone. */
const SHORT = 8;

/**
 * A closed hash table over UTF-8 bytes, at most a third full; made once, read for every cell. Bytes are taken four at a
 * time: a loop over single bytes costs a mispredicted branch a word.
 */
export class Dictionary {
  readonly #slots: Int32Array;
  /** Per slot: where its word begins in `#words`. */
  readonly #starts: Int32Array;
  readonly #mask: number;
  readonly #words: DataView;

  /** The first code of a word stands. */
  constructor(entries: Iterable<readonly [word: string, code: number]>) {
    const codes = new Map<string, number>();
    for (const [word, code] of entries) if (word.isWellFormed() && !codes.has(word)) codes.set(word, code);
    let capacity = 16;
    while (capacity < codes.size * 3) capacity *= 2;
    this.#mask = capacity - 1;
    this.#slots = new Int32Array(capacity * SLOT);
    this.#starts = new Int32Array(capacity);
    for (let s = 0; s < capacity; s++) this.#slots[s * SLOT + 2] = -1;
    const bytes = Buffer.from([...codes.keys()].join(''));
    this.#words = new DataView(new ArrayBuffer(bytes.length + WORD_SLACK));
    new Uint8Array(this.#words.buffer).set(bytes);
    let at = 0;
    for (const [word, code] of codes) {
      const length = Buffer.byteLength(word);
      const first = firstBytes(this.#words, at, length);
      const last = lastBytes(this.#words, at + length, length);
      let slot = hashOf(first, last, length) & this.#mask;
      while (this.#slots[slot * SLOT + 2] !== -1) slot = (slot + 1) & this.#mask;
      this.#slots.set([first, last, length, code], slot * SLOT);
      this.#starts[slot] = at;
      at += length;
    }
  }

  /** The code of the word in bytes `start`..`end - 1`, or UNKNOWN_WORD. The view must go on for WORD_SLACK bytes. */
  find(bytes: DataView, start: number, end: number): number {
    const slots = this.#slots;
    const mask = this.#mask;
    const length = end - start;
    const first = firstBytes(bytes, start, length);
    const last = lastBytes(bytes, end, length);
    for (let slot = hashOf(first, last, length) & mask; ; slot = (slot + 1) & mask) {
      const s = slot * SLOT;
      if (slots[s] === first && slots[s + 1] === last && slots[s + 2] === length) {
        if (length <= SHORT || sameBytes(this.#words, this.#starts[slot]!, bytes, start, length)) return slots[s + 3]!;
      }
      if (slots[s + 2] === -1) return UNKNOWN_WORD;
    }
  }
}

/** true if `length` ≥ 4 bytes are the same in both. */
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

function hashOf(first: number, last: number, length: number): number {
  const hash = Math.imul(first ^ Math.imul(last + length, 0x9e3779b1), 0x85ebca6b);
  return hash ^ (hash >>> 15);
}
