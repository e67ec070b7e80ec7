// The words of a dictionary as they stand in lines of JSON, each with its key in front, laid out to be copied eight bytes at a time.
import type { WordList } from '../../core/block-columns.ts';

const NULL = Buffer.from('null');
let lists = 0;

/** Tokens of JSON, one behind the other, of which more may come. */
export class TokenArena {
  bytes: Buffer;
  length = 0;

  constructor(capacity = 256) {
    this.bytes = Buffer.allocUnsafeSlow(capacity);
  }

  /** Makes room for so many bytes more. */
  room(bytes: number): Buffer {
    if (this.length + bytes > this.bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.bytes.length * 2, this.length + bytes));
      larger.set(this.bytes.subarray(0, this.length));
      this.bytes = larger;
    }
    return this.bytes;
  }

  ascii(text: string): void {
    this.room(text.length).write(text, this.length, 'latin1');
    this.length += text.length;
  }

  utf8(text: string): void {
    const most = text.length * 3;
    this.length += this.room(most).write(text, this.length);
  }
}

/** A list of tokens, with `null` behind them. */
export class Fragments {
  /** Tokens, `null` included. */
  readonly count: number;
  /** Longest fragment, bytes. */
  readonly longest: number;
  /** Eight bytes each, and for each fragment where it begins among them and how long it is, bytes. No text in UTF-8 is a NaN, whose bits could change. */
  readonly words: Float64Array;
  readonly starts: Int32Array;
  readonly lengths: Int32Array;
  readonly #tokens: Uint8Array;
  readonly #ends: Int32Array;
  #list: WordList | null = null;

  /** `ends`: one past each token of the arena. */
  constructor(key: Uint8Array, { bytes, length }: TokenArena, ends: Int32Array) {
    const count = ends.length + 1;
    const tokens = new Uint8Array(length + NULL.length);
    tokens.set(bytes.subarray(0, length));
    tokens.set(NULL, length);
    this.#tokens = tokens;
    this.#ends = new Int32Array(count);
    this.#ends.set(ends);
    this.#ends[count - 1] = tokens.length;
    this.count = count;
    this.starts = new Int32Array(count);
    this.lengths = new Int32Array(count);
    this.words = new Float64Array((tokens.length + count * (key.length + 7)) >> 3);
    const out = new Uint8Array(this.words.buffer);
    let at = 0;
    let longest = 0;
    for (let i = 0, from = 0; i < count; i++) {
      const end = this.#ends[i]!;
      this.starts[i] = at >> 3;
      this.lengths[i] = key.length + end - from;
      longest = Math.max(longest, this.lengths[i]!);
      out.set(key, at);
      at += key.length;
      while (from < end) out[at++] = tokens[from++]!;
      at = (at + 7) & ~7;
    }
    this.longest = longest;
  }

  /** The tokens for others to read. */
  get list(): WordList {
    this.#list ??= { id: ++lists, bytes: this.#tokens, ends: this.#ends };
    return this.#list;
  }
}
