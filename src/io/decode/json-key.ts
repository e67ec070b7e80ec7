// The key of a JSON object as it usually stands in the text, compared four bytes at a time.

/** A key in its quotes. */
export class JsonKey {
  /** Bytes of the key with its quotes. */
  readonly length: number;
  readonly #words: Int32Array;
  /** The bytes of the last word that belong to the key. */
  readonly #mask: number;

  constructor(name: string) {
    const token = Buffer.from(JSON.stringify(name));
    this.length = token.length;
    const bytes = Buffer.alloc(Math.ceil(token.length / 4) * 4);
    bytes.set(token);
    this.#words = Int32Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readInt32LE(i * 4));
    const rest = token.length % 4;
    this.#mask = rest === 0 ? -1 : (1 << (rest * 8)) - 1;
  }

  /** true if the key stands at `p`. Up to 4 bytes behind a NUL that ends the text are touched. */
  at(bytes: DataView, p: number): boolean {
    const words = this.#words;
    const last = words.length - 1;
    for (let i = 0; i < last; i++) if (bytes.getInt32(p + i * 4, true) !== words[i]) return false;
    return (bytes.getInt32(p + last * 4, true) & this.#mask) === words[last];
  }
}
