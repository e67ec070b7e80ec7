// Arrow streams of any shape: messages whose lengths, dictionaries and compressed buffers are what a test says.
import { zstdCompressSync } from 'node:zlib';
import { columnFromArray, type DataType, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette';

/** A buffer of a column: as it is, or compressed with zstd, saying that it has `claims` bytes. */
export type ColumnBuffer = Uint8Array | { zstd: Uint8Array; claims?: number };

export interface Columns {
  rows: number;
  /** Per column: rows, and values that are null. */
  nodes: readonly (readonly [rows: number, nulls: number])[];
  buffers: readonly ColumnBuffer[];
  /** Where the message claims its buffers are. Default: where they are. */
  regions?: readonly (readonly [offset: number, length: number])[];
  /** Per column of views, how many buffers of texts it claims. */
  variadic?: readonly number[];
}

/** The schema message of these columns. */
export function schemaMessage(types: Readonly<Record<string, DataType>>): Buffer {
  const columns = Object.entries(types).map(([name, type]) => [name, columnFromArray([], type)] as const);
  const bytes = Buffer.from(tableToIPC(tableFromColumns(columns as never), { format: 'stream' })!);
  return bytes.subarray(0, 8 + bytes.readInt32LE(4));
}

const TEXT = 5;
const TEXT_VIEW = 24;

/** The schema message of a column of views of texts, which the library reads and does not write. */
export function viewSchema(name: string): Buffer {
  const bytes = schemaMessage({ [name]: utf8() });
  const follow = (at: number): number => at + bytes.readInt32LE(at);
  const field = (table: number, number: number): number =>
    table + bytes.readUInt16LE(table - bytes.readInt32LE(table) + 4 + 2 * number);
  const columns = follow(field(follow(field(follow(8), 2)), 1));
  const typeAt = field(follow(columns + 4), 2);
  if (bytes.readUInt8(typeAt) !== TEXT) throw new Error('the schema has another layout');
  bytes.writeUInt8(TEXT_VIEW, typeAt);
  return bytes;
}

export const recordMessage = (columns: Columns): Buffer => message(3, columns, null);

/** `isDelta`: the words go behind those that were sent before. */
export const dictionaryMessage = (id: number, columns: Columns, isDelta = false): Buffer =>
  message(2, columns, { id, isDelta });

const align = (bytes: number): number => (bytes + 7) & ~7;

function message(type: number, columns: Columns, dictionary: { id: number; isDelta: boolean } | null): Buffer {
  const compressed = columns.buffers.some((buffer) => !(buffer instanceof Uint8Array));
  const parts: Buffer[] = [];
  const regions: [number, number][] = [];
  let at = 0;
  for (const buffer of columns.buffers) {
    const bytes = compressed ? compressedBuffer(buffer) : Buffer.from(buffer as Uint8Array);
    regions.push([at, bytes.length]);
    parts.push(bytes, Buffer.alloc(align(bytes.length) - bytes.length));
    at += align(bytes.length);
  }
  const flat = new FlatBuilder();
  const nodes = flat.structs(columns.nodes.map(([rows, nulls]) => [BigInt(rows), BigInt(nulls)]));
  const buffers = flat.structs(
    (columns.regions ?? regions).map(([offset, length]) => [BigInt(offset), BigInt(length)]),
  );
  // Codec 1 is zstd, method 0 each buffer by itself.
  const compression = compressed ? flat.table([{ u8: 1 }, { u8: 0 }]) : null;
  const variadic = columns.variadic ? flat.longs(columns.variadic) : null;
  const batch = flat.table([
    { i64: BigInt(columns.rows) },
    { to: nodes },
    { to: buffers },
    compression === null ? null : { to: compression },
    variadic === null ? null : { to: variadic },
  ]);
  const content = dictionary
    ? flat.table([{ i64: BigInt(dictionary.id) }, { to: batch }, { u8: dictionary.isDelta ? 1 : 0 }])
    : batch;
  // Version 5 is 4.
  const root = flat.table([{ u16: 4 }, { u8: type }, { to: content }, { i64: BigInt(at) }]);
  const head = flat.finish(root);
  const prefix = Buffer.alloc(8);
  prefix.writeInt32LE(-1, 0);
  prefix.writeInt32LE(head.length, 4);
  return Buffer.concat([prefix, head, ...parts]);
}

function compressedBuffer(buffer: ColumnBuffer): Buffer {
  const length = Buffer.alloc(8);
  if (buffer instanceof Uint8Array) {
    if (buffer.length === 0) return Buffer.alloc(0);
    length.writeBigInt64LE(-1n);
    return Buffer.concat([length, buffer]);
  }
  length.writeBigInt64LE(BigInt(buffer.claims ?? buffer.zstd.length));
  return Buffer.concat([length, zstdCompressSync(buffer.zstd)]);
}

/** null: the field is absent. */
type Field = { u8: number } | { u16: number } | { i64: bigint } | { to: number } | null;

/** Writes a flatbuffer from its front: offsets of what a table refers to are negative there, so they are moved at the end. */
class FlatBuilder {
  readonly #parts: { at: number; bytes: Buffer; offsets: { at: number; to: number }[] }[] = [];
  #length = 8;

  #add(bytes: Buffer, offsets: { at: number; to: number }[] = []): number {
    const at = this.#length;
    this.#parts.push({ at, bytes, offsets });
    this.#length += align(bytes.length);
    return this.#parts.length - 1;
  }

  /** A list of structs of two numbers of 64 bits, aligned behind its count. */
  structs(values: readonly (readonly [bigint, bigint])[]): number {
    const bytes = Buffer.alloc(8 + values.length * 16);
    bytes.writeUInt32LE(values.length, 4);
    values.forEach(([a, b], i) => {
      bytes.writeBigInt64LE(a, 8 + i * 16);
      bytes.writeBigInt64LE(b, 16 + i * 16);
    });
    return this.#add(bytes);
  }

  /** A list of numbers of 64 bits. */
  longs(values: readonly number[]): number {
    const bytes = Buffer.alloc(8 + values.length * 8);
    bytes.writeUInt32LE(values.length, 4);
    for (const [i, value] of values.entries()) bytes.writeBigInt64LE(BigInt(value), 8 + i * 8);
    return this.#add(bytes);
  }

  table(fields: readonly Field[]): number {
    // Fields of 8 bytes each behind the offset of the table of fields, which is in front.
    const tableOf = align(4 + 2 * fields.length);
    const bytes = Buffer.alloc(tableOf + 8 + fields.length * 8);
    bytes.writeUInt16LE(4 + 2 * fields.length, 0);
    bytes.writeUInt16LE(8 + fields.length * 8, 2);
    bytes.writeInt32LE(tableOf, tableOf);
    const offsets: { at: number; to: number }[] = [];
    fields.forEach((field, i) => {
      if (field === null) return;
      const at = tableOf + 8 + i * 8;
      bytes.writeUInt16LE(8 + i * 8, 4 + 2 * i);
      if ('u8' in field) bytes.writeUInt8(field.u8, at);
      else if ('u16' in field) bytes.writeUInt16LE(field.u16, at);
      else if ('i64' in field) bytes.writeBigInt64LE(field.i64, at);
      else offsets.push({ at, to: field.to });
    });
    return this.#add(bytes, offsets);
  }

  /** Where a part begins for those who refer to it: a table behind its table of fields, a list at its count. */
  #entry(part: number): number {
    const { at, bytes, offsets } = this.#parts[part]!;
    const isList = offsets.length === 0 && bytes.readUInt32LE(0) === 0;
    return isList ? at + 4 : at + align(bytes.readUInt16LE(0));
  }

  finish(root: number): Buffer {
    const out = Buffer.alloc(this.#length);
    // References are unsigned, so what is referred to has to lie behind: parts are laid out in the opposite order.
    const places = new Map<number, number>();
    let at = 8;
    for (let part = this.#parts.length - 1; part >= 0; part--) {
      places.set(part, at);
      at += align(this.#parts[part]!.bytes.length);
    }
    const entry = (part: number) => places.get(part)! + this.#entry(part) - this.#parts[part]!.at;
    for (const [part, from] of places) {
      const { bytes, offsets } = this.#parts[part]!;
      bytes.copy(out, from);
      for (const { at: field, to } of offsets) out.writeUInt32LE(entry(to) - from - field, from + field);
    }
    out.writeUInt32LE(entry(root), 0);
    return out;
  }
}

/** Texts as a column has them: offsets of 32 bits, and bytes. */
export function textBuffers(texts: readonly (string | Uint8Array)[]): [offsets: Uint8Array, bytes: Uint8Array] {
  const parts = texts.map((text) => Buffer.from(text as string));
  const offsets = new Int32Array(texts.length + 1);
  parts.forEach((part, i) => {
    offsets[i + 1] = offsets[i]! + part.length;
  });
  return [new Uint8Array(offsets.buffer), Buffer.concat(parts)];
}

/** Ends a stream. */
export const END = Buffer.from('ffffffff00000000', 'hex');
