// Writes the audit log. Records are chained when they occur, and a single writer appends them in batches.
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

// The log consists of the current file and full files before it. The end of the chain is the last record.

/** Maximum length in bytes of a record, and of what a killed server may leave after its last complete record. */
const TAIL_BYTES = 1024 * 1024;
/** Maximum wait in ms for a stopping server to release its lock. */
const LOCK_WAIT_MS = 5000;
const NEWLINE = 10;

/** What the end of a file looks like. */
interface FileEnd {
  end: ChainEnd;
  bytes: number;
  /** Whether the line end after the last line is missing. */
  wantsNewline: boolean;
  /** The bytes that follow the last complete record and its line end; null if there are none. */
  torn: { bytes: number; sha256: string } | null;
}

/** The name of a full file: `audit.000000012345.ndjson` ends with record 12345. */
export function fullName(file: string, seq: number): string {
  const { dir, name, ext } = path.parse(file);
  return path.join(dir, `${name}.${String(seq).padStart(12, '0')}${ext}`);
}

/** Finds the end of the chain when a server opens its log. @throws SluiceError audit_broken */
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

/** `before`: end of the chain to return if the file contains no record. */
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
      throw new SluiceError('audit_broken', `the last ${TAIL_BYTES} bytes of ${file} contain no audit record`);
    }
    const rest = tail.subarray(found?.after ?? 0);
    const wantsNewline = rest.length > 0 && rest.at(-1) !== NEWLINE;
    // If the last line is a complete record, it is valid even without its line end.
    const whole = wantsNewline ? readRecord(rest) : null;
    const torn = rest.length === 0 || whole ? null : tornOf(rest, wantsNewline);
    const last = whole ? { seq: whole.seq, sum: whole.sum } : found?.end;
    return { end: last ?? before, bytes: size, wantsNewline, torn };
  } finally {
    await handle.close();
  }
}

/** The last complete line that is a record, and the offset after that line. */
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

/**
 * Locks the log for this process. Returns a function that releases the lock.
 * @throws SluiceError folder_in_use | folder_unusable
 */
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

/**
 * Maximum size in bytes of the records that wait for the disk. Further records are counted as lost. Above half of this
 * size, the log is unavailable.
 */
const MOST_PENDING_BYTES = 8 * 1024 * 1024;
const RETRY_MS = 1_000;
const SYNC_MS = 1_000;

export interface AuditLogOptions {
  file: string;
  /** When records are synced to disk: after each batch, once per second, or when the operating system decides. */
  sync: 'batch' | 'second' | 'none';
  /** When the file reaches this size in bytes, it is renamed and a new file is started. */
  maxBytes: number;
  /** Called when records were written or lost, and when the disk fails or recovers. */
  onWritten?: (records: number) => void;
  onLost?: () => void;
  onFailed?: (error: unknown) => void;
  onRestored?: () => void;
}

/** A record to write, or the point at which the next file starts. */
type Pending = { line: Buffer } | { fullUpTo: number };

/**
 * Files only grow: a partial write is continued with the next byte. States:
 * - open: records are written soon after they occur.
 * - failed: records wait, and writing is tried again every second, from the byte where it stopped. Leads back to open.
 * - closed.
 */
export class AuditLog {
  readonly #options: AuditLogOptions;
  readonly #unlock: () => void;
  #handle: FileHandle;
  #end: ChainEnd;
  /** Size of the file in bytes, including the bytes that wait. */
  #bytes: number;
  readonly #pending: Pending[] = [];
  #pendingBytes = 0;
  /** Number of bytes of the first waiting line that are already written. */
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

  /** False while the disk rejects writes. Services that must record everything reject requests during this time. */
  get available(): boolean {
    return !this.#failed && !this.#closed && this.#pendingBytes < MOST_PENDING_BYTES / 2;
  }

  /** The last record. A copy of this record elsewhere makes it possible to detect a truncation of the log. */
  get end(): ChainEnd {
    return this.#end;
  }

  /** Adds a record without waiting for the disk. Never throws. */
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

  /** Resolves when all records so far are written, or when the disk has failed. */
  async flushed(): Promise<void> {
    this.#start();
    while (this.#pumping) await this.#pumping;
  }

  /** Returns the number of records that could not be written. They are lost, and are reported to `onLost`. */
  async close(): Promise<number> {
    if (this.#closed) return 0;
    this.append('closed', {});
    this.#closed = true;
    stopTimer(this.#timer);
    await this.flushed();
    await this.#handle.datasync().catch(() => {});
    await this.#handle.close().catch(() => {});
    this.#unlock();
    const lost = this.#pending.filter((item) => 'line' in item).length;
    for (let i = 0; i < lost; i++) this.#options.onLost?.();
    return lost;
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
      // Writes records that arrived during the sync. After a failure, the timer tries again instead.
      if (this.#pending.length > 0 && !this.#failed) this.#start();
    });
  }

  async #pump(): Promise<void> {
    // Waits for one turn of the event loop, so that its records are written as one batch.
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

  /** Writes lines until the current file ends, or starts the next file. */
  async #next(): Promise<void> {
    const [first] = this.#pending;
    if ('fullUpTo' in first!) {
      const full = this.#handle;
      await this.#beginNext(first.fullUpTo);
      this.#pending.shift();
      // Only now, because an error of `close` must not lead to another attempt to rename the file.
      await full.close();
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

  /** Removes the bytes that were written from the waiting records. */
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

  /** Renames the full file and opens the next one. The caller closes the handle of the full file. */
  async #beginNext(seq: number): Promise<void> {
    const { file } = this.#options;
    await this.#toDisk();
    await rename(file, fullName(file, seq)).catch((error: NodeJS.ErrnoException) => {
      // An earlier attempt may have already renamed the file.
      if (error.code !== 'ENOENT') throw error;
    });
    this.#handle = await open(file, 'a', 0o600);
    await syncFolder(path.dirname(file));
  }

  async #toDisk(): Promise<void> {
    if (!this.#unsynced || this.#options.sync === 'none') return;
    await this.#handle.datasync();
    this.#unsynced = false;
    this.#syncedAt = monotonicMs();
  }
}

/** Syncs the folder, so that file names survive a power failure. Some systems do not support this. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r').catch(() => null);
  await handle?.sync().catch(() => {});
  await handle?.close();
}
