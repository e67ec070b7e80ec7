// The body of a request as chunks of bytes. Enforces limits and timeouts, decompresses, and extracts the file of a
// multipart body.
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type {} from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { monotonicMs } from '../../../core/clock.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import { hasZstd } from '../../../core/zstd.ts';
import { expanded, type StreamFaults } from '../../../io/source/decompressed.ts';
import { clientTimer, loopStalls } from './client-timer.ts';
import { DigestCheck } from './content-digest.ts';

/** Maximum size in bytes of a body that is read as a whole. */
const SMALL_BYTES = 64 * 1024;

export interface BodyOptions {
  maxBytes: number;
  maxExpandedBytes: number;
  idleMs: number;
  /**
   * Minimum average speed during waits for the client. The speed is checked after `idleMs` of waiting; a slower body
   * ends the request.
   */
  minBytesPerSecond: number;
  onBytes?: (n: number) => void;
  /** Wraps every wait for the client. */
  whileIdle?: (wait: () => Promise<void>) => Promise<void>;
}

export interface RequestBody {
  /** Call this method only once. */
  chunks(): AsyncIterable<Uint8Array>;
  /**
   * Returns a small body that has arrived completely; `chunks` then yields nothing. Returns null for other bodies, and
   * on further calls.
   */
  takeWhole(): Uint8Array | null;
  /** Whether every byte of the request has been read. */
  ended(): boolean;
}

/** Limits of a form. The file size is limited elsewhere, and fields other than the file are not read. */
const FORM_LIMITS = { fileSize: Number.MAX_SAFE_INTEGER, fieldSize: 64 * 1024, parts: 100 };

/** The stream of a body, and the checks to make after its last byte. */
interface BodySource {
  stream: Readable;
  raw: IncomingMessage;
  check: DigestCheck | null;
  /** Reads what follows the end of `stream` in the body. @throws SluiceError several_files | invalid_content */
  finish: () => Promise<void>;
}

/**
 * Opens the body of a request when its first bytes have arrived. Until then, the request takes up no resources.
 * @throws SluiceError invalid_content | client_gone
 * @throws SluiceError while reading: limit_exceeded, client_gone, truncated_input, invalid_content, digest_mismatch,
 * several_files
 */
export async function openBody(request: FastifyRequest, options: BodyOptions): Promise<RequestBody> {
  const raw = request.raw;
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding !== 'identity' && encoding !== 'gzip' && encoding !== 'zstd') {
    throw new SluiceError('invalid_content', 'Content-Encoding must be gzip, zstd or identity');
  }
  if (encoding === 'zstd' && !hasZstd()) {
    throw new SluiceError(
      'invalid_content',
      'Content-Encoding must be gzip or identity: this server does not support zstd',
    );
  }
  const check = DigestCheck.of(request.headers);
  let source: BodySource = { stream: raw, raw, check, finish: async () => check?.verify() };
  if (request.isMultipart()) {
    if (encoding !== 'identity') throw new SluiceError('invalid_content', 'a multipart body cannot be compressed');
    source = await filePart(request, options, check);
  } else await bodyMoves(raw, options.idleMs);
  const plain = encoding === 'identity' && source.stream === raw;
  return {
    chunks() {
      const bounded = capped(chunksOf(source, options), options.maxBytes, 'body_bytes', options.onBytes);
      if (encoding === 'identity') return bounded;
      return capped(expanded(bounded, encoding, bodyFaults(encoding)), options.maxExpandedBytes, 'expanded_bytes');
    },
    takeWhole: () => (plain ? wholeBody(request, options, check) : null),
    ended: () => raw.readableEnded || raw.complete,
  };
}

/** Waits for the first bytes of the body, or for its end. @throws SluiceError client_gone */
async function bodyMoves(raw: IncomingMessage, idleMs: number): Promise<void> {
  while (raw.readableLength === 0 && !raw.complete && !raw.readableEnded) {
    if (raw.destroyed) throw new SluiceError('client_gone', 'the client closed the connection');
    await nextEvent(raw, raw, idleMs);
  }
}

/**
 * Takes a small body from the stream if it has arrived completely, as single applications usually have. Otherwise
 * returns null and leaves the stream untouched.
 */
function wholeBody(
  { raw, headers }: FastifyRequest,
  { maxBytes, onBytes }: BodyOptions,
  check: DigestCheck | null,
): Uint8Array | null {
  const length = Number(headers['content-length'] ?? Number.NaN);
  if (!(length > 0 && length <= SMALL_BYTES && length <= maxBytes) || raw.readableLength !== length) return null;
  const whole = raw.read() as Uint8Array | null;
  if (whole?.length !== length) {
    if (whole) raw.unshift(whole);
    return null;
  }
  onBytes?.(length);
  check?.update(whole);
  check?.verify();
  // This read makes the stream emit its end.
  raw.read();
  return whole;
}

/**
 * The file of a multipart body as a stream. Handlers must be attached before the first await, or events would be
 * missed.
 */
async function filePart(request: FastifyRequest, options: BodyOptions, check: DigestCheck | null): Promise<BodySource> {
  const { raw } = request;
  const parts = request.parts({ limits: FORM_LIMITS });
  const next = async () => {
    const part = await withinIdle(parts.next(), raw, options);
    return part.done ? null : part.value;
  };
  try {
    const first = next();
    // The pipe of the form began to listen in the same turn of the event loop, so the form and the check receive every
    // byte.
    if (check) raw.on('data', (bytes: Buffer) => check.update(bytes));
    let part = await first;
    while (part && part.type !== 'file') part = await next();
    if (!part) throw new SluiceError('invalid_content', 'the multipart body contains no file');
    part.file.on('error', () => {});
    checkUnencoded(part.encoding);
    const finish = async () => {
      for (let more = await next(); more; more = await next()) {
        if (more.type !== 'file') continue;
        more.file.on('error', () => {}).resume();
        throw new SluiceError('several_files', 'the form contains a second file');
      }
      check?.verify();
    };
    return {
      stream: part.file,
      raw,
      check: null,
      finish: () => finish().catch((error) => Promise.reject(formError(error))),
    };
  } catch (error) {
    // Without this, the parser would look for parts in the bytes that are discarded.
    raw.unpipe();
    throw formError(error);
  }
}

/**
 * The parser does not decode the files of a form. `encoding`: their Content-Transfer-Encoding.
 * @throws SluiceError invalid_content
 */
function checkUnencoded(encoding: string): void {
  if (/^(7bit|8bit|binary)$/i.test(encoding.trim())) return;
  throw new SluiceError(
    'invalid_content',
    'Content-Transfer-Encoding of a file in a form must be 7bit, 8bit or binary: send its bytes unencoded',
  );
}

const formError = (cause: unknown): SluiceError =>
  cause instanceof SluiceError
    ? cause
    : new SluiceError('invalid_content', 'the multipart body is malformed', { cause });

/** A file of a form, with the name that the client chose. */
interface FormFile {
  name: string;
  /** Call this method once, and read to the end before requesting the next file. */
  chunks(): AsyncIterable<Uint8Array>;
}

/**
 * The files of a form in order, with the same timeouts as a body. Other fields are not read.
 * @throws SluiceError invalid_content | client_gone | digest_mismatch
 */
export async function* formFiles(
  request: FastifyRequest,
  options: Omit<BodyOptions, 'maxBytes' | 'maxExpandedBytes'>,
  mostFiles: number,
): AsyncGenerator<FormFile> {
  const { raw } = request;
  const { onBytes, whileIdle = (wait) => wait() } = options;
  const check = DigestCheck.of(request.headers);
  const onData = (bytes: Buffer): void => {
    check?.update(bytes);
    onBytes?.(bytes.length);
  };
  try {
    const parts = request.parts({ limits: { ...FORM_LIMITS, files: mostFiles } });
    const first = parts.next();
    first.catch(() => {});
    // The pipe of the form began to listen in the same turn of the event loop, so the form and this handler receive
    // every byte.
    raw.on('data', onData);
    for (let pending = first; ; pending = parts.next()) {
      let part: Awaited<typeof first> | undefined;
      await whileIdle(async () => {
        part = await withinIdle(pending, raw, options);
      });
      if (part!.done) break;
      if (part!.value.type !== 'file') continue;
      const { filename, file, encoding } = part!.value;
      file.on('error', () => {});
      checkUnencoded(encoding);
      const chunks = () => chunksOf({ stream: file, raw, check: null, finish: async () => {} }, options);
      yield { name: filename, chunks };
    }
  } catch (error) {
    throw formError(error);
  } finally {
    raw.off('data', onData);
  }
  refuseReset(raw);
  check?.verify();
}

/** Waits for `work`, as long as bytes keep arriving fast enough. @throws SluiceError client_gone */
async function withinIdle<T>(
  work: Promise<T>,
  raw: IncomingMessage,
  { idleMs, minBytesPerSecond }: Pick<BodyOptions, 'idleMs' | 'minBytesPerSecond'>,
): Promise<T> {
  const late = Promise.withResolvers<never>();
  const onLate = () => late.reject(new SluiceError('client_gone', `no part of the body arrived within ${idleMs} ms`));
  let stopTimer = clientTimer(idleMs, onLate);
  const since = monotonicMs();
  const stalls = loopStalls();
  let bytes = 0;
  const onData = (more: Buffer) => {
    stopTimer();
    stopTimer = clientTimer(idleMs, onLate);
    bytes += more.length;
    const ms = monotonicMs() - since;
    if (ms <= idleMs || bytes / (ms / 1000) >= minBytesPerSecond || loopStalls() !== stalls) return;
    late.reject(new SluiceError('client_gone', `the body arrived at less than ${minBytesPerSecond} bytes per second`));
  };
  raw.on('data', onData);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    stopTimer();
    raw.off('data', onData);
  }
}

/**
 * Chunks of a stream. The stream is not destroyed at its end or after an error, because the response is sent on the
 * same socket.
 */
async function* chunksOf(
  { stream, raw, check, finish }: BodySource,
  {
    idleMs,
    minBytesPerSecond,
    whileIdle = (wait) => wait(),
  }: Pick<BodyOptions, 'idleMs' | 'minBytesPerSecond' | 'whileIdle'>,
): AsyncGenerator<Uint8Array> {
  // Time spent waiting for the client. Time during which the server was busy does not count.
  let waitedMs = 0;
  let bytes = 0;
  const wait = async () => {
    const since = monotonicMs();
    const stalls = loopStalls();
    await nextEvent(stream, raw, idleMs);
    if (loopStalls() === stalls) waitedMs += monotonicMs() - since;
  };
  for (;;) {
    const chunk = stream.read() as Uint8Array | null;
    if (chunk !== null) {
      bytes += chunk.length;
      check?.update(chunk);
      yield chunk;
      continue;
    }
    if (stream.readableEnded) {
      refuseReset(raw);
      await finish();
      refuseReset(raw);
      return;
    }
    if (stream.errored) throw new SluiceError('invalid_content', 'the body is malformed', { cause: stream.errored });
    if (raw.destroyed && !raw.complete) {
      throw new SluiceError('client_gone', 'the client closed the connection');
    }
    if (stream.destroyed) throw new SluiceError('invalid_content', 'the body ends in the middle of its part');
    if (waitedMs > idleMs && bytes / (waitedMs / 1000) < minBytesPerSecond) {
      throw new SluiceError('client_gone', `the body arrived at less than ${minBytesPerSecond} bytes per second`);
    }
    await whileIdle(wait);
  }
}

/** Over HTTP/2, a stream that was reset looks like the end of a body. @throws SluiceError client_gone */
function refuseReset(raw: IncomingMessage): void {
  if (raw.aborted) throw new SluiceError('client_gone', 'the client cancelled the request body');
}

function nextEvent(stream: Readable, raw: IncomingMessage, idleMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error) => {
      stopTimer();
      for (const name of ['readable', 'end', 'error', 'close']) stream.off(name, settle);
      if (raw !== stream) for (const name of ['close', 'error']) raw.off(name, settle);
      if (error) reject(error);
      else resolve();
    };
    const settle = () => done();
    const late = new SluiceError('client_gone', `no byte arrived for ${idleMs} ms`);
    const stopTimer = clientTimer(idleMs, () => done(late));
    for (const name of ['readable', 'end', 'error', 'close']) stream.on(name, settle);
    if (raw !== stream) for (const name of ['close', 'error']) raw.on(name, settle);
  });
}

async function* capped(
  chunks: AsyncIterable<Uint8Array>,
  max: number,
  limit: string,
  onBytes?: (n: number) => void,
): AsyncGenerator<Uint8Array> {
  let total = 0;
  for await (const chunk of chunks) {
    total += chunk.length;
    onBytes?.(chunk.length);
    if (total > max) throw tooMany(limit, max, 'bytes');
    yield chunk;
  }
}

const bodyFaults = (encoding: string): StreamFaults => ({
  truncated: (cause) => new SluiceError('truncated_input', `the ${encoding} body ends too early`, { cause }),
  damaged: (cause) => new SluiceError('invalid_content', `the body is not valid ${encoding}`, { cause }),
});
