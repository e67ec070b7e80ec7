// The table of resumable uploads: the future job and the offset of each.
import type { HeldJob, NewJob } from './job-store.ts';

export interface Upload {
  /** The future job: `uploadBytes` is the final length, `bodySha256` is known at the end. */
  job: NewJob;
  /** The Upload-Metadata header; null: none. Only its owner can read it. */
  metadata: string | null;
  /** Number of durable bytes. */
  offset: number;
  /** What their files need to go on behind them; null: the offset says it all. */
  tail: string | null;
  /** When something came last, in milliseconds since 1970. */
  touched: number;
  /** The job is in its table: the upload is over, and told of as long as the job is there. */
  queued: boolean;
}

/** What a part is written with. */
export interface TakenUpload extends HeldJob {
  /** What whoever had it last, and did not say that it was done, may have used for itself: as it said in `take`. */
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
   * From now on what others write to it counts no more: a part begins at this offset. `uses`: what it may use up of whatever its files
   * number. null: it is not open, or has another offset.
   */
  take(id: string, offset: number, uses: number): Promise<TakenUpload | null>;
  /** So many bytes are there for good from now on. `done`: the part is over. false: it is not open any more, or somebody else's. */
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
