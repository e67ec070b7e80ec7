// File system helpers: error messages, private files, and checks that folders are writable.
import { chmodSync, closeSync, openSync } from 'node:fs';
import { chmod, type FileHandle, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from './errors.ts';

const WORDS: Readonly<Record<string, string>> = {
  EACCES: 'no permission',
  EDQUOT: 'the quota is used up',
  EFBIG: 'the file is larger than the system permits',
  EIO: 'the disk failed',
  EMFILE: 'this process has too many open files: raise its limit (ulimit -n)',
  ENAMETOOLONG: 'the name is too long',
  ENFILE: 'this machine has too many open files',
  ENOENT: 'it or its folder does not exist',
  ENOSPC: 'no space is left on the disk',
  EPERM: 'the system does not permit it',
  EROFS: 'the file system is read-only',
};

/**
 * Describes an error of the file system, for example `ENOSPC, no space is left on the disk`. Unknown errors are
 * described by their code or message.
 */
export function fileFault(cause: unknown): string {
  const { code } = cause as NodeJS.ErrnoException;
  if (isDatabaseFull(cause)) return `SQLITE_FULL, ${WORDS.ENOSPC}`;
  if (code === undefined) return cause instanceof Error ? cause.message : String(cause);
  return WORDS[code] === undefined ? code : `${code}, ${WORDS[code]}`;
}

const SQLITE_FULL = 13;

/** Whether SQLite could not write because the disk is full. */
const isDatabaseFull = (cause: unknown): boolean => (cause as { errcode?: number } | null)?.errcode === SQLITE_FULL;

/** Whether an error means that the disk is full. */
export const isFull = (cause: unknown): boolean =>
  ['ENOSPC', 'EDQUOT', 'EFBIG'].includes((cause as NodeJS.ErrnoException | null)?.code ?? '') || isDatabaseFull(cause);

// The modes of files and folders are set explicitly, because the umask of the process may be too permissive.

export const PRIVATE_FILE = 0o600;
const PRIVATE_FOLDER = 0o700;

/** Restricts a folder to its owner. A folder owned by another user, such as the root of a volume, stays unchanged. */
export async function restrictFolder(folder: string): Promise<void> {
  const { uid, mode } = await stat(folder);
  if ((mode & 0o077) !== 0 && uid === process.getuid?.()) await chmod(folder, PRIVATE_FOLDER);
}

/**
 * Creates a file that only its owner can access. Must be called before a library creates the file with a default mode.
 * The mode of an existing file is restricted without opening the file, because closing it would release the locks of
 * this process.
 */
export function createPrivateFile(file: string): void {
  try {
    closeSync(openSync(file, 'wx', PRIVATE_FILE));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    restrictFile(file);
  }
}

function restrictFile(file: string): void {
  try {
    chmodSync(file, PRIVATE_FILE);
  } catch (error) {
    // The file belongs to another user, but its mode may still permit access.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
  }
}

/**
 * Checks that a file can be written to a folder. If the folder is missing, creates it such that only its owner can
 * access it.
 * @throws SluiceError folder_unusable, which names the setting
 */
export async function assertUsable(setting: string, folder: string): Promise<void> {
  const probe = path.join(folder, `.sluice-probe-${process.pid}-${crypto.randomUUID()}`);
  try {
    await makeFolder(path.resolve(folder));
    await writeFile(probe, 'x', { mode: PRIVATE_FILE });
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code ?? 'unknown';
    throw new SluiceError('folder_unusable', `${setting}: ${folder} cannot be written to (${why})`, { cause });
  } finally {
    await rm(probe, { force: true }).catch(() => {});
  }
}

/**
 * Creates a folder with its parent folders. The recursive mkdir of Node.js is not used, because it never ends on file
 * systems that always report ENOENT, such as /proc.
 */
async function makeFolder(folder: string): Promise<void> {
  const attempt = (): Promise<boolean> =>
    mkdir(folder, { mode: PRIVATE_FOLDER }).then(
      () => true,
      (error: NodeJS.ErrnoException) => {
        if (error.code === 'EEXIST') return true;
        if (error.code === 'ENOENT' && path.dirname(folder) !== folder) return false;
        throw error;
      },
    );
  if (await attempt()) return;
  await makeFolder(path.dirname(folder));
  if (!(await attempt())) throw Object.assign(new Error('the folder cannot be created'), { code: 'ENOENT' });
}

/**
 * Fills `target` from a position of a file. Returns false if the file ends earlier.
 * @throws Error of the file system
 */
export async function readFully(handle: FileHandle, target: Uint8Array, position: number): Promise<boolean> {
  for (let filled = 0; filled < target.length; ) {
    const { bytesRead } = await handle.read(target, filled, target.length - filled, position + filled);
    if (bytesRead === 0) return false;
    filled += bytesRead;
  }
  return true;
}
