// Verifies certificate chains offline, from the signer to a trusted root. Also checks that the signer may sign
// packages.
import { X509Certificate } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';

const [BEGIN, END] = ['-----BEGIN CERTIFICATE-----', '-----END CERTIFICATE-----'];

/** Reads all certificates in a PEM file. @throws SluiceError usage: the file contains no certificate */
export function readCertificates(pem: string, file: string): X509Certificate[] {
  try {
    const blocks = pem.split(END).filter((text) => text.includes(BEGIN));
    const found = blocks.map((text) => new X509Certificate(text.slice(text.lastIndexOf(BEGIN)) + END));
    if (found.length > 0) return found;
  } catch (cause) {
    throw new SluiceError('usage', `${file} contains an unreadable certificate`, { cause });
  }
  throw new SluiceError('usage', `${file} contains no certificate in PEM format`);
}

const MAX_LENGTH = 8;

const issued = (issuer: X509Certificate, subject: X509Certificate): boolean =>
  subject.checkIssued(issuer) && subject.verify(issuer.publicKey);

const validAt = (c: X509Certificate, at: Date): boolean => c.validFromDate <= at && at <= c.validToDate;

/**
 * Whether a chain leads from the signer's certificate to a trusted root. Certificates are checked for the time when the
 * signer's certificate became valid, because a signature outlives its certificate. Each issuer must be a certificate
 * authority within its path length, and must not be restricted to purposes other than code signing. Each certificate is
 * visited once, on its shortest path, so the number of certificates limits the work.
 */
export function leadsToRoot(
  signer: X509Certificate,
  between: readonly X509Certificate[],
  trusted: readonly X509Certificate[],
): boolean {
  const at = signer.validFromDate;
  const isRoot = (c: X509Certificate): boolean => trusted.some((t) => t.raw.equals(c.raw)) && issued(c, c);
  if (hasUnknownCritical(signer)) return false;
  if (isRoot(signer)) return true;
  let unvisited = [...trusted, ...between].filter((c) => c.ca && validAt(c, at) && mayIssueSigners(c));
  let reached = [signer];
  // `below`: number of intermediate certificates below the issuers found in this iteration.
  for (let below = 0; below < MAX_LENGTH && reached.length > 0; below++) {
    const issuers = unvisited.filter(
      (c) => pathLengthOf(c) >= below && reached.some((from) => !c.raw.equals(from.raw) && issued(c, from)),
    );
    if (issuers.some(isRoot)) return true;
    unvisited = unvisited.filter((c) => !issuers.includes(c));
    reached = issuers;
  }
  return false;
}

interface Element {
  tag: number;
  body: Buffer;
}

/** The elements of a constructed DER value. */
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

const [BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, OBJECT_ID, SEQUENCE, EXTENSIONS] = [1, 2, 3, 4, 6, 0x30, 0xa3];

/** Extensions that are evaluated, by their object identifier in DER (RFC 5280, 4.2.1). */
const KEY_USAGE = '551d0f';
const BASIC_CONSTRAINTS = '551d13';
const EXTENDED_KEY_USAGE = '551d25';
/** Extensions that do not affect who may sign: alternative names, and policies, because no policy is required. */
const HARMLESS = ['551d11', '551d20'];
const CODE_SIGNING = '1.3.6.1.5.5.7.3.3';
const ANY_PURPOSE = '2.5.29.37.0';

const child = (body: Buffer | undefined, tag: number): Buffer | undefined =>
  body && elementsOf(body).find((e) => e.tag === tag)?.body;

interface Extension {
  id: string;
  critical: boolean;
  value: Buffer | undefined;
}

function extensionsOf(certificate: X509Certificate): Extension[] {
  const signed = child(child(certificate.raw, SEQUENCE), SEQUENCE);
  const list = child(child(signed, EXTENSIONS), SEQUENCE);
  return (list ? elementsOf(list) : []).map(({ body }) => ({
    id: child(body, OBJECT_ID)?.toString('hex') ?? '',
    critical: child(body, BOOLEAN)?.some((byte) => byte !== 0) ?? false,
    value: child(body, OCTET_STRING),
  }));
}

const extension = (certificate: X509Certificate, id: string): Extension | undefined =>
  extensionsOf(certificate).find((e) => e.id === id);

/** A certificate with an unknown critical extension, such as name constraints, must be rejected (RFC 5280, 4.2). */
const hasUnknownCritical = (certificate: X509Certificate): boolean =>
  extensionsOf(certificate).some(
    ({ id, critical }) => critical && ![KEY_USAGE, BASIC_CONSTRAINTS, EXTENDED_KEY_USAGE, ...HARMLESS].includes(id),
  );

/** Maximum number of intermediate certificates below a certificate authority. */
function pathLengthOf(certificate: X509Certificate): number {
  const length = child(child(extension(certificate, BASIC_CONSTRAINTS)?.value, SEQUENCE), INTEGER);
  if (length === undefined) return Number.POSITIVE_INFINITY;
  return length.length > 0 && length.length <= 6 ? length.readUIntBE(0, length.length) : 0;
}

/**
 * Whether a certificate authority may issue certificates of signers. The extended key usage of an authority, if
 * present, restricts every certificate that the authority issues.
 */
function mayIssueSigners(certificate: X509Certificate): boolean {
  if (hasUnknownCritical(certificate)) return false;
  if (!extension(certificate, EXTENDED_KEY_USAGE)) return true;
  return (certificate.keyUsage ?? []).some((purpose) => purpose === CODE_SIGNING || purpose === ANY_PURPOSE);
}

/** Whether the key usage includes digitalSignature, its first bit; null if the certificate has no key usage. */
function mayMakeSignatures(certificate: X509Certificate): boolean | null {
  const found = extension(certificate, KEY_USAGE);
  if (!found) return null;
  const bits = child(found.value, BIT_STRING);
  return bits !== undefined && bits.length > 1 && (bits[1]! & 0x80) !== 0;
}

/**
 * Whether a certificate may sign packages. The certificate needs a key usage or an extended key usage, and each that is
 * present must permit signing. With an extended key usage, digitalSignature alone does not suffice, because a
 * certificate for TLS (serverAuth) has digitalSignature, too.
 */
export function isForSigning(certificate: X509Certificate): boolean {
  const signatures = mayMakeSignatures(certificate);
  if (signatures === false) return false;
  if (!extension(certificate, EXTENDED_KEY_USAGE)) return signatures === true;
  return (certificate.keyUsage ?? []).includes(CODE_SIGNING);
}

const ALTERNATIVE = /^(?:URI|DNS|email):/;

/**
 * Whether a certificate has one of these names: a common name, or an alternative name with its type (`URI:spiffe://…`,
 * `DNS:…`, `email:…`). Names must be equal. If the subject has several common names, none of them matches.
 */
export function hasName(certificate: X509Certificate, allowed: readonly string[]): boolean {
  const { CN: commonName } = certificate.toLegacyObject().subject as { CN?: string | string[] };
  // Node quotes ambiguous names, so such names do not match.
  const alternatives = (certificate.subjectAltName ?? '').split(', ');
  return allowed.some((name) => (ALTERNATIVE.test(name) ? alternatives.includes(name) : name === commonName));
}
