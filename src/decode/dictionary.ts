// Words looked up by their bytes: categories, words for true, false and missing, keys of JSON objects.

/** The code of a word that is not in the dictionary. */
export const UNKNOWN_WORD = -(2 ** 31);

/** Numbers a slot takes: hash, first byte and length of the word in `#words`, code. */
const SLOT = 4;

/** A closed hash table over UTF-8 bytes, at most a third full; made once, read for every cell. */
export class Dictionary {
  readonly size: number;
  readonly #slots: Int32Array;
  readonly #mask: number;
  readonly #words: Uint8Array;

  /** The first code of a word stands. */
  constructor(entries: Iterable<readonly [word: string, code: number]>) {
    const codes = new Map<string, number>();
    for (const [word, code] of entries) if (word.isWellFormed() && !codes.has(word)) codes.set(word, code);
    this.size = codes.size;
    let capacity = 16;
    while (capacity < codes.size * 3) capacity *= 2;
    this.#mask = capacity - 1;
    this.#slots = new Int32Array(capacity * SLOT);
    for (let s = 0; s < capacity; s++) this.#slots[s * SLOT + 3] = UNKNOWN_WORD;
    this.#words = new Uint8Array(Buffer.from([...codes.keys()].join('')));
    let at = 0;
    for (const [word, code] of codes) {
      const length = Buffer.byteLength(word);
      const hash = hashOf(this.#words, at, at + length);
      let slot = (hash & this.#mask) * SLOT;
      while (this.#slots[slot + 3] !== UNKNOWN_WORD) slot = (slot + SLOT) & (this.#slots.length - 1);
      this.#slots.set([hash, at, length, code], slot);
      at += length;
    }
  }

  /** The code of the word `bytes[start..end)`, or UNKNOWN_WORD. */
  find(bytes: Uint8Array, start: number, end: number): number {
    const slots = this.#slots;
    const words = this.#words;
    const hash = hashOf(bytes, start, end);
    for (let slot = (hash & this.#mask) * SLOT; ; slot = (slot + SLOT) & (slots.length - 1)) {
      const code = slots[slot + 3]!;
      if (code === UNKNOWN_WORD) return code;
      if (slots[slot] !== hash || slots[slot + 2] !== end - start) continue;
      let p = start;
      for (let w = slots[slot + 1]!; p < end && words[w] === bytes[p]; w++) p++;
      if (p === end) return code;
    }
  }
}

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let p = start; p < end; p++) hash = Math.imul(hash, 31) + bytes[p]!;
  return hash ^ (hash >>> 15);
}
