// HTTP/2 (RFC 9113) on the port of HTTPS: its sessions, their limits, and its requests in the manners of HTTP/1.1.
import type http from 'node:http';
import http2 from 'node:http2';
import type net from 'node:net';
import { SluiceError } from '../../../core/errors.ts';
import { clientTimer } from './client-timer.ts';

/** What clients may choose from in the TLS handshake (ALPN), the preferred first. */
export const PROTOCOLS = ['h2', 'http/1.1'];

const CONCURRENT_STREAMS = 100;
/** Bytes of a body that a client may send ahead of what is read of it: bounds what a connection holds in memory. */
const STREAM_WINDOW = 256 * 1024;
/** Streams that a connection may reset at once, and then a second; beyond, it ends (CVE-2023-44487). */
const RESETS = { streamResetBurst: 200, streamResetRate: 33 };
const PINGS = 10;
const SETTINGS = 16;
const INVALID_FRAMES = 100;
const REFUSED_STREAMS = 100;

/** Of Node's classes what is replaced here: their types call properties what are accessors. */
const NodeRequest = http2.Http2ServerRequest as unknown as new (
  ...of: ConstructorParameters<typeof http2.Http2ServerRequest>
) => Omit<http2.Http2ServerRequest, 'complete' | 'destroyed'>;
const NodeResponse = http2.Http2ServerResponse as unknown as new (
  stream: http2.ServerHttp2Stream,
) => Omit<http2.Http2ServerResponse, 'destroyed' | 'writableFinished' | 'destroy'>;

/** A request whose end can be told from a cut: Node ends the body of a stream that is reset as if it were whole. */
class StreamRequest extends NodeRequest {
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

/** An answer that is finished only if it was not cut. */
class StreamResponse extends NodeResponse {
  get destroyed(): boolean {
    return this.stream.destroyed || this.stream.aborted;
  }

  get writableFinished(): boolean {
    const { stream } = this;
    return stream.writableFinished && !stream.aborted && stream.rstCode === http2.constants.NGHTTP2_NO_ERROR;
  }

  /** Resets the stream, so that no client takes a cut answer for a whole one; other streams of the connection go on. */
  destroy(): void {
    this.stream.destroy(new SluiceError('client_gone', 'the answer was cut'));
  }
}

/** The stream of an HTTP/2 request; null: it came over HTTP/1. */
export const streamOf = (raw: http.IncomingMessage): http2.ServerHttp2Stream | null =>
  raw instanceof http2.Http2ServerRequest ? (raw as http2.Http2ServerRequest).stream : null;

/**
 * Refuses heads that are larger than allowed: nghttp2 does so only once the client has acknowledged the settings.
 * @throws SluiceError limit_exceeded
 */
export function checkHeadSize(raw: http.IncomingMessage, headerBytes: number): void {
  if (!streamOf(raw)) return;
  // As RFC 9113 counts it, section 6.5.2: 32 bytes a field beside its name and value.
  const bytes = raw.rawHeaders.reduce((sum, text) => sum + Buffer.byteLength(text) + 16, 0);
  if (bytes <= headerBytes) return;
  const extra = { limit: 'header_bytes', value: headerBytes, unit: 'bytes' };
  throw new SluiceError('limit_exceeded', 'the request head is too large', { extra });
}

export interface SessionLimits {
  /** The first request has to come within this. */
  headersTimeoutMs: number;
  /** A session that answers nothing ends after this. */
  keepAliveMs: number;
  headerBytes: number;
}

/** The HTTP/2 sessions of a listener. */
export class Http2Sessions {
  readonly #server: http2.Http2Server;
  readonly #limits: SessionLimits;
  /** Open sessions → streams of theirs that are open. */
  readonly #open = new Map<http2.ServerHttp2Session, number>();
  readonly #sockets = new WeakMap<http2.Http2Session, net.Socket>();
  #greeted: net.Socket | null = null;

  constructor(handler: http.RequestListener, limits: SessionLimits) {
    this.#limits = limits;
    this.#server = http2.createServer({
      settings: {
        maxConcurrentStreams: CONCURRENT_STREAMS,
        initialWindowSize: STREAM_WINDOW,
        maxHeaderListSize: limits.headerBytes,
        enablePush: false,
        enableConnectProtocol: false,
      },
      ...RESETS,
      maxOutstandingPings: PINGS,
      maxSettings: SETTINGS,
      maxSessionInvalidFrames: INVALID_FRAMES,
      maxSessionRejectedStreams: REFUSED_STREAMS,
      Http2ServerRequest: StreamRequest as never,
      Http2ServerResponse: StreamResponse as never,
    });
    this.#server.on('request', handler as never);
    this.#server.on('session', (session) => this.#follow(session));
  }

  /** Takes over a connection whose client chose HTTP/2. */
  greet(socket: net.Socket): void {
    // The session is created, and told of, before this returns.
    this.#greeted = socket;
    this.#server.emit('connection', socket);
    this.#greeted = null;
  }

  /** The connection a stream came over; null: it is closed. */
  socketOf(stream: http2.ServerHttp2Stream): net.Socket | null {
    return (stream.session && this.#sockets.get(stream.session)) ?? null;
  }

  /** Says that no more requests are taken (GOAWAY); those that came are answered. */
  goAway(): void {
    for (const session of [...this.#open.keys()]) sayGoodbye(session);
  }

  closeIdle(): void {
    for (const [session, streams] of [...this.#open]) if (streams === 0) sayGoodbye(session);
  }

  closeAll(): void {
    for (const session of [...this.#open.keys()]) session.destroy();
  }

  #follow(session: http2.ServerHttp2Session): void {
    this.#open.set(session, 0);
    this.#sockets.set(session, this.#greeted!);
    const { headersTimeoutMs, keepAliveMs } = this.#limits;
    // Neither pings nor half a head keep a session open that asks for nothing.
    let stopTimer = clientTimer(headersTimeoutMs, () => sayGoodbye(session));
    const change = (by: number) => {
      const streams = (this.#open.get(session) ?? 0) + by;
      if (!this.#open.has(session)) return;
      this.#open.set(session, streams);
      stopTimer();
      if (streams === 0) stopTimer = clientTimer(keepAliveMs, () => sayGoodbye(session));
    };
    session.on('stream', (stream) => {
      change(1);
      stream.once('close', () => change(-1));
    });
    session.on('close', () => {
      stopTimer();
      this.#open.delete(session);
    });
  }
}

/** Ends a session when its streams have ended: at once if there is none. */
function sayGoodbye(session: http2.ServerHttp2Session): void {
  if (!session.closed && !session.destroyed) session.close();
}
