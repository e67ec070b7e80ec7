// The compression codecs of Kafka, with the framing of the Java clients.
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { compressFrame, decompressFrame } from 'lz4-napi';
import snappy from 'snappy';
import { mostDecompressed } from '../../../core/decompressed-size.ts';
import { ZstdFrames, zstd } from '../../../core/zstd.ts';

export type BatchCompression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';

/** Limit of a decompressed batch, as `least` of `mostDecompressed`. */
export const MOST_UNPACKED_BYTES = 128 * 1024 * 1024;

const tooLarge = (most: number): Error => new Error(`it has more than ${most} bytes`);

/**
 * Header of the xerial framing that Java clients put around snappy blocks: magic number, version 1, compatible with
 * version 1.
 */
const XERIAL_HEAD = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
const XERIAL_MAGIC_BYTES = 8;
/** Uncompressed bytes per snappy block. The Java library uses the same value. */
const XERIAL_BLOCK_BYTES = 32 * 1024;

async function xerialCompress(plain: Buffer): Promise<Buffer> {
  const parts: Buffer[] = [XERIAL_HEAD];
  for (let i = 0; i < plain.length; i += XERIAL_BLOCK_BYTES) {
    const block = snappy.compressSync(plain.subarray(i, i + XERIAL_BLOCK_BYTES));
    const size = Buffer.allocUnsafe(4);
    size.writeInt32BE(block.length);
    parts.push(size, block);
  }
  return Buffer.concat(parts);
}

/** Also accepts raw snappy without framing, which librdkafka and other clients write. */
async function xerialDecompress(packed: Buffer, most: number): Promise<Buffer> {
  if (packed.compare(XERIAL_HEAD, 0, XERIAL_MAGIC_BYTES, 0, XERIAL_MAGIC_BYTES) !== 0) {
    if (snappyBytes(packed) > most) throw tooLarge(most);
    return snappy.uncompressSync(packed, { asBuffer: true }) as Buffer;
  }
  const blocks: Buffer[] = [];
  let bytes = 0;
  for (let i = XERIAL_HEAD.length; i < packed.length; ) {
    const size = packed.readInt32BE(i);
    i += 4;
    if (size < 0 || i + size > packed.length) throw new Error('a snappy block is cut off');
    const block = packed.subarray(i, i + size);
    blocks.push(block);
    bytes += snappyBytes(block);
    i += size;
  }
  if (bytes > most) throw tooLarge(most);
  return Buffer.concat(blocks.map((block) => snappy.uncompressSync(block, { asBuffer: true }) as Buffer));
}

/** Size of a raw snappy block after decompression, as stated by its first bytes. The decoder allocates this size. */
function snappyBytes(block: Buffer): number {
  let size = 0;
  for (let i = 0, scale = 1; i < Math.min(block.length, 5); i++, scale *= 128) {
    size += (block[i]! & 127) * scale;
    if (block[i]! < 128) break;
  }
  return size;
}

const gzipPack = promisify(gzip);

/** Decompresses all gzip members. Only zero padding may follow the last member. */
function gzipDecompress(packed: Buffer, most: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // The option `info`, which the types omit, adds the decoder to the result. Its `bytesWritten` is the number of
    // consumed bytes.
    gunzip(packed, { info: true, maxOutputLength: most }, (error, result) => {
      const { buffer, engine } = (result ?? {}) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
      if (error) reject(error);
      else if (packed.subarray(engine.bytesWritten).some((byte) => byte !== 0)) reject(new Error(BEHIND_THE_LAST));
      else resolve(buffer);
    });
  });
}

/** Decompresses all zstd frames. The decoder itself would stop after the first frame. */
async function zstdDecompressAll(packed: Buffer, most: number): Promise<Buffer> {
  const unpack = promisify(zstd().zstdDecompress);
  const frames = new ZstdFrames();
  const pieces = [...frames.split(packed)];
  if (!frames.whole) throw new Error('a frame is cut off');
  const parts: Buffer[] = [];
  let room = most;
  for (const piece of pieces) {
    // An empty frame is accepted even if no room is left. The decoder does not accept a limit of 0.
    const part = await unpack(piece, { maxOutputLength: Math.max(1, room) });
    room -= part.length;
    if (room < 0) throw tooLarge(most);
    parts.push(part);
  }
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

const LZ4_MAGIC = 0x184d2204;
const BEHIND_THE_LAST = 'there are bytes after the last frame';

/**
 * Decompresses all lz4 frames (format: lz4_Frame_format.md). The decoder itself would also accept a truncated frame, and
 * frames of any size.
 */
async function lz4DecompressAll(packed: Buffer, most: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for (let at = 0; at < packed.length; ) {
    const { end, atMost } = lz4Frame(packed, at);
    bytes += atMost;
    if (bytes > most) throw tooLarge(most);
    parts.push(await decompressFrame(packed.subarray(at, end)));
    at = end;
  }
  if (parts.length === 0) throw new Error('there is no frame');
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

/** Maximum bytes that lz4 makes of one compressed byte. */
const LZ4_RATIO = 255;
/** Size of the smallest maximum block size, and its code in the frame header; each further code is four times as large. */
const LZ4_BLOCK = { code: 4, bytes: 64 * 1024 };

/** The end of the frame at `start`, and the upper bound of its decompressed size, bytes. */
function lz4Frame(packed: Buffer, start: number): { end: number; atMost: number } {
  if (start + 7 > packed.length) throw new Error('a frame is cut off');
  if (packed.readUInt32LE(start) !== LZ4_MAGIC) throw new Error(BEHIND_THE_LAST);
  const flags = packed[start + 4]!;
  const blockChecksum = flags & 0x10 ? 4 : 0;
  const blockBytes = LZ4_BLOCK.bytes * 4 ** (((packed[start + 5]! >> 4) & 7) - LZ4_BLOCK.code);
  let atMost = 0;
  let at = start + 7 + (flags & 0x08 ? 8 : 0) + (flags & 0x01 ? 4 : 0);
  for (;;) {
    if (at + 4 > packed.length) throw new Error('a frame is cut off');
    const size = packed.readUInt32LE(at) & 0x7fff_ffff;
    at += 4;
    if (size === 0) break;
    atMost += Math.min(size * LZ4_RATIO, Math.max(size, blockBytes));
    at += size + blockChecksum;
  }
  at += flags & 0x04 ? 4 : 0;
  if (at > packed.length) throw new Error('a frame is cut off');
  return { end: at, atMost };
}

interface Codec {
  compress(plain: Buffer): Promise<Buffer>;
  /** `most`: maximum size of the result, bytes. */
  decompress(packed: Buffer, most: number): Promise<Buffer>;
}

const CODECS: Readonly<Record<PackedCompression, Codec>> = {
  gzip: { compress: (plain) => gzipPack(plain), decompress: gzipDecompress },
  snappy: { compress: xerialCompress, decompress: xerialDecompress },
  lz4: { compress: (plain) => compressFrame(plain), decompress: lz4DecompressAll },
  zstd: { compress: async (plain) => promisify(zstd().zstdCompress)(plain), decompress: zstdDecompressAll },
};

export type PackedCompression = Exclude<BatchCompression, 'none'>;

/** Compresses the records of a batch. */
export const packBatch = (plain: Buffer, compression: PackedCompression): Promise<Buffer> =>
  CODECS[compression].compress(plain);

/**
 * Decompresses all records of a batch.
 * @throws Error if they are truncated, damaged or too large, or bytes follow the last frame
 */
export async function unpackBatch(packed: Buffer, compression: PackedCompression): Promise<Buffer> {
  const most = mostDecompressed(MOST_UNPACKED_BYTES, packed.length);
  try {
    return await CODECS[compression].decompress(packed, most);
  } catch (error) {
    // From zlib, whose message does not name the batch.
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(most);
    throw error;
  }
}

/**
 * Size of a value after compression, bytes. Used to find out whether a record that seems too large fits when it is
 * compressed.
 */
export async function compressedSize(plain: Buffer, compression: BatchCompression): Promise<number> {
  if (compression === 'none') return plain.length;
  return (await CODECS[compression].compress(plain)).length;
}
