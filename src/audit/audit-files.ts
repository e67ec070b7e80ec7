// The files of an audit log: which one is written, which ones it had before, where the chain ends in them, and who may write.
import { createHash } from 'node:crypto';
import { type FileHandle, open, readdir } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../core/errors.ts';
import { takeFileLock } from '../core/file-lock.ts';
import { CHAIN_START, type ChainEnd, readRecord } from './audit-record.ts';

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
  /** What is behind the last whole record, with the line end that it is given; null: nothing. */
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
      throw new SluiceError('audit_broken', `${file} ends with ${TAIL_BYTES} bytes that are no records`);
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
export async function lockLog(file: string): Promise<() => void> {
  let unlock: (() => void) | null;
  try {
    unlock = await takeFileLock(`${file}.lock`, LOCK_WAIT_MS, () => {}, true);
  } catch (cause) {
    throw new SluiceError('folder_unusable', `audit.file: ${file} cannot be locked`, { cause });
  }
  if (unlock) return unlock;
  throw new SluiceError('folder_in_use', `audit.file: another server writes ${file}`);
}
