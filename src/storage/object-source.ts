// Reads an object from its beginning to its end: where a connection breaks, the rest of the same version is asked for.
import { setTimeout as sleep } from 'node:timers/promises';
import { SluiceError } from '../core/errors.ts';
import { bucketClient, objectAddress } from './objects.ts';

export interface ObjectSource {
  chunks: AsyncIterable<Uint8Array>;
  totalBytes: number;
  bytesRead(): number;
  /** Idempotent. */
  close(): Promise<void>;
}

/** Connections that break one after the other without a byte in between. */
const FRUITLESS = 6;
const FIRST_PAUSE_MS = 200;

/** @throws SluiceError input_not_found | storage_unavailable at once; input_changed while reading */
export async function openObject(name: string): Promise<ObjectSource> {
  const { bucket, key } = objectAddress(name);
  const client = bucketClient(bucket);
  const found = await client.head(key);
  if (!found) throw new SluiceError('input_not_found', `${name} is not there`);
  const { bytes: total, etag } = found;
  let read = 0;
  const closed = new AbortController();

  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let fruitless = 0; read < total; ) {
      const before = read;
      const { body, headers, status } = await client.read(key, read, etag);
      // Servers that do not look at If-Match still say which version they send.
      if (!body || (headers.etag !== undefined && headers.etag !== etag) || (status !== 206 && read > 0)) {
        body?.destroy();
        throw new SluiceError('input_changed', `${name} changed while it was read (${read} of ${total} bytes read)`);
      }
      const stop = () => body.destroy();
      closed.signal.addEventListener('abort', stop, { once: true });
      let cause: unknown = null;
      try {
        for await (const chunk of body) {
          read += (chunk as Buffer).length;
          yield chunk as Buffer;
        }
      } catch (error) {
        cause = error;
      } finally {
        closed.signal.removeEventListener('abort', stop);
        body.destroy();
      }
      if (closed.signal.aborted || read >= total) return;
      fruitless = read > before ? 0 : fruitless + 1;
      if (fruitless >= FRUITLESS) {
        throw new SluiceError('storage_unavailable', `${name}: the connection broke again and again`, { cause });
      }
      await sleep(FIRST_PAUSE_MS * 2 ** fruitless * (0.5 + Math.random()), undefined, { signal: closed.signal }).catch(() => {}); // biome-ignore format: one line
    }
  }
  return {
    chunks: { [Symbol.asyncIterator]: chunks },
    totalBytes: total,
    bytesRead: () => read,
    close: async () => closed.abort(),
  };
}
