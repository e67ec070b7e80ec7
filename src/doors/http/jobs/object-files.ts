// Stores the bytes of jobs in object storage that all servers share. Objects: PREFIX/ID/body, PREFIX/ID/EPOCH/result
// and, for an upload in parts, PREFIX/ID/left-EPOCH-OFFSET.
import { Readable } from 'node:stream';
import { asSluiceError, SluiceError } from '../../../core/errors.ts';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import { objectSize, openObject } from '../../../storage/object-source.ts';
import { completeObject, discardParts, ObjectTail, partNumbersOf } from '../../../storage/object-tail.ts';
import { ObjectUpload, removeObject } from '../../../storage/object-upload.ts';
import { objectAddress, storeOf } from '../../../storage/providers.ts';
import type { ByteSpan, JobFiles, KnownJobs, ResumableFiles, TailPlace, UploadTail } from './job-files.ts';
import type { HeldJob } from './job-store.ts';
import type { Upload } from './upload-store.ts';

/** Number of ids per query. */
const AT_ONCE = 500;

export class ObjectFiles implements JobFiles, ResumableFiles {
  readonly #prefix: string;

  /** `prefix`: an address such as s3://bucket/prefix. @throws SluiceError usage */
  constructor(prefix: string) {
    this.#prefix = prefix.endsWith('/') ? prefix.slice(0, -1) : prefix;
    objectAddress(`${this.#prefix}/x`);
  }

  async newUpload(id: string): Promise<ByteSink> {
    return objectSink(this.uploadName(id));
  }

  async beginUpload(): Promise<void> {
    // An empty upload needs no object, because the table has a row for it.
  }

  usesOf(bytes: number, length: number): number {
    return partNumbersOf(bytes, length);
  }

  async openTail({ id, epoch }: HeldJob, { tail: state, length, left }: TailPlace): Promise<UploadTail> {
    const leftName = (offset: number) => `${this.#prefix}/${id}/left-${epoch}-${offset}`;
    const options = { name: this.uploadName(id), length, state, skip: left, leftName };
    const tail = await reached(() => ObjectTail.open(options)).catch((error: unknown) => {
      if ((error as SluiceError).code !== 'input_not_found') throw error;
      throw new SluiceError('upload_not_found', 'stored bytes of the upload are missing: start the upload again', {
        cause: error,
      });
    });
    return {
      write: (bytes) => reached(() => tail.write(bytes)),
      sync: () => reached(() => tail.sync()),
      told: () => tail.told(),
      close: () => tail.close(),
    };
  }

  async completeUpload({ job, tail }: Upload): Promise<void> {
    await reached(() => completeObject(this.uploadName(job.id), { length: job.uploadBytes, state: tail }));
  }

  readBack(): null {
    return null;
  }

  async discardUpload({ job, tail }: Upload): Promise<void> {
    await discardParts(this.uploadName(job.id), tail);
    await this.removeUpload(job.id);
  }

  uploadName(id: string): string {
    return `${this.#prefix}/${id}/body`;
  }

  async newResult(held: HeldJob): Promise<ByteSink> {
    return objectSink(this.#result(held));
  }

  async readResult(held: HeldJob, span: ByteSpan | null): Promise<Readable> {
    const range = span && [{ from: span.start, to: span.end + 1 }];
    const source = await reached(() => openObject(this.#result(held), range)).catch((error: unknown) => {
      if ((error as SluiceError).code !== 'input_not_found') throw error;
      throw new SluiceError('job_not_found', 'the result of the job was removed', { cause: error });
    });
    const bytes = async function* () {
      try {
        // Chunks are copied: a chunk is valid only until the next chunk is requested, and a stream reads ahead.
        for await (const chunk of source.chunks) yield Buffer.from(chunk);
      } finally {
        await source.close();
      }
    };
    return Readable.from(bytes(), { objectMode: false });
  }

  async removeUpload(id: string): Promise<void> {
    await removeObject(this.uploadName(id)).catch(() => {});
  }

  async removeResult(held: HeldJob): Promise<void> {
    await removeObject(this.#result(held)).catch(() => {});
  }

  async reach(): Promise<void> {
    await reached(() => objectSize(`${this.#prefix}/none`));
  }

  /**
   * Objects are listed before the table is queried. An object that the table does not know then will never belong to a
   * job: an upload is reserved before its first byte is written, and the name of a result contains its epoch.
   */
  async sweep(known: KnownJobs): Promise<void> {
    const { bucket } = objectAddress(`${this.#prefix}/x`);
    const { store, key } = await storeOf(`${this.#prefix}/x`);
    const folder = key.slice(0, -1);
    const { objects } = await reached(() => store.list(folder));
    const found = objects.map((o) => ({ ...parsedKey(o.key.slice(folder.length)), key: o.key }));
    const ids = [...new Set(found.map((f) => f.id).filter((id) => id !== null))];
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      const some = new Set(ids.slice(at, at + AT_ONCE));
      const jobs = await known([...some]);
      for (const { id, epoch, key: name } of found) {
        if (id === null || !some.has(id) || isNeeded(jobs.get(id), epoch)) continue;
        await removeObject(`s3://${bucket}/${name}`).catch(() => {});
      }
    }
  }

  #result({ id, epoch }: HeldJob): string {
    return `${this.#prefix}/${id}/${epoch}/result`;
  }
}

/** `id` is null for objects that do not belong to jobs. `epoch` is null for an upload, whether whole or in parts. */
function parsedKey(key: string): { id: string | null; epoch: number | null } {
  const [, id = null, epoch] = /^([0-9a-f-]{36})\/(?:body|left-[\d-]{1,40}|(\d{1,15})\/result)$/.exec(key) ?? [];
  return { id, epoch: epoch === undefined ? null : Number(epoch) };
}

function isNeeded(job: { epoch: number; state: string | null } | undefined, epoch: number | null): boolean {
  if (!job) return false;
  if (epoch === null) return job.state === null || job.state === 'queued' || job.state === 'running';
  return epoch === job.epoch && (job.state === 'done' || job.state === 'running');
}

/** A sink whose object becomes visible on commit. */
function objectSink(name: string): ByteSink {
  const upload = new ObjectUpload(name);
  return {
    revocable: true,
    get bytesWritten() {
      return upload.bytesWritten;
    },
    write: (bytes) => reached(() => upload.write(bytes)),
    commit: () =>
      reached(async () => {
        await upload.end();
        await upload.publish();
      }),
    abort: () => upload.abort(),
  };
}

/** Reports storage errors without the address of the storage, which clients must not see. */
async function reached<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const e = asSluiceError(error, 'storage_unavailable');
    if (e.code !== 'storage_unavailable') throw e;
    throw new SluiceError('jobs_unavailable', 'the files of jobs are unreachable', { cause: e });
  }
}
