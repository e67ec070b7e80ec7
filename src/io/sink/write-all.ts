// A write of a file may take fewer bytes than it was given.
import type { FileHandle } from 'node:fs/promises';

/** Writes all bytes from `position` on; null: where the file stands. `onBytes` is told of each part that is written. */
export async function writeAll(
  handle: FileHandle,
  bytes: Uint8Array,
  position: number | null,
  onBytes?: (n: number) => void,
): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const to = position === null ? null : position + at;
    const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, to);
    at += bytesWritten;
    onBytes?.(bytesWritten);
  }
}
