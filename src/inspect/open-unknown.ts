// Opens a file whose format is unknown: identifies compression and format by the first bytes, and reads a limited number of bytes.
import { openStored } from '../connectors/stored-bytes.ts';
import { SluiceError } from '../core/errors.ts';
import type { Compression, FileFormat } from '../core/file-format.ts';
import type { EncodingName } from '../core/input-declaration.ts';
import type { Chunks } from '../io/source/byte-source.ts';
import { decompressed } from '../io/source/decompressed.ts';
import { transcoded } from '../io/source/transcoded.ts';

/**
 * Maximum number of uncompressed bytes that are inspected at the start of a file. `END_BYTES`: number of bytes that are
 * inspected at its end.
 */
export const INSPECTED_BYTES = 16 * 1024 * 1024;
const END_BYTES = 64 * 1024;
/** Number of bytes that identify a format. */
const MAGIC_BYTES = 8;

export interface UnknownInput {
  /** A columnar format; null: text, or content that Sluice does not read. */
  columnar: 'parquet' | 'arrow' | null;
  compression: Compression;
  /** The first uncompressed bytes, at most `INSPECTED_BYTES` plus one chunk. */
  head: Buffer;
  /** Whether `head` is the whole file. */
  complete: boolean;
  /**
   * The last bytes of a file that was not read completely; null: not available, because the file cannot be read from
   * its end.
   */
  end: Buffer | null;
}

const startsWith = (bytes: Uint8Array, magic: readonly number[]): boolean =>
  magic.every((byte, i) => bytes[i] === byte);
const GZIP = [0x1f, 0x8b];
const ZSTD = [0x28, 0xb5, 0x2f, 0xfd];
const PARQUET = [...Buffer.from('PAR1')];
const ARROW_FILE = [...Buffer.from('ARROW1')];
const ARROW_STREAM = [0xff, 0xff, 0xff, 0xff];

function columnarBy(bytes: Uint8Array): Extract<FileFormat, 'parquet' | 'arrow'> | null {
  if (startsWith(bytes, PARQUET)) return 'parquet';
  return startsWith(bytes, ARROW_FILE) || startsWith(bytes, ARROW_STREAM) ? 'arrow' : null;
}

/**
 * Opens a file and reads its start, and its end if possible.
 * @throws SluiceError input_not_found | input_unreadable | truncated_input | empty_input | usage
 */
export async function openUnknown(file: string): Promise<UnknownInput> {
  const stored = await openStored(file);
  try {
    if (stored.totalBytes === null) throw new SluiceError('usage', `${file} can be read only once: save it to a file`);
    const reader = stored.chunks[Symbol.asyncIterator]();
    const first = await readFrom(reader, MAGIC_BYTES);
    if (first.bytes.length === 0) throw new SluiceError('empty_input', `${file} is empty`);
    const compression = startsWith(first.bytes, GZIP) ? 'gzip' : startsWith(first.bytes, ZSTD) ? 'zstd' : 'none';
    const rest = { [Symbol.asyncIterator]: () => resumed(first.bytes, reader) };
    const plain = decompressed(rest, compression)[Symbol.asyncIterator]();
    const { bytes: head, ended: complete } = await readFrom(plain, INSPECTED_BYTES);
    await plain.return?.();
    if (head.length === 0) throw new SluiceError('empty_input', `${file} is empty`);
    const { totalBytes } = stored;
    const readsEnd = !complete && compression === 'none' && totalBytes !== null;
    const end = readsEnd ? await endOf(file, totalBytes) : null;
    return { columnar: columnarBy(head), compression, head, complete, end };
  } finally {
    await stored.close();
  }
}

async function* resumed(first: Uint8Array, reader: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield first;
  for (let next = await reader.next(); !next.done; next = await reader.next()) yield next.value;
}

/** Reads at least `bytes` bytes, or up to the end. */
async function readFrom(reader: AsyncIterator<Uint8Array>, bytes: number): Promise<{ bytes: Buffer; ended: boolean }> {
  const chunks: Buffer[] = [];
  let length = 0;
  while (length < bytes) {
    const next = await reader.next();
    if (next.done) return { bytes: Buffer.concat(chunks, length), ended: true };
    // The chunk is copied, because it is valid only until the next chunk is requested.
    chunks.push(Buffer.from(next.value));
    length += next.value.length;
  }
  return { bytes: Buffer.concat(chunks, length), ended: false };
}

async function endOf(file: string, totalBytes: number): Promise<Buffer> {
  // The offset must be even, so that the two bytes of a UTF-16 unit are not separated.
  const from = Math.max(0, totalBytes - END_BYTES) & ~1;
  const source = await openStored(file, undefined, [{ from: from < 0 ? 0 : from, to: totalBytes }]);
  try {
    return (await readFrom(source.chunks[Symbol.asyncIterator](), END_BYTES + 2)).bytes;
  } finally {
    await source.close();
  }
}

const BOM_BYTES = 3;
const isMarked = (bytes: Uint8Array): boolean => startsWith(bytes, [0xef, 0xbb, 0xbf]);

/** The bytes as UTF-8 without a byte order mark. */
export async function asUtf8(bytes: Buffer, encoding: EncodingName): Promise<Buffer> {
  if (encoding === 'utf-8') return isMarked(bytes) ? bytes.subarray(BOM_BYTES) : bytes;
  const parts: Buffer[] = [];
  for await (const part of transcoded(oneChunk(bytes), encoding)) parts.push(Buffer.from(part));
  return Buffer.concat(parts);
}

export const oneChunk = (bytes: Uint8Array): Chunks => ({
  async *[Symbol.asyncIterator]() {
    yield bytes;
  },
});
