// The bytes inside a compressed stream, all of them: it may be made of several members or frames, and ends behind a whole one.
import { createGunzip, type Gunzip, type ZstdDecompress } from 'node:zlib';
import { SluiceError } from '../../core/errors.ts';
import type { Compression } from '../../core/file-format.ts';
import { ZstdFrames, zstd } from '../../core/zstd.ts';
import type { Chunks } from './byte-source.ts';

/** @throws SluiceError truncated_input while reading, when the file is cut off or damaged */
export const decompressed = (chunks: Chunks, compression: Compression): Chunks =>
  compression === 'none' ? chunks : expanded(chunks, compression, cutOrDamaged(compression));

/** What a stream that ends too early, and one that is damaged, ends a run with. */
export interface StreamFaults {
  truncated(cause: unknown): SluiceError;
  damaged(cause: unknown): SluiceError;
}

function cutOrDamaged(compression: Compression): StreamFaults {
  const fault = (cause: unknown) =>
    new SluiceError('truncated_input', `the ${compression} stream is cut off or damaged`, { cause });
  return { truncated: fault, damaged: fault };
}

/**
 * Decompresses with backpressure: only requested data is expanded. Opens its streams when the first byte is requested,
 * not before, because the workers may still be starting, and an error of an unread stream would end the process.
 * @throws SluiceError of `faults`, usage, or errors of `chunks`
 */
export async function* expanded(
  chunks: AsyncIterable<Uint8Array>,
  compression: Exclude<Compression, 'none'>,
  faults: StreamFaults,
): AsyncGenerator<Uint8Array> {
  const decoder = compression === 'gzip' ? createGunzip() : zstd().createZstdDecompress();
  let failure: unknown = null;
  // Errors after the last requested byte are found by `feeding`, when the decoder is no longer read.
  decoder.on('error', () => {});
  const feeding = (compression === 'gzip' ? feedMembers(decoder, chunks) : feedFrames(decoder, chunks))
    .then(() => decoder.end())
    .catch((error) => {
      failure = error;
      decoder.destroy(error as Error);
    });
  try {
    for await (const chunk of decoder) yield chunk as Uint8Array;
    await feeding;
    if (failure !== null) throw failure;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw (cause as NodeJS.ErrnoException).code === 'Z_BUF_ERROR' ? faults.truncated(cause) : faults.damaged(cause);
  } finally {
    decoder.destroy();
  }
}

/** gzip: the decoder goes from member to member, and takes a byte 0 behind one for padding without looking at what follows. */
async function feedMembers(decoder: Gunzip, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  let fed = 0;
  let ended = false;
  for await (const chunk of chunks) {
    let rest = chunk;
    if (!ended) {
      if (!(await taken(decoder, chunk))) return;
      fed += chunk.length;
      const left = fed - decoder.bytesWritten;
      ended = left > 0;
      rest = chunk.subarray(chunk.length - left);
    }
    if (rest.some((byte) => byte !== 0)) throw new Error('bytes after the last member');
  }
}

/** zstd: the decoder ends with the first frame unless the bytes of the next come in a write of their own. */
async function feedFrames(decoder: ZstdDecompress, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const frames = new ZstdFrames();
  for await (const chunk of chunks) {
    for (const piece of frames.split(chunk)) if (!(await taken(decoder, piece))) return;
  }
  if (!frames.whole) throw Object.assign(new Error('the last frame is cut off'), { code: 'Z_BUF_ERROR' });
}

/** Resolves once the decoder is done with the bytes, which may be reused then; false: it was closed meanwhile. */
function taken(decoder: Gunzip | ZstdDecompress, bytes: Uint8Array): Promise<boolean> {
  if (decoder.destroyed) return Promise.resolve(false);
  return new Promise((resolve) => {
    const closed = () => resolve(false);
    decoder.once('close', closed);
    decoder.write(bytes, (error) => {
      decoder.off('close', closed);
      resolve(!error);
    });
  });
}
