// Files and folders that only the user of this process may read, whatever its umask.
import { chmodSync, closeSync, openSync } from 'node:fs';
import { chmod, stat } from 'node:fs/promises';

export const PRIVATE_FILE = 0o600;
export const PRIVATE_FOLDER = 0o700;

/** Restricts a folder to its owner. One that belongs to somebody else, such as the root of a volume, stays as it is. */
export async function restrictFolder(folder: string): Promise<void> {
  const { uid, mode } = await stat(folder);
  if ((mode & 0o077) !== 0 && uid === process.getuid?.()) await chmod(folder, PRIVATE_FOLDER);
}

/**
 * Creates a file for its owner only, before a library opens it that would create it for everybody. One that is there is restricted; it is
 * not opened, because closing it would drop the locks that this process has on it.
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
    // The file belongs to another user, whose mode may still let this process in.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') throw error;
  }
}
