// Values in Avro's binary encoding, one behind the other. Source: Avro specification 1.12, "Binary Encoding".

const FIRST_BYTES = 1024;
/** The largest encoding of a long. */
const LONG_BYTES = 10;
/** Whole numbers of smaller size are twice themselves as doubles, exactly and with room for the sign. */
const EXACT_TWICE = 2 ** 51;
/** Texts up to here are tried as ASCII first. */
const SHORT_TEXT = 64;

export class AvroWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;

  /** Begins anew, behind these bytes. */
  begin(head: Uint8Array): void {
    this.#length = 0;
    this.#reserve(head.length);
    this.#bytes.set(head);
    this.#length = head.length;
  }

  /** A copy of the bytes since `begin`. */
  taken(): Buffer {
    return Buffer.from(this.#bytes.subarray(0, this.#length));
  }

  /** Which type of a union follows; also anything that is an int and small. */
  branch(index: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = index * 2;
  }

  /** A whole number of 64 bits. */
  long(value: number | bigint): void {
    this.#reserve(LONG_BYTES);
    if (typeof value === 'bigint' || Math.abs(value) >= EXACT_TWICE) this.#large(BigInt(value));
    else this.#varint(value < 0 ? -2 * value - 1 : 2 * value);
  }

  double(value: number): void {
    this.#reserve(8);
    this.#length = this.#bytes.writeDoubleLE(value, this.#length);
  }

  boolean(value: boolean): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = value ? 1 : 0;
  }

  string(text: string): void {
    const n = text.length;
    this.#reserve(LONG_BYTES + n * 3);
    if (n <= SHORT_TEXT && this.#ascii(text)) return;
    this.#varint(2 * Buffer.byteLength(text));
    this.#length += this.#bytes.write(text, this.#length, 'utf8');
  }

  /** false: it is none, and nothing was written. */
  #ascii(text: string): boolean {
    const from = this.#length;
    this.#varint(2 * text.length);
    const bytes = this.#bytes;
    let at = this.#length;
    for (let i = 0; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code > 0x7f) {
        this.#length = from;
        return false;
      }
      bytes[at++] = code;
    }
    this.#length = at;
    return true;
  }

  /** Zigzag is done: 7 bits a byte, the lowest first. */
  #varint(bits: number): void {
    let rest = bits;
    while (rest >= 0x80) {
      this.#bytes[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#length++] = rest;
  }

  #large(value: bigint): void {
    let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n));
    for (; rest >= 0x80n; rest >>= 7n) this.#bytes[this.#length++] = Number(rest & 0x7fn) | 0x80;
    this.#bytes[this.#length++] = Number(rest);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#length + bytes, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
