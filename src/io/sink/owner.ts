// Identifies the owner of a temporary file: the file name has its process, and a lease file is locked while that process runs.
import { createHash } from 'node:crypto';
import { open, readFile, readlink, stat, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fieldsOfStat } from '../../core/processes.ts';

/** `namespace-pid-start`: the kernel and PID namespace of `pid`, the PID, and the start time of the process. */
const OWNER = /^([0-9a-f]{12})-(\d+)-(\d+)$/;
const LEASE = /^\.sluice\.([0-9a-f]{12}-\d+-\d+)\.lease$/;
const SQLITE_BUSY = 5;
const ENDED = -1;

/** `unknown`: the owner is on another machine or in another container, and the file system does not show its locks. */
export type Standing = 'running' | 'over' | 'unknown';

let own: Promise<string> | null = null;

/** The owner string in the names of this process's files. */
export function thisOwner(): Promise<string> {
  own ??= (async () => `${await namespace()}-${process.pid}-${(await startOf('self').catch(() => null)) ?? 0}`)();
  return own;
}

/**
 * Identifies the scope in which PIDs are comparable. They mean nothing in another container, on another machine, or
 * before its last boot.
 */
async function namespace(): Promise<string> {
  const parts = [hostname(), process.platform];
  if (process.platform === 'linux') {
    const [boot, pids, self] = await Promise.all([
      readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => null),
      readlink('/proc/self/ns/pid').catch(() => null),
      readlink('/proc/self').catch(() => null),
    ]);
    // If /proc shows another PID namespace, processes cannot be looked up in it. A random namespace then leaves only
    // the lock.
    const readable = boot !== null && pids !== null && self === String(process.pid);
    parts.push(...(readable ? [boot, pids] : [String(Math.random()), String(process.hrtime.bigint())]));
  }
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
}

/**
 * Start time of a process, in ticks since boot (proc(5), field 22 of stat); null: not visible. ENDED for a zombie,
 * which has ended but was not reaped.
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

/** Whether the owner of files in `folder` is still running. Never throws; undeterminable states are `unknown`. */
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
  // If other users' processes are hidden, the start time cannot be compared.
  return process.platform === 'linux' ? 'unknown' : 'running';
}

/** Checks the lease: an owner without a lease file has ended, because it removes the lease last. */
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
 * Acquires a lock that other containers and hosts see and that ends with its process in any case. Node has such locks
 * only in SQLite.
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

/** The lease of a folder. Acquiring and releasing are serialized through `turn`. */
interface Lease {
  holders: number;
  lock: DatabaseSync | null;
  turn: Promise<void>;
}

const leases = new Map<string, Lease>();

/**
 * Acquires this process's lease in a folder, before temporary files are created. The lease is reference-counted.
 * @returns releases the lease; idempotent
 * @throws a file-system error
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

/** null: the file system has no locks, so other processes cannot detect whether this one runs. */
async function takeLease(folder: string): Promise<DatabaseSync | null> {
  const file = leaseOf(await thisOwner(), folder);
  for (;;) {
    const handle = await open(file, 'a', 0o666);
    const { ino } = await handle.stat();
    // Closed before locking, because closing any handle of a file drops the process's locks on it.
    await handle.close();
    const lock = await locked(file).catch(() => null);
    // Another process may have removed the file before it was locked.
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
