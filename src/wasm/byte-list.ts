// A growing list of bytes with the number formats of WebAssembly modules.

/** Room that is there before a number or an opcode is written. */
const SPARE = 32;

const DOUBLE = new Float64Array(1);
const DOUBLE_BYTES = new Uint8Array(DOUBLE.buffer);

export class ByteList {
  #bytes: Uint8Array<ArrayBuffer>;
  length = 0;

  constructor(capacity = 64) {
    this.#bytes = new Uint8Array(capacity + SPARE);
  }

  #room(bytes: number): void {
    if (this.length + bytes <= this.#bytes.length) return;
    const larger = new Uint8Array((this.length + bytes) * 2);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }

  byte(byte: number): this {
    this.#room(SPARE);
    this.#bytes[this.length++] = byte;
    return this;
  }

  /** Appends a few bytes. */
  put(bytes: readonly number[]): this {
    this.#room(SPARE + bytes.length);
    for (let i = 0; i < bytes.length; i++) this.#bytes[this.length++] = bytes[i]!;
    return this;
  }

  append(bytes: Uint8Array): this {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.length);
    this.length += bytes.length;
    return this;
  }

  /** LEB128, unsigned, 32 bits. */
  unsigned(n: number): this {
    this.#room(SPARE);
    for (; n > 127; n >>>= 7) this.#bytes[this.length++] = (n & 127) | 128;
    this.#bytes[this.length++] = n;
    return this;
  }

  /** LEB128, signed, 32 bits. */
  signed(n: number): this {
    this.#room(SPARE);
    for (; n < -64 || n > 63; n >>= 7) this.#bytes[this.length++] = (n & 127) | 128;
    this.#bytes[this.length++] = n & 127;
    return this;
  }

  /** LEB128, signed, 64 bits. */
  signed64(n: bigint): this {
    this.#room(SPARE);
    for (; BigInt.asIntN(32, n) !== n; n >>= 7n) this.#bytes[this.length++] = Number(n & 127n) | 128;
    return this.signed(Number(n));
  }

  /** Little-endian, as everything in a module. */
  float64(n: number): this {
    DOUBLE[0] = n;
    return this.append(DOUBLE_BYTES);
  }

  /** A text with its length in front. */
  text(text: string): this {
    const bytes = Buffer.from(text);
    return this.unsigned(bytes.length).append(bytes);
  }

  /** Another list with its length in front. */
  nested(list: ByteList): this {
    return this.unsigned(list.length).append(list.view());
  }

  /** The bytes so far: valid until more are appended. */
  view(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.length);
  }
}
