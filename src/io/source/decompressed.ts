// The bytes inside a compressed file.
import { Readable } from 'node:stream';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { SluiceError } from '../../core/errors.ts';
import type { Compression } from '../../core/file-format.ts';
import type { Chunks } from './byte-source.ts';

/** @throws SluiceError truncated_input while reading, when the file is cut off or damaged */
export const decompressed = (chunks: Chunks, compression: Compression): Chunks =>
  compression === 'none' ? chunks : expanded(chunks, compression);

/**
 * Opens its streams when the first byte is asked for, not before: the workers may still be starting then, and an error of a stream
 * that nobody reads yet would end the process.
 */
async function* expanded(chunks: Chunks, compression: Exclude<Compression, 'none'>): AsyncGenerator<Uint8Array> {
  const source = Readable.from(copies(chunks), { objectMode: false, highWaterMark: 256 * 1024 });
  const expand = compression === 'gzip' ? createGunzip() : createZstdDecompress();
  source.on('error', (error) => expand.destroy(error));
  source.pipe(expand);
  try {
    yield* expand;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('truncated_input', `the ${compression} stream is cut off or damaged`, { cause });
  }
}

/** A chunk is valid until the next is asked for; a stream asks earlier. */
async function* copies(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const c of chunks) yield Uint8Array.from(c);
}
