// Parquet files of any shape, written piece by piece: pages whose sizes, dictionaries and rows are what a test says.
import { zstdCompressSync } from 'node:zlib';

/** A number is an i32, a bigint an i64. */
type Value = number | bigint | string | readonly Struct[] | readonly string[] | Struct;
/** A Thrift struct: field number → value. */
export type Struct = ReadonlyMap<number, Value>;

/** Fields of a struct in order. */
export const struct = (...fields: [number, Value][]): Struct => new Map(fields);

export function varint(value: number): number[] {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  return [...bytes, left];
}

const I32 = 5;
const I64 = 6;
const BINARY = 8;
const LIST = 9;
const STRUCT = 12;

function encoded(value: Value): { type: number; bytes: Buffer } {
  if (typeof value === 'number') return { type: I32, bytes: Buffer.from(varint(value * 2)) };
  if (typeof value === 'bigint') return { type: I64, bytes: Buffer.from(varint(Number(value) * 2)) };
  if (typeof value === 'string') {
    const text = Buffer.from(value);
    return { type: BINARY, bytes: Buffer.concat([Buffer.from(varint(text.length)), text]) };
  }
  if (Array.isArray(value)) {
    const parts = (value as readonly Value[]).map(encoded);
    const head = Buffer.from([0xf0 | (parts[0]?.type ?? STRUCT), ...varint(parts.length)]);
    return { type: LIST, bytes: Buffer.concat([head, ...parts.map(({ bytes }) => bytes)]) };
  }
  return { type: STRUCT, bytes: thrift(value as Struct) };
}

/** A struct in the compact protocol. */
export function thrift(value: Struct): Buffer {
  const parts: Buffer[] = [];
  let last = 0;
  for (const [id, field] of value) {
    const { type, bytes } = encoded(field);
    parts.push(Buffer.from([((id - last) << 4) | type]), bytes);
    last = id;
  }
  return Buffer.concat([...parts, Buffer.from([0])]);
}

export interface ColumnPages {
  name: string;
  /** Page headers and pages, as they are in the file. */
  pages: Buffer;
  /** Bytes of a dictionary page in front of them. */
  dictionary?: Buffer;
}

const ZSTD = 6;
const DATA_PAGE = 0;
const DICTIONARY_PAGE = 2;
const PLAIN = 0;
const RLE = 3;
const RLE_DICTIONARY = 8;
const OPTIONAL = 1;
const BYTE_ARRAY = 6;

/** Levels of rows that all have a value, or none. */
function levels(rows: number, present: boolean): Buffer {
  const run = Buffer.from([...varint(rows * 2), present ? 1 : 0]);
  const length = Buffer.alloc(4);
  length.writeInt32LE(run.length);
  return Buffer.concat([length, run]);
}

/** A page compressed with zstd; `claims`: the uncompressed size it says it has. */
function page(type: number, content: Buffer, header: [number, Value], claims = content.length): Buffer {
  const stored = zstdCompressSync(content);
  return Buffer.concat([thrift(struct([1, type], [2, claims], [3, stored.length], header)), stored]);
}

/** A data page of texts; `values`: as the plain encoding has them. null: no row has a value. */
export function textPage(rows: number, values: Buffer | null, claims?: number): Buffer {
  const content = Buffer.concat([levels(rows, values !== null), values ?? Buffer.alloc(0)]);
  return page(DATA_PAGE, content, [5, struct([1, rows], [2, PLAIN], [3, RLE], [4, RLE])], claims);
}

/** A data page whose rows all have the first word of the dictionary. */
export function codePage(rows: number): Buffer {
  const content = Buffer.concat([levels(rows, true), Buffer.from([1, ...varint(rows * 2), 0])]);
  return page(DATA_PAGE, content, [5, struct([1, rows], [2, RLE_DICTIONARY], [3, RLE], [4, RLE])]);
}

/** A dictionary of words, as the plain encoding has them. */
export const dictionaryPage = (count: number, words: Buffer): Buffer =>
  page(DICTIONARY_PAGE, words, [7, struct([1, count], [2, PLAIN])]);

/** A text in the plain encoding. */
export function plainText(text: Uint8Array): Buffer {
  const length = Buffer.alloc(4);
  length.writeInt32LE(text.length);
  return Buffer.concat([length, text]);
}

/** A file of one row group whose columns are texts. */
export function parquetFile(rows: number, columns: readonly ColumnPages[]): Buffer {
  const parts: Buffer[] = [Buffer.from('PAR1')];
  let at = 4;
  const chunks = columns.map(({ name, pages, dictionary = Buffer.alloc(0) }) => {
    parts.push(dictionary, pages);
    const from = at;
    const bytes = dictionary.length + pages.length;
    at += bytes;
    const places: [number, Value][] = [[9, BigInt(from + dictionary.length)]];
    if (dictionary.length > 0) places.push([11, BigInt(from)]);
    const data = struct(
      [1, BYTE_ARRAY],
      [3, [name]],
      [4, ZSTD],
      [5, BigInt(rows)],
      [6, BigInt(bytes)],
      [7, BigInt(bytes)],
      ...places,
    );
    return struct([2, BigInt(from)], [3, data]);
  });
  const schema = [
    struct([4, 'schema'], [5, columns.length]),
    ...columns.map(({ name }) => struct([1, BYTE_ARRAY], [3, OPTIONAL], [4, name])),
  ];
  const footer = thrift(
    struct([1, 2], [2, schema], [3, BigInt(rows)], [4, [struct([1, chunks], [2, BigInt(at)], [3, BigInt(rows)])]]),
  );
  const end = Buffer.alloc(4);
  end.writeUInt32LE(footer.length);
  return Buffer.concat([...parts, footer, end, Buffer.from('PAR1')]);
}
