// A stream of HTTP/2 (RFC 9113) as a request and an answer in the manners of HTTP/1.1, with the cuts that Node's own classes hide.
import type { EventEmitter } from 'node:events';
import type http from 'node:http';
import http2 from 'node:http2';
import type net from 'node:net';
import { SluiceError } from '../../../core/errors.ts';
import { clientTimer } from './client-timer.ts';

/** Of Node's classes what is replaced here: their types call properties what are accessors. */
const NodeRequest = http2.Http2ServerRequest as unknown as new (
  ...of: ConstructorParameters<typeof http2.Http2ServerRequest>
) => Omit<http2.Http2ServerRequest, 'complete' | 'destroyed' | 'socket'>;
const NodeResponse = http2.Http2ServerResponse as unknown as new (
  stream: http2.ServerHttp2Stream,
) => Omit<http2.Http2ServerResponse, 'destroyed' | 'writableFinished' | 'writableNeedDrain' | 'destroy' | 'write'>;

/** A request whose end can be told from a cut: Node ends the body of a stream that is reset as if it were whole. */
export class StreamRequest extends NodeRequest {
  readonly #socket: net.Socket;

  constructor(
    stream: http2.ServerHttp2Stream,
    headers: http2.IncomingHttpHeaders,
    rawHeaders: readonly string[],
    socket: net.Socket,
  ) {
    super(stream, headers, {}, rawHeaders);
    this.#socket = socket;
  }

  /** The connection, also when the stream is over; what Node gives forgets its address then. */
  get socket(): net.Socket {
    return this.#socket;
  }

  get complete(): boolean {
    const { stream } = this;
    return (stream.endAfterHeaders || stream.readableEnded) && !stream.aborted;
  }

  get destroyed(): boolean {
    // Asked for before there is one, too.
    const stream = this.stream as http2.ServerHttp2Stream | undefined;
    return stream !== undefined && (stream.destroyed || stream.aborted);
  }

  set destroyed(_value: boolean) {
    // The stream knows.
  }
}

type Written = (error?: Error | null) => void;

/** An answer that is finished only if it was not cut, and that is cut when its client takes nothing of it. */
export class StreamResponse extends NodeResponse {
  readonly #idleMs: number;
  /** Chunks that wait for the windows of the client, and what ends the time it has for the first of them. */
  #waiting = 0;
  #stopTimer = () => {};

  constructor(stream: http2.ServerHttp2Stream, idleMs: number) {
    super(stream);
    this.#idleMs = idleMs;
    stream.once('close', () => this.#stopTimer());
  }

  get destroyed(): boolean {
    return this.stream.destroyed || this.stream.aborted;
  }

  get writableNeedDrain(): boolean {
    return this.stream.writableNeedDrain;
  }

  get writableFinished(): boolean {
    const { stream } = this;
    return stream.writableFinished && !stream.aborted && stream.rstCode === http2.constants.NGHTTP2_NO_ERROR;
  }

  write(chunk: string | Uint8Array, encoding?: BufferEncoding | Written | null, done?: Written): boolean {
    const callback = typeof encoding === 'function' ? encoding : done;
    if (this.#waiting++ === 0) this.#watch();
    // Of the base class: what is omitted above is there.
    const write = http2.Http2ServerResponse.prototype.write as (c: unknown, e: unknown, d: Written) => boolean;
    return write.call(this, chunk, typeof encoding === 'string' ? encoding : 'utf8', (error) => {
      this.#stopTimer();
      if (--this.#waiting > 0 && !this.destroyed) this.#watch();
      callback?.(error);
    });
  }

  /** Resets the stream, so that no client takes a cut answer for a whole one; other streams of the connection go on. */
  destroy(): void {
    this.stream.destroy(new SluiceError('client_gone', 'the answer was cut'));
  }

  /** Also of answers that have ended for the service: a window of nothing would hold their stream for good. */
  #watch(): void {
    this.#stopTimer = clientTimer(this.#idleMs, () => this.destroy());
  }
}

/** The stream of an HTTP/2 request; null: it came over HTTP/1. */
export const streamOf = (raw: http.IncomingMessage): http2.ServerHttp2Stream | null =>
  raw instanceof http2.Http2ServerRequest ? (raw as http2.Http2ServerRequest).stream : null;

/** What says `close` when the client of a request has gone or given it up. */
export const clientOfRequest = (raw: http.IncomingMessage): EventEmitter => streamOf(raw) ?? raw.socket;

/** Ends a request in the middle of its body, and over HTTP/1 its connection. */
export function cutRequest(raw: http.IncomingMessage): void {
  const stream = streamOf(raw);
  if (stream) stream.close(http2.constants.NGHTTP2_CANCEL);
  else raw.destroy();
}

/** Reads on and discards what still comes behind an answer, then closes the stream without an error (RFC 9113, section 8.1). */
export function lingerOn(
  stream: http2.ServerHttp2Stream,
  raw: http.IncomingMessage,
  most: { bytes: number; ms: number },
): void {
  let bytes = 0;
  const enough = () => stream.close();
  const timer = setTimeout(enough, most.ms);
  stream.once('close', () => clearTimeout(timer));
  raw.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > most.bytes) enough();
  });
  raw.on('error', () => {});
  raw.resume();
}

/**
 * Refuses what nghttp2 lets through: two names of the host that differ (RFC 9113, section 8.3.1), and heads that are larger than allowed,
 * which it looks at only once the client has acknowledged the settings.
 * @throws SluiceError bad_request | limit_exceeded
 */
export function checkStreamHead(raw: http.IncomingMessage, headerBytes: number): void {
  if (!streamOf(raw)) return;
  const { host, ':authority': authority } = raw.headers as http2.IncomingHttpHeaders;
  if (host !== undefined && authority !== undefined && host.toLowerCase() !== authority.toLowerCase()) {
    throw new SluiceError('bad_request', 'Host is another one than :authority');
  }
  // As RFC 9113 counts it, section 6.5.2: 32 bytes a field beside its name and value.
  const bytes = raw.rawHeaders.reduce((sum, text) => sum + Buffer.byteLength(text) + 16, 0);
  if (bytes <= headerBytes) return;
  const extra = { limit: 'header_bytes', value: headerBytes, unit: 'bytes' };
  throw new SluiceError('limit_exceeded', 'the request head is too large', { extra });
}
