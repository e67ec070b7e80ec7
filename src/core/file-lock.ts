// A lock between processes on a file of its own: an open transaction of SQLite, because that ends with its process, however it ends.
import { monotonicMs, sleep } from './clock.ts';
import { createPrivateFile } from './file-system.ts';

const POLL_MS = 100;
const FIRST_POLL_MS = 5;
/** SQLITE_BUSY */
const BUSY = 5;

/**
 * Takes a lock and returns its release function; null: it is held elsewhere. Effective between processes, containers of
 * one kernel, and callers in this process. The file is created if missing and remains: removing it while another
 * process waits would create two locks. Nothing else may open it, because closing any handle of a file drops the locks
 * of its process.
 * @throws Error of SQLite: the file cannot be created, or its file system has no locks
 */
export async function tryFileLock(file: string, { isPrivate = false } = {}): Promise<(() => void) | null> {
  // Only here: most of what could lock never does.
  const { DatabaseSync } = await import('node:sqlite');
  if (isPrivate) createPrivateFile(file);
  const db = new DatabaseSync(file, { timeout: 0 });
  try {
    db.exec('BEGIN EXCLUSIVE');
    return () => db.close();
  } catch (cause) {
    db.close();
    if ((cause as { errcode?: number }).errcode === BUSY) return null;
    throw cause;
  }
}

/**
 * The same, after at most `waitMs`; null: it is still held then. `onWait`: called once if it is held. `isPrivate`: the file is for its owner only.
 * @throws Error of SQLite, or of the file system
 */
export async function takeFileLock(
  file: string,
  waitMs: number,
  onWait = () => {},
  isPrivate = false,
): Promise<(() => void) | null> {
  const deadline = monotonicMs() + waitMs;
  for (let pause = FIRST_POLL_MS; ; pause = Math.min(POLL_MS, pause * 2)) {
    const unlock = await tryFileLock(file, { isPrivate });
    if (unlock || monotonicMs() >= deadline) return unlock;
    if (pause === FIRST_POLL_MS) onWait();
    // Those that began to wait together do not ask together for ever.
    await sleep(Math.min(pause * (0.5 + Math.random()), waitMs));
  }
}

/** Runs `work` while holding the lock exclusively. @throws errors of `work`, and the result of `refused` */
export async function underFileLock<T>(
  file: string,
  {
    waitMs,
    refused,
    isPrivate = false,
  }: { waitMs: number; refused: (cause: unknown) => Error /** Only the owner may take it. */; isPrivate?: boolean },
  work: () => Promise<T>,
): Promise<T> {
  let unlock: (() => void) | null;
  try {
    unlock = await takeFileLock(file, waitMs, () => {}, isPrivate);
  } catch (cause) {
    throw refused(cause);
  }
  if (!unlock) throw refused(null);
  try {
    return await work();
  } finally {
    unlock();
  }
}
