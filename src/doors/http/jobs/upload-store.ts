// The table of resumable uploads: the future job and the offset of each.
import type { HeldJob, NewJob } from './job-store.ts';

export interface Upload {
  /** The future job: `uploadBytes` is the final length, `bodySha256` is known at the end. */
  job: NewJob;
  /** The Upload-Metadata header; null: none. Only its owner can read it. */
  metadata: string | null;
  /** Number of durable bytes. */
  offset: number;
  /** State that the files need to continue; null: the offset is enough. */
  tail: string | null;
  /** When something came last, in milliseconds since 1970. */
  touched: number;
  /** The job is in its table: the upload is complete, and reported while the job exists. */
  queued: boolean;
}

/** The lease for writing a part. */
export interface TakenUpload extends HeldJob {
  /** Part numbers that the previous holder may have used without releasing them, as announced in `take`. */
  left: number;
}

/**
 * Modes of an upload: open → queued → removed, or removed from open. An open one counts for the quota of its owner with all the bytes
 * that it will have, and is known to sweeps. `JobStore.enqueue` makes it queued, in one step with the job.
 */
export interface UploadStore {
  /** `key_taken`: its owner has an open one with this Idempotency-Key. */
  begin(upload: Upload): Promise<'begun' | 'key_taken'>;
  get(id: string): Promise<Upload | null>;
  /** An open one. */
  byIdempotencyKey(owner: string, key: string): Promise<Upload | null>;
  /**
   * Claims the upload at this offset and fences off earlier writers. `uses`: part numbers that it may use, if its files
   * number. null: it is not open, or has another offset.
   */
  take(id: string, offset: number, uses: number): Promise<TakenUpload | null>;
  /** Records durable bytes. `done`: the part has ended. false: the upload was closed, or another writer holds it. */
  advance(held: HeldJob, so: Pick<Upload, 'offset' | 'tail'> & { done: boolean }): Promise<boolean>;
  /** An open one is gone. */
  remove(id: string): Promise<boolean>;
  /** Open ones that are whole. */
  whole(): Promise<Upload[]>;
  /** How many are open. */
  open(): Promise<number>;
  /** Removes open ones to which nothing came for so long, but for `busy`, and queued ones whose job is gone. Gives the open ones. */
  expire(ttlMs: number, busy: ReadonlySet<string>): Promise<Upload[]>;
}
