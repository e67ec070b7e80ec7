// The owner of a temporary file: its name identifies the process that wrote it, and a lease file next to it is locked
// as long as that process runs.
import { createHash } from 'node:crypto';
import { open, readFile, readlink, stat, unlink } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { fieldsOfStat } from '../../core/processes.ts';

/** `namespace-pid-start`: the kernel and PID namespace in which `pid` counts, and when that process began. */
const OWNER = /^([0-9a-f]{12})-(\d+)-(\d+)$/;
const LEASE = /^\.sluice\.([0-9a-f]{12}-\d+-\d+)\.lease$/;
const SQLITE_BUSY = 5;
const ENDED = -1;

/** `unknown`: of another machine or container, on a file system without visible locks. */
export type Standing = 'running' | 'over' | 'unknown';

let own: Promise<string> | null = null;

/** The owner in the names of this process's files. */
export function thisOwner(): Promise<string> {
  own ??= (async () => `${await namespace()}-${process.pid}-${(await startOf('self').catch(() => null)) ?? 0}`)();
  return own;
}

/** What pids are compared in: they mean nothing in another container, on another machine, or before the last start of this one. */
async function namespace(): Promise<string> {
  const parts = [hostname(), process.platform];
  if (process.platform === 'linux') {
    const [boot, pids, self] = await Promise.all([
      readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => null),
      readlink('/proc/self/ns/pid').catch(() => null),
      readlink('/proc/self').catch(() => null),
    ]);
    // Where /proc is that of other processes, nothing can be looked up in it: only the lock counts.
    const readable = boot !== null && pids !== null && self === String(process.pid);
    parts.push(...(readable ? [boot, pids] : [String(Math.random()), String(process.hrtime.bigint())]));
  }
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 12);
}

/**
 * When a process began, in ticks since the machine did (proc(5), field 22 of stat); null: it is not in sight. One that has ended and
 * only waits to be asked for how has no beginning any more.
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

/** Whether the owner of files in `folder` still runs. Never throws: what cannot be found out is unknown. */
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
  // Where processes of others are hidden, its age cannot be seen.
  return process.platform === 'linux' ? 'unknown' : 'running';
}

/** An owner releases its lease last, so one without a lease has ended. */
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

/** A lock that ends with its process, however that ends, and that other containers and hosts see; Node has it in SQLite only. */
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

/** Holders of the lease of a folder; taking and giving up come one after the other. */
interface Lease {
  holders: number;
  lock: DatabaseSync | null;
  turn: Promise<void>;
}

const leases = new Map<string, Lease>();

/**
 * Holds the lease of this process in a folder until it is given up as often as it was asked for. Before a temporary file is made.
 * @returns gives it up; idempotent
 * @throws Error of the file system
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

/** null: the file system has no locks, so other processes cannot detect whether it runs. */
async function takeLease(folder: string): Promise<DatabaseSync | null> {
  const file = leaseOf(await thisOwner(), folder);
  for (;;) {
    const handle = await open(file, 'a', 0o666);
    const { ino } = await handle.stat();
    // Closed before the lock is taken: closing any handle of a file drops the locks of its process.
    await handle.close();
    const lock = await locked(file).catch(() => null);
    // Another process may have removed it before it was locked.
    if ((await stat(file).catch(() => null))?.ino === ino) return lock;
    lock?.close();
  }
}

/** Removes leases of ended processes. `entries`: of the folder. */
export async function clearLeases(folder: string, entries: readonly string[]): Promise<void> {
  for (const entry of entries) {
    const owner = LEASE.exec(entry)?.[1];
    if (owner !== undefined && (await standingOf(owner, folder)) === 'over') {
      await unlink(path.join(folder, entry)).catch(() => {});
    }
  }
}
