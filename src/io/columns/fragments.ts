// The words of a dictionary as they stand in lines of JSON, each with its key in front, laid out to be copied eight bytes at a time.
import type { WordList } from '../../core/block-columns.ts';

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

  copy(): TokenArena {
    const copy = new TokenArena(this.length + 'null'.length);
    copy.bytes.set(this.bytes.subarray(0, this.length));
    copy.length = this.length;
    return copy;
  }

  utf8(text: string): void {
    const most = text.length * 3;
    this.length += this.room(most).write(text, this.length);
  }
}

const NONE_TOO_LONG: ReadonlySet<number> = new Set();

/** A list of tokens, with `null` behind them. */
export class Fragments {
  /** Tokens, `null` included. */
  readonly count: number;
  /** Longest fragment (key and token), bytes. */
  readonly longest: number;
  /** Codes of words that were too long to be copied: their tokens are `null`. */
  readonly tooLong: ReadonlySet<number>;
  readonly #key: Uint8Array;
  readonly #tokens: Uint8Array;
  readonly #ends: Int32Array;
  #list: WordList | null = null;
  #layout: FragmentLayout | null = null;

  /** `ends`: one past each token of the arena, which belongs to the list from now on. */
  constructor(key: Uint8Array, arena: TokenArena, ends: Int32Array, tooLong = NONE_TOO_LONG) {
    const count = ends.length + 1;
    const { length } = arena;
    arena.ascii('null');
    this.#key = key;
    this.#tokens = arena.bytes.subarray(0, arena.length);
    arena.length = length;
    this.#ends = new Int32Array(count);
    this.#ends.set(ends);
    this.#ends[count - 1] = this.#tokens.length;
    this.count = count;
    this.tooLong = tooLong;
    let longest = 0;
    for (let i = 0, from = 0; i < count; from = this.#ends[i++]!) longest = Math.max(longest, this.#ends[i]! - from);
    this.longest = key.length + longest;
  }

  /** Bytes of a token. */
  tokenBytes(code: number): number {
    return this.#ends[code]! - (code === 0 ? 0 : this.#ends[code - 1]!);
  }

  /** The tokens for others to read. */
  get list(): WordList {
    this.#list ??= { id: ++lists, bytes: this.#tokens, ends: this.#ends };
    return this.#list;
  }

  /** The fragments, laid out to be copied. */
  get layout(): FragmentLayout {
    this.#layout ??= layoutOf(this.#key, this.#tokens, this.#ends);
    return this.#layout;
  }
}

/** Fragments in words of eight bytes. */
export interface FragmentLayout {
  /** No text in UTF-8 is a NaN, whose bits could change. */
  readonly words: Float64Array;
  /** For each fragment where it begins among the words, and how long it is, bytes. */
  readonly starts: Int32Array;
  readonly lengths: Int32Array;
}

function layoutOf(key: Uint8Array, tokens: Uint8Array, ends: Int32Array): FragmentLayout {
  const count = ends.length;
  const starts = new Int32Array(count);
  const lengths = new Int32Array(count);
  const words = new Float64Array((tokens.length + count * (key.length + 7)) >> 3);
  const out = new Uint8Array(words.buffer);
  let at = 0;
  for (let i = 0, from = 0; i < count; i++) {
    const end = ends[i]!;
    starts[i] = at >> 3;
    lengths[i] = key.length + end - from;
    out.set(key, at);
    at += key.length;
    while (from < end) out[at++] = tokens[from++]!;
    at = (at + 7) & ~7;
  }
  return { words, starts, lengths };
}

export function fragmentsOf(key: Uint8Array, words: readonly string[]): Fragments {
  const tokens = new TokenArena();
  const ends = words.map((word) => {
    tokens.ascii(word);
    return tokens.length;
  });
  return new Fragments(key, tokens, Int32Array.from(ends));
}
