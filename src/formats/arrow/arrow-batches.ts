// Decodes the messages of an Arrow stream: dictionary columns as codes, the values of a dictionary as a plain column.
import { promisify } from 'node:util';
import { type Batch, type DataType, type Field, Type } from '@uwdata/flechette';
// @ts-expect-error The package publishes no types for its inner modules.
import { decodeMessage as untypedDecodeMessage } from '@uwdata/flechette/src/decode/message.js';
// @ts-expect-error As above.
import { createTable as untypedCreateTable } from '@uwdata/flechette/src/decode/table-from-ipc.js';
import { EventLoopTurns } from '../../core/async.ts';
import { mostDecompressed } from '../../core/decompressed-size.ts';
import { zstd } from '../../core/zstd.ts';
import { checkScale } from '../columns/json-text.ts';
import type { TableBudget } from '../columns/table-limits.ts';
import { MOST_BODY, tooLarge } from './arrow-messages.ts';

// Decodes LZ4 frames, which pandas writes in Feather files. Sources: lz4_Frame_format.md and lz4_Block_format.md.

const MAGIC = 0x184d2204;
const UNPACKED = 0x80000000;
const SHORTEST_MATCH = 4;
const MORE = 15;

/** Decodes a frame of exactly `out.length` bytes. Yields to the event loop between blocks. @throws Error */
async function decodeLz4Frame(from: Uint8Array, out: Uint8Array): Promise<void> {
  const turns = new EventLoopTurns();
  const view = new DataView(from.buffer, from.byteOffset, from.byteLength);
  if (view.getUint32(0, true) !== MAGIC) throw new Error('a body is not an LZ4 frame');
  const flags = view.getUint8(4);
  const [hasBlockSums, hasSize, hasDictionary] = [(flags >> 4) & 1, (flags >> 3) & 1, flags & 1];
  let at = 7 + hasSize * 8 + hasDictionary * 4;
  let filled = 0;
  for (;;) {
    await turns.pass();
    const size = view.getUint32(at, true);
    at += 4;
    if (size === 0) break;
    const end = at + (size & ~UNPACKED);
    if (end > from.length) throw new Error('an LZ4 frame is cut off');
    if (size >= UNPACKED) {
      if (filled + end - at > out.length) throw new Error('an LZ4 frame has another size than its header');
      out.set(from.subarray(at, end), filled);
      filled += end - at;
    } else filled = decodeBlock(from, at, end, out, filled);
    at = end + hasBlockSums * 4;
  }
  if (filled !== out.length) throw new Error('an LZ4 frame has another size than its header');
}

/** Decodes one block into `out` from position `filled`; its matches may refer to earlier blocks. */
function decodeBlock(from: Uint8Array, start: number, end: number, out: Uint8Array, filled: number): number {
  let [at, o] = [start, filled];
  while (at < end) {
    const token = from[at++]!;
    let literals = token >> 4;
    if (literals === MORE) for (let more = 255; more === 255; literals += more) more = from[at++]!;
    if (at + literals > end || o + literals > out.length) throw new Error('a block of LZ4 is damaged');
    for (const stop = at + literals; at < stop; ) out[o++] = from[at++]!;
    if (at === end) break;
    const offset = from[at]! | (from[at + 1]! << 8);
    at += 2;
    let match = (token & MORE) + SHORTEST_MATCH;
    if ((token & MORE) === MORE) for (let more = 255; more === 255; match += more) more = from[at++]!;
    if (offset === 0 || offset > o || !(o + match <= out.length)) throw new Error('a block of LZ4 is damaged');
    for (const stop = o + match; o < stop; o++) out[o] = out[o - offset]!;
  }
  return o;
}

interface Region {
  offset: number;
  length: number;
}

/**
 * The columns of a message as the library describes them: a node per column with its length, and the byte ranges of all
 * buffers in the body.
 */
interface Columns {
  length: number;
  nodes: readonly object[];
  regions: readonly Region[];
  /** `codec`: 0 is LZ4, 1 is zstd. `method`: 0 means that each buffer is compressed separately. */
  compression: { codec: number; method: number } | null;
  /** For each column of text or binary views: its number of data buffers. */
  variadic: readonly number[] | null;
  body: Uint8Array;
}

interface Message {
  version: number;
  content: Columns & { fields: Field[]; data: Omit<Columns, 'body'> };
}

const decodeMessage = untypedDecodeMessage as (bytes: Uint8Array, at: number) => Message;
const createTable = untypedCreateTable as (
  data: { schema: object; dictionaries: []; records: Columns[]; dictsBeforeRecord: number[] },
  options: object,
) => { getChildAt(at: number): { data: readonly Batch<unknown>[] } };

const EXACT = { useBigInt: true, useBigIntTimestamp: true, useDecimalInt: true };
const LZ4 = 0;
const ZSTD = 1;
/**
 * Size of the prefix of a compressed buffer. The prefix holds the uncompressed length, or -1 if the buffer is not
 * compressed.
 */
const LENGTH_BYTES = 8;
const UNCOMPRESSED = -1n;
/** Rounds up to the alignment of buffers, 64 bytes. */
const aligned = (bytes: number): number => (bytes + 63) & ~63;
/** Size in bytes above which a buffer is decompressed in another thread. */
const LARGE = 64 * 1024;
/** Limit of a decompressed message, as `least` of `mostDecompressed`. */
const MOST_EXPANDED = 256 * 1024 * 1024;

/**
 * The columns of a schema message.
 * @throws Error if the message is invalid or has a type that is not supported or too expensive to decode
 */
export function schemaFields(message: Uint8Array): Field[] {
  const { fields } = decodeMessage(message, 0).content;
  for (const { type } of fields) checkType(type);
  return fields.map((field) => ({ ...field, type: extendedType(field) }));
}

/** Extension types whose values differ from those of the type that they are stored as. */
const EXTENSIONS = ['arrow.uuid', 'pandas.period'] as const;
export type Extension = (typeof EXTENSIONS)[number];

/** The type with the name of its extension, which is in the metadata of a field. */
function extendedType({ type, metadata }: Field): DataType {
  const extension = EXTENSIONS.find((name) => name === metadata?.get('ARROW:extension:name'));
  return extension === undefined ? type : Object.assign({ ...type }, { extension });
}

/** The extension of a type; undefined: none, or one whose values are those of the stored type. */
export const extensionOf = (type: DataType): Extension | undefined => (type as { extension?: Extension }).extension;

/** Checks the scale of decimals, because their texts have as many digits. */
function checkType(type: DataType): void {
  if (type.typeId === Type.Decimal) checkScale(type.scale);
  else if (type.typeId === Type.Dictionary) checkType(type.dictionary);
  for (const child of (type as { children?: Field[] }).children ?? []) checkType(child.type);
}

interface ArrowBatchLimits {
  /** Maximum bytes of a message, both compressed and decompressed. */
  batchBytes: number;
  budget: TableBudget;
}

export class ArrowBatches {
  readonly #limits: ArrowBatchLimits;
  readonly #fields: readonly Field[];
  #memory = new Uint8Array(0);

  /** `types`: types of all columns of the stream. */
  constructor(types: readonly DataType[], limits: ArrowBatchLimits) {
    this.#fields = fieldsOf(types);
    this.#limits = limits;
  }

  /**
   * Decodes a record batch. Its columns are valid until the next record batch is decoded.
   * @throws SluiceError limit_exceeded; Error
   */
  async records(message: Uint8Array): Promise<{ rows: number; columns: Batch<unknown>[] }> {
    const { version, content } = decodeMessage(message, 0);
    const rows = content.length;
    if (!(Number.isSafeInteger(rows) && rows >= 0)) throw new Error('a record batch has no length');
    const { budget } = this.#limits;
    budget.addRows(rows);
    // Each cell counts as at least one byte, because nulls and run-end encoded values may occupy none.
    budget.addBytes(rows * this.#fields.length);
    if (rows === 0) return { rows, columns: [] };
    const columns = columnsOf(version, this.#fields, await this.#decompressed(content, true));
    if (columns.some(({ length }) => length !== rows)) throw new Error('a column has another length than its batch');
    return { rows, columns };
  }

  /** Decodes the values of a dictionary. `bytes`: their size. @throws as `records` */
  async words(message: Uint8Array, type: DataType): Promise<{ words: Batch<unknown>; bytes: number }> {
    const { version, content } = decodeMessage(message, 0);
    const columns = await this.#decompressed({ ...content.data, body: content.body }, false);
    const [words] = columnsOf(version, fieldsOf([type]), columns);
    const { length } = columns.body;
    // The smallest values occupy one bit. A column of nulls has no bytes, so one value is always allowed.
    if (!(words!.length >= 0 && words!.length <= length * 8 + 1)) throw new Error('a dictionary has no length');
    return { words: words!, bytes: length };
  }

  /**
   * Decompresses the buffers of a message. `reuse`: overwrite the memory of the previous record batch, because
   * discarding such large buffers would make V8 mark its entire heap repeatedly.
   */
  async #decompressed(columns: Columns, reuse: boolean): Promise<Columns> {
    const { regions, compression, variadic, body } = columns;
    const inViews = (variadic ?? []).reduce((sum, count) => sum + count, 0);
    if (!(inViews >= 0 && inViews <= regions.length)) throw new Error('a column has more buffers than its message');
    for (const { offset, length } of regions) {
      if (!(offset >= 0 && length >= 0 && offset + length <= body.length))
        throw new Error('a buffer is outside its message');
    }
    if (!compression) {
      this.#limits.budget.addBytes(body.length);
      return columns;
    }
    if (compression.method !== 0) throw new Error('an unknown compression');
    const sizes = regions.map((region) => uncompressedBytes(body, region));
    const total = sizes.reduce((sum, size) => sum + aligned(size), 0);
    this.#checkTotal(total, body.length);
    if (!reuse) return this.#into(new Uint8Array(total), columns, sizes);
    if (total > this.#memory.length) this.#memory = new Uint8Array(total);
    return this.#into(this.#memory.subarray(0, total), columns, sizes);
  }

  #checkTotal(total: number, stored: number): void {
    const { batchBytes, budget } = this.#limits;
    const most = Math.min(batchBytes, mostDecompressed(MOST_EXPANDED, stored), MOST_BODY);
    if (!(total <= most)) throw tooLarge(most);
    budget.addBytes(total);
  }

  async #into(memory: Uint8Array, columns: Columns, sizes: readonly number[]): Promise<Columns> {
    const { regions, compression, body } = columns;
    let at = 0;
    const placed: Region[] = [];
    for (const [i, { offset, length }] of regions.entries()) {
      const size = sizes[i]!;
      const out = memory.subarray(at, at + size);
      if (size > 0) {
        const stored = body.subarray(offset + LENGTH_BYTES, offset + length);
        if (lengthAt(body, offset) === UNCOMPRESSED) out.set(stored);
        else await decompress(compression!.codec, stored, out);
      }
      placed.push({ offset: at, length: size });
      at += aligned(size);
    }
    return { ...columns, regions: placed, compression: null, body: memory };
  }
}

const lengthAt = (body: Uint8Array, at: number): bigint =>
  new DataView(body.buffer, body.byteOffset, body.byteLength).getBigInt64(at, true);

function uncompressedBytes(body: Uint8Array, { offset, length }: Region): number {
  if (length === 0) return 0;
  if (length < LENGTH_BYTES) throw new Error('a compressed buffer has no length');
  const size = lengthAt(body, offset);
  if (size === UNCOMPRESSED) return length - LENGTH_BYTES;
  if (size < 0n || size > BigInt(MOST_BODY)) throw new Error('a buffer has an impossible size');
  return Number(size);
}

/** Fills `out` completely. @throws Error if the data has fewer or more bytes */
async function decompress(codec: number, stored: Uint8Array, out: Uint8Array): Promise<void> {
  if (codec === LZ4) return decodeLz4Frame(stored, out);
  if (codec !== ZSTD) throw new Error('an unknown codec');
  const options = { maxOutputLength: out.length };
  const { zstdDecompress, zstdDecompressSync } = zstd();
  const bytes =
    out.length > LARGE
      ? ((await promisify(zstdDecompress)(stored, options)) as Uint8Array)
      : zstdDecompressSync(stored, options);
  if (bytes.length !== out.length) throw new Error('a buffer has another size than its header');
  out.set(bytes);
}

const fieldsOf = (types: readonly DataType[]): Field[] =>
  types.map((type, i) => ({ name: String(i), type: storedType(type), nullable: true, metadata: new Map() }));

function columnsOf(version: number, fields: readonly Field[], columns: Columns): Batch<unknown>[] {
  const data = { schema: { version, fields }, dictionaries: [] as [], records: [columns], dictsBeforeRecord: [0] };
  const table = createTable(data, EXACT);
  return fields.map((_, i) => table.getChildAt(i).data[0]!);
}

/**
 * The type as the bytes have it: the integer type of the codes for a dictionary, and a whole number for a decimal, whose
 * scale is applied later (the library accepts no negative scale).
 */
function storedType(type: DataType): DataType {
  if (type.typeId === Type.Dictionary) return type.indices;
  if (type.typeId === Type.Decimal) return { ...type, scale: 0 };
  const { children } = type as { children?: Field[] };
  if (!children) return type;
  return { ...type, children: children.map((child) => ({ ...child, type: storedType(child.type) })) } as DataType;
}
