// Publishes the outputs of a run in object storage together: first the sidecar files, last the main output.
import { asSluiceError } from '../../core/errors.ts';
import { ObjectUpload, removeObject } from '../../storage/object-upload.ts';
import type { ByteSink } from './byte-sink.ts';

interface Entry {
  upload: ObjectUpload;
  beside: boolean;
  whole: boolean;
}

/**
 * Object storage has no transaction over several objects. So all objects are uploaded completely before the first
 * object is published. A reader that waits for the main output then finds the rejects file of the same run.
 */
export class ObjectSet {
  readonly #entries: Entry[] = [];
  readonly #removed: string[] = [];

  /** @throws SluiceError usage if `name` is not an object address */
  open(name: string, beside: boolean): ByteSink {
    const upload = new ObjectUpload(name);
    const entry: Entry = { upload, beside, whole: false };
    this.#entries.push(entry);
    return {
      revocable: true,
      get bytesWritten() {
        return upload.bytesWritten;
      },
      write: (bytes) => upload.write(bytes),
      commit: async () => {
        await upload.end();
        entry.whole = true;
      },
      abort: async () => {
        const at = this.#entries.indexOf(entry);
        if (at >= 0) this.#entries.splice(at, 1);
        await upload.abort();
      },
    };
  }

  /** Removes the existing object with this name when the set is published. */
  remove(name: string): void {
    this.#removed.push(name);
  }

  /**
   * Publishes all complete objects.
   * @throws SluiceError storage_unavailable; objects that were already published remain, and the main output is
   * unchanged
   */
  async publish(): Promise<void> {
    const entries = this.#entries.splice(0);
    for (const { upload } of entries.filter((e) => !e.whole)) await upload.abort();
    const whole = entries.filter((e) => e.whole).sort((a, b) => Number(b.beside) - Number(a.beside));
    try {
      for (const name of this.#removed.splice(0)) await removeObject(name);
      for (const { upload } of whole) await upload.publish();
    } catch (error) {
      for (const { upload } of whole) await upload.abort();
      throw asSluiceError(error, 'output_failed');
    }
  }

  /** Discards all uploads. Idempotent, never throws. */
  async abort(): Promise<void> {
    this.#removed.length = 0;
    for (const { upload } of this.#entries.splice(0)) await upload.abort();
  }
}
