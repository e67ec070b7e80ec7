// What runs need of object storage. Each provider implements it for one bucket or container.
import type { Readable } from 'node:stream';

/** Settings of the HTTP client of every provider. */
export const STORE_CALLS = { code: 'storage_unavailable', timeoutMs: 20_000, retries: 4 } as const;

/** Writes only if the object has this version, or only if there is none. */
export type Condition = { ifMatch: string } | { ifNone: true };

export interface StoredObject {
  key: string;
  bytes: number;
  /** Opaque: differs after every write. */
  version: string;
}

export interface ObjectPart {
  /** From 1. */
  part: number;
  /** As `putPart` returned it. */
  etag: string;
}

export interface ObjectRange {
  /** null: the object, or this version of it, does not exist. */
  body: Readable | null;
  /** Whether `body` is the range, not the whole object. */
  partial: boolean;
  /** The version of `body`; null: the provider does not say. */
  version: string | null;
}

/** All methods throw SluiceError storage_unavailable after their retries. */
export interface ObjectStore {
  /** All objects whose keys begin with `prefix`. */
  list(prefix: string): Promise<{ objects: StoredObject[] }>;
  /** null: no such object. */
  head(key: string): Promise<Omit<StoredObject, 'key'> | null>;
  /** The bytes from `from` to before `to` (null: to the end) of one version. */
  read(key: string, range: { from: number; to: number | null; version: string }): Promise<ObjectRange>;
  /**
   * `refused`: the condition does not hold. `unsure`: it does not hold, but the call was sent more than once, so that this very write may
   * have changed the object.
   */
  put(key: string, body: Uint8Array, condition?: Condition): Promise<'done' | 'refused' | 'unsure'>;
  /** Begins an upload in parts, which is visible only after `completeParts`. @returns its id */
  beginParts(key: string): Promise<string>;
  /** Parts are sent in order, some at a time; all but the last have a multiple of 8 MiB. The caller may reuse `body` once this resolves. */
  putPart(key: string, upload: string, part: number, body: Uint8Array): Promise<string>;
  /** Publishes the object. */
  completeParts(key: string, upload: string, parts: readonly ObjectPart[]): Promise<void>;
  abortParts(key: string, upload: string): Promise<void>;
  /** Does nothing if the object does not exist. */
  remove(key: string): Promise<void>;
}
