// Decompresses a stream completely.
// It may consist of several gzip members or zstd frames, and must end after a complete member or frame.
import { createGunzip, type Gunzip, type ZstdDecompress } from 'node:zlib';
import { SluiceError } from '../../core/errors.ts';
import type { Compression } from '../../core/file-format.ts';
import { ZstdFrames, zstd } from '../../core/zstd.ts';
import type { Chunks } from './byte-source.ts';

/** Decompresses the chunks. @throws SluiceError truncated_input when reading, if the stream is truncated or damaged */
export const decompressed = (chunks: Chunks, compression: Compression): Chunks =>
  compression === 'none' ? chunks : expanded(chunks, compression, cutOrDamaged(compression));

/** Creates the errors for streams that end too early or are damaged. */
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
 * Decompresses with backpressure: only requested data is expanded. Streams are opened at the first request, for two
 * reasons: workers may still be starting before it, and an error of a stream that is not read would end the process.
 * @throws SluiceError of `faults`, usage, or errors of `chunks`
 */
export async function* expanded(
  chunks: AsyncIterable<Uint8Array>,
  compression: Exclude<Compression, 'none'>,
  faults: StreamFaults,
): AsyncGenerator<Uint8Array> {
  const decoder = compression === 'gzip' ? createGunzip() : zstd().createZstdDecompress();
  let failure: unknown = null;
  // When the decoder is no longer read, `feeding` reports its errors.
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

/**
 * Feeds the gzip decoder. The decoder reads all members, but it treats a zero byte after a member as padding and
 * ignores all bytes that follow. So these bytes are checked here.
 */
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

/** Feeds the zstd decoder. It would end after the first frame if the next frame did not arrive in a separate write. */
async function feedFrames(decoder: ZstdDecompress, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  const frames = new ZstdFrames();
  for await (const chunk of chunks) {
    for (const piece of frames.split(chunk)) if (!(await taken(decoder, piece))) return;
  }
  if (!frames.whole) throw Object.assign(new Error('the last frame is cut off'), { code: 'Z_BUF_ERROR' });
}

/** Resolves when the decoder no longer needs the bytes; false: the decoder was closed. */
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
