// The interface of object storage. Each provider implements it for a bucket or container.
import type { Readable } from 'node:stream';

/** Settings of the HTTP client for every provider. */
export const STORE_CALLS = { code: 'storage_unavailable', timeoutMs: 20_000, retries: 4 } as const;

/** Writes only if the object has this version, or only if it does not exist. */
export type Condition = { ifMatch: string } | { ifNone: true };

export interface StoredObject {
  key: string;
  bytes: number;
  /** Opaque; changes with every write. */
  version: string;
}

export interface ObjectPart {
  /** From 1. */
  part: number;
  /** The value that `putPart` returned. */
  etag: string;
}

export interface ObjectRange {
  /** null: the object, or the requested version, does not exist. */
  body: Readable | null;
  /** Whether `body` contains only the range and not the whole object. */
  partial: boolean;
  /** The version of `body`; null: the provider does not return it. */
  version: string | null;
}

/** All methods throw SluiceError storage_unavailable after their retries. */
export interface ObjectStore {
  /** All objects whose keys start with `prefix`. */
  list(prefix: string): Promise<{ objects: StoredObject[] }>;
  /** null: the object does not exist. */
  head(key: string): Promise<Omit<StoredObject, 'key'> | null>;
  /** Reads the bytes of one version from `from` to before `to` (null: to the end). */
  read(key: string, range: { from: number; to: number | null; version: string }): Promise<ObjectRange>;
  /**
   * `refused`: the condition is not met. `unsure`: it is not met, but the request was sent more than once, so an
   * earlier attempt may have changed the object.
   */
  put(key: string, body: Uint8Array, condition?: Condition): Promise<'done' | 'refused' | 'unsure'>;
  /** Starts an upload in parts, which becomes visible with `completeParts`. @returns its id */
  beginParts(key: string): Promise<string>;
  /**
   * Uploads a part. Parts are sent in order, several at a time; all except the last have a multiple of 8 MiB. The
   * caller may reuse `body` once the promise resolves.
   */
  putPart(key: string, upload: string, part: number, body: Uint8Array): Promise<string>;
  /** Publishes the object. */
  completeParts(key: string, upload: string, parts: readonly ObjectPart[]): Promise<void>;
  abortParts(key: string, upload: string): Promise<void>;
  /** Succeeds if the object does not exist. */
  remove(key: string): Promise<void>;
}
