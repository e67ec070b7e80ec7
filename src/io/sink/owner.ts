// Identifies the process that owns a temporary file, by the file name and by a lease file that is locked while the process runs.
import { createHash } from 'node:crypto';
import { open, readFile, readlink, stat, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fieldsOfStat } from '../../core/processes.ts';

/**
 * An owner: `namespace-pid-start`. `namespace` identifies the running kernel and the PID namespace, and `start` is the
 * start time of the process.
 */
const OWNER = /^([0-9a-f]{12})-(\d+)-(\d+)$/;
const LEASE = /^\.sluice\.([0-9a-f]{12}-\d+-\d+)\.lease$/;
const SQLITE_BUSY = 5;
const ENDED = -1;

/**
 * The state of an owner. `over`: the process has ended. `unknown`: the process is on another machine or in another
 * container, and the file system does not show its locks.
 */
export type Standing = 'running' | 'over' | 'unknown';

let own: Promise<string> | null = null;

/** The owner string in the names of files that this process creates. */
export function thisOwner(): Promise<string> {
  own ??= (async () => `${await namespace()}-${process.pid}-${(await startOf('self').catch(() => null)) ?? 0}`)();
  return own;
}

/** Identifies the scope in which a PID identifies a process: one container on one machine, between two boots. */
async function namespace(): Promise<string> {
  const parts = [hostname(), process.platform];
  if (process.platform === 'linux') {
    const [boot, pids, self] = await Promise.all([
      readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => null),
      readlink('/proc/self/ns/pid').catch(() => null),
      readlink('/proc/self').catch(() => null),
    ]);
    // If /proc shows another PID namespace, processes cannot be looked up in it. A random namespace then makes sure
    // that only the lease is checked.
    const readable = boot !== null && pids !== null && self === String(process.pid);
    parts.push(...(readable ? [boot, pids] : [String(Math.random()), String(process.hrtime.bigint())]));
  }
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
}

/**
 * Start time of a process, in ticks since boot (proc(5), field 22 of stat); null: the process is not visible. ENDED:
 * the process is a zombie, which has ended but was not reaped.
 */
async function startOf(pid: number | 'self'): Promise<number | null> {
  try {
    const fields = fieldsOfStat(await readFile(`/proc/${pid}/stat`, 'utf8'));
    return /[ZX]/.test(fields[0]!) ? ENDED : Number(fields[19]);
  } catch (cause) {
    if (['ENOENT', 'ESRCH'].includes((cause as NodeJS.ErrnoException).code ?? '')) return null;
    throw cause;
  }
}

/** Whether the owner of files in `folder` is still running. `unknown`: this cannot be determined. Never throws. */
export async function standingOf(owner: string, folder: string): Promise<Standing> {
  const mine = await thisOwner();
  if (owner === mine) return 'running';
  const [, where, pid, start] = OWNER.exec(owner)!;
  try {
    if (mine.startsWith(`${where}-`)) return await standingHere(Number(pid), Number(start));
    return await standingByLease(leaseOf(owner, folder));
  } catch {
    return 'unknown';
  }
}

async function standingHere(pid: number, start: number): Promise<Standing> {
  const now = process.platform === 'linux' ? await startOf(pid) : null;
  if (now !== null) return now === start ? 'running' : 'over';
  if (pid === process.pid) return 'over';
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return 'over';
  }
  // If processes of other users are hidden, start times cannot be compared.
  return process.platform === 'linux' ? 'unknown' : 'running';
}

/** Checks the lease file. If it is missing, the owner has ended, because a process removes its lease last. */
async function standingByLease(file: string): Promise<Standing> {
  try {
    await stat(file);
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'ENOENT' ? 'over' : 'unknown';
  }
  try {
    const lock = await locked(file);
    await unlink(file).catch(() => {});
    lock.close();
    return 'over';
  } catch (error) {
    return (error as { errcode?: number }).errcode === SQLITE_BUSY ? 'running' : 'unknown';
  }
}

const leaseOf = (owner: string, folder: string): string => path.join(folder, `.sluice.${owner}.lease`);

/**
 * Acquires a lock that other containers and hosts see, and that ends in any case when the process ends. Node.js offers
 * such locks only in SQLite.
 */
async function locked(file: string): Promise<DatabaseSync> {
  const { DatabaseSync } = await import('node:sqlite');
  const url = pathToFileURL(file);
  url.searchParams.set('mode', 'rw');
  const lock = new DatabaseSync(url, { timeout: 0 });
  try {
    lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock.close();
    throw error;
  }
}

/** The lease of a folder. `turn` serializes acquiring and releasing. */
interface Lease {
  holders: number;
  lock: DatabaseSync | null;
  turn: Promise<void>;
}

const leases = new Map<string, Lease>();

/**
 * Acquires the lease of this process in a folder. Must be called before temporary files are created. The lease is
 * reference-counted.
 * @returns a function that releases the lease; idempotent
 * ¶ @throws a file-system error
 */
export async function holdLease(folder: string): Promise<() => Promise<void>> {
  const lease = leases.get(folder) ?? { holders: 0, lock: null, turn: Promise.resolve() };
  leases.set(folder, lease);
  await inTurn(lease, async () => {
    if (lease.holders === 0) lease.lock = await takeLease(folder);
    lease.holders++;
  });
  let held = true;
  return () =>
    inTurn(lease, async () => {
      if (!held) return;
      held = false;
      if (--lease.holders > 0) return;
      await unlink(leaseOf(await thisOwner(), folder)).catch(() => {});
      lease.lock?.close();
      lease.lock = null;
    });
}

function inTurn(lease: Lease, work: () => Promise<void>): Promise<void> {
  const done = lease.turn.then(work);
  lease.turn = done.catch(() => {});
  return done;
}

/**
 * Creates and locks the lease file. null: the file system has no locks, so other processes cannot detect whether this
 * process runs.
 */
async function takeLease(folder: string): Promise<DatabaseSync | null> {
  const file = leaseOf(await thisOwner(), folder);
  for (;;) {
    const handle = await open(file, 'a', 0o666);
    const { ino } = await handle.stat();
    // The handle is closed before locking, because closing any handle of a file releases all locks of the process on
    // this file.
    await handle.close();
    const lock = await locked(file).catch(() => null);
    // If another process removed the file before it was locked, the loop tries again.
    if ((await stat(file).catch(() => null))?.ino === ino) return lock;
    lock?.close();
  }
}

/** Removes the leases of ended processes. `entries`: names of the files in the folder. */
export async function clearLeases(folder: string, entries: readonly string[]): Promise<void> {
  for (const entry of entries) {
    const owner = LEASE.exec(entry)?.[1];
    if (owner !== undefined && (await standingOf(owner, folder)) === 'over') {
      await unlink(path.join(folder, entry)).catch(() => {});
    }
  }
}
