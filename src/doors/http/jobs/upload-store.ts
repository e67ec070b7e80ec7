// The table of resumable uploads, with the future job and the offset of each upload.
import type { HeldJob, NewJob } from './job-store.ts';

export interface Upload {
  /** The future job. `uploadBytes` is the final length; `bodySha256` is known at the end. */
  job: NewJob;
  /** The Upload-Metadata header; null: none. Only the owner can read it. */
  metadata: string | null;
  /** Number of durable bytes. */
  offset: number;
  /** State that the storage needs to resume; null: the offset is sufficient. */
  tail: string | null;
  /** When the last bytes arrived, milliseconds since 1970. */
  touched: number;
  /** Whether the upload is complete and its job is in the job table. */
  queued: boolean;
}

/** The lease for writing a part. */
export interface TakenUpload extends HeldJob {
  /** Part numbers, as announced in `take`, that the previous writer may have used without releasing them. */
  left: number;
}

/**
 * States of an upload: open → queued → removed, or open → removed. An open upload counts towards the quota of its owner
 * with its final length, and sweeps know it. `JobStore.enqueue` queues it together with the job.
 */
export interface UploadStore {
  /** `key_taken`: the owner has an open upload with this Idempotency-Key. */
  begin(upload: Upload): Promise<'begun' | 'key_taken'>;
  get(id: string): Promise<Upload | null>;
  /** Finds an open upload. */
  byIdempotencyKey(owner: string, key: string): Promise<Upload | null>;
  /**
   * Claims the upload at this offset and fences off earlier writers. `uses`: maximum number of part numbers that the
   * writer uses, if its storage numbers parts. null: the upload is not open or has another offset.
   */
  take(id: string, offset: number, uses: number): Promise<TakenUpload | null>;
  /** Records durable bytes. `done`: the part has ended. false: the upload is no longer open, or another writer claimed it. */
  advance(held: HeldJob, so: Pick<Upload, 'offset' | 'tail'> & { done: boolean }): Promise<boolean>;
  /** Removes an open upload; returns whether it was open. */
  remove(id: string): Promise<boolean>;
  /** Open uploads with all bytes. */
  whole(): Promise<Upload[]>;
  /** Number of open uploads. */
  open(): Promise<number>;
  /**
   * Removes open uploads without new bytes for this long, except `busy` ones, and queued uploads whose job was removed.
   * Returns the removed open uploads.
   */
  expire(ttlMs: number, busy: ReadonlySet<string>): Promise<Upload[]>;
}
