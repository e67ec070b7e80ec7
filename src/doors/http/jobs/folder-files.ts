// Stores the bytes of jobs in a local folder of a single server.
import { access, open, readdir, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { storedBytes } from '../../../connectors/stored-bytes.ts';
import { epochMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { PRIVATE_FILE } from '../../../core/file-system.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import { syncFolder } from '../../../io/sink/commit-journal.ts';
import { openFileSink } from '../../../io/sink/file-sink.ts';
import { writeAll } from '../../../io/sink/file-target.ts';
import type { ByteSpan, JobFiles, KnownJobs, ResumableFiles, TailPlace, UploadTail } from './job-files.ts';
import type { HeldJob } from './job-store.ts';
import type { Upload } from './upload-store.ts';

export class FolderFiles implements JobFiles, ResumableFiles {
  readonly #folder: string;
  readonly #strangerMs: number;

  /** `strangerMs`: unknown files are removed if nothing was written to them for this many ms. */
  constructor(folder: string, strangerMs: number) {
    this.#folder = folder;
    this.#strangerMs = strangerMs;
  }

  async newUpload(id: string): Promise<ByteSink> {
    const file = this.uploadName(id);
    const handle = await open(file, 'wx', PRIVATE_FILE);
    let bytesWritten = 0;
    let closed = false;
    const close = async () => {
      if (closed) return;
      closed = true;
      await handle.close();
    };
    return {
      revocable: true,
      get bytesWritten() {
        return bytesWritten;
      },
      write: async (bytes) => {
        await writeAll(handle, bytes, null);
        bytesWritten += bytes.length;
      },
      commit: async () => {
        await handle.sync();
        // The entry in the folder must survive a power failure, too, because the table refers to the file.
        await syncFolder(this.#folder);
        await close();
      },
      abort: async () => {
        await close().catch(() => {});
        await unlink(file).catch(() => {});
      },
    };
  }

  async beginUpload(id: string): Promise<void> {
    const upload = await this.newUpload(id);
    await upload.commit();
  }

  usesOf(): number {
    return 0;
  }

  async openTail({ id }: HeldJob, { offset }: TailPlace): Promise<UploadTail> {
    const handle = await open(this.uploadName(id), 'r+').catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'ENOENT'
        ? new SluiceError('upload_not_found', 'the files of the upload were removed', { cause })
        : cause;
    });
    try {
      if ((await handle.stat()).size < offset)
        throw new SluiceError('upload_not_found', 'stored bytes of the upload are missing: start the upload again');
      await handle.truncate(offset);
    } catch (error) {
      await handle.close();
      throw error;
    }
    let at = offset;
    return {
      write: async (bytes) => {
        await writeAll(handle, bytes, at);
        at += bytes.length;
      },
      sync: async () => {
        await handle.sync();
        return null;
      },
      told: async () => {},
      close: () => handle.close(),
    };
  }

  async completeUpload(): Promise<void> {
    // Nothing to do: the file has its final name from the start.
  }

  readBack(id: string): AsyncIterable<Uint8Array> {
    return storedBytes(this.uploadName(id));
  }

  discardUpload({ job }: Upload): Promise<void> {
    return this.removeUpload(job.id);
  }

  uploadName(id: string): string {
    return path.join(this.#folder, `${id}.upload`);
  }

  newResult({ id }: HeldJob): Promise<ByteSink> {
    return openFileSink(this.#result(id), PRIVATE_FILE);
  }

  async readResult({ id }: HeldJob, span: ByteSpan | null): Promise<Readable> {
    const handle = await open(this.#result(id)).catch((cause: NodeJS.ErrnoException) => {
      throw cause.code === 'ENOENT' ? new SluiceError('job_not_found', 'the result was removed', { cause }) : cause;
    });
    return handle.createReadStream(span ?? {});
  }

  async removeUpload(id: string): Promise<void> {
    await unlink(this.uploadName(id)).catch(() => {});
  }

  async removeResult({ id }: HeldJob): Promise<void> {
    await unlink(this.#result(id)).catch(() => {});
  }

  async reach(): Promise<void> {
    await access(this.#folder);
  }

  async sweep(known: KnownJobs): Promise<void> {
    const files = new Map<string, string>();
    for (const name of await readdir(this.#folder)) {
      const id = /^\.?([0-9a-f-]{36})\.(upload|result)/.exec(name)?.[1];
      if (id !== undefined) files.set(name, id);
    }
    const jobs = await known([...new Set(files.values())]);
    for (const [name, id] of files) {
      if (jobs.has(id)) continue;
      const file = path.join(this.#folder, name);
      const info = await stat(file).catch(() => null);
      if (info && epochMs() - info.mtimeMs > this.#strangerMs) await rm(file, { force: true });
    }
  }

  /** The name needs no epoch: only one server writes to the folder, and it replaces the files of earlier epochs. */
  #result(id: string): string {
    return path.join(this.#folder, `${id}.result`);
  }
}
