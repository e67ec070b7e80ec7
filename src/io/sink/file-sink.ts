// Writes a file under a temporary name and renames it when it is whole: an incomplete file never has the final name.
import type { Stats } from 'node:fs';
import { type FileHandle, open, readdir, realpath, rename, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { SluiceError } from '../../core/errors.ts';
import type { ByteSink } from './byte-sink.ts';

/**
 * Opens `target` for writing. A path that is there and is no regular file (a pipe, /dev/null) is written to directly.
 * @throws SluiceError output_unwritable | output_exists_as_folder
 */
export async function openFileSink(file: string): Promise<ByteSink> {
  const { target, present, direct } = await targetOf(file);
  if (present?.isDirectory()) throw new SluiceError('output_exists_as_folder', `${target} is a folder`);
  const folder = path.dirname(path.resolve(target));
  const temporary = direct ? target : path.join(folder, `.${path.basename(target)}.${process.pid}.${token()}.partial`);
  if (!direct) await removeLeftOvers(folder, path.basename(target));
  let handle: FileHandle;
  try {
    handle = await open(temporary, direct ? 'w' : 'wx', present ? present.mode & 0o777 : 0o666);
  } catch (cause) {
    throw new SluiceError('output_unwritable', `${target} cannot be created: ${codeOf(cause)}`, { cause });
  }
  let written = 0;
  let ended = false;

  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (cause) {
      throw writeError(target, cause);
    }
  };

  const sink: ByteSink = {
    revocable: !direct,
    get bytesWritten() {
      return written;
    },
    write: (bytes) =>
      attempt(async () => {
        for (let at = 0; at < bytes.length; ) {
          const { bytesWritten } = await handle.write(bytes, at, bytes.length - at, direct ? null : written);
          at += bytesWritten;
          written += bytesWritten;
        }
      }),
    ...(direct
      ? {}
      : {
          rewind: (to: number) =>
            attempt(async () => {
              await handle.truncate(to);
              written = to;
            }),
        }),
    commit: () =>
      attempt(async () => {
        if (!direct) await handle.sync();
        await handle.close();
        ended = true;
        if (direct) return;
        try {
          await rename(temporary, target);
        } catch (cause) {
          await unlink(temporary).catch(() => {});
          throw cause;
        }
        await syncFolder(folder);
      }),
    abort: async () => {
      if (ended) return;
      ended = true;
      await handle.close().catch(() => {});
      if (!direct) await unlink(temporary).catch(() => {});
    },
  };
  return sink;
}

/** A whole file at once. @throws SluiceError output_* */
export async function putFile(file: string, text: string): Promise<void> {
  const sink = await openFileSink(file);
  try {
    await sink.write(Buffer.from(text));
    await sink.commit();
  } catch (error) {
    await sink.abort();
    throw error;
  }
}

/** Whether output to this path stays invisible until it is committed; false for pipes and devices. */
export const isRevocable = async (file: string): Promise<boolean> => !(await targetOf(file)).direct;

/** Of a link, the target is replaced, never the link itself; paths in /dev and /proc are written to directly. */
async function targetOf(file: string): Promise<{ target: string; present: Stats | null; direct: boolean }> {
  const device = /^\/(dev|proc)\//.test(path.resolve(file));
  const target = device ? file : await realpath(file).catch(() => file);
  const present = await stat(target).catch(() => null);
  return { target, present, direct: present !== null && (device || !present.isFile()) };
}

/** Removes temporary files of this target left behind by writers that were killed. */
async function removeLeftOvers(folder: string, name: string): Promise<void> {
  const entries = await readdir(folder).catch(() => []);
  for (const entry of entries) {
    if (!entry.startsWith(`.${name}.`) || !entry.endsWith('.partial')) continue;
    const pid = Number(entry.slice(name.length + 2).split('.')[0]);
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid)) await unlink(path.join(folder, entry)).catch(() => {});
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH';
  }
}

/** Syncs the folder, so that the new name survives a power cut. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Writes to a stream (standard output) with backpressure. What was written cannot be revoked. */
export function openStreamSink(stream: NodeJS.WritableStream, name: string): ByteSink {
  let written = 0;
  let failure: unknown = null;
  stream.on('error', (error) => {
    failure = error;
  });
  return {
    revocable: false,
    get bytesWritten() {
      return written;
    },
    write: (bytes) =>
      new Promise((resolve, reject) => {
        if (failure) reject(writeError(name, failure));
        else {
          // A stream may keep the chunk: the callback says when it does not any more.
          stream.write(bytes as Buffer, (error) => (error ? reject(writeError(name, error)) : resolve()));
          written += bytes.length;
        }
      }),
    commit: async () => {},
    abort: async () => {},
  };
}

function writeError(target: string, cause: unknown): SluiceError {
  if (cause instanceof SluiceError) return cause;
  const code = codeOf(cause);
  if (code === 'ENOSPC' || code === 'EDQUOT' || code === 'EFBIG') {
    return new SluiceError('output_full', `no space left for ${target} (${code})`, { cause });
  }
  if (code === 'EPIPE') return new SluiceError('output_closed', `the reader of ${target} went away`, { cause });
  return new SluiceError('output_failed', `writing ${target} failed: ${code}`, { cause });
}

const codeOf = (cause: unknown): string =>
  (cause as NodeJS.ErrnoException).code ?? (cause instanceof Error ? cause.message : String(cause));
const token = (): string => Math.random().toString(36).slice(2, 8);
