// Storage for the bytes of jobs: uploads until they are scored, and results until they expire.
import type { Readable } from 'node:stream';
import type { ByteSink } from '../../../io/sink/byte-sink.ts';
import type { HeldJob, JobState } from './job-store.ts';
import type { Upload } from './upload-store.ts';

/** A range of bytes; both ends are inclusive. */
export interface ByteSpan {
  start: number;
  end: number;
}

/** Looks up jobs in the table during a sweep. */
export type KnownJobs = (
  ids: readonly string[],
) => Promise<ReadonlyMap<string, { epoch: number; state: JobState | null }>>;

/** Appends to an upload that arrives in parts. The server may restart between two parts. */
export interface UploadTail {
  write(bytes: Uint8Array): Promise<void>;
  /**
   * Makes the written bytes durable. Returns the state that `openTail` needs to resume. `last`: no more bytes follow.
   */
  sync(last: boolean): Promise<string | null>;
  /** Called when the table has stored the state, so that earlier states are obsolete. Never throws. */
  told(): Promise<void>;
  /** Closes the file. Bytes written since the last `sync` are lost. */
  close(): Promise<void>;
}

/** Position in an upload at which a part begins. */
export interface TailPlace extends Pick<Upload, 'offset' | 'tail'> {
  /** Length of the whole upload in bytes. */
  length: number;
  /** Part numbers that an earlier writer may have used, as in `TakenUpload`. */
  left: number;
}

/** Storage for uploads that arrive in parts. */
export interface ResumableFiles {
  /** Creates an empty, durable upload. */
  beginUpload(id: string): Promise<void>;
  /** Maximum number of part numbers that `bytes` bytes can take up, for `UploadStore.take`. */
  usesOf(bytes: number, length: number): number;
  /**
   * Opens the upload for appending at `offset`, and fences off earlier writers.
   * @throws SluiceError upload_not_found: the upload is missing or shorter than `offset`
   */
  openTail(held: HeldJob, place: TailPlace): Promise<UploadTail>;
  /** Publishes the complete upload under `uploadName`. Idempotent. */
  completeUpload(upload: Upload): Promise<void>;
  /** Reads the upload again; returns null if that would be expensive. */
  readBack(id: string): AsyncIterable<Uint8Array> | null;
  /** Discards an incomplete upload. Never throws; a sweep removes files that remain. */
  discardUpload(upload: Upload): Promise<void>;
}

/**
 * Storage for uploads and results of jobs. A result belongs to the epoch that wrote it; another epoch writes another
 * file.
 */
export interface JobFiles {
  /** Opens a sink for the upload of a job. The upload is durable once `commit` has resolved. */
  newUpload(id: string): Promise<ByteSink>;
  /** Path or object of the upload, which can be read repeatedly. */
  uploadName(id: string): string;
  newResult(held: HeldJob): Promise<ByteSink>;
  /**
   * Reads a range of a result; null for the whole result.
   * @throws SluiceError job_not_found: the result was removed | jobs_unavailable
   */
  readResult(held: HeldJob, span: ByteSpan | null): Promise<Readable>;
  /** Never throws; a sweep removes files that remain. */
  removeUpload(id: string): Promise<void>;
  removeResult(held: HeldJob): Promise<void>;
  /** Checks that the storage can be read. @throws SluiceError jobs_unavailable */
  reach(): Promise<void>;
  /** Removes files that belong to no job, to an earlier epoch, or to a job that no longer needs them. */
  sweep(known: KnownJobs): Promise<void>;
}
