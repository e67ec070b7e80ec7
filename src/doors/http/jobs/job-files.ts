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

/** What a sweep asks of the table. */
export type KnownJobs = (
  ids: readonly string[],
) => Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;

/** The end of an upload that grows by parts, perhaps over several starts of a server. */
export interface UploadTail {
  write(bytes: Uint8Array): Promise<void>;
  /** What was written is there for good; gives what `openTail` needs to go on behind it. `last`: nothing more is written. */
  sync(last: boolean): Promise<string | null>;
  /** The table says so: what it said before is needed no more. Never throws. */
  told(): Promise<void>;
  /** What was not synced is lost. */
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
  /** It is there for good, without a byte. */
  beginUpload(id: string): Promise<void>;
  /** What a part of so many bytes at most may use up, for `UploadStore.take`. */
  usesOf(bytes: number, length: number): number;
  /** For what comes behind `offset`; what lies there counts no more. @throws SluiceError upload_not_found: it is shorter, or gone */
  openTail(held: HeldJob, place: TailPlace): Promise<UploadTail>;
  /** All of it is there: from now on it is what `uploadName` names. May be called again. */
  completeUpload(upload: Upload): Promise<void>;
  /** Its bytes once more, where reading them costs little; null: it does not. */
  readBack(id: string): AsyncIterable<Uint8Array> | null;
  /** Of one that is open. Never throws: what stays behind, a sweep removes. */
  discardUpload(upload: Upload): Promise<void>;
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
