// Writes an object in parts: a multipart upload that stays invisible until it is published, or is aborted.
import { SluiceError } from '../core/errors.ts';
import type { ObjectStore } from './object-store.ts';
import { objectAddress, storeOf } from './providers.ts';

/**
 * Size of the first parts, bytes. Object storage accepts 10,000 parts of at least 5 MiB. The size of parts grows after
 * `GROWS_AFTER` parts, so that an object can have terabytes.
 */
const FIRST_PART_BYTES = 8 * 1024 * 1024;
const GROWS_AFTER = 1000;
/** Number of parts sent concurrently. */
const AT_ONCE = 3;

/** Removes an object. Succeeds if the object does not exist. @throws SluiceError storage_unavailable */
export async function removeObject(name: string): Promise<void> {
  const { store, key } = await storeOf(name);
  await store.remove(key);
}

/**
 * An upload. States: open → complete (all bytes are stored but not visible) → published. It can be aborted in any
 * state.
 */
export class ObjectUpload {
  readonly name: string;
  bytesWritten = 0;
  readonly #key: string;
  #store: Promise<ObjectStore> | null = null;
  readonly #parts: Promise<string>[] = [];
  readonly #running = new Set<Promise<unknown>>();
  #upload: Promise<string> | null = null;
  #held: Buffer;
  /**
   * The buffers of sent parts, which are reused, because new buffers would be freed only by full garbage collections.
   */
  readonly #spare: Buffer[] = [];
  #filled = 0;
  #failure: unknown = null;
  #over = false;

  /** @throws SluiceError usage */
  constructor(name: string) {
    this.name = name;
    this.#key = objectAddress(name).key;
    this.#held = Buffer.allocUnsafe(FIRST_PART_BYTES);
  }

  #opened(): Promise<ObjectStore> {
    this.#store ??= storeOf(this.name).then(({ store }) => store);
    return this.#store;
  }

  /**
   * Buffers and sends bytes. The caller may reuse the buffer when the promise resolves.
   * @throws SluiceError storage_unavailable
   */
  async write(bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; ) {
      const n = Math.min(bytes.length - at, this.#held.length - this.#filled);
      this.#held.set(bytes.subarray(at, at + n), this.#filled);
      this.#filled += n;
      at += n;
      if (this.#filled === this.#held.length) await this.#send();
    }
    this.bytesWritten += bytes.length;
  }

  /** Resolves when the storage has received all bytes. @throws SluiceError storage_unavailable */
  async end(): Promise<void> {
    if (this.#upload === null) return;
    if (this.#filled > 0) await this.#send();
    await Promise.all(this.#parts);
  }

  /**
   * Makes the object visible. After an error, the stored parts remain until `abort`.
   * @throws SluiceError storage_unavailable | output_failed
   */
  async publish(): Promise<void> {
    if (this.#upload === null) {
      const done = await (await this.#opened()).put(this.#key, this.#held.subarray(0, this.#filled));
      if (done !== 'done') throw new SluiceError('output_failed', `${this.name} could not be written`);
    } else {
      const etags = await Promise.all(this.#parts);
      const parts = etags.map((etag, i) => ({ part: i + 1, etag }));
      await (await this.#opened()).completeParts(this.#key, await this.#upload, parts);
    }
    this.#over = true;
  }

  /**
   * Removes all parts. If the storage is unreachable, they remain until a lifecycle rule of the bucket removes them.
   * Never throws.
   */
  async abort(): Promise<void> {
    if (this.#over) return;
    this.#over = true;
    const upload = await this.#upload?.catch(() => null);
    await Promise.allSettled(this.#running);
    if (upload) await (await this.#opened()).abortParts(this.#key, upload).catch(() => {});
  }

  async #send(): Promise<void> {
    if (this.#failure) throw this.#failure;
    const store = await this.#opened();
    this.#upload ??= store.beginParts(this.#key);
    const upload = await this.#upload;
    const memory = this.#held;
    const body = memory.subarray(0, this.#filled);
    const part = this.#parts.length + 1;
    const sent = store.putPart(this.#key, upload, part, body);
    this.#parts.push(sent);
    const running: Promise<void> = sent
      .then(
        () => {},
        (error: unknown) => {
          this.#failure ??= error;
        },
      )
      .finally(() => {
        this.#running.delete(running);
        this.#spare.push(memory);
      });
    this.#running.add(running);
    if (this.#running.size >= AT_ONCE) await Promise.race(this.#running);
    const bytes = FIRST_PART_BYTES * 2 ** Math.floor(part / GROWS_AFTER);
    const spare = this.#spare.pop();
    this.#held = spare?.length === bytes ? spare : Buffer.allocUnsafe(bytes);
    this.#filled = 0;
    if (this.#failure) throw this.#failure;
  }
}
