// The audit log as it is written: records are chained when they happen, and appended in batches by one writer.
import { createHash } from 'node:crypto';
import { type FileHandle, open, readdir, rename } from 'node:fs/promises';
import path from 'node:path';
import { monotonicMs, startInterval, stopTimer, type Timer } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { takeFileLock } from '../core/file-lock.ts';
import { assertUsable } from '../core/file-system.ts';
import { VERSION } from '../core/version.ts';
import {
  type AuditFields,
  type AuditKind,
  CHAIN_START,
  type ChainEnd,
  readRecord,
  sealRecord,
} from './audit-record.ts';

// The files of the log: the current file, its predecessors, and where the chain ends in them.

/** Longer than any record; what a killed server leaves behind its last whole one is less. */
const TAIL_BYTES = 1024 * 1024;
/** A server that is stopping has so long to let go. */
const LOCK_WAIT_MS = 5000;
const NEWLINE = 10;

/** Where a file ends. */
interface FileEnd {
  end: ChainEnd;
  bytes: number;
  /** The last line has no end. */
  wantsNewline: boolean;
  /** The bytes after the last complete record and its line end; null: none. */
  torn: { bytes: number; sha256: string } | null;
}

/** The name a file gets that is full: `audit.000000012345.ndjson` ends with record 12345. */
export function fullName(file: string, seq: number): string {
  const { dir, name, ext } = path.parse(file);
  return path.join(dir, `${name}.${String(seq).padStart(12, '0')}${ext}`);
}

/** The end of the chain when a server opens its log. @throws SluiceError audit_broken */
export async function findEnd(file: string): Promise<FileEnd> {
  const before = await newestFull(file);
  const end = before === null ? CHAIN_START : (await endOf(before, CHAIN_START)).end;
  return endOf(file, end);
}

async function newestFull(file: string): Promise<string | null> {
  const { dir, name, ext } = path.parse(file);
  const full = (await readdir(dir)).filter((f) => f.startsWith(`${name}.`) && f.endsWith(ext) && f !== name + ext);
  const numbered = full.filter((f) => /^\d{12}$/.test(f.slice(name.length + 1, f.length - ext.length)));
  const newest = numbered.sort().at(-1);
  return newest === undefined ? null : path.join(dir, newest);
}

/** `before`: where the chain ends if the file holds no record. */
async function endOf(file: string, before: ChainEnd): Promise<FileEnd> {
  let handle: FileHandle;
  try {
    handle = await open(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      return { end: before, bytes: 0, wantsNewline: false, torn: null };
    throw error;
  }
  try {
    const { size } = await handle.stat();
    const from = Math.max(0, size - TAIL_BYTES);
    const tail = Buffer.alloc(size - from);
    await handle.read(tail, 0, tail.length, from);
    const found = lastRecord(tail);
    if (!found && from > 0) {
      throw new SluiceError('audit_broken', `the last ${TAIL_BYTES} bytes of ${file} are not records`);
    }
    const rest = tail.subarray(found?.after ?? 0);
    const wantsNewline = rest.length > 0 && rest.at(-1) !== NEWLINE;
    // Of the last record nothing but its end may be missing.
    const whole = wantsNewline ? readRecord(rest) : null;
    const torn = rest.length === 0 || whole ? null : tornOf(rest, wantsNewline);
    const last = whole ? { seq: whole.seq, sum: whole.sum } : found?.end;
    return { end: last ?? before, bytes: size, wantsNewline, torn };
  } finally {
    await handle.close();
  }
}

/** The last whole line that is a record, and where the byte behind it is. */
function lastRecord(tail: Buffer): { end: ChainEnd; after: number } | null {
  for (let stop = tail.lastIndexOf(NEWLINE); stop >= 0; ) {
    const start = stop === 0 ? 0 : tail.lastIndexOf(NEWLINE, stop - 1) + 1;
    const record = readRecord(tail.subarray(start, stop));
    if (record) return { end: { seq: record.seq, sum: record.sum }, after: stop + 1 };
    stop = start - 1;
  }
  return null;
}

function tornOf(rest: Buffer, wantsNewline: boolean): FileEnd['torn'] {
  const sum = createHash('sha256').update(rest);
  if (wantsNewline) sum.update('\n');
  return { bytes: rest.length + (wantsNewline ? 1 : 0), sha256: sum.digest('hex') };
}

/** Takes the log for this process; gives what lets go of it. @throws SluiceError folder_in_use | folder_unusable */
async function lockLog(file: string): Promise<() => void> {
  let unlock: (() => void) | null;
  try {
    unlock = await takeFileLock(`${file}.lock`, LOCK_WAIT_MS, () => {}, true);
  } catch (cause) {
    throw new SluiceError('folder_unusable', `audit.file: ${file} cannot be locked`, { cause });
  }
  if (unlock) return unlock;
  throw new SluiceError('folder_in_use', `audit.file: another server is writing ${file}`);
}

/** What may wait for the disk. Beyond, records are counted as lost; half of it, and the log is not available. */
const MOST_PENDING_BYTES = 8 * 1024 * 1024;
const RETRY_MS = 1_000;
const SYNC_MS = 1_000;

export interface AuditLogOptions {
  file: string;
  /** When records are synced to disk: with each batch, once a second, or when the system decides. */
  sync: 'batch' | 'second' | 'none';
  /** A file that has reached this gets another name, and the next one is begun. */
  maxBytes: number;
  /** Hears of records that are written, lost, and of the disk that fails and comes back. */
  onWritten?: (records: number) => void;
  onLost?: () => void;
  onFailed?: (error: unknown) => void;
  onRestored?: () => void;
}

/** A batch, or the place where the next file begins. */
type Pending = { line: Buffer } | { fullUpTo: number };

/**
 * Modes: open (records are written soon after they happen) ⇄ failed (they wait, and are retried every second from the
 * byte where the disk stopped) → closed. A file only grows: a partial write is continued byte by byte.
 */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #unlock: () => void;
  #handle: FileHandle;
  #end: ChainEnd;
  /** Bytes of the file, those that wait included. */
  #bytes: number;
  readonly #pending: Pending[] = [];
  #pendingBytes = 0;
  /** Bytes of the first pending line that are written. */
  #written = 0;
  #lost = 0;
  #failed = false;
  #closed = false;
  #pumping: Promise<void> | null = null;
  #unsynced = false;
  #syncedAt = monotonicMs();
  readonly #timer: Timer;

  private constructor(options: AuditLogOptions, unlock: () => void, handle: FileHandle, end: ChainEnd, bytes: number) {
    this.#options = options;
    this.#unlock = unlock;
    this.#handle = handle;
    this.#end = end;
    this.#bytes = bytes;
    this.#timer = startInterval(() => this.#tick(), Math.min(RETRY_MS, SYNC_MS));
    this.#timer.unref();
  }

  /** @throws SluiceError folder_unusable | folder_in_use | audit_broken */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const file = path.resolve(options.file);
    await assertUsable('audit.file', path.dirname(file));
    const unlock = await lockLog(file);
    try {
      const { end, bytes, wantsNewline, torn } = await findEnd(file);
      const handle = await open(file, 'a', 0o600);
      const log = new AuditLog({ ...options, file }, unlock, handle, end, bytes);
      if (bytes === 0) log.append('head', { version: VERSION });
      if (wantsNewline) log.#put({ line: Buffer.from('\n') });
      if (torn) {
        log.append('recovered', { torn_bytes: torn.bytes, torn_sha256: torn.sha256, version: VERSION });
      } else if (bytes > 0) log.append('opened', { version: VERSION });
      await log.flushed();
      return log;
    } catch (error) {
      unlock();
      throw error;
    }
  }

  /** false while the disk accepts no writes: services that must record everything refuse requests meanwhile. */
  get available(): boolean {
    return !this.#failed && !this.#closed && this.#pendingBytes < MOST_PENDING_BYTES / 2;
  }

  /** The last record: a copy of it elsewhere shows whether the log was cut off before it. */
  get end(): ChainEnd {
    return this.#end;
  }

  /** Adds a record. Never throws and never waits. */
  append(kind: AuditKind, fields: AuditFields): void {
    if (this.#closed) return;
    if (this.#pendingBytes >= MOST_PENDING_BYTES) {
      this.#lost++;
      this.#options.onLost?.();
      return;
    }
    if (this.#bytes >= this.#options.maxBytes) {
      this.#put({ fullUpTo: this.#end.seq });
      this.#bytes = 0;
      this.#seal('head', { version: VERSION });
    }
    if (this.#lost > 0) {
      const records = this.#lost;
      this.#lost = 0;
      this.#seal('lost', { records });
    }
    this.#seal(kind, fields);
    this.#start();
  }

  /** Resolves when everything so far is in the file, or the disk has failed to take it. */
  async flushed(): Promise<void> {
    this.#start();
    while (this.#pumping) await this.#pumping;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.append('closed', {});
    this.#closed = true;
    stopTimer(this.#timer);
    await this.flushed();
    await this.#handle.datasync().catch(() => {});
    await this.#handle.close().catch(() => {});
    this.#unlock();
  }

  #seal(kind: AuditKind, fields: AuditFields): void {
    const { line, end } = sealRecord(this.#end, kind, fields);
    this.#end = end;
    this.#put({ line });
  }

  #put(item: Pending): void {
    this.#pending.push(item);
    if (!('line' in item)) return;
    this.#pendingBytes += item.line.length;
    this.#bytes += item.line.length;
  }

  #tick(): void {
    if (this.#failed || this.#unsynced) this.#start();
  }

  #start(): void {
    this.#pumping ??= this.#pump().finally(() => {
      this.#pumping = null;
      // Records that came while the disk was flushed; after a failure the next tick tries again.
      if (this.#pending.length > 0 && !this.#failed) this.#start();
    });
  }

  async #pump(): Promise<void> {
    // What happens in one turn of the event loop is written together.
    await new Promise((resolve) => setImmediate(resolve));
    try {
      while (this.#pending.length > 0) await this.#next();
      const { sync } = this.#options;
      if (sync === 'batch' || (sync === 'second' && monotonicMs() - this.#syncedAt >= SYNC_MS)) await this.#toDisk();
      if (!this.#failed) return;
      this.#failed = false;
      this.#options.onRestored?.();
    } catch (error) {
      if (!this.#failed) this.#options.onFailed?.(error);
      this.#failed = true;
    }
  }

  /** Writes lines up to the end of a file, or begins the next one. */
  async #next(): Promise<void> {
    const [first] = this.#pending;
    if ('fullUpTo' in first!) {
      await this.#beginNext(first.fullUpTo);
      this.#pending.shift();
      return;
    }
    const stop = this.#pending.findIndex((item) => 'fullUpTo' in item);
    const lines = this.#pending.slice(0, stop < 0 ? undefined : stop).map((item) => (item as { line: Buffer }).line);
    const batch = Buffer.concat(lines).subarray(this.#written);
    for (let at = 0; at < batch.length; ) {
      const { bytesWritten } = await this.#handle.write(batch, at);
      at += bytesWritten;
      this.#unsynced = true;
      this.#done(bytesWritten);
    }
  }

  /** Removes the written bytes from the waiting ones. */
  #done(bytes: number): void {
    this.#written += bytes;
    let records = 0;
    for (let first = this.#pending[0]; first && 'line' in first && this.#written >= first.line.length; ) {
      this.#written -= first.line.length;
      this.#pendingBytes -= first.line.length;
      this.#pending.shift();
      records++;
      first = this.#pending[0];
    }
    if (records > 0) this.#options.onWritten?.(records);
  }

  async #beginNext(seq: number): Promise<void> {
    const { file } = this.#options;
    await this.#toDisk();
    await rename(file, fullName(file, seq)).catch((error: NodeJS.ErrnoException) => {
      // An attempt before this one had come so far.
      if (error.code !== 'ENOENT') throw error;
    });
    const next = await open(file, 'a', 0o600);
    await this.#handle.close();
    this.#handle = next;
    await syncFolder(path.dirname(file));
  }

  async #toDisk(): Promise<void> {
    if (!this.#unsynced || this.#options.sync === 'none') return;
    await this.#handle.datasync();
    this.#unsynced = false;
    this.#syncedAt = monotonicMs();
  }
}

/** Names of files are in their folder; systems that cannot bring one to the disk do without. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => null);
  await handle?.sync().catch(() => {});
  await handle?.close();
}
