// The codecs in kafkajs's registry: those it lacks, and gzip, whose built-in one takes what lies behind a member for padding.
import { type BatchCompression, type PackedCompression, packBatch, unpackBatch } from '../client/codecs.ts';
import kafkajs from './repairs.ts';

const { CompressionTypes, CompressionCodecs } = kafkajs;

export const COMPRESSION_TYPES: Readonly<Record<BatchCompression, number>> = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

export const CODEC_FAILED = 'SluiceCodecFailed';

/** Corrupt bytes stay corrupt: the error must not make kafkajs retry for ever. */
const refuse = (name: string) => (cause: unknown) => {
  const error = new kafkajs.KafkaJSNonRetriableError(
    `a batch compressed with ${name} cannot be unpacked: ${cause instanceof Error ? cause.message : 'unknown reason'}`,
  );
  throw Object.assign(error, { name: CODEC_FAILED });
};

/** Idempotent. */
export function registerCodecs(): void {
  const codecs: Record<number, unknown> = CompressionCodecs;
  for (const name of Object.keys(COMPRESSION_TYPES) as BatchCompression[]) {
    if (name === 'none') continue;
    const compression: PackedCompression = name;
    codecs[COMPRESSION_TYPES[name]] = () => ({
      compress: ({ buffer }: { buffer: Buffer }) => packBatch(buffer, compression),
      decompress: (packed: Buffer) => unpackBatch(packed, compression).catch(refuse(name)),
    });
  }
}
