// Folders that settings name: made and tried before anything relies on them.
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from './errors.ts';
import { PRIVATE_FILE, PRIVATE_FOLDER } from './private-files.ts';

/**
 * Makes the folder if it is not there, for its owner only, writes a file into it and removes that again.
 * @throws SluiceError folder_unusable, naming the setting
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

/** Not by the recursive mkdir of Node, because that never ends where a file system says ENOENT whatever is there, as /proc does. */
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
  if (!(await attempt())) throw Object.assign(new Error('the folder cannot be made'), { code: 'ENOENT' });
}
