// Compresses bytes before another sink writes them.
import { createGzip, type Gzip, type ZstdCompress } from 'node:zlib';
import type { Compression } from '../../core/file-format.ts';
import { zstd } from '../../core/zstd.ts';
import type { ByteSink } from './byte-sink.ts';

/**
 * Number of blocks per gzip member or zstd frame. Its end depends only on blocks, because a resumed run must produce
 * the same bytes. Not fewer, because each member compresses without earlier history, and some readers stop after the
 * first.
 */
export const BLOCKS_A_MEMBER = 64;
const PIECE_BYTES = 128 * 1024;

/**
 * Wraps `inner`, or returns it without compression. `commit` and `abort` of the wrapper also end `inner`. Members end
 * when `blockEnd` has counted enough blocks; without calls of it there is a single member. @throws SluiceError usage
 */
export function compressedSink(inner: ByteSink, compression: Compression): ByteSink {
  if (compression === 'none') return inner;
  const start = () => new Member(inner, compression);
  // Started immediately, so that even an empty output is a valid compressed file.
  let member: Member | null = start();
  let blocks = 0;
  return {
    revocable: inner.revocable,
    get bytesWritten() {
      return inner.bytesWritten;
    },
    ...(inner.sync ? { sync: () => inner.sync!() } : {}),
    async write(bytes) {
      member ??= start();
      await member.write(bytes);
    },
    async blockEnd() {
      if (++blocks % BLOCKS_A_MEMBER !== 0) return null;
      await member?.end();
      member = null;
      return inner.bytesWritten;
    },
    async commit() {
      await member?.end();
      await inner.commit();
    },
    async abort() {
      await member?.destroy();
      await inner.abort();
    },
  };
}

/**
 * One gzip member or zstd frame. The compressor's output depends on how its input is divided. It therefore receives
 * pieces of equal size one at a time, and the last piece together with the end signal.
 */
class Member {
  readonly #stream: Gzip | ZstdCompress;
  readonly #drained: Promise<void>;
  readonly #piece = Buffer.allocUnsafe(PIECE_BYTES);
  #filled = 0;

  constructor(inner: ByteSink, compression: Exclude<Compression, 'none'>) {
    const stream = compression === 'gzip' ? createGzip() : zstd().createZstdCompress();
    this.#stream = stream;
    this.#drained = (async () => {
      for await (const chunk of stream) await inner.write(chunk as Uint8Array);
    })();
    // Errors of `inner` reject this promise, which `write` and `end` await.
    this.#drained.catch(() => stream.destroy());
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      if (this.#filled === PIECE_BYTES) await this.#give();
      const taken = bytes.subarray(at, at + PIECE_BYTES - this.#filled);
      this.#piece.set(taken, this.#filled);
      this.#filled += taken.length;
      at += taken.length;
    }
  }

  /** Until this resolves, the compressor owns the piece. */
  async #give(): Promise<void> {
    const given = new Promise<void>((resolve) => this.#stream.write(this.#piece, () => resolve()));
    await Promise.race([given, this.#drained]);
    this.#filled = 0;
  }

  async end(): Promise<void> {
    this.#stream.end(this.#piece.subarray(0, this.#filled));
    await this.#drained;
  }

  async destroy(): Promise<void> {
    this.#stream.destroy();
    await this.#drained.catch(() => {});
  }
}
