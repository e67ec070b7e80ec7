// Reads and writes the protobuf wire format. Every step of reading checks the bounds of the message.
import { SluiceError } from '../../core/errors.ts';

/** A field of a message. Varints have a `value`; the payload of other fields is in bytes `start` to `end - 1`. */
export interface Field {
  readonly number: number;
  readonly wire: 0 | 1 | 2 | 5;
  /** Value of a varint, exact up to 2^53. Negative if the sign bit of the 64-bit number is set. */
  readonly value: number;
  readonly start: number;
  readonly end: number;
  /** First byte of the field's tag. The whole field is in bytes `from` to `end - 1`. */
  readonly from: number;
}

const broken = (what: string): SluiceError => new SluiceError('model_invalid', `the ONNX file is damaged: ${what}`);

/** Maximum nesting depth of messages, such as graphs in attributes and types in types. */
const MAX_DEPTH = 64;

/** Reads consecutive varints; `at` is the cursor. */
class VarintReader {
  at: number;
  readonly #bytes: Uint8Array;
  readonly #end: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes;
    this.at = start;
    this.#end = end;
  }

  get done(): boolean {
    return this.at >= this.#end;
  }

  /**
   * Reads a varint of up to 64 bits. A varint with ten bytes is in two's complement.
   * @throws SluiceError model_invalid
   */
  next(): number {
    // Fast path: most varints have one byte.
    if (this.at < this.#end) {
      const byte = this.#bytes[this.at]!;
      if (byte < 128) {
        this.at++;
        return byte;
      }
    }
    let low = 0;
    let high = 0;
    for (let i = 0; i < 10; i++) {
      if (this.at >= this.#end) throw broken('a number is cut off');
      const byte = this.#bytes[this.at++]!;
      const bits = byte & 127;
      if (i < 4) low |= bits << (7 * i);
      else if (i === 4) {
        low |= (bits & 15) << 28;
        high = bits >>> 4;
      } else high |= bits << (7 * i - 32);
      if (byte < 128) return (high | 0) * 4_294_967_296 + (low >>> 0);
    }
    throw broken('a number has more than 64 bits');
  }
}

/** Iterates over fields. The cursor itself is the current field, so that no object per field is needed. */
export class Cursor implements Field {
  number = 0;
  wire: Field['wire'] = 0;
  value = 0;
  start = 0;
  end = 0;
  from = 0;
  readonly #bytes: Uint8Array;
  readonly #reader: VarintReader;
  readonly #limit: number;

  constructor(bytes: Uint8Array, start: number, end: number) {
    this.#bytes = bytes;
    this.#reader = new VarintReader(bytes, start, end);
    this.#limit = end;
  }

  /**
   * Moves to the next field; returns false if there is none.
   * @throws SluiceError model_invalid if a field exceeds its message
   */
  next(): boolean {
    const reader = this.#reader;
    if (reader.done) return false;
    this.from = reader.at;
    const tag = reader.next();
    const number = Math.floor(tag / 8);
    const wire = tag & 7;
    if (number < 1 || number > 0x1fffffff) throw broken('a field has no number');
    this.number = number;
    this.value = 0;
    this.start = reader.at;
    if (wire === 0) {
      this.value = reader.next();
      this.end = reader.at;
    } else if (wire === 2) {
      const length = reader.next();
      this.start = reader.at;
      this.end = this.start + length;
      if (length < 0 || this.end > this.#limit) throw broken('a field is longer than its message');
    } else if (wire === 1 || wire === 5) {
      this.end = this.start + (wire === 1 ? 8 : 4);
      if (this.end > this.#limit) throw broken('a field is longer than its message');
    } else throw broken(`wire type ${wire} is not used by ONNX`);
    this.wire = wire;
    reader.at = this.end;
    return true;
  }

  /**
   * Appends the integer or float of this field, and of all directly following fields of the same kind. Moves to the
   * last of these fields. Lists are stored this way, one field per entry.
   */
  run(out: number[]): void {
    const reader = this.#reader;
    const bytes = this.#bytes;
    const tag = bytes[this.from]!;
    // A field number above 15 takes two bytes. Such fields are read one by one.
    const alike = this.number < 16;
    if (this.wire === 0) {
      out.push(this.value);
      while (alike && reader.at < this.#limit && bytes[reader.at] === tag) {
        reader.at++;
        out.push(reader.next());
      }
    } else if (this.wire === 5) {
      const view = new DataView(bytes.buffer, bytes.byteOffset, this.#limit);
      out.push(view.getFloat32(this.start, true));
      for (; alike && reader.at + 5 <= this.#limit && bytes[reader.at] === tag; reader.at += 5) {
        out.push(view.getFloat32(reader.at + 1, true));
      }
    } else throw broken('numbers are expected');
    this.end = reader.at;
  }
}

/** A decoded text and the position where it was read. */
export type KnownText = Pick<Field, 'start' | 'end'> & { readonly text: string };

/** A message within the bytes of a file, and its nesting depth. */
export class Message {
  readonly bytes: Uint8Array;
  readonly start: number;
  readonly end: number;
  readonly #depth: number;
  #data: DataView | null = null;

  constructor(bytes: Uint8Array, start = 0, end = bytes.length, depth = 0) {
    if (depth > MAX_DEPTH) throw broken('messages are nested too deep');
    this.bytes = bytes;
    this.start = start;
    this.end = end;
    this.#depth = depth;
  }

  /** The fields in file order. @throws SluiceError model_invalid if a field exceeds its message */
  *fields(): Generator<Field> {
    for (const f = this.cursor(); f.next(); ) {
      const { number, wire, value, start, end, from } = f;
      yield { number, wire, value, start, end, from };
    }
  }

  /** Iterates over the fields without creating an object for each, because large ensembles have millions of fields. */
  cursor(): Cursor {
    return new Cursor(this.bytes, this.start, this.end);
  }

  /** The message that a field contains. @throws SluiceError model_invalid */
  inside(field: Field): Message {
    if (field.wire !== 2) throw broken('a number was found where a message was expected');
    return new Message(this.bytes, field.start, field.end, this.#depth + 1);
  }

  text(field: Field): string {
    if (field.wire !== 2) throw broken('a number was found where a text was expected');
    return decoder.decode(this.bytes.subarray(field.start, field.end));
  }

  /**
   * As `text`, but repeated texts (such as the modes of nodes) are decoded only once. The caller keeps `known` between
   * calls.
   */
  textAgain(field: Field, known: KnownText[]): string {
    if (field.wire !== 2) throw broken('a number was found where a text was expected');
    const length = field.end - field.start;
    for (const k of known) {
      if (k.end - k.start !== length) continue;
      let i = 0;
      while (i < length && this.bytes[k.start + i] === this.bytes[field.start + i]) i++;
      if (i === length) return k.text;
    }
    const text = this.text(field);
    if (known.length < 8) known.push({ start: field.start, end: field.end, text });
    return text;
  }

  float(field: Field): number {
    if (field.wire !== 5) throw broken('a float is expected');
    return this.#view().getFloat32(field.start, true);
  }

  integer(field: Field): number {
    if (field.wire !== 0) throw broken('a number is expected');
    return field.value;
  }

  /** Appends the integers of a field, which is packed or a single varint. */
  integers(field: Field, out: number[]): void {
    if (field.wire === 0) {
      out.push(field.value);
      return;
    }
    if (field.wire !== 2) throw broken('numbers are expected');
    const reader = new VarintReader(this.bytes, field.start, field.end);
    while (!reader.done) out.push(reader.next());
  }

  floats(field: Field, out: number[]): void {
    if (field.wire !== 5 && (field.wire !== 2 || (field.end - field.start) % 4 !== 0))
      throw broken('floats are expected');
    const view = this.#view();
    for (let p = field.start; p < field.end; p += 4) out.push(view.getFloat32(p, true));
  }

  doubles(field: Field, out: number[]): void {
    if (field.wire !== 1 && (field.wire !== 2 || (field.end - field.start) % 8 !== 0))
      throw broken('doubles are expected');
    const view = this.#view();
    for (let p = field.start; p < field.end; p += 8) out.push(view.getFloat64(p, true));
  }

  #view(): DataView {
    this.#data ??= new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength);
    return this.#data;
  }
}

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function varint(n: number): Uint8Array {
  const out: number[] = [];
  let rest = n;
  while (rest > 127) {
    out.push((rest % 128) | 128);
    rest = Math.floor(rest / 128);
  }
  out.push(rest);
  return Uint8Array.from(out);
}

/** Joins pieces into one array. */
export function concat(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(pieces.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of pieces) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

/** A length-delimited field, which contains a message, a text or bytes. */
export function lengthField(number: number, body: Uint8Array | string): Uint8Array {
  const bytes = typeof body === 'string' ? encoder.encode(body) : body;
  return concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
}

/** A varint field for a non-negative value. */
export function integerField(number: number, value: number): Uint8Array {
  return concat([varint(number * 8), varint(value)]);
}
