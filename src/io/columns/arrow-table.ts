// An Arrow IPC stream or file as batches of columns: one record batch at a time, dictionaries by their id.
import { type Batch, CompressionType, type Field, setCompressionCodec, tableFromIPC } from '@uwdata/flechette';
import type { ValueKind } from '../../core/block-columns.ts';
import { SluiceError } from '../../core/errors.ts';
import { zstd } from '../../core/zstd.ts';
import { ArrowColumn, isFlat, kindOfField } from './arrow-column.ts';
import { type ArrowMessage, arrowMessages, MOST_BODY, tooLarge } from './arrow-messages.ts';
import { type ColumnSource, keysOf, type LineBatch } from './line-batch.ts';
import { decodeLz4Frame } from './lz4-frame.ts';

const writesNothing = (): never => {
  throw new Error('bodies are not packed here');
};
/** Bytes that what is being decoded may still become: codecs belong to the library, and decode at once. */
let room = MOST_BODY;
const packed =
  (decode: (bytes: Uint8Array, length: number) => Uint8Array) =>
  (bytes: Uint8Array, length?: number): Uint8Array => {
    room -= Math.max(0, length ?? 0);
    if (room < 0) throw tooLarge(MOST_BODY);
    return decode(bytes, length ?? 0);
  };
setCompressionCodec(CompressionType.ZSTD, {
  decode: packed((bytes, length) => zstd().zstdDecompressSync(bytes, { maxOutputLength: Math.max(1, length) })),
  encode: writesNothing,
});
setCompressionCodec(CompressionType.LZ4_FRAME, { decode: packed(decodeLz4Frame), encode: writesNothing });

export interface ArrowOptions {
  /** Columns that nobody looks at: they may be nested. */
  ignored?: (name: string) => boolean;
  /** Bytes that a record batch may have, as it is sent and unpacked, and all dictionaries together. Default: 2 GiB. */
  mostBytes?: number;
}

/** Reads the schema. @throws SluiceError truncated_input | empty_input | limit_exceeded | header_mismatch: a column is nested */
export async function openArrow(chunks: AsyncIterable<Uint8Array>, options: ArrowOptions = {}): Promise<ArrowTable> {
  const messages = arrowMessages(chunks, options.mostBytes);
  const { value: schema } = await messages.next();
  if (schema?.kind !== 'schema') throw new SluiceError('truncated_input', 'an Arrow stream begins with its schema');
  return new ArrowTable(schema, messages, options);
}

export class ArrowTable implements ColumnSource {
  readonly names: readonly string[];
  readonly kinds: readonly ValueKind[];
  readonly #schema: ArrowMessage;
  readonly #messages: AsyncIterator<ArrowMessage>;
  /** Per column that is read: its place among all. */
  readonly #places: readonly number[];
  readonly #columns: readonly ArrowColumn[];
  /** By id: the messages that make it, the first one first. */
  readonly #dictionaries = new Map<bigint, Uint8Array[]>();
  /** Changes with every message of a dictionary. */
  #edition = 0;
  #left = 0;
  readonly #mostBytes: number;

  constructor(schema: ArrowMessage, messages: AsyncIterator<ArrowMessage>, { ignored, mostBytes }: ArrowOptions) {
    this.#mostBytes = mostBytes ?? MOST_BODY;
    this.#schema = schema;
    this.#messages = messages;
    const fields = this.#decoded([schema.bytes]).schema.fields as Field[];
    this.#places = fields.flatMap(({ name, type }, i) => (isFlat(type) || !ignored?.(name) ? [i] : []));
    const nested = this.#places.find((i) => !isFlat(fields[i]!.type));
    if (nested !== undefined) throw nestedColumn(nested, fields[nested]!.name);
    this.names = this.#places.map((i) => fields[i]!.name);
    this.kinds = this.#places.map((i) => kindOfField(fields[i]!.type));
    this.#columns = keysOf(this.names).map((key) => new ArrowColumn(key));
  }

  readForModel(names: ReadonlySet<string>): void {
    for (const [c, column] of this.#columns.entries()) column.forModel = names.has(this.names[c]!);
  }

  async next(batch: LineBatch): Promise<boolean> {
    while (this.#left === 0) if (!(await this.#load())) return false;
    const rows = Math.min(batch.capacity, this.#left);
    try {
      for (let c = 0; c < this.#columns.length; c++) this.#columns[c]!.take(batch.columns[c]!, rows);
    } catch (cause) {
      throw broken(cause);
    }
    batch.rows = rows;
    this.#left -= rows;
    return true;
  }

  /** Takes the next record batch; false: there is none. */
  async #load(): Promise<boolean> {
    const { value: message, done } = await this.#messages.next();
    if (done) return false;
    if (message.kind === 'schema') throw new SluiceError('truncated_input', 'an Arrow stream has a second schema');
    if (message.kind === 'dictionary') {
      const before = message.isDelta ? (this.#dictionaries.get(message.id) ?? []) : [];
      this.#dictionaries.set(message.id, [...before, message.bytes]);
      this.#edition++;
      const held = [...this.#dictionaries.values()].flat().reduce((sum, bytes) => sum + bytes.length, 0);
      if (held > this.#mostBytes) throw tooLarge(this.#mostBytes);
      return true;
    }
    const table = this.#decoded([this.#schema.bytes, ...[...this.#dictionaries.values()].flat(), message.bytes]);
    this.#left = table.numRows;
    this.#places.forEach((at, c) => {
      const column = table.getChildAt(at);
      const batch = column.data[0] as Batch<unknown>;
      if (liesBefore(batch, message.bytes)) throw broken(new Error('a buffer lies before its message'));
      this.#columns[c]!.begin(batch, column.type, this.#edition);
    });
    return true;
  }

  #decoded(messages: Uint8Array[]): ReturnType<typeof tableFromIPC> {
    room = this.#mostBytes;
    try {
      return tableFromIPC(messages, { useBigInt: true, useBigIntTimestamp: true, useDecimalInt: true });
    } catch (cause) {
      throw broken(cause);
    }
  }
}

/** In front of a message may be bytes of another one. */
function liesBefore({ values, validity, offsets }: Batch<unknown>, { buffer, byteOffset }: Uint8Array): boolean {
  return [values, validity, offsets].some(
    (part) => ArrayBuffer.isView(part) && part.buffer === buffer && part.byteOffset < byteOffset,
  );
}

function broken(cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  return new SluiceError('truncated_input', 'an Arrow message is damaged, or of a kind that is not read', { cause });
}

/** Its name comes from outside, where nobody may expect it to be repeated: the place stands for it. */
const nestedColumn = (at: number, name: string): SluiceError =>
  new SluiceError(
    'header_mismatch',
    `column ${at + 1}${/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? ` (${name})` : ''} is nested; flatten it, or declare it as ignored`,
  );
