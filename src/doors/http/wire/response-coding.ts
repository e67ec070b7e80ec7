// Content-Encoding of responses: negotiates the coding (RFC 9110, section 12.5.3), and encodes so that no byte waits for later ones.
import { constants, createGzip, type Gzip, type ZstdCompress } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { hasZstd, zstd } from '../../../core/zstd.ts';
import { AnswerDigest } from './content-digest.ts';

export type ContentCoding = 'gzip' | 'zstd';

/** Shorter responses are not encoded, unless the client accepts only encoded ones. */
const LEAST_BYTES = 1024;
const WEIGHT = /^q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** The coding negotiated by Accept-Encoding. */
export interface Agreed {
  coding: ContentCoding;
  /** Compression level, 1 to 9. */
  level: number;
  /** Shorter responses are not encoded. 0: the client accepts only encoded responses. */
  leastBytes: number;
}

/**
 * The coding with the greatest weight; zstd is preferred to gzip, gzip to no coding. null: no coding. Also null if
 * nothing is acceptable; the RFC then lets a server ignore the header. `level` 0: no coding is offered.
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
  // Without a weight for identity, a listed coding is preferred to an unencoded response.
  if (!best || best.weight < (weights.get('identity') ?? 0)) return null;
  return { coding: best.coding, level, leastBytes: plain === 0 ? 0 : LEAST_BYTES };
}

/** Adds Accept-Encoding to the Vary header. */
export const varyWith = (vary: unknown): string => [vary, 'accept-encoding'].flat().filter(Boolean).join(', ');

/** A compression stream of node:zlib, which works on libuv threads. */
export function compressor({ coding, level }: Agreed): Gzip | ZstdCompress {
  return coding === 'gzip'
    ? createGzip({ level })
    : zstd().createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: level } });
}

/**
 * Encodes bytes in order. The result of `push` contains all pushed bytes, so that a client can decode each part when it
 * arrives. Only `finish` writes the end mark (gzip's checksum, the last block of zstd), so a cut response does not
 * decode as complete.
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
   * Encodes bytes; the caller may reuse them once the promise resolves. @throws SluiceError client_gone: the encoder
   * was closed meanwhile
   */
  push(bytes: Uint8Array): Promise<Buffer> {
    return this.#until((done) => {
      this.#stream.write(bytes);
      this.#stream.flush(this.#flush, done);
    });
  }

  /** Call it once, after the last `push`. @throws SluiceError client_gone */
  finish(): Promise<Buffer> {
    return this.#until((done) => {
      this.#stream.once('end', done);
      this.#stream.end();
    });
  }

  /** Frees its memory. Idempotent. */
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
        // Reading also passes buffered bytes to the `data` listener.
        while (stream.read() !== null);
        resolve(Buffer.concat(this.#ready.splice(0)));
      });
    });
  }
}

/** Sends complete JSON, encoded if the client accepts it. */
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
