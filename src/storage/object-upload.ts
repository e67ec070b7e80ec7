// Writes an object in parts that are invisible until they are complete: a multipart upload, published or aborted.
import { SluiceError } from '../core/errors.ts';
import type { ObjectStore } from './object-store.ts';
import { objectAddress, storeOf } from './providers.ts';

/** Object storage takes 10,000 parts of 5 MiB at least: they grow, so that terabytes fit. */
const FIRST_PART_BYTES = 8 * 1024 * 1024;
const GROWS_AFTER = 1000;
/** Parts on their way at the same time. */
const AT_ONCE = 3;

/** No effect if the object does not exist. @throws SluiceError storage_unavailable */
export async function removeObject(name: string): Promise<void> {
  const { store, key } = await storeOf(name);
  await store.remove(key);
}

/** States: open → complete (all bytes are stored, but invisible) → published, or aborted from any of them. */
export class ObjectUpload {
  readonly name: string;
  bytesWritten = 0;
  readonly #key: string;
  #store: Promise<ObjectStore> | null = null;
  readonly #parts: Promise<string>[] = [];
  readonly #running = new Set<Promise<unknown>>();
  #upload: Promise<string> | null = null;
  #held: Buffer;
  /** Memory of parts that were sent: as much again for each would be collected only with the whole heap. */
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

  /** The caller may reuse the bytes once this resolves. @throws SluiceError storage_unavailable */
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

  /** Resolves when storage has all bytes. @throws SluiceError storage_unavailable */
  async end(): Promise<void> {
    if (this.#upload === null) return;
    if (this.#filled > 0) await this.#send();
    await Promise.all(this.#parts);
  }

  /** Makes the object visible. If it fails, the parts stay until `abort`. @throws SluiceError storage_unavailable | output_failed */
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

  /** Removes all parts; if storage is unreachable, a lifecycle rule of the bucket has to. Never throws. */
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
