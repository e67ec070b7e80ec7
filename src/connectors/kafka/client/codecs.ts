// The compression codecs of Kafka, with the framing of the Java clients.
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { compressFrame, decompressFrame } from 'lz4-napi';
import snappy from 'snappy';
import { ZstdFrames, zstd } from '../../../core/zstd.ts';

export type BatchCompression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';

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
async function xerialDecompress(packed: Buffer): Promise<Buffer> {
  if (packed.compare(XERIAL_HEAD, 0, XERIAL_MAGIC_BYTES, 0, XERIAL_MAGIC_BYTES) !== 0) {
    return snappy.uncompressSync(packed, { asBuffer: true }) as Buffer;
  }
  const parts: Buffer[] = [];
  for (let i = XERIAL_HEAD.length; i < packed.length; ) {
    const size = packed.readInt32BE(i);
    i += 4;
    if (size < 0 || i + size > packed.length) throw new Error('a snappy block is cut off');
    parts.push(snappy.uncompressSync(packed.subarray(i, i + size), { asBuffer: true }) as Buffer);
    i += size;
  }
  return Buffer.concat(parts);
}

const gzipPack = promisify(gzip);

/** Decompresses all gzip members. Only zero padding may follow the last member. */
function gzipDecompress(packed: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // The option `info`, which the types omit, adds the decoder to the result. Its `bytesWritten` is the number of
    // consumed bytes.
    gunzip(packed, { info: true }, (error, result) => {
      const { buffer, engine } = (result ?? {}) as unknown as { buffer: Buffer; engine: { bytesWritten: number } };
      if (error) reject(error);
      else if (packed.subarray(engine.bytesWritten).some((byte) => byte !== 0)) reject(new Error(BEHIND_THE_LAST));
      else resolve(buffer);
    });
  });
}

/** Decompresses all zstd frames. The decoder itself would stop after the first frame. */
async function zstdDecompressAll(packed: Buffer): Promise<Buffer> {
  const unpack = promisify(zstd().zstdDecompress);
  const frames = new ZstdFrames();
  const pieces = [...frames.split(packed)];
  if (!frames.whole) throw new Error('a frame is cut off');
  const parts: Buffer[] = [];
  for (const piece of pieces) parts.push(await unpack(piece));
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

const LZ4_MAGIC = 0x184d2204;
const BEHIND_THE_LAST = 'there are bytes after the last frame';

/**
 * Decompresses all lz4 frames (format: lz4_Frame_format.md). The decoder itself would also accept a truncated frame.
 */
async function lz4DecompressAll(packed: Buffer): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let at = 0; at < packed.length; ) {
    const end = endOfLz4Frame(packed, at);
    parts.push(await decompressFrame(packed.subarray(at, end)));
    at = end;
  }
  if (parts.length === 0) throw new Error('there is no frame');
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

function endOfLz4Frame(packed: Buffer, start: number): number {
  if (start + 7 > packed.length) throw new Error('a frame is cut off');
  if (packed.readUInt32LE(start) !== LZ4_MAGIC) throw new Error(BEHIND_THE_LAST);
  const flags = packed[start + 4]!;
  const blockChecksum = flags & 0x10 ? 4 : 0;
  let at = start + 7 + (flags & 0x08 ? 8 : 0) + (flags & 0x01 ? 4 : 0);
  for (;;) {
    if (at + 4 > packed.length) throw new Error('a frame is cut off');
    const size = packed.readUInt32LE(at) & 0x7fff_ffff;
    at += 4;
    if (size === 0) break;
    at += size + blockChecksum;
  }
  at += flags & 0x04 ? 4 : 0;
  if (at > packed.length) throw new Error('a frame is cut off');
  return at;
}

interface Codec {
  compress(plain: Buffer): Promise<Buffer>;
  decompress(packed: Buffer): Promise<Buffer>;
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
 * Decompresses all records of a batch. @throws Error if they are truncated or damaged, or bytes follow the last frame
 */
export const unpackBatch = (packed: Buffer, compression: PackedCompression): Promise<Buffer> =>
  CODECS[compression].decompress(packed);

/**
 * Size of a value after compression, bytes. Used to find out whether a record that seems too large fits when it is
 * compressed.
 */
export async function compressedSize(plain: Buffer, compression: BatchCompression): Promise<number> {
  if (compression === 'none') return plain.length;
  return (await CODECS[compression].compress(plain)).length;
}
