// HTTP requests to registries and object storage: timeouts, retries with jitter, and a single error code for all server failures.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream, readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { monotonicMs, sleep } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';

export interface HttpCall {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'PATCH' | 'DELETE';
  url: URL;
  headers?: Record<string, string>;
  /** Bytes, or a file that is streamed from disk. */
  body?: Uint8Array | { file: string; bytes: number };
  /**
   * Whether the request may be repeated after any failure. false: it is repeated only if the server certainly did not
   * process it. Default: true.
   */
  repeatable?: boolean;
  /** A 3xx status that is a regular response instead of a redirect. Default: none. */
  accepts?: number;
}

export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  /**
   * Number of times that the request was sent. If it is more than 1, an earlier attempt may have been processed
   * although its response was lost.
   */
  sent: number;
}

export interface Download extends Reply {
  bytes: number;
  sha256: string;
}

export type OutageCode = 'registry_unavailable' | 'storage_unavailable';

interface StreamedReply extends Reply {
  /** null: the request was rejected. */
  body: http.IncomingMessage | null;
}

export interface HttpClientOptions {
  /** Name of the server in messages. Must not contain credentials. */
  name: string;
  /** Timeout for the response to a small request, and for a transfer without progress, ms. */
  timeoutMs: number;
  /** Maximum number of retries after the first attempt. */
  retries: number;
  /** PEM file with CA certificates, which replace the certificates of the system. */
  caFile?: string | undefined;
  /** Error code for failures of the server. Default: registry_unavailable. */
  code?: OutageCode;
  /** Returns authorization headers. Called for each attempt. */
  authorize?: (call: HttpCall) => Promise<Record<string, string>>;
}

/** Maximum size of a response that is held in memory, bytes. */
const TEXT_BYTES_MAX = 64 * 1024 * 1024;
const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 10_000;
/**
 * Factor by which the timeout is multiplied after the last byte of a file was sent, because storing a large file takes
 * time.
 */
const UPLOAD_PATIENCE = 6;

/** Errors that occur before the first byte is sent. */
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH']);

/** Matches errors about untrusted certificates, which are never retried. */
const DISTRUST = /^(CERT_|ERR_TLS|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME)/;

/** A failed attempt that may be repeated. `unsent`: the server did not process the request. */
class Retry extends Error {
  readonly pauseMs: number | null;
  readonly unsent: boolean;
  constructor(message: string, pauseMs: number | null = null, unsent = false) {
    super(message);
    this.pauseMs = pauseMs;
    this.unsent = unsent;
  }
}

export class HttpClient {
  readonly #options: HttpClientOptions;
  readonly #agent: http.Agent;
  readonly #closing = new AbortController();

  /** @throws SluiceError usage if the CA file cannot be read */
  constructor(secure: boolean, options: HttpClientOptions) {
    this.#options = options;
    const pool = { keepAlive: true, maxSockets: 16, scheduling: 'lifo' as const };
    this.#agent = secure ? new https.Agent({ ...pool, ...readCa(options.caFile) }) : new http.Agent(pool);
  }

  /** Sends a request and returns any 2xx or 4xx response. @throws SluiceError registry_unavailable */
  async text(call: HttpCall): Promise<Reply> {
    return this.#tries(call, true, async (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of response) {
        bytes += (chunk as Buffer).length;
        if (bytes > TEXT_BYTES_MAX) throw new Retry('its answer is too large');
        chunks.push(chunk as Buffer);
      }
      return { text: Buffer.concat(chunks).toString('utf8') };
    });
  }

  /**
   * Streams the body of a 2xx response into a new file and hashes it. For any other response, only status and text are
   * returned.
   */
  async download(call: HttpCall, file: string): Promise<Download> {
    return this.#tries(call, false, async (response) => {
      if (response.statusCode! >= 300) return { bytes: 0, sha256: '', text: await head(response) };
      const hash = createHash('sha256');
      let bytes = 0;
      const count = new Transform({
        transform(chunk: Buffer, _encoding, done) {
          hash.update(chunk);
          bytes += chunk.length;
          done(null, chunk);
        },
      });
      await pipeline(response, count, createWriteStream(file));
      return { bytes, sha256: hash.digest('hex'), text: '' };
    });
  }

  /**
   * Returns the body of a response as a stream, which may end early with an error. The body of a 4xx response is read
   * completely instead.
   */
  async stream(call: HttpCall): Promise<StreamedReply> {
    return this.#tries(call, false, async (response) => {
      if (response.statusCode! >= 300) return { text: await head(response), body: null };
      return { text: '', body: response };
    });
  }

  close(): void {
    this.#closing.abort();
    this.#agent.destroy();
  }

  async #tries<T>(
    call: HttpCall,
    small: boolean,
    consume: (response: http.IncomingMessage) => Promise<T>,
  ): Promise<T & Omit<Reply, 'text'>> {
    const { name, retries, timeoutMs, code: outage } = this.#options;
    const began = monotonicMs();
    for (let tried = 1; ; tried++) {
      try {
        const response = await this.#once(call, small);
        const status = response.statusCode!;
        if (status === 429 || status >= 500 || (status >= 300 && status < 400 && status !== call.accepts)) {
          const text = await head(response);
          const again = status === 429 || status === 503 || (status >= 500 && call.repeatable !== false);
          throw again
            ? new Retry(`it answered ${status}`, retryAfterMs(response), status === 429 || status === 503)
            : unavailable(name, `it answered ${status} ${text.slice(0, 200).replace(/\s+/g, ' ')}`, undefined, outage);
        }
        return { ...(await consume(response)), status, headers: response.headers, sent: tried };
      } catch (error) {
        if (error instanceof SluiceError) throw error;
        const code = (error as NodeJS.ErrnoException).code ?? '';
        if (LOCAL.has(code)) throw error;
        const again =
          (call.repeatable !== false && !DISTRUST.test(code)) || (error as Retry).unsent || NOT_SENT.has(code);
        const late = monotonicMs() - began > 3 * timeoutMs && small;
        if (!again || late || tried > retries || this.#closing.signal.aborted) {
          throw unavailable(
            name,
            error instanceof Retry ? error.message : code || (error as Error).message,
            error,
            outage,
          );
        }
        const pause = FIRST_PAUSE_MS * 2 ** (tried - 1) * (0.5 + Math.random());
        const asked = error instanceof Retry ? (error.pauseMs ?? 0) : 0;
        await sleep(Math.min(LONGEST_PAUSE_MS, Math.max(pause, asked)), {
          signal: this.#closing.signal,
        }).catch(() => {});
      }
    }
  }

  async #once(call: HttpCall, small: boolean): Promise<http.IncomingMessage> {
    const { authorize, timeoutMs } = this.#options;
    const headers = { 'user-agent': 'sluice', ...call.headers, ...(await authorize?.(call)) };
    const { body } = call;
    const upload = body !== undefined && !(body instanceof Uint8Array);
    const patience = upload ? timeoutMs * UPLOAD_PATIENCE : timeoutMs;
    const signals = [this.#closing.signal, ...(small && !upload ? [AbortSignal.timeout(timeoutMs)] : [])];
    const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
    const request = (call.url.protocol === 'https:' ? https : http).request(call.url, {
      method: call.method,
      agent: this.#agent,
      timeout: patience,
      signal: AbortSignal.any(signals),
      headers: { ...headers, ...(body === undefined ? {} : { 'content-length': upload ? body.bytes : body.length }) },
    });
    request.on('timeout', () => request.destroy(new Retry(`no answer within ${patience} ms`)));
    request.on('error', (error) =>
      reject(error.name === 'AbortError' ? new Retry(`no answer within ${timeoutMs} ms`) : error),
    );
    request.on('response', resolve);
    if (upload) {
      // The server may reject the request before the last byte was sent. The error of the pipeline is then ignored in
      // favour of the response.
      pipeline(createReadStream(body.file), request).catch(reject);
    } else request.end(body);
    return promise;
  }
}

/** Errors of this machine, as opposed to errors of the server. */
const LOCAL = new Set(['ENOSPC', 'EDQUOT', 'EACCES', 'EROFS', 'ENOENT', 'EMFILE']);

export const unavailable = (
  name: string,
  why: string,
  cause?: unknown,
  code: OutageCode = 'registry_unavailable',
): SluiceError => new SluiceError(code, `${name}: ${why}`, cause === undefined ? {} : { cause });

/** Parses an http or https URL. `name`: name of the setting in the message. @throws SluiceError usage */
export function httpAddress(name: string, text: string): URL {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol)) return url;
  throw new SluiceError('usage', `${name} is not an http:// or https:// address`);
}

/** Reads a CA file. @throws SluiceError usage */
export function readCa(file: string | undefined): { ca?: Buffer } {
  if (file === undefined) return {};
  try {
    return { ca: readFileSync(file) };
  } catch (cause) {
    throw new SluiceError('usage', `ca_file ${file} cannot be read`, { cause });
  }
}

function retryAfterMs(response: http.IncomingMessage): number | null {
  const seconds = Number(response.headers['retry-after']);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : null;
}

/**
 * The first bytes of a response as text. All further bytes are read and discarded, so that the connection can be
 * reused.
 */
async function head(response: http.IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response) if (text.length < 4096) text += (chunk as Buffer).toString('utf8');
  return text.slice(0, 4096);
}
