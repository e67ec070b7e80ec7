// The body of a request as byte chunks: bounded, decompressed, unwrapped from multipart, with time limits.
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type {} from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { tooMany } from '../../../engine/score-chunks.ts';
import { expanded, type StreamFaults } from '../../../io/source/decompressed.ts';

/** Bodies up to this may be taken as a whole. */
const SMALL_BYTES = 64 * 1024;

export interface BodyOptions {
  maxBytes: number;
  maxExpandedBytes: number;
  idleMs: number;
  /** A body that arrives slower than this ends the request, once `idleMs` have been spent waiting for it. */
  minBytesPerSecond: number;
  onBytes?: (n: number) => void;
}

export interface RequestBody {
  /** Call once. */
  chunks(): AsyncIterable<Uint8Array>;
  /** A small body that has arrived completely, once; `chunks` yields nothing then. Else null. */
  takeWhole(): Uint8Array | null;
  /** true once every byte of the request has been read. */
  ended(): boolean;
}

/** @throws SluiceError invalid_content; while reading: limit_exceeded, client_gone, truncated_input, invalid_content */
export async function openBody(request: FastifyRequest, options: BodyOptions): Promise<RequestBody> {
  const raw = request.raw;
  const encoding = (request.headers['content-encoding'] ?? 'identity').trim().toLowerCase();
  if (encoding !== 'identity' && encoding !== 'gzip' && encoding !== 'zstd') {
    throw new SluiceError('invalid_content', 'Content-Encoding must be gzip, zstd or identity');
  }
  let source: Readable = raw;
  if (request.isMultipart()) {
    if (encoding !== 'identity') throw new SluiceError('invalid_content', 'a multipart body cannot be compressed');
    source = await filePart(request, options.idleMs);
  }
  const plain = encoding === 'identity' && source === raw;
  return {
    chunks() {
      const bounded = capped(chunksOf(source, raw, options), options.maxBytes, 'body_bytes', options.onBytes);
      if (encoding === 'identity') return bounded;
      return capped(expanded(bounded, encoding, bodyFaults(encoding)), options.maxExpandedBytes, 'expanded_bytes');
    },
    takeWhole: () => (plain ? wholeBody(request, options) : null),
    ended: () => raw.readableEnded || raw.complete,
  };
}

/** Takes a small body off the stream if it has arrived completely, as single applications do; else leaves it alone. */
function wholeBody({ raw, headers }: FastifyRequest, { maxBytes, onBytes }: BodyOptions): Uint8Array | null {
  const length = Number(headers['content-length'] ?? Number.NaN);
  if (!(length > 0 && length <= SMALL_BYTES && length <= maxBytes) || raw.readableLength !== length) return null;
  const whole = raw.read() as Uint8Array | null;
  if (whole?.length !== length) {
    if (whole) raw.unshift(whole);
    return null;
  }
  onBytes?.(length);
  // The stream emits its end on the next read.
  raw.read();
  return whole;
}

/** The first file of a multipart body, as a stream; handlers are attached before anything is awaited. */
async function filePart(request: FastifyRequest, idleMs: number): Promise<Readable> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new SluiceError('client_gone', 'no part of the body came in time')), idleMs);
  });
  try {
    const part = await Promise.race([request.file({ limits: { fileSize: Number.MAX_SAFE_INTEGER } }), late]);
    if (!part) throw new SluiceError('invalid_content', 'the multipart body holds no file');
    part.file.on('error', () => {});
    return part.file;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError('invalid_content', 'the multipart body is malformed', { cause });
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Chunks of a stream without destroying it at the end or on an error: the answer still has to go out on the same socket.
 */
async function* chunksOf(
  stream: Readable,
  raw: IncomingMessage,
  { idleMs, minBytesPerSecond }: BodyOptions,
): AsyncGenerator<Uint8Array> {
  // Only time spent waiting for the client counts, not that of a busy server.
  let waitedMs = 0;
  let bytes = 0;
  for (;;) {
    const chunk = stream.read() as Uint8Array | null;
    if (chunk !== null) {
      bytes += chunk.length;
      yield chunk;
      continue;
    }
    if (stream.readableEnded) return;
    if (stream.errored) throw new SluiceError('invalid_content', 'the body is malformed', { cause: stream.errored });
    if (raw.destroyed && !raw.complete) {
      throw new SluiceError('client_gone', 'the client closed the connection');
    }
    if (stream.destroyed) throw new SluiceError('invalid_content', 'the body ends in the middle of its part');
    if (waitedMs > idleMs && bytes / (waitedMs / 1000) < minBytesPerSecond) {
      throw new SluiceError('client_gone', `the body came slower than ${minBytesPerSecond} bytes a second`);
    }
    const since = performance.now();
    await nextEvent(stream, raw, idleMs);
    waitedMs += performance.now() - since;
  }
}

function nextEvent(stream: Readable, raw: IncomingMessage, idleMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error) => {
      clearTimeout(timer);
      for (const name of ['readable', 'end', 'error', 'close']) stream.off(name, settle);
      if (raw !== stream) for (const name of ['close', 'error']) raw.off(name, settle);
      if (error) reject(error);
      else resolve();
    };
    const settle = () => done();
    const timer = setTimeout(() => done(new SluiceError('client_gone', `no byte came for ${idleMs} ms`)), idleMs);
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
