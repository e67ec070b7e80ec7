// Dictionaries of Arrow columns: those of the file, which deltas may extend, and those that Sluice creates for columns with few distinct texts.
import type { Batch, DataType } from '@uwdata/flechette';
import { ESCAPED_BYTES, Fragments, QUOTE_BYTES, TokenArena, writeTextToken } from '../columns/json-text.ts';

interface Piece {
  words: Batch<unknown>;
  /** Code of the first word of this piece. */
  first: number;
}

export class ArrowDictionary {
  readonly type: DataType;
  readonly pieces: Piece[] = [];
  /** Number of words. */
  count = 0;
  /** Bytes of all pieces. */
  bytes = 0;

  constructor(type: DataType) {
    this.type = type;
  }

  add(words: Batch<unknown>, bytes: number): void {
    this.pieces.push({ words, first: this.count });
    this.count += words.length;
    this.bytes += bytes;
  }

  /** The index of the piece that contains the word of a code. */
  pieceOf(code: number): number {
    let [low, high] = [0, this.pieces.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.pieces[middle]!.first <= code) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

// Assigns codes to the texts of a column as long as there are few distinct texts. Each distinct text is then formatted
// and decoded only once.

/** Limits above which a column is not treated as categorical: distinct words, and bytes of these words. */
const MOST_WORDS = 2048;
const MOST_BYTES = 64 * 1024;
/** Initial size of the hash table, a power of two. It is small because tables may have thousands of columns. */
const FIRST_PLACES = 64;

/** The texts of a column in Arrow's layout: bytes, offsets and validity bits. */
export interface PlainTexts {
  text: DataView;
  /**
   * Start offsets of the texts and the end of the last text, `step` integers apart. Of 64-bit offsets only the lower
   * halves are read, because no message exceeds 32-bit offsets.
   */
  offsets: Int32Array;
  step: 1 | 2;
  /** Validity bits, one per row; null: all rows have a text. */
  validity: Uint8Array | null;
  /** First row to read. */
  from: number;
}

export const outside = (): Error => new Error('a text is outside its column');

export class InternedWords {
  /** Code of nulls. */
  static readonly NULL = 0;
  readonly #key: Uint8Array;
  /** Hash table with open addressing, at most half full: each slot holds the code of a word, or 0 if it is empty. */
  #places = new Int16Array(FIRST_PLACES);
  /** Bytes of all words, concatenated. `#ends[code]` is one past the last byte of a word. */
  readonly #bytes = new TokenArena();
  #view = dataViewOf(this.#bytes.bytes);
  readonly #ends = new Int32Array(MOST_WORDS);
  #count = 1;
  readonly #tokens = new TokenArena();
  readonly #tokenEnds: number[] = [];
  #fragments: Fragments | null = null;

  constructor(key: Uint8Array) {
    this.#key = key;
    this.#tokens.ascii('null');
    this.#tokenEnds.push(this.#tokens.length);
  }

  /**
   * Writes the codes of the texts from row `from`. Returns false if there are too many distinct texts.
   * @throws Error if a text is outside its column
   */
  fill(codes: Int32Array, rows: number, { text, offsets, step, validity, from }: PlainTexts): boolean {
    const most = text.byteLength;
    for (let i = 0, row = from; i < rows; i++, row++) {
      if (validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0) codes[i] = InternedWords.NULL;
      else {
        const start = offsets[row * step]!;
        const end = offsets[(row + 1) * step]!;
        if (!(start >= 0 && start <= end && end <= most)) throw outside();
        if (step === 2 && (offsets[row * 2 + 1] !== 0 || offsets[row * 2 + 3] !== 0)) throw outside();
        const code = this.#codeOf(text, start, end);
        if (code < 0) return false;
        codes[i] = code;
      }
    }
    return true;
  }

  /** Returns the code of a text, which is added if it is new; -1: the limits allow no further word. */
  #codeOf(from: DataView, start: number, end: number): number {
    const places = this.#places;
    const last = places.length - 1;
    for (let place = hashOf(from, start, end) & last; ; place = (place + 1) & last) {
      const code = places[place]!;
      if (code === 0) return this.#add(place, from, start, end);
      if (this.#is(code, from, start, end)) return code;
    }
  }

  #is(code: number, from: DataView, start: number, end: number): boolean {
    const view = this.#view;
    let at = this.#ends[code - 1]!;
    if (this.#ends[code]! - at !== end - start) return false;
    let p = start;
    for (; p <= end - 4; p += 4, at += 4) if (view.getInt32(at, true) !== from.getInt32(p, true)) return false;
    for (; p < end; p++, at++) if (view.getUint8(at) !== from.getUint8(p)) return false;
    return true;
  }

  #add(place: number, from: DataView, start: number, end: number): number {
    const code = this.#count;
    const length = end - start;
    if (code === MOST_WORDS || this.#bytes.length + length > MOST_BYTES) return -1;
    const text = new Uint8Array(from.buffer, from.byteOffset + start, length);
    this.#bytes.room(length).set(text, this.#bytes.length);
    this.#bytes.length += length;
    this.#view = dataViewOf(this.#bytes.bytes);
    this.#ends[code] = this.#bytes.length;
    this.#count++;
    this.#places[place] = code;
    const room = this.#tokens.room(length * ESCAPED_BYTES + QUOTE_BYTES);
    this.#tokens.length = writeTextToken(room, this.#tokens.length, text, 0, length);
    this.#tokenEnds.push(this.#tokens.length);
    this.#fragments = null;
    if (code * 2 >= this.#places.length) this.#grow();
    return code;
  }

  #grow(): void {
    const places = new Int16Array(this.#places.length * 2);
    const last = places.length - 1;
    for (let code = 1; code < this.#count; code++) {
      let place = hashOf(this.#view, this.#ends[code - 1]!, this.#ends[code]!) & last;
      while (places[place] !== 0) place = (place + 1) & last;
      places[place] = code;
    }
    this.#places = places;
  }

  /** The tokens of all words so far, indexed by code. */
  get fragments(): Fragments {
    this.#fragments ??= new Fragments(this.#key, this.#tokens.copy(), Int32Array.from(this.#tokenEnds));
    return this.#fragments;
  }
}

/** A DataView of the same bytes, to read four bytes at a time. */
export const dataViewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

/** Hashes four bytes per step. */
function hashOf(from: DataView, start: number, end: number): number {
  let hash = end - start;
  let p = start;
  for (; p <= end - 4; p += 4) {
    hash = Math.imul(hash ^ from.getInt32(p, true), 0x9e3779b1);
    // Multiplication affects only higher bits, so the upper bits are mixed into the lower ones.
    hash ^= hash >>> 15;
  }
  for (; p < end; p++) hash = Math.imul(hash ^ from.getUint8(p), 0x01000193);
  return hash ^ (hash >>> 15);
}
