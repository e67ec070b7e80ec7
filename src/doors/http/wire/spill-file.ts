// Stores response bytes in an unlinked temporary file until they can be sent. The file disappears even after a crash.
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { tooMany } from '../../../core/errors.ts';
import { writeAll } from '../../../io/sink/file-target.ts';

export interface SpillOptions {
  /** Maximum number of waiting bytes. */
  spillBytes: number;
  /** Folder of the file. Default: the temporary folder of the system. */
  spillFolder?: string | undefined;
  /** Called with each change of the number of waiting bytes. */
  onSpill?: (bytes: number) => void;
}

/** Opens a temporary file and unlinks it. `purpose`: part of the file's name, until the file is unlinked. */
export async function openUnlinked(folder: string | undefined, purpose: string): Promise<FileHandle> {
  const name = path.join(folder ?? tmpdir(), `sluice-${purpose}-${process.pid}-${crypto.randomUUID()}`);
  const handle = await open(name, 'wx+', 0o600);
  try {
    await unlink(name);
  } catch (error) {
    await handle.close();
    throw error;
  }
  return handle;
}

export class SpillFile {
  readonly #handle: FileHandle;
  readonly #options: SpillOptions;
  #written = 0;
  #read = 0;

  private constructor(handle: FileHandle, options: SpillOptions) {
    this.#handle = handle;
    this.#options = options;
  }

  static async open(options: SpillOptions): Promise<SpillFile> {
    const handle = await openUnlinked(options.spillFolder, 'answer');
    return new SpillFile(handle, options);
  }

  /** Number of bytes that were not read yet. */
  get waiting(): number {
    return this.#written - this.#read;
  }

  /** @throws SluiceError limit_exceeded, or an error of the file system */
  async append(bytes: Uint8Array): Promise<void> {
    const { spillBytes, onSpill } = this.#options;
    if (this.waiting + bytes.length > spillBytes) throw tooMany('spill.max_bytes', spillBytes, 'bytes');
    await writeAll(this.#handle, bytes, this.#written, (n) => {
      this.#written += n;
      onSpill?.(n);
    });
  }

  /** Reads up to `buffer.length` bytes in the order of writing. Returns their number; 0 if none are waiting. */
  async take(buffer: Uint8Array): Promise<number> {
    const n = Math.min(buffer.length, this.waiting);
    if (n === 0) return 0;
    const { bytesRead } = await this.#handle.read(buffer, 0, n, this.#read);
    if (bytesRead === 0) throw new Error('the spill file of a response is shorter than what was written to it');
    this.#read += bytesRead;
    this.#options.onSpill?.(-bytesRead);
    return bytesRead;
  }

  /** Closes the file and discards the waiting bytes. */
  async close(): Promise<void> {
    this.#options.onSpill?.(-this.waiting);
    this.#read = this.#written;
    await this.#handle.close();
  }
}
