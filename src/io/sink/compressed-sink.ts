// Compresses what is written on its way to another sink.
import { createGzip, createZstdCompress } from 'node:zlib';
import type { Compression } from '../../core/file-format.ts';
import type { ByteSink } from './byte-sink.ts';

/** `inner` itself without a compression. The sink takes over: `commit` and `abort` end `inner` as well. */
export function compressedSink(inner: ByteSink, compression: Compression): ByteSink {
  if (compression === 'none') return inner;
  const stream = compression === 'gzip' ? createGzip() : createZstdCompress();
  const drained = (async () => {
    for await (const chunk of stream) await inner.write(chunk as Uint8Array);
  })();
  // Errors of `inner` surface from `drained`, which `write` and `commit` await.
  drained.catch(() => stream.destroy());
  return {
    revocable: inner.revocable,
    get bytesWritten() {
      return inner.bytesWritten;
    },
    async write(bytes) {
      const full = !stream.write(Buffer.from(bytes));
      if (full) await Promise.race([new Promise((resolve) => stream.once('drain', resolve)), drained]);
    },
    async commit() {
      stream.end();
      await drained;
      await inner.commit();
    },
    async abort() {
      stream.destroy();
      await drained.catch(() => {});
      await inner.abort();
    },
  };
}
