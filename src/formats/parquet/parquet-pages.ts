// Reads the pages of one column of a Parquet file: locates and decompresses pages, and converts their values to the plain encoding.
import { gunzipSync } from 'node:zlib';
import type { PageHeader } from 'hyparquet';
import { parquetHeader } from 'hyparquet/src/column.js';
import { deltaBinaryUnpack } from 'hyparquet/src/delta.js';
import { mostDecompressed } from '../../core/decompressed-size.ts';
import { SluiceError } from '../../core/errors.ts';
import { zstd } from '../../core/zstd.ts';
import { checkThrift } from './thrift-check.ts';

// Decompresses raw Snappy data. hyparquet copies byte by byte; this code copies long runs with a single call.

/** Minimum length of a range that is copied with a call, bytes. For shorter ranges, a loop is as fast as a call. */
const LONG = 32;

const damaged = (): Error => new Error('a page is not valid Snappy data');

/** Fills `out` with the decompressed bytes. @throws Error if the data is damaged or its size is not `out.length` */
export function unpackSnappy(packed: Uint8Array, out: Uint8Array): void {
  const end = packed.length;
  // The data starts with the decompressed size as a varint. The size is already known, so it is skipped.
  let p = packed.findIndex((byte) => byte < 128) + 1;
  if (p === 0) throw damaged();
  let o = 0;
  while (p < end) {
    const tag = packed[p++]!;
    let length = (tag >> 2) + 1;
    if ((tag & 3) === 0) {
      if (length > 60) {
        const bytes = length - 60;
        if (p + bytes > end) throw damaged();
        length = littleEndian(packed, p, bytes) + 1;
        p += bytes;
      }
      if (p + length > end || o + length > out.length) throw damaged();
      if (length >= LONG) out.set(packed.subarray(p, p + length), o);
      else for (let i = 0; i < length; i++) out[o + i] = packed[p + i]!;
      p += length;
    } else {
      const bytes = (tag & 3) === 3 ? 4 : tag & 3;
      if (p + bytes > end) throw damaged();
      let back = littleEndian(packed, p, bytes);
      p += bytes;
      if (bytes === 1) {
        length = ((tag >> 2) & 7) + 4;
        back += (tag >> 5) << 8;
      }
      if (back === 0 || back > o || o + length > out.length) throw damaged();
      if (back >= length && length >= LONG) out.copyWithin(o, o - back, o - back + length);
      // The source range may overlap the bytes that this copy writes, so bytes are copied in order.
      else for (let i = 0; i < length; i++) out[o + i] = out[o - back + i]!;
    }
    o += length;
  }
  if (o !== out.length) throw damaged();
}

function littleEndian(bytes: Uint8Array, at: number, count: number): number {
  let value = bytes[at]!;
  if (count > 1) value |= bytes[at + 1]! << 8;
  if (count > 2) value |= bytes[at + 2]! << 16;
  return count > 3 ? value + bytes[at + 3]! * 2 ** 24 : value;
}

/** A file with random access. */
export interface RandomAccess {
  name: string;
  byteLength: number;
  /** Fills `target` with the bytes of the file starting at `position`. @throws SluiceError */
  read(target: Uint8Array, position: number): Promise<void>;
  /** For a local file: checks that it has not changed since it was opened. @throws SluiceError input_changed */
  assertUnchanged?(): Promise<void>;
}

/** Decompressors for codecs that neither Node nor hyparquet supports. */
export type Decompressors = Record<string, ((input: Uint8Array, length: number) => Uint8Array) | undefined>;

/** Number of bytes that usually contain a whole page header with its statistics. */
const HEADER_BYTES = 512;
/** Maximum size of a page header, bytes. */
const MOST_HEADER_BYTES = 1024 * 1024;
/** Number of bytes after a decompressed page that may be read. */
const SLACK = 8;
/**
 * Maximum size of a page, bytes, because a whole page is held in memory. Writers usually create pages of about a
 * megabyte.
 */
export const MOST_PAGE_BYTES = 64 * 1024 * 1024;
/** Limit of the current pages of all columns together, as `least` of `mostDecompressed`. */
const MOST_HELD_BYTES = 128 * 1024 * 1024;

/** The total size of the pages that all columns of a table hold in memory. */
export class HeldPages {
  #bytes = 0;
  #stored = 0;

  /** Replaces a column's page in the total. @throws SluiceError limit_exceeded */
  replace(before: PageSize, now: PageSize): void {
    this.#bytes += now.bytes - before.bytes;
    this.#stored += now.stored - before.stored;
    const most = mostDecompressed(MOST_HELD_BYTES, this.#stored);
    if (this.#bytes > most) {
      throw new SluiceError(
        'limit_exceeded',
        `the pages that are read at the same time take more than ${most} bytes in total`,
      );
    }
  }
}

/** Uncompressed and stored sizes of a page, bytes. */
interface PageSize {
  bytes: number;
  stored: number;
}

const NO_PAGE: PageSize = { bytes: 0, stored: 0 };

const tooLargePage = (): SluiceError =>
  new SluiceError('limit_exceeded', `a page takes more than ${MOST_PAGE_BYTES} bytes: write smaller pages`);

/** The metadata of a column chunk that locates its pages. */
export interface ChunkPlace {
  codec: string;
  from: number;
  to: number;
}

export interface Page {
  header: PageHeader;
  /**
   * Decompressed bytes, valid until the next page is read. In version 2 they start with the levels, which are never
   * compressed.
   */
  bytes: Uint8Array;
  /** End position of the levels in a page of version 2, otherwise 0. */
  levels: number;
}

/** Reads the pages of consecutive column chunks. */
export class PageReader {
  readonly #file: RandomAccess;
  readonly #decompressors: Decompressors;
  readonly #windowBytes: number;
  /** The window: bytes `#from` to `#to - 1` of the file. */
  #window = Buffer.alloc(0);
  #from = 0;
  #to = 0;
  #at = 0;
  #end = 0;
  #codec = '';
  #unpacked = new Uint8Array(0);
  readonly #held: HeldPages;
  #page = NO_PAGE;
  /** Size of the dictionary page that is held in addition to the current page. */
  #dictionary = NO_PAGE;

  /** `windowBytes`: bytes per read. `held`: the total that all columns of the table share. */
  constructor(file: RandomAccess, decompressors: Decompressors, windowBytes: number, held: HeldPages) {
    this.#file = file;
    this.#held = held;
    this.#decompressors = decompressors;
    this.#windowBytes = windowBytes;
  }

  begin({ codec, from, to }: ChunkPlace): void {
    if (!(from >= 0 && to >= from && to <= this.#file.byteLength)) throw new Error('a column lies outside the file');
    this.#codec = codec;
    this.#at = from;
    this.#end = to;
    this.#from = this.#to = from;
    this.#held.replace(this.#dictionary, NO_PAGE);
    this.#dictionary = NO_PAGE;
  }

  /** Keeps the current page, which must be a dictionary, until the next chunk begins. */
  keepDictionary(): void {
    this.#held.replace(this.#dictionary, NO_PAGE);
    this.#dictionary = this.#page;
    this.#page = NO_PAGE;
  }

  /** Counts `bytes` of memory that decoding the current page needs. @throws SluiceError limit_exceeded */
  reserve(bytes: number): void {
    if (bytes > MOST_PAGE_BYTES) throw tooLargePage();
    const page = { ...this.#page, bytes: this.#page.bytes + bytes };
    this.#held.replace(this.#page, page);
    this.#page = page;
  }

  /**
   * Reads the next page; `stored`: its size in the file.
   * @throws Error if the chunk has no further page, or the page is invalid
   */
  async next(): Promise<Page & { stored: number }> {
    const began = this.#at;
    const header = await this.#header();
    const { compressed_page_size: stored, uncompressed_page_size: size } = header;
    if (!(stored >= 0 && size >= 0)) throw new Error('a page has an impossible size');
    if (Math.max(size, stored) > MOST_PAGE_BYTES) throw tooLargePage();
    const page = { bytes: size, stored };
    this.#held.replace(this.#page, page);
    this.#page = page;
    const packed = await this.#bytes(stored);
    this.#at += stored;
    return { header, ...this.#unpack(header, packed, size), stored: this.#at - began };
  }

  /**
   * Reads a page header. The statistics in a header can contain long texts, so a truncated header is read again with
   * more bytes.
   */
  async #header(): Promise<PageHeader> {
    for (let bytes = HEADER_BYTES; ; bytes *= 8) {
      const n = Math.min(bytes, this.#end - this.#at, MOST_HEADER_BYTES);
      if (n <= 0) throw new Error('a column has fewer rows than its group');
      const found = await this.#bytes(n);
      const reader = { view: new DataView(found.buffer, found.byteOffset, n), offset: 0 };
      const isAll = n === this.#end - this.#at || n === MOST_HEADER_BYTES;
      try {
        checkThrift(found, 0);
        const header = parquetHeader(reader);
        // The parser does not detect a truncated text, but its offset is then beyond the bytes.
        if (reader.offset <= n) {
          this.#at += reader.offset;
          return header;
        }
        if (isAll) throw new Error('the header of a page exceeds its column');
      } catch (error) {
        // A truncated header fails with the same errors as a damaged one.
        if (isAll) throw error;
      }
    }
  }

  /** The next bytes of the chunk; valid until the next call. */
  async #bytes(count: number): Promise<Uint8Array> {
    const end = this.#at + count;
    if (end > this.#end) throw new Error('a page exceeds its column');
    if (this.#at < this.#from || end > this.#to) {
      const wanted = Math.min(this.#end - this.#at, Math.max(this.#windowBytes, count));
      if (wanted > this.#window.length) this.#window = Buffer.allocUnsafeSlow(wanted);
      await this.#file.read(this.#window.subarray(0, wanted), this.#at);
      this.#from = this.#at;
      this.#to = this.#at + wanted;
    }
    const start = this.#at - this.#from;
    return this.#window.subarray(start, start + count);
  }

  #unpack({ data_page_header_v2: v2 }: PageHeader, packed: Uint8Array, size: number): Pick<Page, 'bytes' | 'levels'> {
    const levels = v2 ? v2.definition_levels_byte_length + v2.repetition_levels_byte_length : 0;
    if (!(levels >= 0 && levels <= packed.length && levels <= size))
      throw new Error('the levels of a page are cut off');
    if (this.#unpacked.length < size + SLACK) this.#unpacked = new Uint8Array(size + SLACK);
    const out = this.#unpacked.subarray(0, size);
    out.set(packed.subarray(0, levels));
    const values = packed.subarray(levels);
    const plain = v2?.is_compressed === false ? values : this.#decompressed(values, out.subarray(levels));
    if (plain.length !== size - levels) throw new Error('a page has another size than its header says');
    if (plain.buffer !== out.buffer) out.set(plain, levels);
    return { bytes: out, levels };
  }

  /** Decompresses a page. Returns `out` or another array. */
  #decompressed(packed: Uint8Array, out: Uint8Array): Uint8Array {
    if (out.length === 0) return out;
    const options = { maxOutputLength: out.length };
    switch (this.#codec) {
      case 'UNCOMPRESSED':
        return packed;
      case 'SNAPPY':
        unpackSnappy(packed, out);
        return out;
      case 'ZSTD':
        return zstd().zstdDecompressSync(packed, options);
      case 'GZIP':
        return gunzipSync(packed, options);
      default: {
        const decompress = this.#decompressors[this.#codec];
        if (!decompress) throw new Error(`its pages are compressed with ${this.#codec}`);
        return decompress(packed, out.length);
      }
    }
  }
}

/**
 * Converts the values of a page, starting at `at`, to the plain encoding; null: they already have it. If the width of
 * the type is 0, each value follows its length.
 * @throws Error if the type does not support the encoding
 */
export function plainValues(
  page: Uint8Array,
  at: number,
  count: number,
  of: ValueLayout,
  reserve: (bytes: number) => void,
): Uint8Array | null {
  const reader = { view: new DataView(page.buffer, page.byteOffset, page.byteLength), offset: at };
  switch (of.encoding) {
    case 'PLAIN':
      return null;
    case 'DELTA_BINARY_PACKED':
      return bytesOf(deltas(reader, count, of.type === 'INT64', reserve));
    case 'BYTE_STREAM_SPLIT':
      return joinedStreams(page, at, count, of.width);
    case 'DELTA_LENGTH_BYTE_ARRAY':
      return withLengths(page, reader, { own: deltas(reader, count, false, reserve), prefixes: null, reserve });
    case 'DELTA_BYTE_ARRAY': {
      const prefixes = deltas(reader, count, false, reserve) as Int32Array;
      const plain = withLengths(page, reader, { own: deltas(reader, count, false, reserve), prefixes, reserve });
      return of.width > 0 ? withoutLengths(plain, count, of.width) : plain;
    }
    default:
      throw new Error(`its values are in the encoding ${of.encoding}`);
  }
}

interface ValueLayout {
  encoding: string;
  type: string;
  /** Bytes of a value; 0: each value has a length prefix. */
  width: number;
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Int32Array | BigInt64Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

interface Reader {
  view: DataView<ArrayBufferLike>;
  offset: number;
}

function deltas(
  reader: Reader,
  count: number,
  wide: boolean,
  reserve: (bytes: number) => void,
): Int32Array | BigInt64Array {
  // Memory must be reserved before decoding, because equal deltas take no bytes in the page.
  reserve(count * (wide ? 8 : 4));
  const out = wide ? new BigInt64Array(count) : new Int32Array(count);
  if (count === 0) return out;
  checkDeltaHead(reader);
  deltaBinaryUnpack(reader as Parameters<typeof deltaBinaryUnpack>[0], count, out);
  return out;
}

/**
 * Maximum number of values in a block. The check also avoids that the library loops forever over invalid block sizes.
 */
const MOST_BLOCK_VALUES = 2 ** 20;

/** @throws Error if the block sizes are impossible */
function checkDeltaHead({ view, offset }: Reader): void {
  let at = offset;
  const number = (): number => {
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = view.getUint8(at++);
      value |= (byte & 127) << shift;
      if (byte < 128) return value;
    }
    throw new Error('a block of values has an impossible size');
  };
  const [values, parts] = [number(), number()];
  if (!(parts > 0 && values > 0 && values <= MOST_BLOCK_VALUES && values % parts === 0)) {
    throw new Error('a block of values has an impossible size');
  }
}

function joinedStreams(page: Uint8Array, at: number, count: number, width: number): Uint8Array {
  if (width === 0 || at + count * width > page.length) throw new Error('a page ends before its values');
  const out = new Uint8Array(count * width);
  for (let b = 0; b < width; b++) for (let i = 0, o = b; i < count; i++, o += width) out[o] = page[at++]!;
  return out;
}

interface Lengths {
  own: Int32Array | BigInt64Array;
  /** For each text: the length of the prefix that it shares with the previous text, bytes. */
  prefixes: Int32Array | null;
  reserve: (bytes: number) => void;
}

/**
 * Converts texts whose lengths are all stored in front of the first text into the plain encoding, in which each text
 * follows its length.
 */
function withLengths(page: Uint8Array, reader: Reader, { own, prefixes, reserve }: Lengths): Uint8Array {
  let size = 4 * own.length;
  for (let i = 0; i < own.length; i++) size += Number(own[i]!) + (prefixes?.[i] ?? 0);
  if (!(size >= 0)) throw new Error('a text is cut off');
  reserve(size);
  const out = Buffer.allocUnsafeSlow(size);
  let from = reader.offset;
  let o = 0;
  /** Start and length of the previous text. */
  let [before, length] = [0, 0];
  for (let i = 0; i < own.length; i++) {
    const prefix = prefixes?.[i] ?? 0;
    const suffix = Number(own[i]!);
    if (prefix < 0 || suffix < 0 || prefix > length || from + suffix > page.length)
      throw new Error('a text is cut off');
    length = prefix + suffix;
    o = out.writeInt32LE(length, o);
    const start = o;
    for (let k = 0; k < prefix; k++) out[o++] = out[before + k]!;
    for (let k = 0; k < suffix; k++) out[o++] = page[from++]!;
    before = start;
  }
  return out.subarray(0, o);
}

function withoutLengths(plain: Uint8Array, count: number, width: number): Uint8Array {
  if (plain.length !== count * (width + 4)) throw new Error('a value has another size than its type');
  const out = new Uint8Array(count * width);
  for (let i = 0; i < count; i++) out.set(plain.subarray(i * (width + 4) + 4, (i + 1) * (width + 4)), i * width);
  return out;
}
