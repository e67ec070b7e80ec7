// A lock between processes: an open SQLite transaction on a separate file. It always ends when its process ends.
import { monotonicMs, sleep } from './clock.ts';
import { createPrivateFile } from './file-system.ts';

const POLL_MS = 100;
const FIRST_POLL_MS = 5;
/** The error code SQLITE_BUSY. */
const BUSY = 5;

/**
 * Takes a lock and returns a function that releases it; null: the lock is held. Works between processes, between
 * containers on the same kernel, and between callers in this process. A missing file is created. The file is never
 * removed, because removing it while another process waits would create two locks. No other code of this process may
 * open the file: closing any handle of a file releases all locks of the process on this file.
 * @throws Error of SQLite if the file cannot be created, or its file system does not support locks
 */
export async function tryFileLock(file: string, { isPrivate = false } = {}): Promise<(() => void) | null> {
  // The module is imported on demand, because most processes never take a lock.
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
 * Takes a lock, for which it waits at most `waitMs` milliseconds; null: the lock is still held then. `onWait` is called
 * once if the lock is held at first, unless `waitMs` is 0. `isPrivate`: only the owner can access the file.
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
    if (unlock) return unlock;
    // The first attempt may take longer than `waitMs`.
    if (pause === FIRST_POLL_MS && waitMs > 0) onWait();
    if (monotonicMs() >= deadline) return null;
    // The pause is random, so that processes that started to wait at the same time do not poll at the same times.
    await sleep(Math.min(pause * (0.5 + Math.random()), waitMs));
  }
}

/** Runs `work` while holding the lock. @throws errors of `work`, or the error that `refused` returns */
export async function underFileLock<T>(
  file: string,
  {
    waitMs,
    refused,
    isPrivate = false,
  }: { waitMs: number; refused: (cause: unknown) => Error /** Only the owner may use it. */; isPrivate?: boolean },
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
