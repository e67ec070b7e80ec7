// The table of resumable uploads: the future job and the current offset of each upload.
import type { HeldJob, NewJob } from './job-store.ts';

export interface Upload {
  /** The job to create. `uploadBytes` is the final length; `bodySha256` is set when the upload is complete. */
  job: NewJob;
  /** The Upload-Metadata header; null without such a header. Only the owner can read the metadata. */
  metadata: string | null;
  /** Number of durable bytes. */
  offset: number;
  /** State that the storage needs to resume; null if the offset suffices. */
  tail: string | null;
  /** Time at which the last bytes arrived, ms since 1970. */
  touched: number;
  /** Whether the upload is complete and its job is in the job table. */
  queued: boolean;
}

/** The lease that permits writing a part. */
export interface TakenUpload extends HeldJob {
  /** Number of part numbers that the previous writer announced in `take`, and may have used, without releasing them. */
  left: number;
}

/**
 * States of an upload: open → queued → removed, or open → removed. An open upload counts towards the quota of its owner
 * with its final length, and sweeps do not remove its files. `JobStore.enqueue` queues the upload together with its
 * job.
 */
export interface UploadStore {
  /** `key_taken`: the owner already has an open upload with this Idempotency-Key. */
  begin(upload: Upload): Promise<'begun' | 'key_taken'>;
  get(id: string): Promise<Upload | null>;
  /** Finds an open upload. */
  byIdempotencyKey(owner: string, key: string): Promise<Upload | null>;
  /**
   * Claims the upload at this offset, and fences off earlier writers. `uses`: maximum number of part numbers that the
   * writer needs, if its storage numbers parts. Returns null if the upload is not open or has a different offset.
   */
  take(id: string, offset: number, uses: number): Promise<TakenUpload | null>;
  /**
   * Records durable bytes. `done`: the part is complete. Returns false if the upload is no longer open, or another
   * writer has claimed it.
   */
  advance(held: HeldJob, so: Pick<Upload, 'offset' | 'tail'> & { done: boolean }): Promise<boolean>;
  /** Removes an open upload. Returns whether the upload was open. */
  remove(id: string): Promise<boolean>;
  /** Open uploads that have all their bytes. */
  whole(): Promise<Upload[]>;
  /** Number of open uploads. */
  open(): Promise<number>;
  /**
   * Removes open uploads that got no bytes for this long, except those in `busy`. Also removes queued uploads whose job
   * was removed. Returns the open uploads that were removed.
   */
  expire(ttlMs: number, busy: ReadonlySet<string>): Promise<Upload[]>;
}
