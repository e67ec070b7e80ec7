// zstd as Node has it, and the words for a Node that has none: before 22.15 nothing of it is there, not even to be imported.
import zlib from 'node:zlib';
import { SluiceError } from './errors.ts';

type Zstd = Pick<
  typeof zlib,
  'createZstdCompress' | 'createZstdDecompress' | 'zstdCompress' | 'zstdDecompress' | 'zstdDecompressSync'
>;

/** Whether this Node packs and unpacks zstd. */
export const hasZstd = (): boolean => 'createZstdDecompress' in zlib;

/** @throws SluiceError usage */
export function zstd(): Zstd {
  if (hasZstd()) return zlib;
  throw new SluiceError('usage', `zstd needs Node 22.15 or newer, and this is ${process.version}: use gzip`);
}
