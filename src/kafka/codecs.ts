// The compression codecs of Kafka that kafkajs lacks, in the framing that Java clients write and read.
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import { compressFrame, decompressFrame } from 'lz4-napi';
import snappy from 'snappy';
import kafkajs from './kafkajs.ts';

export type BatchCompression = 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd';

const { CompressionTypes, CompressionCodecs } = kafkajs;

export const COMPRESSION_TYPES: Readonly<Record<BatchCompression, number>> = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

export const CODEC_FAILED = 'SluiceCodecFailed';

/** Head of the xerial framing that Java clients put around snappy blocks: magic, version 1, compatible with 1. */
const XERIAL_HEAD = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
const XERIAL_MAGIC_BYTES = 8;
/** Bytes of a snappy block before compression, as in the Java library. */
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

/** Takes raw snappy too: librdkafka and others write it without framing. */
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

const zstdPack = promisify(zstdCompress);
const zstdUnpack = promisify(zstdDecompress);

interface Codec {
  compress(plain: Buffer): Promise<Buffer>;
  decompress(packed: Buffer): Promise<Buffer>;
}

const CODECS: Readonly<Record<'snappy' | 'lz4' | 'zstd', Codec>> = {
  snappy: { compress: xerialCompress, decompress: xerialDecompress },
  lz4: { compress: (plain) => compressFrame(plain), decompress: (packed) => decompressFrame(packed) },
  zstd: { compress: (plain) => zstdPack(plain), decompress: (packed) => zstdUnpack(packed) },
};

/** Corrupt bytes stay corrupt: the error must not make kafkajs retry for ever. */
const refuse = (name: string) => (cause: unknown) => {
  const error = new kafkajs.KafkaJSNonRetriableError(
    `a batch compressed with ${name} cannot be unpacked: ${cause instanceof Error ? cause.message : 'unknown reason'}`,
  );
  throw Object.assign(error, { name: CODEC_FAILED });
};

/** Registers snappy, lz4 and zstd with kafkajs (gzip is built in); idempotent. */
export function registerCodecs(): void {
  const codecs: Record<number, unknown> = CompressionCodecs;
  for (const [name, codec] of Object.entries(CODECS)) {
    codecs[COMPRESSION_TYPES[name as BatchCompression]!] = () => ({
      compress: ({ buffer }: { buffer: Buffer }) => codec.compress(buffer),
      decompress: (packed: Buffer) => codec.decompress(packed).catch(refuse(name)),
    });
  }
}

/** Size of one value after compression, bytes: whether a record that looks too large fits after all. */
export async function compressedSize(plain: Buffer, compression: BatchCompression): Promise<number> {
  if (compression === 'none') return plain.length;
  if (compression !== 'gzip') return (await CODECS[compression].compress(plain)).length;
  const gzip = CompressionCodecs[CompressionTypes.GZIP]() as {
    compress(encoder: { buffer: Buffer }): Promise<Buffer>;
  };
  return (await gzip.compress({ buffer: plain })).length;
}
