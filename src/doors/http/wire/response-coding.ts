// Content-Encoding of responses: negotiates the coding (RFC 9110, section 12.5.3), and encodes so that each byte can be
// sent without waiting for later bytes.
import { constants, createGzip, type Gzip, type ZstdCompress } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { hasZstd, zstd } from '../../../core/zstd.ts';
import { AnswerDigest } from './content-digest.ts';

export type ContentCoding = 'gzip' | 'zstd';

/** Shorter responses are not encoded, unless the client accepts only encoded responses. */
const LEAST_BYTES = 1024;
const WEIGHT = /^q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** The coding negotiated by Accept-Encoding. */
export interface Agreed {
  coding: ContentCoding;
  /** Compression level, 1 to 9. */
  level: number;
  /** Minimum length in bytes of a response to encode; 0 if the client accepts only encoded responses. */
  leastBytes: number;
}

/**
 * The coding with the greatest weight. Of equal weights, zstd is preferred to gzip, and gzip to no coding. Null for no
 * coding, also if the client accepts none of these; RFC 9110 permits ignoring the header then. With `level` 0, no
 * coding is offered.
 */
export function agreedCoding(
  header: string | string[] | undefined,
  level: number,
  offered: readonly ContentCoding[] = hasZstd() ? ['zstd', 'gzip'] : ['gzip'],
): Agreed | null {
  if (header === undefined || level === 0) return null;
  const weights = new Map<string, number>();
  for (const member of [header].flat().join(',').split(',')) {
    const [name = '', ...parameters] = member.split(';').map((part) => part.trim().toLowerCase());
    const weight = parameters.length === 0 ? 1 : Number(WEIGHT.exec(parameters.join(';'))?.[1] ?? 0);
    weights.set(name === 'x-gzip' ? 'gzip' : name, weight);
  }
  const all = weights.get('*');
  const plain = weights.get('identity') ?? all;
  let best: { coding: ContentCoding; weight: number } | null = null;
  for (const coding of offered) {
    const weight = weights.get(coding) ?? all ?? 0;
    if (weight > (best?.weight ?? 0)) best = { coding, weight };
  }
  // If the header has no weight for identity, a listed coding is preferred to an unencoded response.
  if (!best || best.weight < (weights.get('identity') ?? 0)) return null;
  return { coding: best.coding, level, leastBytes: plain === 0 ? 0 : LEAST_BYTES };
}

/** Adds Accept-Encoding to the Vary header. */
export const varyWith = (vary: unknown): string => [vary, 'accept-encoding'].flat().filter(Boolean).join(', ');

/** A compression stream of node:zlib, which runs on the threads of libuv. */
export function compressor({ coding, level }: Agreed): Gzip | ZstdCompress {
  return coding === 'gzip'
    ? createGzip({ level })
    : zstd().createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: level } });
}

/**
 * Encodes bytes in order. The result of `push` contains all bytes pushed so far, so that a client can decode each part
 * on arrival. Only `finish` writes the end mark (the checksum of gzip, the last block of zstd). A truncated response
 * therefore does not decode as a complete one.
 */
export class ContentEncoder {
  readonly #stream: Gzip | ZstdCompress;
  readonly #flush: number;
  #ready: Buffer[] = [];

  constructor(agreed: Agreed) {
    this.#stream = compressor(agreed);
    this.#flush = agreed.coding === 'gzip' ? constants.Z_SYNC_FLUSH : constants.ZSTD_e_flush;
    this.#stream.on('data', (bytes: Buffer) => this.#ready.push(bytes));
    this.#stream.on('error', () => {});
  }

  /**
   * Encodes bytes. Once the promise resolves, the caller may reuse the bytes.
   * @throws SluiceError client_gone: the encoder was closed in the meantime
   */
  push(bytes: Uint8Array): Promise<Buffer> {
    return this.#until((done) => {
      this.#stream.write(bytes);
      this.#stream.flush(this.#flush, done);
    });
  }

  /** Call this method once, after the last `push`. @throws SluiceError client_gone */
  finish(): Promise<Buffer> {
    return this.#until((done) => {
      this.#stream.once('end', done);
      this.#stream.end();
    });
  }

  /** Frees the memory of the encoder. Idempotent. */
  close(): void {
    this.#stream.destroy();
  }

  #until(begin: (done: () => void) => void): Promise<Buffer> {
    const stream = this.#stream;
    return new Promise((resolve, reject) => {
      const onClose = () => reject(stream.errored ?? new SluiceError('client_gone', 'the response was cut off'));
      if (stream.destroyed) return onClose();
      stream.once('close', onClose);
      begin(() => {
        stream.off('close', onClose);
        // Reading also passes the buffered bytes to the listener for `data`.
        while (stream.read() !== null);
        resolve(Buffer.concat(this.#ready.splice(0)));
      });
    });
  }
}

/** Sends a complete JSON body, encoded if the client accepts a coding. */
export async function sendJson(request: FastifyRequest, reply: FastifyReply, level: number, body: object) {
  if (level === 0) return reply.send(body);
  reply.header('vary', varyWith(reply.getHeader('vary')));
  const agreed = agreedCoding(request.headers['accept-encoding'], level);
  const plain = Buffer.from(JSON.stringify(body));
  if (!agreed || plain.length < agreed.leastBytes) return reply.send(body);
  const encoder = new ContentEncoder(agreed);
  try {
    const encoded = Buffer.concat([await encoder.push(plain), await encoder.finish()]);
    const digest = AnswerDigest.wantedBy(request.headers);
    digest?.update(encoded);
    if (digest) reply.header('content-digest', digest.value());
    reply.header('content-encoding', agreed.coding).type('application/json; charset=utf-8');
    return reply.send(encoded);
  } finally {
    encoder.close();
  }
}
