// Reads UBJSON (draft 12) as XGBoost writes it: objects, typed arrays, texts and numbers in big-endian order.
import { damaged } from './booster.ts';

const broken = (what: string): Error => damaged('XGBoost', `UBJSON: ${what}`);

/** Maximum nesting depth. */
const MAX_DEPTH = 64;

/** Size of a number in bytes, by type. */
const SIZES: Readonly<Record<string, number>> = { i: 1, U: 1, I: 2, l: 4, L: 8, d: 4, D: 8, C: 1 };

/** @throws SluiceError model_invalid */
export function parseUbjson(bytes: Uint8Array): Record<string, unknown> {
  const reader = new Ubjson(bytes);
  const value = reader.value(reader.marker(), 0);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw broken('the file is not an object');
  return value as Record<string, unknown>;
}

class Ubjson {
  #at = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  /** The next type marker, skipping no-ops. */
  marker(): string {
    for (;;) {
      const code = this.#bytes[this.#take(1)]!;
      if (code !== 0x4e) return String.fromCharCode(code);
    }
  }

  value(type: string, depth: number): unknown {
    if (depth > MAX_DEPTH) throw broken('it is nested too deep');
    switch (type) {
      case '{':
        return this.#object(depth);
      case '[':
        return this.#array(depth);
      case 'S':
        return this.#text();
      case 'Z':
        return null;
      case 'T':
        return true;
      case 'F':
        return false;
      case 'C':
        return String.fromCharCode(this.#bytes[this.#take(1)]!);
      default:
        return this.#number(type);
    }
  }

  /** Advances by `n` bytes and returns the old position. */
  #take(n: number): number {
    const at = this.#at;
    if (!(n <= this.#bytes.length - at)) throw broken('it ends too early');
    this.#at += n;
    return at;
  }

  #number(type: string): number {
    const size = SIZES[type];
    if (size === undefined || type === 'C') throw broken(`type ${JSON.stringify(type)} is not known`);
    return this.#numberAt(type, this.#take(size));
  }

  #numberAt(type: string, at: number): number {
    const view = this.#view;
    if (type === 'i') return view.getInt8(at);
    if (type === 'U') return view.getUint8(at);
    if (type === 'I') return view.getInt16(at);
    if (type === 'l') return view.getInt32(at);
    if (type === 'L') return Number(view.getBigInt64(at));
    return type === 'd' ? view.getFloat32(at) : view.getFloat64(at);
  }

  #length(): number {
    const n = this.#number(this.marker());
    if (!Number.isSafeInteger(n) || n < 0) throw broken('a length is negative');
    return n;
  }

  #text(): string {
    const n = this.#length();
    const at = this.#take(n);
    return Buffer.from(this.#bytes.buffer, this.#bytes.byteOffset + at, n).toString('utf8');
  }

  /** The element type, if the container states one, and the number of elements. */
  #header(): { type: string | null; count: number | null } {
    let type: string | null = null;
    if (this.#bytes[this.#at] === 0x24) {
      this.#at++;
      type = this.marker();
      if (this.#bytes[this.#at] !== 0x23) throw broken('a typed container has no length');
    }
    if (this.#bytes[this.#at] !== 0x23) return { type, count: null };
    this.#at++;
    return { type, count: this.#length() };
  }

  #array(depth: number): unknown[] {
    const { type, count } = this.#header();
    if (type !== null && count !== null) {
      const size = SIZES[type];
      if (size !== undefined && type !== 'C') {
        // `#take` checks that the bytes exist before the array is allocated.
        const at = this.#take(count * size);
        return Array.from({ length: count }, (_, i) => this.#numberAt(type, at + i * size));
      }
    }
    const values: unknown[] = [];
    if (count !== null) {
      // Each element takes at least one byte, its marker. A small file thus cannot create a huge array of values that
      // have no bytes.
      if (count > this.#bytes.length) throw broken('an array is longer than the file');
      for (let i = 0; i < count; i++) values.push(this.value(type ?? this.marker(), depth + 1));
      return values;
    }
    for (let next = this.marker(); next !== ']'; next = this.marker()) values.push(this.value(next, depth + 1));
    return values;
  }

  #object(depth: number): Record<string, unknown> {
    const { type, count } = this.#header();
    const entries: [string, unknown][] = [];
    for (let i = 0; count === null || i < count; i++) {
      if (count === null && this.#bytes[this.#at] === 0x7d) {
        this.#at++;
        break;
      }
      const key = this.#text();
      entries.push([key, this.value(type ?? this.marker(), depth + 1)]);
    }
    return Object.fromEntries(entries);
  }
}
