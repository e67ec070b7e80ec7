// Reads an object. After a broken connection, continues with the remaining bytes of the same version.

import path from 'node:path';
import { sleep } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { objectAddress, storeOf } from './providers.ts';

interface ObjectSource {
  /** A chunk is valid until the next chunk is requested. */
  chunks: AsyncIterable<Uint8Array>;
  /** Total length of `chunks` in bytes. */
  totalBytes: number;
  /** Number of bytes of `chunks` that were read so far. */
  bytesRead(): number;
  /** Reads the bytes from `start` to before `end` of the same version. Can run concurrently. @throws as `chunks` */
  slice(start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Closes the source. Idempotent. */
  close(): Promise<void>;
}

/** Maximum number of consecutive connections that break before a byte is received. */
const FRUITLESS = 6;
const FIRST_PAUSE_MS = 200;

/** Size of an object in bytes; null: the object does not exist. @throws SluiceError storage_unavailable */
export async function objectSize(name: string): Promise<number | null> {
  const { store, key } = await storeOf(name);
  return (await store.head(key))?.bytes ?? null;
}

/** The objects that match a pattern, sorted by key. @throws SluiceError storage_unavailable | usage */
export async function matchingObjects(pattern: string): Promise<string[]> {
  const { store, key } = await storeOf(pattern);
  const { scheme, bucket } = objectAddress(pattern);
  const { objects } = await store.list(key.slice(0, key.search(/[*?[]/)));
  const matching = objects.map((o) => o.key).filter((k) => !k.endsWith('/') && path.posix.matchesGlob(k, key));
  return matching.sort().map((k) => `${scheme}://${bucket}/${k}`);
}

/**
 * Opens an object: all bytes, or the concatenation of some ranges.
 * @throws SluiceError input_not_found | storage_unavailable when opening; input_changed when reading
 */
export async function openObject(
  name: string,
  ranges: readonly { from: number; to: number }[] | null = null,
): Promise<ObjectSource> {
  const { store, key } = await storeOf(name);
  const found = await store.head(key);
  if (!found) throw new SluiceError('input_not_found', `${name} does not exist`);
  const { bytes: total, version } = found;
  let read = 0;
  const closed = new AbortController();
  const rangeOf = (start: number, end: number) =>
    versionBytes({ name, version, start, end, total, closed: closed.signal });
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (const { from, to } of ranges ?? [{ from: 0, to: total }]) {
      if (to > total) throw new SluiceError('input_changed', `${name} became shorter: it has ${total} bytes`);
      for await (const chunk of rangeOf(from, to)) {
        read += chunk.length;
        yield chunk;
      }
    }
  }
  return {
    chunks: { [Symbol.asyncIterator]: chunks },
    totalBytes: ranges?.reduce((sum, { from, to }) => sum + to - from, 0) ?? total,
    bytesRead: () => read,
    slice: async (start, end) => {
      const bytes = new Uint8Array(Math.min(end, total) - start);
      let filled = 0;
      for await (const chunk of rangeOf(start, start + bytes.length)) {
        bytes.set(chunk, filled);
        filled += chunk.length;
      }
      if (filled < bytes.length) throw new SluiceError('cancelled', `${name} was closed while it was read`);
      return bytes;
    },
    close: async () => closed.abort(),
  };
}

interface VersionRange {
  name: string;
  version: string;
  start: number;
  end: number;
  /** Size of the object in bytes. */
  total: number;
  closed: AbortSignal;
}

/**
 * Frees the memory of consumed bytes immediately. Otherwise V8 would scan the whole heap after every 8 MB received.
 * Only buffers that own their whole memory are freed: any other buffer may belong to the pool of Node.js or share
 * memory with other data.
 */
function freeAtOnce({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

/** Reads a range of one version and reconnects if necessary. Ends early only if the source is closed. */
async function* versionBytes({ name, version, start, end, total, closed }: VersionRange): AsyncGenerator<Uint8Array> {
  const { store, key } = await storeOf(name);
  for (let at = start, fruitless = 0; at < end; ) {
    const before = at;
    const found = await store.read(key, { from: at, to: end < total ? end : null, version });
    const { body } = found;
    if (!body || (found.version ?? version) !== version || (!found.partial && at > 0)) {
      body?.destroy();
      throw new SluiceError('input_changed', `${name} changed while it was read (${at} of ${total} bytes read)`);
    }
    const stop = () => body.destroy();
    closed.addEventListener('abort', stop, { once: true });
    let cause: unknown = null;
    try {
      for await (const chunk of body) {
        const wanted = (chunk as Buffer).subarray(0, end - at);
        at += wanted.length;
        yield wanted;
        freeAtOnce(chunk as Buffer);
        if (at >= end) break;
      }
    } catch (error) {
      cause = error;
    } finally {
      closed.removeEventListener('abort', stop);
      body.destroy();
    }
    if (closed.aborted || at >= end) return;
    fruitless = at > before ? 0 : fruitless + 1;
    if (fruitless >= FRUITLESS) {
      throw new SluiceError('storage_unavailable', `${name}: the connection broke repeatedly`, { cause });
    }
    await sleep(FIRST_PAUSE_MS * 2 ** fruitless * (0.5 + Math.random()), { signal: closed }).catch(() => {});
  }
}
