// Plain texts of a column as codes of a dictionary of our own, as long as they are few: what is coded is written and read a word once,
// not a cell.
import { Fragments, TokenArena } from './fragments.ts';
import { ESCAPED_BYTES, QUOTE_BYTES, writeTextToken } from './token-text.ts';

/** More different words, or longer ones all in all, are no categories. */
const MOST_WORDS = 2048;
const MOST_BYTES = 64 * 1024;
/** Powers of two; tables may have thousands of columns. */
const FIRST_PLACES = 64;

export class InternedWords {
  /** Of what is null. */
  static readonly NULL = 0;
  readonly #key: Uint8Array;
  /** By hash, open addressing, at most half full: a word's code, 0 where there is none. */
  #places = new Int16Array(FIRST_PLACES);
  /** Bytes of the words one behind the other; one past each, by code. */
  readonly #bytes = new TokenArena();
  readonly #ends: number[] = [0];
  readonly #tokens = new TokenArena();
  readonly #tokenEnds: number[] = [];
  #fragments: Fragments | null = null;

  constructor(key: Uint8Array) {
    this.#key = key;
    this.#tokens.ascii('null');
    this.#tokenEnds.push(this.#tokens.length);
  }

  /** The code of a text; -1: it is one too many. */
  codeOf(from: Uint8Array, start: number, end: number): number {
    const last = this.#places.length - 1;
    for (let place = hashOf(from, start, end) & last; ; place = (place + 1) & last) {
      const code = this.#places[place]!;
      if (code === 0) return this.#add(place, from, start, end);
      if (this.#is(code, from, start, end)) return code;
    }
  }

  #is(code: number, from: Uint8Array, start: number, end: number): boolean {
    const { bytes } = this.#bytes;
    let at = this.#ends[code - 1]!;
    if (this.#ends[code]! - at !== end - start) return false;
    for (let p = start; p < end; p++) if (bytes[at++] !== from[p]) return false;
    return true;
  }

  #add(place: number, from: Uint8Array, start: number, end: number): number {
    const code = this.#ends.length;
    const length = end - start;
    if (code === MOST_WORDS || this.#bytes.length + length > MOST_BYTES) return -1;
    this.#bytes.room(length).set(from.subarray(start, end), this.#bytes.length);
    this.#bytes.length += length;
    this.#ends.push(this.#bytes.length);
    this.#places[place] = code;
    const room = this.#tokens.room(length * ESCAPED_BYTES + QUOTE_BYTES);
    this.#tokens.length = writeTextToken(room, this.#tokens.length, from, start, end);
    this.#tokenEnds.push(this.#tokens.length);
    this.#fragments = null;
    if (code * 2 >= this.#places.length) this.#grow();
    return code;
  }

  #grow(): void {
    const places = new Int16Array(this.#places.length * 2);
    const last = places.length - 1;
    for (let code = 1; code < this.#ends.length; code++) {
      let place = hashOf(this.#bytes.bytes, this.#ends[code - 1]!, this.#ends[code]!) & last;
      while (places[place] !== 0) place = (place + 1) & last;
      places[place] = code;
    }
    this.#places = places;
  }

  /** What codes stand for: all words so far. */
  get fragments(): Fragments {
    this.#fragments ??= new Fragments(this.#key, this.#tokens, Int32Array.from(this.#tokenEnds));
    return this.#fragments;
  }
}

function hashOf(from: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let p = start; p < end; p++) hash = Math.imul(hash ^ from[p]!, 0x01000193);
  return hash ^ (hash >>> 15);
}
