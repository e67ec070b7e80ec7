// A sink that compresses bytes and passes them to another sink.
import { createGzip, type Gzip, type ZstdCompress } from 'node:zlib';
import type { Compression } from '../../core/file-format.ts';
import { zstd } from '../../core/zstd.ts';
import type { ByteSink } from './byte-sink.ts';

/**
 * Number of blocks per gzip member or zstd frame. The end of a member depends only on the number of blocks, because a
 * resumed run must produce the same bytes. A smaller number would compress less, because a member cannot refer to
 * earlier data. Some readers also stop after the first member.
 */
export const BLOCKS_A_MEMBER = 64;
const PIECE_BYTES = 128 * 1024;

/**
 * Wraps `inner` in a compressing sink, or returns `inner` if `compression` is none. `commit` and `abort` also commit or
 * abort `inner`. A member ends when `blockEnd` was called BLOCKS_A_MEMBER times; if it is never called, there is a
 * single member.
 * @throws SluiceError usage
 */
export function compressedSink(inner: ByteSink, compression: Compression): ByteSink {
  if (compression === 'none') return inner;
  const start = () => new Member(inner, compression);
  // The first member starts immediately, so that even an empty output is a valid compressed file.
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
 * One gzip member or zstd frame. The output of the compressor depends on how its input is divided. So it receives
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

  /** Passes the piece to the compressor, which owns the piece until the promise resolves. */
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
