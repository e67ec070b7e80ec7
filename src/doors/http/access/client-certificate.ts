// The certificate of a client, and whether it is still valid.
import { hash, type X509Certificate } from 'node:crypto';
import type net from 'node:net';
import { TLSSocket } from 'node:tls';
import { epochMs } from '../../../core/clock.ts';

interface ShownCertificate {
  /** null: none, or several. */
  commonName: string | null;
  uris: readonly string[];
  /** Of the whole certificate, in hex. */
  sha256: string;
  /** The same in base64url, as tokens that are bound to it have it (RFC 8705). */
  thumbprint: string;
  /** ms since 1970. */
  validUntil: number;
}

/** A certificate, why one that was shown is not taken, or null: none was. */
export type ClientCertificate = ShownCertificate | { refused: string } | null;

/** The certificates of open connections. Those that were let in before authorities or a revocation list changed are taken no more. */
export class ClientCertificates {
  readonly #known = new WeakMap<net.Socket, { shown: ClientCertificate; generation: number }>();
  #generation = 0;

  /** Authorities or the revocation list changed: certificates have to be presented again. */
  checkAnew(): void {
    this.#generation++;
  }

  /** A handshake is done. */
  greeted(socket: net.Socket): void {
    this.#known.set(socket, { shown: shownOn(socket), generation: this.#generation });
  }

  of(socket: net.Socket, now = epochMs()): ClientCertificate {
    const known = this.#known.get(socket);
    if (!known?.shown || 'refused' in known.shown) return known?.shown ?? null;
    if (known.generation !== this.#generation)
      return { refused: 'the connection was opened before the list of certificate authorities changed' };
    return now < known.shown.validUntil ? known.shown : { refused: 'CERT_HAS_EXPIRED' };
  }
}

function shownOn(socket: net.Socket): ClientCertificate {
  if (!(socket instanceof TLSSocket)) return null;
  const certificate = socket.getPeerX509Certificate();
  if (!certificate) return null;
  if (!socket.authorized) return { refused: String(socket.authorizationError) };
  return describeCertificate(certificate);
}

/** What of a certificate a caller may be known by. */
export function describeCertificate(certificate: X509Certificate): ShownCertificate {
  const { CN: name } = certificate.toLegacyObject().subject as { CN?: string | string[] };
  return {
    commonName: typeof name === 'string' ? name : null,
    uris: urisOf(certificate.subjectAltName ?? ''),
    sha256: hash('sha256', certificate.raw, 'hex'),
    thumbprint: hash('sha256', certificate.raw, 'base64url'),
    validUntil: certificate.validToDate.getTime(),
  };
}

/** URIs among alternative names as Node writes them. One that could be mistaken for several is in quotation marks, and is none here. */
const urisOf = (names: string): string[] =>
  names.split(', ').flatMap((name) => (name.startsWith('URI:') && !name.startsWith('URI:"') ? [name.slice(4)] : []));
