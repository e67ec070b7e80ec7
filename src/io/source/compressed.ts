// Bytes as they stand in compressed files, both ways.
import { Readable } from 'node:stream';
import { createGunzip, createGzip, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { SluiceError } from '../../core/errors.ts';
import type { Chunks } from './byte-source.ts';

export type Compression = 'none' | 'gzip' | 'zstd';

/** By the name of the file. */
export const compressionOf = (file: string): Compression =>
  /\.gz$/i.test(file) ? 'gzip' : /\.zst$/i.test(file) ? 'zstd' : 'none';

/** The name without the ending of its compression. */
export const plainName = (file: string): string => file.replace(/\.(gz|zst)$/i, '');

/** @throws SluiceError truncated_input while reading, when the file is cut off or damaged */
export function decompressed(chunks: Chunks, compression: Compression): Chunks {
  if (compression === 'none') return chunks;
  const source = Readable.from(copies(chunks), { objectMode: false, highWaterMark: 256 * 1024 });
  const expand = compression === 'gzip' ? createGunzip() : createZstdDecompress();
  source.on('error', (error) => expand.destroy(error));
  source.pipe(expand);
  return translated(expand, compression);
}

/** A chunk is valid until the next is asked for; a stream asks earlier. */
async function* copies(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const c of chunks) yield Uint8Array.from(c);
}

async function* translated(stream: AsyncIterable<Uint8Array>, compression: Compression): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('truncated_input', `the ${compression} stream is cut off or damaged`, { cause });
  }
}

/** Compresses what is written to it and hands it on in order. */
export function compressor(
  compression: Exclude<Compression, 'none'>,
  write: (bytes: Uint8Array) => Promise<void>,
): { write(bytes: Uint8Array): Promise<void>; end(): Promise<void> } {
  const stream = compression === 'gzip' ? createGzip() : createZstdCompress();
  const drained = (async () => {
    for await (const chunk of stream) await write(chunk as Uint8Array);
  })();
  // What goes wrong is told where somebody waits.
  drained.catch(() => stream.destroy());
  return {
    async write(bytes) {
      const full = !stream.write(Buffer.from(bytes));
      if (full) await Promise.race([new Promise((resolve) => stream.once('drain', resolve)), drained]);
    },
    async end() {
      stream.end();
      await drained;
    },
  };
}
