// Reads a file or standard input as byte chunks, and detects if the file is changed or removed while it is read.
import type { Stats } from 'node:fs';
import { type FileHandle, open, stat } from 'node:fs/promises';
import type { TableFeed, TypedTable } from '../../core/block.ts';
import { SluiceError } from '../../core/errors.ts';
import { fileFault } from '../../core/file-system.ts';

/** Bytes in order. A chunk is valid until the next chunk is requested. */
export interface Chunks extends AsyncIterable<Uint8Array> {
  /**
   * Reads the next bytes into the given buffer instead of yielding a chunk. Returns their number; 0: the input has
   * ended. Only sources that never wait have this method, because a read cannot be cancelled. The code that opened the
   * source must close it.
   */
  readInto?(target: Uint8Array): Promise<number>;
  /** Number of text lines in front of the records, which readers of records skip. Default: none. */
  readonly skipLines?: number;
  /** The columns of the table, if the bytes are JSON lines that were generated from a table. */
  readonly columns?: TypedTable;
  /** The table, which can be read instead of its JSON lines. */
  readonly table?: TableFeed;
}

export interface ByteSource {
  readonly chunks: Chunks;
  /** Total number of bytes; null: unknown. */
  readonly totalBytes: number | null;
  /** Number of bytes read so far. */
  bytesRead(): number;
  /**
   * Yields the bytes read so far again, including bytes that are read in the meantime. Ends when it has caught up with
   * the reader. Only for a regular file that is read completely.
   * @throws SluiceError input_changed, input_unreadable
   */
  again?(): AsyncIterable<Uint8Array>;
  /** Reads a range of a remote input, from `start` to before `end`. @throws SluiceError */
  slice?(start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
  /** Closes the source. Idempotent. */
  close(): Promise<void>;
}

/**
 * Default size of a read, bytes. Sizes between 64 KiB and 1 MiB were measured to be equally fast. Smaller sizes cause
 * too many reads per slab, larger sizes waste memory.
 */
const DEFAULT_READ_BYTES = 256 * 1024;

/** A range of a file: bytes `from` to `to - 1`. */
export interface ByteRange {
  from: number;
  to: number;
}

/**
 * Opens a file for reading: all bytes, or the concatenation of some ranges. A chunk is valid until the next chunk is
 * requested.
 * @throws SluiceError input_not_found when opening; input_unreadable | input_changed when reading
 */
export async function openFile(
  path: string,
  readBytes = DEFAULT_READ_BYTES,
  ranges: readonly ByteRange[] | null = null,
): Promise<ByteSource> {
  let handle: FileHandle;
  try {
    handle = await open(path, 'r');
  } catch (cause) {
    throw new SluiceError('input_not_found', `${path} cannot be opened: ${fileFault(cause)}`, { cause });
  }
  const before = await handle.stat();
  if (before.isDirectory()) {
    await handle.close();
    throw new SluiceError('input_not_found', `${path} is a folder`);
  }
  const regular = before.isFile();
  const wanted = ranges?.reduce((sum, { from, to }) => sum + to - from, 0) ?? before.size;
  const left = ranges?.map((range) => ({ ...range })) ?? null;
  let read = 0;
  let closed = false;
  const close = async () => {
    if (closed) return;
    closed = true;
    await handle.close();
  };
  return {
    chunks: { [Symbol.asyncIterator]: chunks, ...(regular ? { readInto } : {}) },
    totalBytes: regular ? wanted : null,
    bytesRead: () => read,
    ...(regular && left === null ? { again } : {}),
    close,
  };

  async function* again(): AsyncGenerator<Uint8Array> {
    const buffer = Buffer.allocUnsafe(readBytes);
    for (let at = 0; at < read; ) {
      const { bytesRead } = await handle.read(buffer, 0, Math.min(readBytes, read - at), at).catch((cause) => {
        throw new SluiceError('input_unreadable', `${path}: ${fileFault(cause)}`, { cause });
      });
      yield buffer.subarray(0, bytesRead);
      at += bytesRead;
      if (bytesRead > 0 && at < read) continue;
      // The run may have read more in the meantime, but a reader that has caught up needs no second pass.
      return assertSameFile(path, handle, before, { read: wanted, wanted });
    }
  }

  async function readInto(target: Uint8Array): Promise<number> {
    let n: number;
    try {
      const most = Math.min(readBytes, target.length);
      n = left ? await readRange(handle, target, most, left) : (await handle.read(target, 0, most, null)).bytesRead;
    } catch (cause) {
      throw new SluiceError('input_unreadable', `${path}: ${fileFault(cause)}`, { cause });
    }
    read += n;
    if (n === 0 && regular) await assertSameFile(path, handle, before, { read, wanted });
    return n;
  }

  async function* chunks(): AsyncGenerator<Uint8Array> {
    const buffer = Buffer.allocUnsafe(readBytes);
    try {
      for (let n = await readInto(buffer); n > 0; n = await readInto(buffer)) yield buffer.subarray(0, n);
    } finally {
      await close();
    }
  }
}

/**
 * Reads from the first range that has unread bytes. Returns the number of bytes; 0: all ranges were read, or the file
 * ends early.
 */
async function readRange(handle: FileHandle, target: Uint8Array, most: number, left: ByteRange[]): Promise<number> {
  while (left.length > 0 && left[0]!.from >= left[0]!.to) left.shift();
  const range = left[0];
  if (range === undefined) return 0;
  const { bytesRead } = await handle.read(target, 0, Math.min(most, range.to - range.from), range.from);
  range.from += bytesRead;
  return bytesRead;
}

/**
 * Throws if the file was written to, truncated, extended, replaced or removed while it was read, because the bytes read
 * are then unreliable. `before`: the state of the open file before its first byte was read.
 * @throws SluiceError input_changed
 */
export async function assertSameFile(
  path: string,
  handle: FileHandle,
  before: Stats,
  { read, wanted } = { read: before.size, wanted: before.size },
): Promise<void> {
  const after = await handle.stat();
  if (after.size !== before.size || isWritten(before, after) || read !== wanted) {
    throw new SluiceError(
      'input_changed',
      `${path} changed while it was read (${wanted} bytes at first, ${read} read)`,
    );
  }
  let named: { ino: number };
  try {
    named = await stat(path);
  } catch (cause) {
    throw new SluiceError('input_changed', `${path} vanished while it was read`, { cause });
  }
  if (named.ino !== before.ino) {
    throw new SluiceError('input_changed', `${path} was replaced while it was read`);
  }
}

/**
 * Whether the content may have changed. A program can restore the time of modification, but not the time of the last
 * change. Links, permissions and owners change the latter as well, so it counts only while they are equal.
 */
function isWritten(before: Stats, after: Stats): boolean {
  if (after.mtimeMs !== before.mtimeMs) return true;
  const isSame = (['nlink', 'mode', 'uid', 'gid'] as const).every((key) => after[key] === before[key]);
  return isSame && after.ctimeMs !== before.ctimeMs;
}

/** Creates a source from standard input or any other readable stream. */
export function fromStream(stream: AsyncIterable<Uint8Array>): ByteSource {
  let read = 0;
  return {
    chunks: (async function* () {
      for await (const chunk of stream) {
        read += chunk.length;
        yield chunk;
      }
    })(),
    totalBytes: null,
    bytesRead: () => read,
    close: async () => {},
  };
}
