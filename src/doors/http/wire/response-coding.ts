// Content-Encoding of answers: which one a client takes (RFC 9110, section 12.5.3), and bytes encoded so that none waits for later ones.
import { constants, createGzip, type Gzip, type ZstdCompress } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SluiceError } from '../../../core/errors.ts';
import { hasZstd, zstd } from '../../../core/zstd.ts';
import { AnswerDigest } from './content-digest.ts';

export type ContentCoding = 'gzip' | 'zstd';

/** Shorter answers stay as they are, unless the client refuses that. */
const LEAST_BYTES = 1024;
const WEIGHT = /^q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** The coding for a client, by its Accept-Encoding. */
export interface Agreed {
  coding: ContentCoding;
  /** 1 to 9 */
  level: number;
  /** Fewer bytes stay as they are; 0: the client takes nothing that is not encoded. */
  leastBytes: number;
}

/**
 * The coding with the greatest weight, zstd before gzip before none. null: none; also where nothing is acceptable, for which the RFC
 * lets a server disregard the header. `level` 0: nothing is offered.
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
  // A client that names none wants the coding it names: plain is merely acceptable.
  if (!best || best.weight < (weights.get('identity') ?? 0)) return null;
  return { coding: best.coding, level, leastBytes: plain === 0 ? 0 : LEAST_BYTES };
}

/** Adds Accept-Encoding to the Vary header. */
export const varyWith = (vary: unknown): string => [vary, 'accept-encoding'].flat().filter(Boolean).join(', ');

/** A stream of node:zlib, which works on threads of libuv. */
export function compressor({ coding, level }: Agreed): Gzip | ZstdCompress {
  return coding === 'gzip'
    ? createGzip({ level })
    : zstd().createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: level } });
}

/**
 * Encodes bytes in order. What `push` gives holds all that was pushed, so that a client can decode each part when it arrives; only
 * `finish` writes what marks the end (the checksum of gzip, the last block of zstd), so that a cut answer does not decode as a whole one.
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

  /** The bytes may be reused once it resolves. @throws SluiceError client_gone: it was closed meanwhile */
  push(bytes: Uint8Array): Promise<Buffer> {
    return this.#until((done) => {
      this.#stream.write(bytes);
      this.#stream.flush(this.#flush, done);
    });
  }

  /** Call once, behind the last push. @throws SluiceError client_gone */
  finish(): Promise<Buffer> {
    return this.#until((done) => {
      this.#stream.once('end', done);
      this.#stream.end();
    });
  }

  /** Frees its memory; may be called again. */
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
        // Bytes that the stream buffers are passed to the listener, too.
        while (stream.read() !== null);
        resolve(Buffer.concat(this.#ready.splice(0)));
      });
    });
  }
}

/** Answers with JSON that is complete, encoded where that is agreed. */
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
