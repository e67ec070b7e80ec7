// Chains of certificates, from the one that signed to a root that is trusted, without a network: who signed, and was it allowed to?
import { X509Certificate } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';

const [BEGIN, END] = ['-----BEGIN CERTIFICATE-----', '-----END CERTIFICATE-----'];

/** Every certificate of a PEM file. @throws SluiceError usage: there is none */
export function readCertificates(pem: string, file: string): X509Certificate[] {
  try {
    const blocks = pem.split(END).filter((text) => text.includes(BEGIN));
    const found = blocks.map((text) => new X509Certificate(text.slice(text.lastIndexOf(BEGIN)) + END));
    if (found.length > 0) return found;
  } catch (cause) {
    throw new SluiceError('usage', `${file} holds a certificate that cannot be read`, { cause });
  }
  throw new SluiceError('usage', `${file} holds no certificate in PEM`);
}

const MAX_LENGTH = 8;

const issued = (issuer: X509Certificate, subject: X509Certificate): boolean =>
  subject.checkIssued(issuer) && subject.verify(issuer.publicKey);

const validAt = (c: X509Certificate, at: Date): boolean => c.validFromDate <= at && at <= c.validToDate;

/**
 * Whether a certificate leads to one of the roots that are trusted, at the time at which it became valid: a signature holds longer than the
 * certificate it was made with.
 */
export function leadsToRoot(
  signer: X509Certificate,
  between: readonly X509Certificate[],
  trusted: readonly X509Certificate[],
): boolean {
  const at = signer.validFromDate;
  const isRoot = (c: X509Certificate): boolean => trusted.some((t) => t.raw.equals(c.raw)) && issued(c, c);
  const known = [...trusted, ...between].filter((c) => c.ca && validAt(c, at));
  const climb = (from: X509Certificate, length: number): boolean => {
    if (isRoot(from)) return true;
    if (length >= MAX_LENGTH) return false;
    return known.some((c) => !c.raw.equals(from.raw) && issued(c, from) && climb(c, length + 1));
  };
  return climb(signer, 0);
}

interface Element {
  tag: number;
  body: Buffer;
}

/** The elements of a constructed value of DER, one after the other. */
function elementsOf(der: Buffer): Element[] {
  const found: Element[] = [];
  for (let at = 0; at + 2 <= der.length; ) {
    const tag = der[at]!;
    const first = der[at + 1]!;
    const wide = first & 0x80 ? first & 0x7f : 0;
    if (wide > 4 || at + 2 + wide > der.length) return found;
    const length = wide === 0 ? first : der.readUIntBE(at + 2, wide);
    const start = at + 2 + wide;
    found.push({ tag, body: der.subarray(start, start + length) });
    at = start + length;
  }
  return found;
}

const [SEQUENCE, BIT_STRING, OCTET_STRING, OBJECT_ID, EXTENSIONS] = [0x30, 0x03, 0x04, 0x06, 0xa3];
/** id-ce-keyUsage, 2.5.29.15 (RFC 5280, 4.2.1.3); its first bit is digitalSignature. */
const KEY_USAGE = Buffer.from([0x55, 0x1d, 0x0f]);
const CODE_SIGNING = '1.3.6.1.5.5.7.3.3';

/** null: the certificate does not say. */
function mayMakeSignatures(certificate: X509Certificate): boolean | null {
  const child = (body: Buffer | undefined, tag: number): Buffer | undefined =>
    body && elementsOf(body).find((e) => e.tag === tag)?.body;
  const signed = child(child(certificate.raw, SEQUENCE), SEQUENCE);
  const list = child(child(signed, EXTENSIONS), SEQUENCE);
  for (const extension of list ? elementsOf(list) : []) {
    const parts = elementsOf(extension.body);
    if (!parts.some((p) => p.tag === OBJECT_ID && p.body.equals(KEY_USAGE))) continue;
    const bits = child(parts.find((p) => p.tag === OCTET_STRING)?.body, BIT_STRING);
    return bits !== undefined && bits.length > 1 && (bits[1]! & 0x80) !== 0;
  }
  return null;
}

/** Whether a certificate is for signatures, by its key usage, or for code, by its extended one. */
export const isForSigning = (certificate: X509Certificate): boolean =>
  mayMakeSignatures(certificate) === true || (certificate.keyUsage ?? []).includes(CODE_SIGNING);
