// HTTP/2 on the port of HTTPS: its sessions and what bounds them, each and all together.
import type http from 'node:http';
import http2 from 'node:http2';
import type net from 'node:net';
import { clientTimer } from './client-timer.ts';
import { StreamRequest, StreamResponse } from './h2-stream.ts';

const { NGHTTP2_REFUSED_STREAM, NGHTTP2_INTERNAL_ERROR, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants;

/** Streams of one session that may be open at once. */
const CONCURRENT_STREAMS = 100;
/** Bytes of a body that a client may send ahead of what is read of it: what a stream can hold in memory. */
const STREAM_WINDOW = 256 * 1024;
/** The same of all bodies of a session. It opens as bytes come, not as they are read, so it holds nothing: it is for long ways. */
const SESSION_WINDOW = 4 * 1024 * 1024;
/** Streams that a client may reset at once, and then a second; beyond, its session ends (CVE-2023-44487). */
const RESETS = { streamResetBurst: 200, streamResetRate: 33 };
/** PING and SETTINGS frames that have to be answered: at once, and then a second (CVE-2019-9512, CVE-2019-9515). */
const CONTROL = { burst: 200, rate: 20 };
const SETTINGS_A_FRAME = 32;
/** Frames that make no sense, empty ones of a body among them (CVE-2019-9518, CVE-2025-8671). */
const INVALID_FRAMES = 100;
const REFUSED_STREAMS = 100;
const SESSION_MEGABYTES = 10;
/** From the goodbye to the end of a connection whose client does not end it. */
const LINGER_MS = 1000;

/** What a session or a stream of HTTP/2 was refused or ended for. */
export type Http2Refusal = 'streams' | 'sessions' | 'flood';

export interface SessionLimits {
  /** Sessions at once; clients beyond speak HTTP/1.1. */
  sessions: number;
  /** Open streams of all sessions. */
  streams: number;
  headerBytes: number;
  /** The first request has to come within this. */
  headersTimeoutMs: number;
  /** A session that answers nothing ends after this. */
  keepAliveMs: number;
  /** A client that takes nothing of an answer for this long has it cut. */
  answerIdleMs: number;
}

/** A session that is open. */
interface Session {
  socket: net.Socket;
  streams: number;
  /** Ends the time it may do nothing. */
  stopTimer: () => void;
}

/** The HTTP/2 sessions of a listener. */
export class Http2Sessions {
  readonly #server: http2.Http2Server;
  readonly #handler: http.RequestListener;
  readonly #limits: SessionLimits;
  readonly #onRefused: (what: Http2Refusal) => void;
  readonly #open = new Map<http2.ServerHttp2Session, Session>();
  #streams = 0;
  #greeted: net.Socket | null = null;

  constructor(handler: http.RequestListener, limits: SessionLimits, onRefused: (what: Http2Refusal) => void) {
    this.#handler = handler;
    this.#limits = limits;
    this.#onRefused = onRefused;
    this.#server = http2.createServer({
      settings: {
        maxConcurrentStreams: CONCURRENT_STREAMS,
        initialWindowSize: STREAM_WINDOW,
        maxHeaderListSize: limits.headerBytes,
        enablePush: false,
        enableConnectProtocol: false,
      },
      ...RESETS,
      maxSettings: SETTINGS_A_FRAME,
      maxSessionInvalidFrames: INVALID_FRAMES,
      maxSessionRejectedStreams: REFUSED_STREAMS,
      maxSessionMemory: SESSION_MEGABYTES,
    });
    this.#server.on('session', (session) => this.#follow(session));
    this.#server.on('sessionError', (error) => {
      if (FLOODS.has((error as NodeJS.ErrnoException).code ?? '')) onRefused('flood');
    });
    this.#server.on('stream', (stream, headers, _flags, rawHeaders) => {
      this.#take(stream, headers, rawHeaders as unknown as string[]);
    });
  }

  /** Sessions and streams that are open. */
  get counts(): { sessions: number; streams: number } {
    return { sessions: this.#open.size, streams: this.#streams };
  }

  /** What is agreed with a client that offers these protocols (ALPN); undefined: nothing, and the handshake fails. */
  choose(offered: readonly string[]): 'h2' | 'http/1.1' | undefined {
    const full = this.#open.size >= this.#limits.sessions;
    if (offered.includes('h2') && !full) return 'h2';
    if (offered.includes('h2')) this.#onRefused('sessions');
    return offered.includes('http/1.1') ? 'http/1.1' : undefined;
  }

  /** Takes over a connection whose client chose HTTP/2. */
  greet(socket: net.Socket): void {
    // Others may have shaken hands since it was chosen.
    if (this.#open.size >= this.#limits.sessions) {
      this.#onRefused('sessions');
      socket.destroy();
      return;
    }
    // The session is created, and told of, before this returns.
    this.#greeted = socket;
    this.#server.emit('connection', socket);
    this.#greeted = null;
  }

  /** Says that no more requests are taken (GOAWAY); those that came are answered. */
  goAway(): void {
    for (const session of [...this.#open.keys()]) this.#sayGoodbye(session);
  }

  closeIdle(): void {
    for (const [session, { streams }] of [...this.#open]) if (streams === 0) this.#sayGoodbye(session);
  }

  /** Ends all sessions. With an error: what is cut of an answer would look whole without. */
  closeAll(): void {
    for (const session of [...this.#open.keys()]) session.destroy(undefined, NGHTTP2_INTERNAL_ERROR);
  }

  #follow(session: http2.ServerHttp2Session): void {
    const { headersTimeoutMs, keepAliveMs } = this.#limits;
    const bye = () => this.#sayGoodbye(session);
    // Neither pings nor half a head keep a session open that asks for nothing.
    this.#open.set(session, { socket: this.#greeted!, streams: 0, stopTimer: clientTimer(headersTimeoutMs, bye) });
    session.setLocalWindowSize(SESSION_WINDOW);
    const control = newBudget(CONTROL);
    const count = () => {
      if (control() || session.destroyed) return;
      this.#onRefused('flood');
      session.destroy(undefined, NGHTTP2_ENHANCE_YOUR_CALM);
    };
    session.on('ping', count);
    session.on('remoteSettings', count);
    session.on('stream', (stream) => {
      const open = this.#open.get(session);
      if (!open || stream.closed) return;
      open.stopTimer();
      open.streams++;
      stream.once('close', () => {
        if (--open.streams > 0 || !this.#open.has(session)) return;
        if (session.closed) this.#endSoon(session);
        else open.stopTimer = clientTimer(keepAliveMs, bye);
      });
    });
    session.on('close', () => {
      this.#open.get(session)?.stopTimer();
      this.#open.delete(session);
    });
  }

  #take(stream: http2.ServerHttp2Stream, headers: http2.IncomingHttpHeaders, rawHeaders: string[]): void {
    // Resets are told by `close`, whatever their code.
    stream.on('error', () => {});
    const open = stream.session && this.#open.get(stream.session as http2.ServerHttp2Session);
    // Opened and reset in one packet: nobody waits for an answer.
    if (!open || stream.closed) return;
    if (this.#streams >= this.#limits.streams) {
      this.#onRefused('streams');
      // Says that nothing was done: any request may be sent again (RFC 9113, section 8.7).
      stream.close(NGHTTP2_REFUSED_STREAM);
      return;
    }
    this.#streams++;
    stream.once('close', () => this.#streams--);
    const request = new StreamRequest(stream, headers, rawHeaders, open.socket);
    const response = new StreamResponse(stream, this.#limits.answerIdleMs);
    const refusal = refusalOf(headers);
    if (refusal !== null) {
      response.statusCode = refusal;
      response.end();
      return;
    }
    if (headers.expect !== undefined) response.writeContinue();
    this.#handler(request as never, response as never);
  }

  /** Ends a session when its streams have ended: at once if there is none. */
  #sayGoodbye(session: http2.ServerHttp2Session): void {
    const streams = this.#open.get(session)?.streams ?? 0;
    if (!session.closed && !session.destroyed) session.close();
    if (streams === 0) this.#endSoon(session);
  }

  /** Ends a connection that has been said goodbye to, also where its client leaves it open or does not read. */
  #endSoon(session: http2.ServerHttp2Session): void {
    const open = this.#open.get(session);
    if (!open) return;
    open.stopTimer();
    open.stopTimer = clientTimer(LINGER_MS, () => open.socket.destroy());
  }
}

/** Errors of sessions that say that a client asked for too much, not that it was wrong. */
const FLOODS = new Set(['ERR_HTTP2_TOO_MANY_INVALID_FRAMES', 'ERR_HTTP2_MAX_PENDING_SETTINGS_ACK', 'ERR_HTTP2_ERROR']);

/** The status of what is no request of this service, as Node answers it over HTTP/1.1; null: it is one. */
function refusalOf(headers: http2.IncomingHttpHeaders): number | null {
  if (headers[':method'] === 'CONNECT') return 405;
  return headers.expect === undefined || headers.expect.toLowerCase() === '100-continue' ? null : 417;
}

/** A budget that fills itself: false when it is spent. */
function newBudget({ burst, rate }: { burst: number; rate: number }): () => boolean {
  let left = burst;
  let at = performance.now();
  return () => {
    const now = performance.now();
    left = Math.min(burst, left + ((now - at) / 1000) * rate);
    at = now;
    return --left >= 0;
  };
}
