// A lock between processes: an open SQLite transaction on a separate file, because it ends with its process in every case.
import { monotonicMs, sleep } from './clock.ts';
import { createPrivateFile } from './file-system.ts';

const POLL_MS = 100;
const FIRST_POLL_MS = 5;
/** SQLITE_BUSY. */
const BUSY = 5;

/**
 * Takes a lock and returns its release function; null: another holder has it. Works between processes, between
 * containers on the same kernel, and between callers in this process. A missing file is created, and the file stays:
 * removing it while another process waits would create two locks. Do not open the file elsewhere, because closing any
 * handle of a file drops the locks of its process.
 * @throws Error of SQLite: the file cannot be created, or its file system does not support locks
 */
export async function tryFileLock(file: string, { isPrivate = false } = {}): Promise<(() => void) | null> {
  // Imported here, because most processes never take a lock.
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
 * Takes a lock, waiting up to `waitMs`; null: it is still held by another holder. `onWait`: called once if the lock is
 * held. `isPrivate`: only the owner can access the file.
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
    // Random, so that processes that began to wait together do not keep polling together.
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
