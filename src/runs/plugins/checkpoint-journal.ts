// The checkpoint journal: lines of JSON. The checksum in each line covers that line and the previous checksum. The
// first torn or damaged line ends the journal; readers get only the lines before it.
import { createHash } from 'node:crypto';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import { SluiceError } from '../../core/errors.ts';
import { writeAll } from '../../io/sink/file-target.ts';

const SUM = /^[0-9a-f]{16} /;
const SUM_LENGTH = 16;
const LF = 0x0a;

const sumOf = (before: string, text: string | Uint8Array): string =>
  createHash('sha256').update(before).update(text).digest('hex').slice(0, SUM_LENGTH);

/** The error for a file that was changed or removed since the interrupted run. */
export const changedMeanwhile = (what: string): SluiceError =>
  new SluiceError('checkpoint_mismatch', `cannot resume: ${what} changed since the interrupted run (use --restart)`);

export interface JournalRead {
  lines: readonly unknown[];
  /** Offset in bytes at which the last complete line ends, and the checksum of that line. */
  end: number;
  sum: string;
}

/** Returns the complete lines of a journal; null if the file is missing or owned by another user. */
export async function readCheckpoints(file: string): Promise<JournalRead | null> {
  let bytes: Buffer;
  try {
    // Reject journals of other users. Other users may be able to write to the folder, and the journal decides where
    // writing resumes.
    if (process.getuid !== undefined && (await stat(file)).uid !== process.getuid()) return null;
    bytes = await readFile(file);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw cause;
  }
  const lines: unknown[] = [];
  let [end, sum] = [0, ''];
  for (let next = bytes.indexOf(LF); next >= 0; next = bytes.indexOf(LF, end)) {
    const line = bytes.subarray(end, next);
    const json = line.subarray(SUM_LENGTH + 1);
    const found = line.subarray(0, SUM_LENGTH).toString('latin1');
    if (!SUM.test(line.subarray(0, SUM_LENGTH + 1).toString('latin1')) || found !== sumOf(sum, json)) break;
    lines.push(JSON.parse(json.toString()));
    sum = found;
    end = next + 1;
  }
  return { lines, end, sum };
}

/** Appends lines to the journal. When the promise resolves, the lines are flushed to the disk. */
export class CheckpointWriter {
  readonly #handle: FileHandle;
  #end: number;
  #sum: string;

  private constructor(handle: FileHandle, { end, sum }: Pick<JournalRead, 'end' | 'sum'>) {
    this.#handle = handle;
    this.#end = end;
    this.#sum = sum;
  }

  /** Appends after the complete lines of an existing journal, or creates a new journal. @throws Error of the file system */
  static async open(file: string, whole: JournalRead | null): Promise<CheckpointWriter> {
    const handle = await open(file, whole === null ? 'wx' : 'r+');
    await handle.truncate(whole?.end ?? 0);
    return new CheckpointWriter(handle, whole ?? { end: 0, sum: '' });
  }

  /** @throws Error of the file system; later appends overwrite the incomplete line */
  async append(...lines: readonly unknown[]): Promise<void> {
    let text = '';
    let sum = this.#sum;
    for (const line of lines) {
      const json = JSON.stringify(line);
      sum = sumOf(sum, json);
      text += `${sum} ${json}\n`;
    }
    const bytes = Buffer.from(text);
    await writeAll(this.#handle, bytes, this.#end);
    await this.#handle.datasync();
    this.#sum = sum;
    this.#end += bytes.length;
  }

  /** Idempotent, never throws. */
  async close(): Promise<void> {
    await this.#handle.close().catch(() => {});
  }
}
