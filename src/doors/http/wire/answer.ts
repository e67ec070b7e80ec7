// The response to a predict request. The response is held until its status is certain, and then written at the speed of
// the client.
import type { ServerResponse } from 'node:http';
import { inBackground } from '../../../core/async.ts';
import { SluiceError } from '../../../core/errors.ts';
import { clientTimer } from './client-timer.ts';
import type { AnswerDigest } from './content-digest.ts';
import { type Agreed, ContentEncoder } from './response-coding.ts';
import { SpillFile, type SpillOptions } from './spill-file.ts';
import { cutUnread } from './unread-answer.ts';

export interface AnswerOptions extends SpillOptions {
  headers: Record<string, string>;
  /** A client that reads nothing for this many ms is disconnected. */
  idleMs: number;
  /** Whether the request body has been read. Only then may the response wait for the client. */
  bodyEnded: () => boolean;
  /**
   * Whether to send the response only when it is complete, with its length. Needed if the client could not detect a
   * truncated response.
   */
  whole: boolean;
  /**
   * Digest of the response. The digest is sent as a header if the response is complete before its head is sent;
   * otherwise as a trailer, if the client accepts trailers.
   */
  digest?: AnswerDigest | null;
  /**
   * The negotiated content coding. Short responses are not encoded. Limits apply to the bytes before encoding, the
   * digest to the bytes after encoding.
   */
  encoding?: Agreed | null;
  trailers?: boolean;
  /** Wraps the waits for a slow client during which the request has no other work. */
  whileIdle?: (wait: () => Promise<void>) => Promise<void>;
  onWritten?: (bytes: number) => void;
}

/** The response head is held until this many bytes are ready, or HOLD_ROWS rows. */
const HOLD_BYTES = 1024 * 1024;
/** The response head is held until this many rows are ready, or HOLD_BYTES bytes. */
export const HOLD_ROWS = 10_000;
const COPY_BYTES = 256 * 1024;

/**
 * States: held (bytes wait in memory, the status is open) → direct (bytes go to the socket) ⇄ spilling (bytes go
 * through a file, because the client still sends and does not read). A response that must be complete has other states:
 * held → spooled (all bytes wait in a file, the status is still open) → sent with its length.
 */
export class Answer {
  readonly #res: ServerResponse;
  readonly #options: AnswerOptions;
  #held: Buffer[] | null = [];
  #heldBytes = 0;
  #file: SpillFile | null = null;
  #encoder: ContentEncoder | null = null;
  #copying: Promise<void> | null = null;
  #appending: Promise<void> | null = null;
  #failure: unknown = null;

  constructor(res: ServerResponse, options: AnswerOptions) {
    this.#res = res;
    this.#options = options;
    res.on('error', () => {});
  }

  /** Whether the head was sent. After that, an error can only truncate the response. */
  get started(): boolean {
    return this.#held === null;
  }

  /**
   * Writes bytes in order. Once the promise resolves, the caller may reuse the bytes.
   * @throws SluiceError client_gone | limit_exceeded
   */
  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#held) {
      await this.#send(await this.#encoded(bytes));
      return;
    }
    if (this.#file) {
      await this.#file.append(await this.#encoded(bytes));
      return;
    }
    this.#held.push(Buffer.from(bytes));
    this.#heldBytes += bytes.length;
    if (this.#heldBytes < HOLD_BYTES) return;
    if (this.#options.whole) await this.#spool();
    else await this.release();
  }

  /**
   * Called when the status is certain. Sends the head and the held bytes, unless the response must be complete first.
   */
  async release(): Promise<void> {
    const held = this.#held;
    if (!held || this.#options.whole) return;
    this.#held = null;
    const { digest, trailers } = this.#options;
    this.#encode();
    const headers = this.#headers();
    this.#res.writeHead(200, digest && trailers ? { ...headers, trailer: 'content-digest' } : headers);
    for (const bytes of held) await this.#send(await this.#encoded(bytes));
  }

  /** Completes the response once all bytes in the file were sent. */
  async end(): Promise<void> {
    const { digest, trailers, onWritten } = this.#options;
    if (!this.#held) {
      if (this.#encoder) await this.#send(await this.#lastBytes());
      await this.#copying;
      if (this.#failure) throw this.#failure;
      if (digest && trailers) this.#res.addTrailers({ 'content-digest': digest.value() });
      this.#res.end();
      cutUnread(this.#res, this.#options.idleMs);
      return;
    }
    // The head was not sent yet and the response is complete, so its length can be sent.
    const file = this.#file;
    if (!file && this.#heldBytes >= (this.#options.encoding?.leastBytes ?? 0)) this.#encode();
    const body = Buffer.concat([await this.#encoded(Buffer.concat(this.#held)), await this.#lastBytes()]);
    const length = body.length + (file?.waiting ?? 0);
    this.#held = null;
    onWritten?.(length);
    this.#res.writeHead(200, {
      ...this.#headers(),
      'content-length': String(length),
      ...(digest ? { 'content-digest': digest.value() } : {}),
    });
    if (file) {
      await this.#copy(file);
      if (this.#failure) throw this.#failure;
    }
    this.#res.end(body);
    cutUnread(this.#res, this.#options.idleMs);
  }

  /** Discards a response whose head was not sent, so that another response can be sent instead. */
  async discard(): Promise<void> {
    if (this.started) return;
    this.#encoder?.close();
    const file = this.#file;
    this.#file = null;
    await file?.close();
  }

  /** Destroys the connection, so that the client does not mistake a truncated response for a complete one. */
  destroy(): void {
    this.#failure ??= new SluiceError('client_gone', 'the response was cut off');
    this.#encoder?.close();
    this.#res.destroy();
  }

  async #spool(): Promise<void> {
    this.#file = await SpillFile.open(this.#options);
    this.#encode();
    for (const bytes of this.#held!.splice(0)) await this.#file.append(await this.#encoded(bytes));
  }

  /** If a coding was negotiated, encodes all following bytes. */
  #encode(): void {
    const { encoding } = this.#options;
    if (encoding) this.#encoder = new ContentEncoder(encoding);
  }

  #headers(): Record<string, string> {
    const { headers, encoding } = this.#options;
    return this.#encoder ? { ...headers, 'content-encoding': encoding!.coding } : headers;
  }

  /** Encodes bytes and adds them to the digest. */
  async #encoded(bytes: Uint8Array): Promise<Uint8Array> {
    const encoded = this.#encoder && bytes.length > 0 ? await this.#encoder.push(bytes) : bytes;
    this.#options.digest?.update(encoded);
    return encoded;
  }

  /** The last bytes of an encoded response. */
  async #lastBytes(): Promise<Uint8Array> {
    const encoder = this.#encoder;
    if (!encoder) return Buffer.alloc(0);
    const bytes = await encoder.finish();
    encoder.close();
    this.#options.digest?.update(bytes);
    return bytes;
  }

  async #send(bytes: Uint8Array): Promise<void> {
    if (this.#failure) throw this.#failure;
    if (this.#res.destroyed) throw new SluiceError('client_gone', 'the client closed the connection');
    this.#options.onWritten?.(bytes.length);
    if (!this.#copying) {
      if (this.#res.writableNeedDrain && this.#options.bodyEnded()) {
        await (this.#options.whileIdle?.(() => this.#drain()) ?? this.#drain());
      }
      if (!this.#res.writableNeedDrain) {
        this.#res.write(Buffer.from(bytes));
        return;
      }
    }
    // Set before any await: `#copy` must not drop the file while bytes are being appended.
    this.#appending = this.#append(bytes);
    try {
      await this.#appending;
    } finally {
      this.#appending = null;
    }
  }

  async #append(bytes: Uint8Array): Promise<void> {
    this.#file ??= await SpillFile.open(this.#options);
    const file = this.#file;
    try {
      await file.append(bytes);
    } finally {
      // Started even after a failure, because `#copy` closes the file.
      this.#copying ??= this.#copy(file);
    }
  }

  /** Copies the file to the socket at the speed of the client, then drops the file. */
  async #copy(file: SpillFile): Promise<void> {
    const buffer = Buffer.allocUnsafe(COPY_BYTES);
    try {
      for (;;) {
        while (file.waiting > 0) {
          if (this.#res.writableNeedDrain) await this.#drain();
          if (this.#res.destroyed) throw new SluiceError('client_gone', 'the client closed the connection');
          const n = await file.take(buffer);
          this.#res.write(Buffer.from(buffer.subarray(0, n)));
        }
        if (!this.#appending) break;
        await this.#appending.catch(() => {});
      }
    } catch (error) {
      this.#failure ??= error;
    }
    // There must be no await from here on, so that the next write finds either this file or none.
    this.#file = null;
    this.#copying = null;
    inBackground('close the spill file of a response', () => file.close());
  }

  /** Resolves when the socket accepts more bytes. @throws SluiceError client_gone */
  #drain(): Promise<void> {
    const res = this.#res;
    const { idleMs } = this.#options;
    return new Promise((resolve, reject) => {
      const settle = (error?: Error) => {
        stopTimer();
        res.off('drain', onDrain);
        res.off('close', onClose);
        if (error) reject(error);
        else resolve();
      };
      const onDrain = () => settle();
      const onClose = () => settle(new SluiceError('client_gone', 'the client closed the connection'));
      const stopTimer = clientTimer(idleMs, () =>
        settle(new SluiceError('client_gone', `the client read nothing for ${idleMs} ms`)),
      );
      res.on('drain', onDrain);
      res.on('close', onClose);
      if (res.destroyed) onClose();
    });
  }
}
