// The bytes of jobs, wherever they lie: uploads until they are scored, results until their time is up.
import type { Readable } from 'node:stream';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { HeldJob, JobState } from './job-store.ts';
import type { Upload } from './upload-store.ts';

/** A range of bytes, both ends included. */
export interface ByteSpan {
  start: number;
  end: number;
}

/** The query of a sweep to the table. */
export type KnownJobs = (
  ids: readonly string[],
) => Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;

/** The end of an upload that grows by parts, perhaps over several starts of a server. */
export interface UploadTail {
  write(bytes: Uint8Array): Promise<void>;
  /** Makes written bytes durable; returns the state that `openTail` needs to continue. `last`: no more bytes follow. */
  sync(last: boolean): Promise<string | null>;
  /** The state is in the table: earlier states are obsolete. Never throws. */
  told(): Promise<void>;
  /** Bytes that were not synced are lost. */
  close(): Promise<void>;
}

/** Where a part begins. */
export interface TailPlace extends Pick<Upload, 'offset' | 'tail'> {
  /** Of the whole upload. */
  length: number;
  /** As in `TakenUpload`. */
  left: number;
}

/** Uploads that come in parts. */
export interface ResumableFiles {
  /** Creates it, empty and durable. */
  beginUpload(id: string): Promise<void>;
  /** Most part numbers that this number of bytes may use, for `UploadStore.take`. */
  usesOf(bytes: number, length: number): number;
  /** Appends at `offset`, fencing off earlier writers. @throws SluiceError upload_not_found: it is shorter or missing */
  openTail(held: HeldJob, place: TailPlace): Promise<UploadTail>;
  /** Completes it under `uploadName`; idempotent. */
  completeUpload(upload: Upload): Promise<void>;
  /** Its bytes once more, where reading them costs little; null: it does not. */
  readBack(id: string): AsyncIterable<Uint8Array> | null;
  /** Of one that is open. Never throws: what stays behind, a sweep removes. */
  discardUpload(upload: Upload): Promise<void>;
}

/** A result belongs to the epoch that wrote it: what another epoch writes is another file. */
export interface JobFiles {
  /** A sink for the upload of a job, durable once `commit` resolves. */
  newUpload(id: string): Promise<ByteSink>;
  /** The name of the upload for a run: a path or an object that can be read repeatedly. */
  uploadName(id: string): string;
  newResult(held: HeldJob): Promise<ByteSink>;
  /** Some bytes of a result, or all. @throws SluiceError job_not_found: it was removed | jobs_unavailable */
  readResult(held: HeldJob, span: ByteSpan | null): Promise<Readable>;
  /** Never throws: what stays behind, a sweep removes. */
  removeUpload(id: string): Promise<void>;
  removeResult(held: HeldJob): Promise<void>;
  /** @throws SluiceError jobs_unavailable: nothing can be read where they lie */
  reach(): Promise<void>;
  /** Removes files that belong to no job, to an earlier epoch, or to a job that does not need them any more. */
  sweep(known: KnownJobs): Promise<void>;
}
