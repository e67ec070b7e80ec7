// Writes predictions as an Arrow IPC stream, or as a file: the same messages, followed by a table of contents.
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
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { Cells } from '../columns/column-frames.ts';
import { type ColumnarSinkOptions, columnarSink, type FormatWriter } from '../columns/columnar-sink.ts';
import { bitsOf, HeldColumn, type OutputColumn } from '../columns/held-table.ts';

const TYPES: Record<OutputColumn['kind'], DataType> = {
  integer: int32(),
  number: float64(),
  text: utf8(),
  boolean: bool(),
};

const MAGIC = Buffer.from('ARROW1');
const END_OF_STREAM = Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]);
/** Size of a message prefix: the continuation marker and the length of the description. */
const PREFIX = 8;
const PADDED_MAGIC = 8;

/**
 * Creates a `columnarSink` that writes Arrow. `file`: write an Arrow file, which has a table of contents, instead of a
 * stream.
 */
export function arrowSink(inner: ByteSink, options: ColumnarSinkOptions, file: boolean): ByteSink {
  return columnarSink(inner, options, (columns) => arrowWriter(columns, file));
}

interface Place {
  offset: number;
  head: number;
  body: number;
}

/**
 * Receives streams from flechette in reused memory. The stream starts after free space for the magic number of a file.
 */
class StreamBuffer {
  #bytes = Buffer.alloc(PADDED_MAGIC);
  #length = PADDED_MAGIC;

  write(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  pad(bytes: number): void {
    this.#reserve(bytes);
    this.#bytes.fill(0, this.#length, this.#length + bytes);
    this.#length += bytes;
  }

  finish(): null {
    return null;
  }

  /** Returns the bytes since the last call. The next bytes overwrite them. */
  take(): Buffer {
    const taken = this.#bytes.subarray(0, this.#length);
    this.#length = PADDED_MAGIC;
    return taken;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.alloc(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

function arrowWriter(columns: readonly OutputColumn[], file: boolean): FormatWriter {
  const places: Place[] = [];
  const buffer = new StreamBuffer();
  const made = columns.map(() => new ArrowColumn());
  let written = 0;
  let schema: Buffer | null = null;
  /**
   * Encodes the rows as a stream. `from`: position of the first byte that must be written, because the schema is
   * written only once. `batch`: position of the record batch.
   */
  const streamOf = (held: readonly HeldColumn[]): { stream: Buffer; from: number; batch: number } => {
    const own = held.map((column, i): [string, Column<unknown>] => [column.column.name, made[i]!.of(column)]);
    tableToIPC(tableFromColumns(own), { format: 'stream', sink: buffer });
    const stream = buffer.take();
    const batch = PADDED_MAGIC + headOf(stream, PADDED_MAGIC);
    if (schema) return { stream, from: batch, batch };
    schema = Buffer.from(stream.subarray(PADDED_MAGIC, batch));
    stream.fill(0, 0, PADDED_MAGIC);
    MAGIC.copy(stream);
    return { stream, from: file ? 0 : PADDED_MAGIC, batch };
  };
  return {
    rows: (held) => {
      const { stream, from, batch } = streamOf(held);
      const end = stream.length - END_OF_STREAM.length;
      const head = headOf(stream, batch);
      places.push({ offset: written + batch - from, head, body: end - batch - head });
      written += end - from;
      return stream.subarray(from, end);
    },
    end: async () => {
      const parts: Buffer[] = [];
      if (!schema) {
        const { stream, from, batch } = streamOf(columns.map((column) => new HeldColumn(column)));
        parts.push(stream.subarray(from, batch));
      }
      parts.push(END_OF_STREAM);
      if (file) {
        const footer = footerOf(schema!, places);
        const length = Buffer.alloc(4);
        length.writeInt32LE(footer.length);
        parts.push(footer, length, MAGIC);
      }
      return Buffer.concat(parts);
    },
  };
}

/** A column in Arrow's layout, in memory that the next group overwrites. */
class ArrowColumn {
  #validity = new Uint8Array(0);
  #values = new Uint8Array(0);
  #offsets = new Int32Array(0);

  of(held: HeldColumn): Column<unknown> {
    const { column, rows, nulls, cells } = held;
    const type = TYPES[column.kind];
    if (nulls > 0) this.#validity = bitsOf(held.valid, rows, this.#validity);
    const validity = this.#validity.subarray(0, nulls > 0 ? (rows + 7) >> 3 : 0);
    let parts: { values: Cells; offsets?: Int32Array };
    if (column.kind === 'text') parts = this.#texts(held);
    else if (column.kind === 'boolean') {
      this.#values = bitsOf(cells, rows, this.#values);
      parts = { values: this.#values.subarray(0, (rows + 7) >> 3) };
    } else parts = { values: cells.subarray(0, rows) };
    const BatchOfType = batchType(type);
    return new Column([new BatchOfType({ length: rows, nullCount: nulls, type, validity, ...parts })], type);
  }

  #texts({ column, rows, cells, valid, text, textBytes }: HeldColumn): { offsets: Int32Array; values: Uint8Array } {
    if (this.#offsets.length <= rows) this.#offsets = new Int32Array(rows + 1);
    const offsets = this.#offsets.subarray(0, rows + 1);
    if (!column.words) {
      offsets.set(cells.subarray(0, rows), 1);
      return { offsets, values: text.subarray(0, textBytes) };
    }
    const words = column.words.map((word) => Buffer.from(word));
    let end = 0;
    for (let r = 0; r < rows; r++) {
      if (valid[r] === 1) end += words[cells[r]!]!.length;
      offsets[r + 1] = end;
    }
    if (this.#values.length < end) this.#values = new Uint8Array(end);
    const values = this.#values.subarray(0, end);
    for (let r = 0, at = 0; r < rows; r++) {
      if (valid[r] !== 1) continue;
      const word = words[cells[r]!]!;
      for (let i = 0; i < word.length; i++) values[at++] = word[i]!;
    }
    return { offsets, values };
  }
}

/** Size of the prefix and description of the message at `at`, which precede its body. */
const headOf = (bytes: Buffer, at: number): number => PREFIX + bytes.readInt32LE(at + 4);

const VTABLE = 4;
const TABLE = 16;
const BLOCKS = 36;
const BLOCK_BYTES = 24;
/** Version of the Arrow format: 1.0 and later. */
const VERSION = 4;

/**
 * Builds the table of contents: a flatbuffer with version, schema and positions of the batches. For the schema, it
 * embeds the first message unchanged, which is possible because references inside a flatbuffer are relative. Source:
 * File.fbs and Message.fbs of Arrow.
 */
function footerOf(schema: Buffer, places: readonly Place[]): Buffer {
  const message = schema.subarray(PREFIX);
  const embedded = BLOCKS + 4 + places.length * BLOCK_BYTES;
  const out = Buffer.alloc(embedded + message.length);
  out.writeUInt32LE(TABLE, 0);
  // The vtable: its own size, the size of the table, then the field offsets: version, schema, dictionaries, batches.
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

/** Position of the schema table in the flatbuffer of the schema message. */
function schemaIn(message: Buffer): number {
  const table = message.readInt32LE(0);
  const field = table + message.readUInt16LE(table - message.readInt32LE(table) + 4 + 2 * 2);
  return field + message.readInt32LE(field);
}
