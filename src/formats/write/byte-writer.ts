// A growing byte buffer for formatters. It avoids creating the output as a string.
import { digitsOf, writeDigits } from '../../core/ascii.ts';

/** Text that occurs in many rows, as bytes. */
export type Fragment = Uint8Array;

export const fragment = (text: string): Fragment => new Uint8Array(Buffer.from(text));

/** Limit below which numbers are written with 32-bit integer arithmetic. */
const SMALL = 1e9;

export class ByteWriter {
  #bytes: Buffer;
  length = 0;

  constructor(capacity = 64 * 1024) {
    this.#bytes = Buffer.from(new ArrayBuffer(capacity));
  }

  /** Starts an empty output in `buffer`, whose bytes are overwritten. */
  reuse(buffer: ArrayBuffer): void {
    this.#bytes = Buffer.from(buffer);
    this.length = 0;
  }

  /** A view of the written bytes. The next write may overwrite them. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.length);
  }

  /** Releases the buffer for transfer. The next write allocates a new buffer. */
  detach(): { buffer: ArrayBuffer; length: number } {
    const result = { buffer: this.#bytes.buffer as ArrayBuffer, length: this.length };
    this.#bytes = Buffer.from(new ArrayBuffer(0));
    this.length = 0;
    return result;
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.length++] = value;
  }

  /** Writes a text, which must be ASCII. */
  ascii(text: string): void {
    const n = text.length;
    this.#reserve(n);
    if (n < 24) {
      let o = this.length;
      for (let i = 0; i < n; i++) this.#bytes[o++] = text.charCodeAt(i);
      this.length = o;
    } else this.length += this.#bytes.write(text, this.length, 'latin1');
  }

  utf8(text: string): void {
    this.#reserve(text.length * 3);
    this.length += this.#bytes.write(text, this.length, 'utf8');
  }

  /** Writes a fragment. */
  fragment(bytes: Fragment): void {
    const n = bytes.length;
    const to = this.room(n);
    const at = this.length;
    for (let i = 0; i < n; i++) to[at + i] = bytes[i]!;
    this.length = at + n;
  }

  /** Writes a non-negative integer below 2^53. */
  unsigned(value: number): void {
    const to = this.room(16);
    if (value < SMALL) {
      this.length = writeDigits(to, this.length, value, digitsOf(value));
      return;
    }
    let digits = 10;
    for (let limit = 1e10; value >= limit; limit *= 10) digits++;
    let at = this.length + digits;
    this.length = at;
    do {
      const q = Math.floor(value / 10);
      to[--at] = 48 + (value - q * 10);
      value = q;
    } while (value > 0);
  }

  /** Returns the buffer, with space for at least `n` bytes at index `length`. The caller must increase `length`. */
  room(n: number): Uint8Array {
    this.#reserve(n);
    return this.#bytes;
  }

  #reserve(n: number): void {
    if (this.length + n <= this.#bytes.length) return;
    const larger = Buffer.from(new ArrayBuffer(Math.max(64 * 1024, this.#bytes.length * 2, this.length + n)));
    this.#bytes.copy(larger, 0, 0, this.length);
    this.#bytes = larger;
  }
}
