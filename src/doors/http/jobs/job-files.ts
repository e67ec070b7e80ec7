// Storage for the bytes of jobs: uploads until they are scored, results until they expire.
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

/** Appends to an upload that arrives in parts, possibly across server restarts. */
export interface UploadTail {
  write(bytes: Uint8Array): Promise<void>;
  /** Makes written bytes durable and returns the state that `openTail` needs to resume. `last`: no more bytes follow. */
  sync(last: boolean): Promise<string | null>;
  /** The table has stored the state, so earlier states are obsolete. Never throws. */
  told(): Promise<void>;
  /** Bytes written since the last sync are lost. */
  close(): Promise<void>;
}

/** Position in an upload at which a part begins. */
export interface TailPlace extends Pick<Upload, 'offset' | 'tail'> {
  /** Length of the whole upload in bytes. */
  length: number;
  /** As in `TakenUpload`. */
  left: number;
}

/** Storage for uploads that arrive in parts. */
export interface ResumableFiles {
  /** Creates an empty, durable upload. */
  beginUpload(id: string): Promise<void>;
  /** Maximum number of part numbers that `bytes` bytes can use, for `UploadStore.take`. */
  usesOf(bytes: number, length: number): number;
  /**
   * Opens the upload for appending at `offset` and fences off earlier writers. @throws SluiceError upload_not_found:
   * the upload is shorter or missing
   */
  openTail(held: HeldJob, place: TailPlace): Promise<UploadTail>;
  /** Publishes the upload under `uploadName`. Idempotent. */
  completeUpload(upload: Upload): Promise<void>;
  /** Reads the upload again if that is cheap; otherwise returns null. */
  readBack(id: string): AsyncIterable<Uint8Array> | null;
  /** Discards an incomplete upload. Never throws; a sweep removes leftovers. */
  discardUpload(upload: Upload): Promise<void>;
}

/** A result belongs to the epoch that wrote it; another epoch writes another file. */
export interface JobFiles {
  /** Opens a sink for the upload of a job; the upload is durable once `commit` resolves. */
  newUpload(id: string): Promise<ByteSink>;
  /** Path or object of the upload, which can be read repeatedly. */
  uploadName(id: string): string;
  newResult(held: HeldJob): Promise<ByteSink>;
  /** Reads a range of a result; null: all of it. @throws SluiceError job_not_found: it was removed | jobs_unavailable */
  readResult(held: HeldJob, span: ByteSpan | null): Promise<Readable>;
  /** Never throws; a sweep removes leftovers. */
  removeUpload(id: string): Promise<void>;
  removeResult(held: HeldJob): Promise<void>;
  /** Checks that the storage can be read. @throws SluiceError jobs_unavailable */
  reach(): Promise<void>;
  /** Removes files that belong to no job, to an earlier epoch, or to a job that no longer needs them. */
  sweep(known: KnownJobs): Promise<void>;
}
