// The interface of object storage. Each provider implements it for a bucket or container.
import type { Readable } from 'node:stream';

/** Settings of the HTTP client for every provider. */
export const STORE_CALLS = { code: 'storage_unavailable', timeoutMs: 20_000, retries: 4 } as const;

/** A condition for a write: the object has this version (`ifMatch`), or it does not exist (`ifNone`). */
export type Condition = { ifMatch: string } | { ifNone: true };

export interface StoredObject {
  key: string;
  bytes: number;
  /** An opaque text that changes with every write. */
  version: string;
}

export interface ObjectPart {
  /** Number of the part, from 1. */
  part: number;
  /** The value that `putPart` returned. */
  etag: string;
}

export interface ObjectRange {
  /** null: the object, or the requested version, does not exist. */
  body: Readable | null;
  /** Whether `body` contains only the range and not the whole object. */
  partial: boolean;
  /** The version of `body`; null: the provider does not return the version. */
  version: string | null;
}

/** All methods throw SluiceError storage_unavailable after their retries. */
export interface ObjectStore {
  /** All objects whose keys start with `prefix`. */
  list(prefix: string): Promise<{ objects: StoredObject[] }>;
  /** Size and version of an object; null: the object does not exist. */
  head(key: string): Promise<Omit<StoredObject, 'key'> | null>;
  /** Reads bytes `from` to `to - 1` of one version; `to` null: up to the end. */
  read(key: string, range: { from: number; to: number | null; version: string }): Promise<ObjectRange>;
  /**
   * Writes an object. `refused`: the condition is not met. `unsure`: the condition is not met, but the request was sent
   * more than once, so an earlier attempt may have written the object.
   */
  put(key: string, body: Uint8Array, condition?: Condition): Promise<'done' | 'refused' | 'unsure'>;
  /** Starts an upload in parts. The object becomes visible with `completeParts`. @returns the ID of the upload */
  beginParts(key: string): Promise<string>;
  /**
   * Uploads a part. Calls must be in the order of the parts, but several may be pending. The size of each part except
   * the last must be a multiple of 8 MiB. The caller may reuse `body` when the promise resolves.
   */
  putPart(key: string, upload: string, part: number, body: Uint8Array): Promise<string>;
  /** Publishes the object that consists of these parts. */
  completeParts(key: string, upload: string, parts: readonly ObjectPart[]): Promise<void>;
  abortParts(key: string, upload: string): Promise<void>;
  /** Removes an object. Succeeds if the object does not exist. */
  remove(key: string): Promise<void>;
}
