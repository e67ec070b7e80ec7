// Resolves the target of an output path, converts errors of writing, and writes all bytes of a buffer.
import type { Stats } from 'node:fs';
import { type FileHandle, lstat, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import { fileFault, isFull } from '../../core/file-system.ts';

/** Maximum length of a chain of symbolic links. A longer chain is treated as a cycle. The kernel has the same limit. */
const MAX_LINKS = 40;

/** Resolves symbolic links, even if the final target does not exist yet. */
export async function behindLinks(file: string): Promise<string> {
  let at = path.resolve(file);
  for (let i = 0; i < MAX_LINKS; i++) {
    if (!(await lstat(at).catch(() => null))?.isSymbolicLink()) break;
    at = path.resolve(path.dirname(at), await readlink(at));
  }
  const folder = await realpath(path.dirname(at)).catch(() => path.dirname(at));
  return path.join(folder, path.basename(at));
}

/**
 * The target to write: the target of a symbolic link is replaced, never the link itself. Paths in /dev and /proc, pipes
 * and devices are written directly.
 */
export async function targetOf(file: string): Promise<{ target: string; present: Stats | null; direct: boolean }> {
  const device = /^\/(dev|proc)\//.test(path.resolve(file));
  const target = device ? file : await behindLinks(file);
  const present = await stat(target).catch(() => null);
  return { target, present, direct: present !== null && !present.isDirectory() && (device || !present.isFile()) };
}

/** Converts an error of writing. `otherwise`: the error code if no more specific code applies. */
export function writeError(target: string, cause: unknown, otherwise: ErrorCode): SluiceError {
  if (cause instanceof SluiceError) return cause;
  if (isFull(cause)) return new SluiceError('output_full', `no room for ${target}: ${fileFault(cause)}`, { cause });
  if ((cause as NodeJS.ErrnoException).code === 'EPIPE') {
    return new SluiceError('output_closed', `the reader closed ${target}`, { cause });
  }
  const what = otherwise === 'output_unwritable' ? 'cannot be created' : 'could not be written';
  return new SluiceError(otherwise, `${target} ${what}: ${fileFault(cause)}`, { cause });
}

/**
 * Writes all bytes to the file, starting at `position`; null: at its current position. `onBytes` is called after each
 * partial write.
 */
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
