// One server a jobs folder: two would run each job twice and destroy each other's results.
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { SluiceError } from '../../../core/errors.ts';

const LOCK = 'jobs.sqlite.lock';
const POLL_MS = 100;
/** SQLITE_BUSY */
const BUSY = 5;

/**
 * Takes the folder for this process; gives what lets go of it. An open transaction is the lock, because it ends with its process,
 * however that ends, and holds across containers of one kernel. A server that is stopping has `waitMs` to let go.
 * @throws SluiceError folder_in_use | folder_unusable
 */
export async function lockFolder(folder: string, waitMs: number, onWait: () => void = () => {}): Promise<() => void> {
  const deadline = performance.now() + waitMs;
  for (let told = false; ; told = true) {
    const lock = tryLock(folder);
    if (lock) return () => lock.close();
    if (performance.now() >= deadline) {
      throw new SluiceError('folder_in_use', `jobs.folder: another server works in ${folder}`);
    }
    if (!told) onWait();
    await sleep(Math.min(POLL_MS, waitMs));
  }
}

function tryLock(folder: string): DatabaseSync | null {
  let db: DatabaseSync | null = null;
  try {
    db = new DatabaseSync(path.join(folder, LOCK), { timeout: 0 });
    db.exec('BEGIN EXCLUSIVE');
    return db;
  } catch (cause) {
    db?.close();
    if ((cause as { errcode?: number }).errcode === BUSY) return null;
    throw new SluiceError('folder_unusable', `jobs.folder: ${folder} cannot be locked`, { cause });
  }
}
