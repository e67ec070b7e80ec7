// Predictions as an Arrow IPC stream, or as a file: the same messages with their places in front of the end.
import {
  batchType,
  bool,
  Column,
  type DataType,
  float64,
  int32,
  tableFromColumns,
  tableToIPC,
  utf8,
} from '@uwdata/flechette';
import type { ByteSink } from './byte-sink.ts';
import { type ColumnarSinkOptions, columnarSink, type FormatWriter } from './columnar-sink.ts';
import { HeldColumn, type OutputColumn } from './held-table.ts';

const TYPES: Record<OutputColumn['kind'], DataType> = {
  integer: int32(),
  number: float64(),
  text: utf8(),
  boolean: bool(),
};

const MAGIC = Buffer.from('ARROW1');
const END_OF_STREAM = Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]);
/** The mark of a message and the length of what describes it. */
const PREFIX = 8;
const PADDED_MAGIC = 8;

/** As `columnarSink`; `file`: with a table of contents. */
export function arrowSink(inner: ByteSink, options: ColumnarSinkOptions, file: boolean): ByteSink {
  return columnarSink(inner, options, (columns) => arrowWriter(columns, file));
}

interface Place {
  offset: number;
  head: number;
  body: number;
}

function arrowWriter(columns: readonly OutputColumn[], file: boolean): FormatWriter {
  const places: Place[] = [];
  let written = 0;
  let schema: Buffer | null = null;
  /** What was not written yet of name and schema. */
  const head = (stream: Buffer): Buffer[] => {
    if (schema) return [];
    schema = Buffer.from(stream.subarray(0, headOf(stream, 0)));
    return file ? [Buffer.concat([MAGIC], PADDED_MAGIC), schema] : [schema];
  };
  const count = (parts: readonly Uint8Array[]): Buffer => {
    const bytes = Buffer.concat(parts);
    written += bytes.length;
    return bytes;
  };
  const streamOf = (held: readonly HeldColumn[]): Buffer => {
    const own = held.map((column): [string, Column<unknown>] => [column.column.name, arrowColumn(column)]);
    const bytes = tableToIPC(tableFromColumns(own), { format: 'stream' })!;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
  return {
    rows: (held) => {
      const stream = streamOf(held);
      const first = head(stream);
      const from = headOf(stream, 0);
      const batch = stream.subarray(from, stream.length - END_OF_STREAM.length);
      const offset = written + first.reduce((sum, part) => sum + part.length, 0);
      places.push({ offset, head: headOf(batch, 0), body: batch.length - headOf(batch, 0) });
      return count([...first, batch]);
    },
    end: async () => {
      const first = schema ? [] : head(streamOf(columns.map((column) => new HeldColumn(column))));
      if (!file) return count([...first, END_OF_STREAM]);
      const footer = footerOf(schema!, places);
      const length = Buffer.alloc(4);
      length.writeInt32LE(footer.length);
      return count([...first, END_OF_STREAM, footer, length, MAGIC]);
    },
  };
}

/** The same column in Arrow's layout. */
function arrowColumn(held: HeldColumn): Column<unknown> {
  const { column, rows, nulls } = held;
  const type = TYPES[column.kind];
  const parts = column.kind === 'text' ? textParts(held) : { values: valuesOf(held) };
  const validity = nulls === 0 ? new Uint8Array(0) : bitsOf(held.valid, rows);
  const BatchOfType = batchType(type);
  return new Column([new BatchOfType({ length: rows, nullCount: nulls, type, validity, ...parts })], type);
}

const valuesOf = ({ column, cells, rows }: HeldColumn) =>
  column.kind === 'boolean' ? bitsOf(cells, rows) : cells.subarray(0, rows);

/** Bytes of 0 or 1 as bits, the first row lowest. */
function bitsOf(flags: ArrayLike<number>, rows: number): Uint8Array {
  const bits = new Uint8Array((rows + 7) >> 3);
  for (let r = 0; r < rows; r++) if (flags[r] === 1) bits[r >> 3]! |= 1 << (r & 7);
  return bits;
}

function textParts(held: HeldColumn): { offsets: Int32Array; values: Uint8Array } {
  const { column, rows, cells, valid, textBytes } = held;
  const offsets = new Int32Array(rows + 1);
  if (!column.words) {
    offsets.set(cells.subarray(0, rows), 1);
    return { offsets, values: held.text.subarray(0, textBytes) };
  }
  const words = column.words.map((word) => Buffer.from(word));
  let end = 0;
  for (let r = 0; r < rows; r++) {
    if (valid[r] === 1) end += words[cells[r]!]!.length;
    offsets[r + 1] = end;
  }
  const values = new Uint8Array(end);
  for (let r = 0, at = 0; r < rows; r++) {
    if (valid[r] !== 1) continue;
    const word = words[cells[r]!]!;
    for (let i = 0; i < word.length; i++) values[at++] = word[i]!;
  }
  return { offsets, values };
}

/** Bytes of the message at `at` in front of its body. */
const headOf = (bytes: Buffer, at: number): number => PREFIX + bytes.readInt32LE(at + 4);

const VTABLE = 4;
const TABLE = 16;
const BLOCKS = 36;
const BLOCK_BYTES = 24;
/** Of the format: 1.0 and later. */
const VERSION = 4;

/**
 * The table of contents: a flatbuffer of version, schema and the places of the batches. The schema is that of the first message, which
 * is taken as it is, because what lies in a flatbuffer is found from where it is pointed to. Source: File.fbs, Message.fbs of Arrow.
 */
function footerOf(schema: Buffer, places: readonly Place[]): Buffer {
  const message = schema.subarray(PREFIX);
  const embedded = BLOCKS + 4 + places.length * BLOCK_BYTES;
  const out = Buffer.alloc(embedded + message.length);
  out.writeUInt32LE(TABLE, 0);
  // Bytes of this list and of the table; then where its fields are: version, schema, dictionaries, batches.
  for (const [i, value] of [12, 16, 12, 4, 0, 8].entries()) out.writeUInt16LE(value, VTABLE + 2 * i);
  out.writeInt32LE(TABLE - VTABLE, TABLE);
  out.writeUInt32LE(embedded + schemaIn(message) - (TABLE + 4), TABLE + 4);
  out.writeUInt32LE(BLOCKS - (TABLE + 8), TABLE + 8);
  out.writeInt16LE(VERSION, TABLE + 12);
  out.writeUInt32LE(places.length, BLOCKS);
  places.forEach(({ offset, head, body }, i) => {
    const at = BLOCKS + 4 + i * BLOCK_BYTES;
    out.writeBigInt64LE(BigInt(offset), at);
    out.writeInt32LE(head, at + 8);
    out.writeBigInt64LE(BigInt(body), at + 16);
  });
  message.copy(out, embedded);
  return out;
}

/** Where the schema lies in the flatbuffer of its message. */
function schemaIn(message: Buffer): number {
  const table = message.readInt32LE(0);
  const field = table + message.readUInt16LE(table - message.readInt32LE(table) + 4 + 2 * 2);
  return field + message.readInt32LE(field);
}
