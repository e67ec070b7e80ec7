// The answer of a predict request: held back until its status is certain, then written as fast as it is read.
import { type FileHandle, open, unlink } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SluiceError } from '../../../core/errors.ts';
import { tooMany } from '../../../engine/score-chunks.ts';

export interface AnswerOptions {
  headers: Record<string, string>;
  /** Maximum of unread answer bytes that may be spilled to a file. */
  spillBytes: number;
  spillFolder?: string | undefined;
  /** A client that reads nothing for this long is disconnected, ms. */
  idleMs: number;
  /** true once the request body has been read: then the client may be made to wait. */
  bodyEnded: () => boolean;
  onSpill?: (bytes: number) => void;
  onWritten?: (bytes: number) => void;
}

/** Held back until so many bytes are ready. */
export const HOLD_BYTES = 1024 * 1024;
/** … or so many rows are. */
export const HOLD_ROWS = 10_000;
const COPY_BYTES = 256 * 1024;

/**
 * Modes: held (bytes wait in memory, the status is open) → direct (bytes go to the socket) ⇄ spilling (bytes go through a
 * file, because the client still sends and does not read yet). A file has no name from the start, so nothing is left of it.
 */
export class Answer {
  readonly #res: ServerResponse;
  readonly #options: AnswerOptions;
  #held: Buffer[] | null = [];
  #heldBytes = 0;
  #file: FileHandle | null = null;
  #written = 0;
  #read = 0;
  #copying: Promise<void> | null = null;
  #appending: Promise<void> | null = null;
  #failure: unknown = null;

  constructor(res: ServerResponse, options: AnswerOptions) {
    this.#res = res;
    this.#options = options;
    res.on('error', () => {});
  }

  /** true once the head is out: from then on an error can only cut the answer. */
  get started(): boolean {
    return this.#held === null;
  }

  /** Takes bytes in order; they may be reused once it resolves. @throws SluiceError client_gone | limit_exceeded */
  async write(bytes: Uint8Array): Promise<void> {
    if (this.#held) {
      this.#held.push(Buffer.from(bytes));
      this.#heldBytes += bytes.length;
      if (this.#heldBytes >= HOLD_BYTES) await this.release();
      return;
    }
    await this.#send(bytes);
  }

  /** Sends the head and what was held. */
  async release(): Promise<void> {
    const held = this.#held;
    if (!held) return;
    this.#held = null;
    this.#res.writeHead(200, this.#options.headers);
    for (const bytes of held) await this.#send(bytes);
  }

  /** Completes the answer, after whatever is still in the file. */
  async end(): Promise<void> {
    const held = this.#held;
    if (held) {
      // The whole answer is known, so content-length can be sent.
      this.#held = null;
      const body = Buffer.concat(held);
      this.#options.onWritten?.(body.length);
      this.#res.writeHead(200, { ...this.#options.headers, 'content-length': String(body.length) });
      this.#res.end(body);
    } else {
      await this.#copying;
      if (this.#failure) throw this.#failure;
      this.#res.end();
    }
  }

  /** Cuts the connection, so that an incomplete answer cannot be mistaken for a complete one. */
  destroy(): void {
    this.#failure ??= new SluiceError('client_gone', 'the answer was cut');
    this.#res.destroy();
  }

  async #send(bytes: Uint8Array): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#res.destroyed) throw new SluiceError('client_gone', 'the client closed the connection');
    this.#options.onWritten?.(bytes.length);
    if (!this.#copying) {
      if (this.#res.writableNeedDrain && this.#options.bodyEnded()) await this.#drained();
      if (!this.#res.writableNeedDrain) {
        this.#res.write(Buffer.from(bytes));
        return;
      }
    }
    if (this.#written - this.#read + bytes.length > this.#options.spillBytes) {
      throw tooMany('spill_bytes', this.#options.spillBytes, 'bytes');
    }
    // Set before anything is awaited: the copying side must not drop the file while it is being written to.
    this.#appending = this.#append(bytes);
    try {
      await this.#appending;
    } finally {
      this.#appending = null;
    }
  }

  async #append(bytes: Uint8Array): Promise<void> {
    const file = await this.#spillFile();
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, at, bytes.length - at, this.#written);
      at += bytesWritten;
      this.#written += bytesWritten;
      this.#options.onSpill?.(bytesWritten);
    }
    this.#copying ??= this.#copy(file);
  }

  async #spillFile(): Promise<FileHandle> {
    if (this.#file) return this.#file;
    const name = path.join(
      this.#options.spillFolder ?? tmpdir(),
      `sluice-answer-${process.pid}-${crypto.randomUUID()}`,
    );
    this.#file = await open(name, 'wx+', 0o600);
    await unlink(name);
    return this.#file;
  }

  /** Moves the file's bytes to the socket at the pace of the reader, then drops the file. */
  async #copy(file: FileHandle): Promise<void> {
    const buffer = Buffer.allocUnsafe(COPY_BYTES);
    try {
      for (;;) {
        while (this.#read < this.#written) {
          if (this.#res.writableNeedDrain) await this.#drained();
          const n = Math.min(COPY_BYTES, this.#written - this.#read);
          const { bytesRead } = await file.read(buffer, 0, n, this.#read);
          this.#res.write(Buffer.from(buffer.subarray(0, bytesRead)));
          this.#read += bytesRead;
          this.#options.onSpill?.(-bytesRead);
        }
        if (!this.#appending) break;
        await this.#appending.catch(() => {});
      }
    } catch (error) {
      this.#failure ??= error;
      this.#options.onSpill?.(this.#read - this.#written);
    }
    // From here to the end nothing is awaited, so that the next write finds either this file or none.
    this.#read = 0;
    this.#written = 0;
    this.#file = null;
    this.#copying = null;
    file.close().catch(() => {});
  }

  /** Resolves when the socket takes more. @throws SluiceError client_gone */
  #drained(): Promise<void> {
    const res = this.#res;
    if (!res.writableNeedDrain) return Promise.resolve();
    return new Promise((resolve, reject) => {
      const settle = (error?: Error) => {
        clearTimeout(timer);
        res.off('drain', onDrain);
        res.off('close', onClose);
        if (error) reject(error);
        else resolve();
      };
      const onDrain = () => settle();
      const onClose = () => settle(new SluiceError('client_gone', 'the client closed the connection'));
      const timer = setTimeout(() => {
        settle(new SluiceError('client_gone', `the client read nothing for ${this.#options.idleMs} ms`));
      }, this.#options.idleMs);
      res.on('drain', onDrain);
      res.on('close', onClose);
      if (res.destroyed) onClose();
    });
  }
}
