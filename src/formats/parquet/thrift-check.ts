// Checks a struct in Thrift's compact protocol before a library decodes it, to bound the decoding work.
// A list can claim more elements than there are bytes, a number can be megabytes long, and structs can be nested
// without limit. Source: thrift-compact-protocol.md of Apache Thrift.

const STOP = 0;
const TRUE = 1;
const FALSE = 2;
const BYTE = 3;
const I16 = 4;
const I32 = 5;
const I64 = 6;
const DOUBLE = 7;
const BINARY = 8;
const LIST = 9;
const STRUCT = 12;

/** Maximum nesting depth. Parquet nests structs less than ten deep. */
const MOST_DEPTH = 32;
/** Maximum bytes of an encoded 64-bit number. */
const MOST_NUMBER_BYTES = 10;
/** In a list header: the number of elements is at least 15 and follows the header. */
const LONG_LIST = 15;

/** Checks the struct at `at`. @throws Error if it is incomplete or cannot be decoded in bounded time */
export function checkThrift(bytes: Uint8Array, at: number): void {
  new ThriftCheck(bytes, at).struct(0);
}

class ThriftCheck {
  readonly #bytes: Uint8Array;
  #at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  struct(depth: number): void {
    if (depth > MOST_DEPTH) throw new Error('structs are nested too deeply');
    for (;;) {
      const byte = this.#byte();
      const type = byte & 15;
      if (type === STOP) return;
      if (byte >> 4 === 0) this.#number();
      if (type !== TRUE && type !== FALSE) this.#value(type, depth);
    }
  }

  #value(type: number, depth: number): void {
    switch (type) {
      case TRUE:
      case FALSE:
      case BYTE:
        this.#skip(1);
        return;
      case I16:
      case I32:
      case I64:
        this.#number();
        return;
      case DOUBLE:
        this.#skip(8);
        return;
      case BINARY:
        this.#skip(this.#number());
        return;
      case LIST:
        this.#list(depth);
        return;
      case STRUCT:
        this.struct(depth + 1);
        return;
      default:
        throw new Error('a type that Parquet does not use');
    }
  }

  #list(depth: number): void {
    if (depth > MOST_DEPTH) throw new Error('lists are nested too deeply');
    const byte = this.#byte();
    const count = byte >> 4 === LONG_LIST ? this.#number() : byte >> 4;
    // Each element has at least one byte.
    if (count > this.#bytes.length - this.#at) throw new Error('a list is longer than its bytes');
    for (let i = 0; i < count; i++) this.#value(byte & 15, depth + 1);
  }

  #byte(): number {
    if (this.#at >= this.#bytes.length) throw new Error('a struct is incomplete');
    return this.#bytes[this.#at++]!;
  }

  #skip(count: number): void {
    this.#at += count;
    if (this.#at > this.#bytes.length) throw new Error('a struct is incomplete');
  }

  #number(): number {
    let value = 0;
    for (let i = 0; i < MOST_NUMBER_BYTES; i++) {
      const byte = this.#byte();
      value += (byte & 127) * 2 ** (7 * i);
      if (byte < 128) return value;
    }
    throw new Error('a number has more than 64 bits');
  }
}
