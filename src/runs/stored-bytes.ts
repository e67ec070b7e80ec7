// Stored bytes of an input or output by name, whether a file or an object.

import { randomBytes } from 'node:crypto';
import { link, open, readFile, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { isPlainName } from '../core/file-names.ts';
import { fileFault } from '../core/file-system.ts';
import type { RandomAccess } from '../formats/parquet/parquet-pages.ts';
import { CommitSet } from '../io/sink/commit-set.ts';
import { putFile } from '../io/sink/file-sink.ts';
import { writeError } from '../io/sink/file-target.ts';
import { type ByteRange, type ByteSource, openFile } from '../io/source/byte-source.ts';
import { isObject, storeOf } from '../storage/providers.ts';

const READ_BYTES = 256 * 1024;

/** Another name in the folder of this one. @throws SluiceError input_not_found: it leads elsewhere */
export function besideStored(name: string, other: string): string {
  if (!isPlainName(other)) {
    throw new SluiceError('input_not_found', `${JSON.stringify(other)} is no name of a file beside ${name}`);
  }
  if (!isObject(name)) return path.join(path.dirname(name), other);
  return `${name.slice(0, name.lastIndexOf('/'))}/${other}`;
}

/** Bytes; null: there is no such file or object. @throws SluiceError storage_unavailable */
export async function storedSize(name: string): Promise<number | null> {
  if (!isObject(name)) return (await stat(name).catch(() => null))?.size ?? null;
  const { objectSize } = await import('../storage/object-source.ts');
  return objectSize(name);
}

/** Each chunk is valid until the next one is requested. @throws SluiceError input_not_found | storage_unavailable | input_changed of objects, an error of the file system otherwise */
export async function* storedBytes(name: string): AsyncGenerator<Uint8Array> {
  if (!isObject(name)) {
    yield* bytesOfFile(name);
    return;
  }
  const { openObject } = await import('../storage/object-source.ts');
  const source = await openObject(name);
  try {
    yield* source.chunks;
  } finally {
    await source.close();
  }
}

/** Into one buffer: those of a stream of the runtime are held until the next collection, which large files do not wait for. */
async function* bytesOfFile(name: string): AsyncGenerator<Uint8Array> {
  await using file = await open(name);
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  for (;;) {
    const { bytesRead } = await file.read(buffer, 0, READ_BYTES, null);
    if (bytesRead === 0) return;
    yield buffer.subarray(0, bytesRead);
  }
}

/** The text of a small file or object; null: it does not exist. @throws as `storedBytes` does otherwise */
export async function storedText(name: string): Promise<string | null> {
  if (isObject(name)) {
    if ((await storedSize(name)) === null) return null;
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of storedBytes(name)) text += decoder.decode(chunk, { stream: true });
    return text + decoder.decode();
  }
  try {
    return await readFile(name, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/**
 * Opens all of it, or some ranges, one behind the other, as they are stored.
 * @throws SluiceError input_not_found | storage_unavailable at once; input_unreadable | input_changed while reading
 */
export async function openStored(
  name: string,
  readBytes?: number,
  ranges: readonly ByteRange[] | null = null,
): Promise<ByteSource> {
  if (!isObject(name)) return openFile(name, readBytes, ranges);
  const { openObject } = await import('../storage/object-source.ts');
  return openObject(name, ranges);
}

/** @throws SluiceError storage_unavailable; Error of the file system */
export async function removeStored(name: string): Promise<void> {
  if (!isObject(name)) return rm(name, { force: true });
  const { removeObject } = await import('../storage/object-upload.ts');
  await removeObject(name);
}

/** The text of a file that the user named. @throws SluiceError input_not_found: it is missing or unreadable | storage_unavailable */
export async function namedText(name: string): Promise<string> {
  let text: string | null;
  try {
    text = await storedText(name);
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('input_not_found', `${name} cannot be opened: ${fileFault(cause)}`, { cause });
  }
  if (text === null) throw new SluiceError('input_not_found', `${name} is not there`);
  return text;
}

/**
 * Writes `text` if there is no such file, and returns the content. All of several writers get the same.
 * @throws SluiceError output_* | storage_unavailable
 */
export async function putFirst(name: string, text: string): Promise<string> {
  if (isObject(name)) {
    const { store, key } = await storeOf(name);
    await store.put(key, Buffer.from(text), { ifNone: true });
  } else {
    const own = `${name}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`;
    await putFile(own, text);
    try {
      await link(own, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw writeError(name, error, 'output_unwritable');
    } finally {
      await unlink(own).catch(() => {});
    }
  }
  return (await storedText(name)) ?? text;
}

/** Writes a small file or object whole, or not at all. @throws SluiceError output_* | storage_unavailable */
export async function putStored(name: string, text: string): Promise<void> {
  if (!isObject(name)) return putFile(name, text);
  const set = new CommitSet();
  try {
    const sink = await set.open(name);
    await sink.write(Buffer.from(text));
    await sink.commit();
    await set.publish();
  } finally {
    await set.abort();
  }
}

/** Random access to an object. `byteLength`: of the whole. */
export const slicedAccess = (
  name: string,
  byteLength: number,
  slice: NonNullable<ByteSource['slice']>,
): RandomAccess => ({
  name,
  byteLength,
  read: async (target, position) => target.set(await slice(position, position + target.length)),
});

/** Opens it, lets it be used and closes it. @throws SluiceError input_not_found | storage_unavailable; what `use` throws */
export async function withRandomAccess<T>(name: string, use: (file: RandomAccess) => Promise<T>): Promise<T> {
  if (isObject(name)) {
    const { openObject } = await import('../storage/object-source.ts');
    const source = await openObject(name);
    try {
      return await use(slicedAccess(name, source.totalBytes, source.slice));
    } finally {
      await source.close();
    }
  }
  const { openRandomAccess } = await import('../formats/parquet/parquet-file.ts');
  const file = await openRandomAccess(name);
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}
