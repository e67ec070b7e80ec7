// The bytes of jobs, wherever they lie: uploads until they are scored, results until their time is up.
import type { Readable } from 'node:stream';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { HeldJob, JobState } from './job-store.ts';

/** A range of bytes, both ends included. */
export interface ByteSpan {
  start: number;
  end: number;
}

/** What a sweep asks of the table. */
export type KnownJobs = (
  ids: readonly string[],
) => Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;

/** The end of a file that grows by parts, perhaps over several starts of a server. */
export interface UploadTail {
  write(bytes: Uint8Array): Promise<void>;
  /** What was written is there for good. */
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** Uploads that come in parts. */
export interface ResumableFiles {
  /** It is there for good, without a byte. */
  beginUpload(id: string): Promise<void>;
  /** For what comes behind `offset`; what lies there is cut off. @throws SluiceError upload_not_found: it is shorter, or gone */
  openTail(id: string, offset: number): Promise<UploadTail>;
}

/** A result belongs to the epoch that wrote it: what another epoch writes is another file. */
export interface JobFiles {
  /** For the upload of a job; it is there for good once `commit` resolves. */
  newUpload(id: string): Promise<ByteSink>;
  /** What a run calls the upload: a path, or an object. It can be read again. */
  uploadName(id: string): string;
  newResult(held: HeldJob): Promise<ByteSink>;
  /** Some bytes of a result, or all. @throws SluiceError job_not_found: it is not there any more | jobs_unavailable */
  readResult(held: HeldJob, span: ByteSpan | null): Promise<Readable>;
  /** Never throws: what stays behind, a sweep removes. */
  removeUpload(id: string): Promise<void>;
  removeResult(held: HeldJob): Promise<void>;
  /** @throws SluiceError jobs_unavailable: nothing can be read where they lie */
  reach(): Promise<void>;
  /** Removes files that belong to no job, to an earlier epoch, or to a job that does not need them any more. */
  sweep(known: KnownJobs): Promise<void>;
}
