// Appends to an object that several processes write one after the other.
// Uses a multipart upload, and a second object for bytes that do not fill a part.
import { SluiceError } from '../core/errors.ts';
import { openObject } from './object-source.ts';
import type { ObjectStore } from './object-store.ts';
import { objectAddress, storeOf } from './providers.ts';

/**
 * Minimum size of a part, bytes. Object storage accepts 10,000 parts of at least 5 MiB. Fewer parts are planned
 * (`MOST_PARTS`), because part numbers are skipped after an interrupted writer.
 */
const LEAST_PART_BYTES = 8 * 1024 * 1024;
const MOST_PARTS = 4000;

/** The state that a process needs to resume writing. */
interface GrowingState {
  /** ID of the multipart upload; null: it was not started. */
  upload: string | null;
  parts: { part: number; etag: string; bytes: number }[];
  /** Number of the next part. */
  next: number;
  /** The object with the bytes after the last part; null: all bytes are in parts. */
  left: { name: string; bytes: number } | null;
}

const partBytes = (length: number): number => Math.max(LEAST_PART_BYTES, Math.ceil(length / MOST_PARTS));

/** Maximum number of part numbers that `bytes` bytes of an object of this length can use. */
export const partNumbersOf = (bytes: number, length: number): number => Math.ceil(bytes / partBytes(length)) + 2;

const stateOf = (state: string | null): GrowingState =>
  state === null ? { upload: null, parts: [], next: 1, left: null } : JSON.parse(state);

interface GrowingObject {
  /** Name of the object: s3://bucket/key. */
  name: string;
  /** Final length of the object in bytes. */
  length: number;
  /** The result of the last `sync`; null: nothing has been written. */
  state: string | null;
  /** Number of part numbers that another writer may still use. */
  skip: number;
  /** Returns the name of an object for bytes that do not fill a part. No other writer may use this name. */
  leftName: (offset: number) => string;
}

/**
 * Appends to an object. A writer that lost its lease may still send parts after another writer has resumed. So the part
 * numbers of a writer are never reused, and a part that is not in the saved state does not belong to the object.
 */
export class ObjectTail {
  readonly #store: ObjectStore;
  readonly #key: string;
  readonly #options: GrowingObject;
  readonly #state: GrowingState;
  readonly #superseded: string[] = [];
  #held: Buffer;
  #spare: Buffer | null = null;
  #filled = 0;
  /** Whether bytes were written since the bytes after the last part were saved. */
  #changed = false;
  #sending: Promise<void> = Promise.resolve();
  #failure: unknown = null;
  /** ID of a multipart upload that this object started and that no saved state contains yet. */
  #begun: string | null = null;

  private constructor(options: GrowingObject, state: GrowingState, store: ObjectStore) {
    this.#store = store;
    this.#key = objectAddress(options.name).key;
    this.#options = options;
    this.#state = state;
    this.#held = Buffer.allocUnsafe(partBytes(options.length));
  }

  /** Opens an object for appending. @throws SluiceError storage_unavailable | input_not_found */
  static async open(options: GrowingObject): Promise<ObjectTail> {
    const state = stateOf(options.state);
    state.next += options.skip;
    const tail = new ObjectTail(options, state, (await storeOf(options.name)).store);
    if (state.left) await tail.#takeBack(state.left);
    return tail;
  }

  /**
   * Buffers and sends bytes. The caller may reuse the buffer when the promise resolves. After an error, `sync` fails
   * too.
   * @throws SluiceError storage_unavailable
   */
  async write(bytes: Uint8Array): Promise<void> {
    this.#changed ||= bytes.length > 0;
    for (let at = 0; at < bytes.length; ) {
      const n = Math.min(bytes.length - at, this.#held.length - this.#filled);
      this.#held.set(bytes.subarray(at, at + n), this.#filled);
      this.#filled += n;
      at += n;
      if (this.#filled < this.#held.length) continue;
      try {
        await this.#send();
      } catch (error) {
        // Some of these bytes are buffered, but the caller does not count them, so `sync` must fail too.
        this.#failure ??= error;
        throw error;
      }
    }
  }

  /** Makes all bytes durable and returns the state needed to resume. @throws SluiceError storage_unavailable */
  async sync(): Promise<string> {
    await this.#sent();
    const { left } = this.#state;
    const inParts = this.#state.parts.reduce((sum, part) => sum + part.bytes, 0);
    const whole = inParts + this.#filled === this.#options.length;
    if (whole && this.#filled > 0) {
      await this.#send();
      await this.#sent();
    }
    if (this.#changed) {
      if (left) this.#superseded.push(left.name);
      this.#state.left = this.#filled === 0 ? null : await this.#setAside(inParts + this.#filled);
      this.#changed = false;
    }
    return JSON.stringify(this.#state);
  }

  /**
   * Must be called when the state that `sync` returned was saved. Removes the objects that this state replaced. Never
   * throws.
   */
  async told(): Promise<void> {
    this.#begun = null;
    for (const name of this.#superseded.splice(0)) await this.#store.remove(name).catch(() => {});
  }

  /** Aborts a multipart upload that no saved state contains. Never throws. */
  async close(): Promise<void> {
    await this.#sending.catch(() => {});
    if (this.#begun !== null) await this.#store.abortParts(this.#key, this.#begun).catch(() => {});
  }

  /** Reads the saved bytes after the last part back into the buffer, so that they become part of the next part. */
  async #takeBack({ name, bytes }: { name: string; bytes: number }): Promise<void> {
    const { scheme, bucket } = objectAddress(this.#options.name);
    const source = await openObject(`${scheme}://${bucket}/${name}`);
    try {
      for await (const chunk of source.chunks) {
        if (this.#filled + chunk.length > bytes) break;
        this.#held.set(chunk, this.#filled);
        this.#filled += chunk.length;
      }
    } finally {
      await source.close();
    }
    if (this.#filled !== bytes)
      throw new SluiceError('storage_unavailable', `${name} does not contain the bytes that were written`);
  }

  async #setAside(offset: number): Promise<{ name: string; bytes: number }> {
    const { key: name } = objectAddress(this.#options.leftName(offset));
    const done = await this.#store.put(name, this.#held.subarray(0, this.#filled));
    if (done !== 'done') throw new SluiceError('storage_unavailable', `${name} could not be written`);
    return { name, bytes: this.#filled };
  }

  /** Sends the filled part in the background, while the next part is filled. */
  async #send(): Promise<void> {
    await this.#sent();
    if (this.#state.upload === null) {
      this.#begun = await this.#store.beginParts(this.#key);
      this.#state.upload = this.#begun;
    }
    const memory = this.#held;
    const body = memory.subarray(0, this.#filled);
    const made = { part: this.#state.next++, etag: '', bytes: body.length };
    this.#state.parts.push(made);
    this.#sending = this.#store.putPart(this.#key, this.#state.upload, made.part, body).then(
      (etag) => {
        made.etag = etag;
        this.#spare = memory;
      },
      (error: unknown) => {
        this.#failure ??= error;
      },
    );
    this.#held = this.#spare ?? Buffer.allocUnsafe(memory.length);
    this.#spare = null;
    this.#filled = 0;
  }

  async #sent(): Promise<void> {
    await this.#sending;
    if (this.#failure) throw this.#failure;
  }
}

/** Publishes the object. Idempotent. @throws SluiceError storage_unavailable */
export async function completeObject(
  name: string,
  { length, state }: Pick<GrowingObject, 'length' | 'state'>,
): Promise<void> {
  const { store, key } = await storeOf(name);
  const { upload, parts } = stateOf(state);
  if (upload === null) {
    await store.put(key, Buffer.alloc(0));
    return;
  }
  // If the object has its final length, an earlier call completed it. Some S3-compatible storage removes the object for
  // a moment if it is completed again.
  const isComplete = async () => (await store.head(key))?.bytes === length;
  if (await isComplete()) return;
  try {
    await store.completeParts(key, upload, parts);
  } catch (error) {
    if (!(await isComplete())) throw error;
  }
}

/** Removes all parts of an object that was not completed. Never throws. */
export async function discardParts(name: string, state: string | null): Promise<void> {
  const { store, key } = await storeOf(name);
  const { upload, left } = stateOf(state);
  if (upload !== null) await store.abortParts(key, upload).catch(() => {});
  if (left) await store.remove(left.name).catch(() => {});
}
