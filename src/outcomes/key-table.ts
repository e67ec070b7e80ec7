// Keys to numbers: the bytes of every key once, one after the other, and compared whole, so that no two are ever taken for one.
import { SluiceError } from '../core/errors.ts';

/** Bytes of the longest key. */
const MAX_KEY_BYTES = 4096;
/** Words of one piece of the store; a key lies in one of them. */
const PIECE_WORDS = 1 << 16;
/** Keys there is room for at first. */
const FIRST_KEYS = 1 << 10;

/**
 * An open-addressed hash table. A key takes 8 bytes, 8 to 16 in the table and its UTF-8 bytes, rounded up to whole words of four with
 * one in front; while the table grows half as much again.
 */
export class KeyTable {
  #count = 0;
  /** Number of the key + 1 by its hash; 0: free. A power of two of them, at most half in use. */
  #slots = new Uint32Array(FIRST_KEYS * 2);
  /** Per key. */
  #hashes = new Uint32Array(FIRST_KEYS);
  /** Per key: its first word, counted through all pieces. */
  #starts = new Uint32Array(FIRST_KEYS);
  readonly #pieces: Int32Array[] = [];
  /** The first word that is free. */
  #end = 0;
  /** The key at hand: its length, then its bytes with zeros behind them. */
  readonly #words = new Int32Array(2 + MAX_KEY_BYTES / 4);
  readonly #bytes = Buffer.from(this.#words.buffer);
  /** Keys come from outside: nobody is to know which of them meet. */
  readonly #seed = crypto.getRandomValues(new Int32Array(1))[0]!;

  /** Number of keys; they are numbered from 0 in the order in which they came. */
  get count(): number {
    return this.#count;
  }

  /** The number of a key; -1: it is not there. @throws SluiceError limit_exceeded */
  find(key: string): number {
    const words = this.#load(key);
    return this.#slots[this.#slotOf(this.#hash(words), words)]! - 1;
  }

  /** The number of a key, which is entered if it is not there: `count` was its number then. @throws SluiceError limit_exceeded */
  enter(key: string): number {
    const words = this.#load(key);
    const hash = this.#hash(words);
    const slot = this.#slotOf(hash, words);
    const known = this.#slots[slot]!;
    if (known !== 0) return known - 1;
    const index = this.#count++;
    this.#slots[slot] = index + 1;
    if (index === this.#hashes.length) this.#grow();
    this.#hashes[index] = hash;
    this.#starts[index] = this.#store(words);
    if (this.#count * 2 > this.#slots.length) this.#rehash();
    return index;
  }

  /** Takes a key in hand; gives its words. */
  #load(key: string): number {
    // A UTF-16 unit takes up to three bytes.
    if (key.length * 3 > MAX_KEY_BYTES && Buffer.byteLength(key) > MAX_KEY_BYTES) {
      throw new SluiceError('limit_exceeded', `a key is longer than ${MAX_KEY_BYTES} bytes`, {
        extra: { limit: 'key', value: MAX_KEY_BYTES, unit: 'bytes' },
      });
    }
    const length = this.#bytes.write(key, 4, 'utf8');
    const words = 1 + ((length + 3) >> 2);
    this.#bytes.fill(0, 4 + length, words * 4);
    this.#words[0] = length;
    return words;
  }

  /** MurmurHash3 (Austin Appleby, 32 bits) of the key at hand. */
  #hash(words: number): number {
    let h = this.#seed;
    for (let i = 0; i < words; i++) {
      let k = Math.imul(this.#words[i]!, 0xcc9e2d51);
      k = Math.imul((k << 15) | (k >>> 17), 0x1b873593);
      h ^= k;
      h = (Math.imul((h << 13) | (h >>> 19), 5) + 0xe6546b64) | 0;
    }
    h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
    h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
    return (h ^ (h >>> 16)) >>> 0;
  }

  /** Where the key at hand is, or would be. */
  #slotOf(hash: number, words: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const index = this.#slots[slot]! - 1;
      if (index < 0 || (this.#hashes[index] === hash && this.#same(index, words))) return slot;
    }
  }

  #same(index: number, words: number): boolean {
    const start = this.#starts[index]!;
    const piece = this.#pieces[Math.floor(start / PIECE_WORDS)]!;
    const at = start % PIECE_WORDS;
    for (let i = 0; i < words; i++) if (piece[at + i] !== this.#words[i]) return false;
    return true;
  }

  /** Keeps the key at hand; gives its first word. @throws SluiceError limit_exceeded */
  #store(words: number): number {
    if ((this.#end % PIECE_WORDS) + words > PIECE_WORDS || this.#end === this.#pieces.length * PIECE_WORDS) {
      this.#end = this.#pieces.length * PIECE_WORDS;
      if (this.#end + PIECE_WORDS > 2 ** 32) throw new SluiceError('limit_exceeded', 'the keys take more than 16 GB');
      this.#pieces.push(new Int32Array(PIECE_WORDS));
    }
    const start = this.#end;
    this.#pieces.at(-1)!.set(this.#words.subarray(0, words), start % PIECE_WORDS);
    this.#end += words;
    return start;
  }

  #grow(): void {
    this.#hashes = larger(this.#hashes);
    this.#starts = larger(this.#starts);
  }

  #rehash(): void {
    const slots = new Uint32Array(this.#slots.length * 2);
    const mask = slots.length - 1;
    for (let index = 0; index < this.#count; index++) {
      let slot = this.#hashes[index]! & mask;
      while (slots[slot] !== 0) slot = (slot + 1) & mask;
      slots[slot] = index + 1;
    }
    this.#slots = slots;
  }
}

function larger(array: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(array.length * 2);
  grown.set(array);
  return grown;
}
