// One server a jobs folder: two would run each job twice and destroy each other's results.
import path from 'node:path';
import { SluiceError } from '../../../core/errors.ts';
import { takeFileLock } from '../../../core/file-lock.ts';

const LOCK = 'jobs.sqlite.lock';

/**
 * Takes the folder for this process; gives what lets go of it. A server that is stopping has `waitMs` to let go.
 * @throws SluiceError folder_in_use | folder_unusable
 */
export async function lockFolder(folder: string, waitMs: number, onWait: () => void = () => {}): Promise<() => void> {
  let unlock: (() => void) | null;
  try {
    unlock = await takeFileLock(path.join(folder, LOCK), waitMs, onWait, true);
  } catch (cause) {
    throw new SluiceError('folder_unusable', `jobs.folder: ${folder} cannot be locked`, { cause });
  }
  if (unlock) return unlock;
  throw new SluiceError('folder_in_use', `jobs.folder: another server works in ${folder}`);
}
