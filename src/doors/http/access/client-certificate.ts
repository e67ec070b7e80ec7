// Client certificates: the fields that identify them, and whether they are still valid.
import { hash, type X509Certificate } from 'node:crypto';
import type net from 'node:net';
import { TLSSocket } from 'node:tls';
import { epochMs } from '../../../core/clock.ts';

interface ShownCertificate {
  /** Null if the certificate has no common name, or several. */
  commonName: string | null;
  uris: readonly string[];
  /** SHA-256 of the whole certificate in hexadecimal. */
  sha256: string;
  /** The same hash in base64url, for comparison with certificate-bound tokens (RFC 8705). */
  thumbprint: string;
  /** ms since 1970. */
  validUntil: number;
}

/** A valid certificate, the reason why a certificate was rejected, or null without a certificate. */
export type ClientCertificate = ShownCertificate | { refused: string } | null;

/**
 * The certificates of open connections. When the authorities or the revocation list change, the certificates of earlier
 * handshakes are no longer accepted.
 */
export class ClientCertificates {
  readonly #known = new WeakMap<net.Socket, { shown: ClientCertificate; generation: number }>();
  #generation = 0;

  /**
   * Invalidates all certificates after a change of the authorities or the revocation list. Clients must present them
   * again.
   */
  checkAnew(): void {
    this.#generation++;
  }

  /** Stores the certificate of a connection after its handshake. */
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

/** The fields that identify a certificate. */
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

/** The URIs in Node's list of alternative names. URIs that Node quotes are ignored, because they are ambiguous. */
const urisOf = (names: string): string[] =>
  names.split(', ').flatMap((name) => (name.startsWith('URI:') && !name.startsWith('URI:"') ? [name.slice(4)] : []));
