// Content-Digest (RFC 9530): checks the digest of a request, and computes the digest of a response if requested. Both
// digests cover the encoded content.
import { createHash, type Hash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { SluiceError } from '../../../core/errors.ts';

/**
 * The active algorithms of the RFC, with the length of each hash. All other algorithms are ignored, as the RFC
 * requires.
 */
const ALGORITHMS = { 'sha-256': { node: 'sha256', bytes: 32 }, 'sha-512': { node: 'sha512', bytes: 64 } } as const;
type DigestAlgorithm = keyof typeof ALGORITHMS;

const isKnown = (name: string): name is DigestAlgorithm => Object.hasOwn(ALGORITHMS, name);

/** A member of a dictionary of byte sequences (RFC 8941): `name=:base64:`; parameters are ignored. */
const MEMBER =
  /^([a-z*][a-z0-9_.*-]*)=:((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?):(?:;[^,]*)?$/;

/** Compares a body with the digest in its header, while the body arrives. */
export class DigestCheck {
  readonly #wanted: readonly { hash: Hash; digest: Buffer }[];

  private constructor(wanted: readonly { hash: Hash; digest: Buffer }[]) {
    this.#wanted = wanted;
  }

  /**
   * Returns null if the request has no digest with a supported algorithm.
   * @throws SluiceError invalid_content: the digest is malformed
   */
  static of(headers: IncomingHttpHeaders): DigestCheck | null {
    const header = headers['content-digest'];
    if (header === undefined) return null;
    const wanted = String(header)
      .split(',')
      .map((member) => {
        const [, name = '', base64 = ''] = MEMBER.exec(member.trim()) ?? [];
        const digest = Buffer.from(base64, 'base64');
        if (name === '' || (isKnown(name) && digest.length !== ALGORITHMS[name].bytes)) {
          throw new SluiceError('invalid_content', 'Content-Digest must have the form of RFC 9530: sha-256=:base64:');
        }
        return isKnown(name) ? { hash: createHash(ALGORITHMS[name].node), digest } : null;
      });
    const known = wanted.filter((w) => w !== null);
    return known.length === 0 ? null : new DigestCheck(known);
  }

  update(bytes: Uint8Array): void {
    for (const { hash } of this.#wanted) hash.update(bytes);
  }

  /** Call this method once, after the last byte. @throws SluiceError digest_mismatch */
  verify(): void {
    for (const { hash, digest } of this.#wanted) {
      if (!hash.digest().equals(digest)) {
        throw new SluiceError('digest_mismatch', 'the body does not match its Content-Digest');
      }
    }
  }
}

/** The digest of a response, computed while it is sent. */
export class AnswerDigest {
  readonly #algorithm: DigestAlgorithm;
  readonly #hash: Hash;

  constructor(algorithm: DigestAlgorithm) {
    this.#algorithm = algorithm;
    this.#hash = createHash(ALGORITHMS[algorithm].node);
  }

  /**
   * A digest with the algorithm that Want-Content-Digest prefers; null if the header requests no supported algorithm.
   */
  static wantedBy(headers: IncomingHttpHeaders): AnswerDigest | null {
    const header = headers['want-content-digest'];
    if (header === undefined) return null;
    let best: { name: DigestAlgorithm; weight: number } | null = null;
    for (const member of String(header).split(',')) {
      const [, name = '', weight] = /^\s*([a-z0-9-]+)=(10|[0-9])\s*$/.exec(member) ?? [];
      if (isKnown(name) && Number(weight) > (best?.weight ?? 0)) best = { name, weight: Number(weight) };
    }
    return best && new AnswerDigest(best.name);
  }

  update(bytes: Uint8Array): void {
    this.#hash.update(bytes);
  }

  /** The value of the header or trailer. Call this method only once. */
  value(): string {
    return `${this.#algorithm}=:${this.#hash.digest('base64')}:`;
  }
}
