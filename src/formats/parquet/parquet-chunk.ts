// Writes one column of a row group as a chunk of a Parquet file: one data page (version 2), and a dictionary if it halves the size.
// Source: Encodings.md and parquet.thrift of the Parquet format. The pages are identical to the pages that
// hyparquet-writer creates from plain arrays.
import { ByteWriter } from 'hyparquet-writer';
import { writePageHeader } from 'hyparquet-writer/src/datapage.js';
import { writeRleBitPackedHybrid } from 'hyparquet-writer/src/encoding.js';
import type { ParquetWriter } from 'hyparquet-writer/src/parquet-writer.js';
import { snappyCompress } from 'hyparquet-writer/src/snappy.js';
import type { Cells } from '../columns/column-frames.ts';
import {
  bitsOf,
  compareBytes,
  type HeldColumn,
  type OutputColumn,
  type PresentTexts,
  presentCells,
  presentTexts,
} from '../columns/held-table.ts';

type ColumnChunk = ParquetWriter['row_groups'][number]['columns'][number];
type ChunkMetadata = NonNullable<ColumnChunk['meta_data']>;
type Bound = number | boolean | Uint8Array;
type Encoding = 'PLAIN' | 'RLE_DICTIONARY';

const TYPES = { integer: 'INT32', number: 'DOUBLE', text: 'BYTE_ARRAY', boolean: 'BOOLEAN' } as const;
const CODEC = 'SNAPPY';
/** Number of values that are sampled to decide whether to build a dictionary. */
const SAMPLE = 1000;
/** Size of the length in front of each text, bytes. */
const LENGTH_BYTES = 4;

/** The encoded values of a chunk. */
interface Encoded {
  encoding: Encoding;
  values: Uint8Array;
  /** null: the chunk has no dictionary. */
  dictionary: { bytes: Uint8Array; words: number } | null;
  /** null: the chunk has no values. */
  bounds: { least: Bound; most: Bound } | null;
}

/** Appends the chunk of a column, which must have at least one row. */
export function writeChunk(writer: ByteWriter, held: HeldColumn): ColumnChunk {
  const { column, rows, nulls } = held;
  const encoded = encodedOf(held);
  const start = writer.offset;
  const count = new SizeCount(writer);
  const encodings: Encoding[] = [];
  const stats: NonNullable<ChunkMetadata['encoding_stats']> = [];
  let dictionaryAt: bigint | undefined;
  if (encoded.dictionary) {
    const { bytes, words } = encoded.dictionary;
    dictionaryAt = BigInt(writer.offset);
    count.page('DICTIONARY_PAGE', new Uint8Array(0), bytes, {
      dictionary_page_header: { num_values: words, encoding: 'PLAIN' },
    });
    encodings.push('PLAIN');
    stats.push({ page_type: 'DICTIONARY_PAGE', encoding: 'PLAIN', count: 1 });
  }
  const levels = new ByteWriter();
  writeRleBitPackedHybrid(levels, held.valid.subarray(0, rows), 1);
  const dataAt = BigInt(writer.offset);
  count.page('DATA_PAGE_V2', levels.getBytes(), encoded.values, {
    data_page_header_v2: {
      num_values: rows,
      num_nulls: nulls,
      num_rows: rows,
      encoding: encoded.encoding,
      definition_levels_byte_length: levels.offset,
      repetition_levels_byte_length: 0,
      is_compressed: true,
    },
  });
  encodings.push(encoded.encoding);
  stats.push({ page_type: 'DATA_PAGE_V2', encoding: encoded.encoding, count: 1 });
  const metadata: ChunkMetadata = {
    type: TYPES[column.kind],
    encodings,
    path_in_schema: [column.name],
    codec: CODEC,
    num_values: BigInt(rows),
    total_compressed_size: BigInt(writer.offset - start),
    total_uncompressed_size: BigInt(count.uncompressed),
    data_page_offset: dataAt,
    statistics: statisticsOf(column, nulls, encoded),
    encoding_stats: stats,
  };
  if (dictionaryAt !== undefined) metadata.dictionary_page_offset = dictionaryAt;
  return { meta_data: metadata, file_offset: BigInt(start) };
}

type PageHeader = Parameters<typeof writePageHeader>[1];

/** Writes pages and computes the sum of their uncompressed sizes. */
class SizeCount {
  readonly #writer: ByteWriter;
  uncompressed = 0;

  constructor(writer: ByteWriter) {
    this.#writer = writer;
  }

  /** Writes a page. `levels` are stored uncompressed, as the format requires. */
  page(type: PageHeader['type'], levels: Uint8Array, bytes: Uint8Array, header: Partial<PageHeader>): void {
    const writer = this.#writer;
    const compressed = snappyCompress(bytes);
    const before = writer.offset;
    writePageHeader(writer, {
      type,
      uncompressed_page_size: levels.length + bytes.length,
      compressed_page_size: levels.length + compressed.length,
      ...header,
    });
    this.uncompressed += writer.offset - before + levels.length + bytes.length;
    writer.appendBytes(levels);
    writer.appendBytes(compressed);
  }
}

function statisticsOf(
  { kind }: OutputColumn,
  nulls: number,
  { bounds }: Encoded,
): NonNullable<ChunkMetadata['statistics']> {
  const statistics = {
    null_count: BigInt(nulls),
    // NaN does not occur, because a score that is NaN is reported as an error.
    ...(kind === 'number' ? { nan_count: 0n } : {}),
  };
  if (bounds === null) return statistics;
  // The format requires -0 as a minimum and +0 as a maximum.
  return {
    ...statistics,
    min_value: bounds.least === 0 ? -0 : bounds.least,
    max_value: bounds.most === 0 ? 0 : bounds.most,
  };
}

function encodedOf(held: HeldColumn): Encoded {
  const { column } = held;
  if (column.words) return encodedWords(presentCells(held) as Int32Array, column.words);
  if (column.kind === 'text') return encodedTexts(presentTexts(held));
  const cells = presentCells(held);
  return column.kind === 'boolean' ? encodedFlags(cells as Uint8Array) : encodedNumbers(cells);
}

/** The dictionary indexes of the values, preceded by their bit width. */
function dictionaryCodes(codes: Int32Array, words: number): Uint8Array {
  const out = new ByteWriter();
  const width = Math.max(1, Math.ceil(Math.log2(words)));
  out.appendUint8(width);
  writeRleBitPackedHybrid(out, codes, width);
  return out.getBytes();
}

/** Encodes booleans as packed bits. fastparquet cannot read run-length encoded booleans in a column with nulls. */
function encodedFlags(flags: Uint8Array): Encoded {
  const bounds = flags.length === 0 ? null : { least: !flags.includes(0), most: flags.includes(1) };
  return { encoding: 'PLAIN', values: bitsOf(flags, flags.length), dictionary: null, bounds };
}

function encodedNumbers(cells: Cells): Encoded {
  let [least, most] = [Infinity, -Infinity];
  for (let i = 0; i < cells.length; i++) {
    const cell = cells[i]!;
    if (cell < least) least = cell;
    if (cell > most) most = cell;
  }
  const bounds = cells.length === 0 ? null : { least, most };
  const found = dictionaryOf(cells.length, (i) => cells[i]!);
  const size = cells.BYTES_PER_ELEMENT;
  if (found && pays(found, found.entries.length * size, cells.length * size)) {
    const entries = cells instanceof Int32Array ? Int32Array.from(found.entries) : Float64Array.from(found.entries);
    return dictionaryEncoded(found.codes, bytesOf(entries), found.entries.length, bounds);
  }
  return { encoding: 'PLAIN', values: bytesOf(cells), dictionary: null, bounds };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Cells): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

const dictionaryEncoded = (
  codes: Int32Array,
  bytes: Uint8Array,
  words: number,
  bounds: Encoded['bounds'],
): Encoded => ({
  encoding: 'RLE_DICTIONARY',
  values: dictionaryCodes(codes, words),
  dictionary: { bytes, words },
  bounds,
});

/** Encodes texts from a known list. The dictionary contains the words that occur, in the order of the list. */
function encodedWords(cells: Int32Array, words: readonly string[]): Encoded {
  const codes = new Int32Array(words.length);
  for (let i = 0; i < cells.length; i++) codes[cells[i]!] = 1;
  const used: Buffer[] = [];
  for (let w = 0; w < words.length; w++) {
    if (codes[w] === 1) codes[w] = used.push(Buffer.from(words[w]!)) - 1;
  }
  if (used.length === 0) return { encoding: 'PLAIN', values: new Uint8Array(0), dictionary: null, bounds: null };
  const sorted = used.toSorted(Buffer.compare);
  const bounds = { least: sorted[0]!, most: sorted.at(-1)! };
  const own = cells.map((cell) => codes[cell]!);
  return dictionaryEncoded(own, lengthsAndTexts(used), used.length, bounds);
}

function lengthsAndTexts(texts: readonly Buffer[]): Uint8Array {
  const out = new ByteWriter();
  for (const text of texts) {
    out.appendUint32(text.length);
    out.appendBytes(text);
  }
  return out.getBytes();
}

function encodedTexts(texts: PresentTexts): Encoded {
  const { bytes, starts, ends } = texts;
  const count = starts.length;
  let [least, most] = [0, 0];
  let size = 0;
  for (let i = 0; i < count; i++) {
    const [from, to] = [starts[i]!, ends[i]!];
    size += to - from + LENGTH_BYTES;
    if (compareBytes(bytes, from, to, starts[least]!, ends[least]!) < 0) least = i;
    if (compareBytes(bytes, from, to, starts[most]!, ends[most]!) > 0) most = i;
  }
  // Decoding the bytes as latin1 gives a unique key for each text.
  const keyOf = (i: number): string => bytes.toString('latin1', starts[i]!, ends[i]!);
  const copy = (i: number): Buffer => Buffer.from(bytes.subarray(starts[i]!, ends[i]!));
  const bounds = count === 0 ? null : { least: copy(least), most: copy(most) };
  const found = dictionaryOf(count, keyOf);
  const words = found?.entries.map((key) => Buffer.from(key, 'latin1')) ?? [];
  const wordBytes = words.reduce((sum, word) => sum + word.length + LENGTH_BYTES, 0);
  if (found && pays(found, wordBytes, size)) {
    return dictionaryEncoded(found.codes, lengthsAndTexts(words), words.length, bounds);
  }
  return { encoding: 'PLAIN', values: plainTexts(texts, size), dictionary: null, bounds };
}

function plainTexts({ bytes, starts, ends }: PresentTexts, size: number): Uint8Array {
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  for (let i = 0; i < starts.length; i++) {
    const [from, to] = [starts[i]!, ends[i]!];
    at = out.writeInt32LE(to - from, at);
    if (to - from > 64) at += bytes.copy(out, at, from, to);
    else for (let b = from; b < to; b++) out[at++] = bytes[b]!;
  }
  return out;
}

interface Dictionary<Key> {
  entries: Key[];
  /** Dictionary index of each value. */
  codes: Int32Array;
}

/** The distinct values in order of occurrence; null: more than half of all values are distinct. */
function dictionaryOf<Key extends string | number>(count: number, keyOf: (i: number) => Key): Dictionary<Key> | null {
  const sample = new Set<Key>();
  const looked = Math.min(count, SAMPLE);
  for (let i = 0; i < looked; i++) sample.add(keyOf(Math.floor((i * count) / looked)));
  if (looked === 0 || sample.size * 2 > looked) return null;
  const known = new Map<Key, number>();
  const codes = new Int32Array(count);
  for (let i = 0; i < count; i++) {
    const key = keyOf(i);
    let code = known.get(key);
    if (code === undefined) {
      code = known.size;
      if (code * 2 >= count) return null;
      known.set(key, code);
    }
    codes[i] = code;
  }
  return { entries: [...known.keys()], codes };
}

/** Whether the dictionary and its codes take at most half the bytes of plain values. */
function pays({ entries, codes }: Dictionary<unknown>, dictionaryBytes: number, plainBytes: number): boolean {
  const width = Math.max(1, Math.ceil(Math.log2(entries.length)));
  return 2 * (dictionaryBytes + Math.ceil((codes.length * width) / 8)) <= plainBytes;
}
