// The file model.sig: the signature of a package by a key or a certificate, in the format of OpenSSF's `model_signing`.
// The format is a Sigstore bundle, which is created and verified offline.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  verify,
  X509Certificate,
} from 'node:crypto';
import { keyIdOf, preAuthentication, rejectPrivateKey, STATEMENT_TYPE } from '../../core/dsse.ts';
import { SluiceError } from '../../core/errors.ts';
import { type ModelPackage, type PackageFile, readPackageFile } from '../package/model-package.ts';
import { hashedFiles, LOCK, SIGNATURE } from '../package/package-hash.ts';
import { hasName, isForSigning, leadsToRoot, readCertificates } from './certificate-chains.ts';

// The statement that is signed: an in-toto statement in the model-signing format of the OpenSSF.

const IN_TOTO = 'https://in-toto.io/Statement/v1';
const PREDICATE = 'https://model_signing/signature/v1.0';

interface Statement {
  _type: string;
  subject: { name: string; digest: { sha256: string } }[];
  predicateType: string;
  predicate: {
    serialization: { method: string; hash_type: string; allow_symlinks: boolean; ignore_paths?: string[] };
    resources: { name: string; algorithm: string; digest: string }[];
  };
}

type Named = Pick<PackageFile, 'name' | 'sha256'>;

/** SHA-256 over the digests of all files, in the order in which the statement lists them. */
function rootOf(digests: readonly string[]): string {
  const hash = createHash('sha256');
  for (const digest of digests) hash.update(digest, 'hex');
  return hash.digest('hex');
}

/** The statement about a package as JSON. The statement lists all files of the package except the signature. */
function statementFor({ ref, files }: Pick<ModelPackage, 'ref' | 'files'>): string {
  const signed = files.filter((f) => f.name !== SIGNATURE);
  const statement: Statement = {
    _type: IN_TOTO,
    subject: [{ name: ref, digest: { sha256: rootOf(signed.map((f) => f.sha256)) } }],
    predicateType: PREDICATE,
    predicate: {
      serialization: {
        method: 'files',
        hash_type: 'sha256',
        allow_symlinks: false,
        ignore_paths: [SIGNATURE, '.git', '.gitattributes', '.github', '.gitignore'],
      },
      resources: signed.map((f) => ({ name: f.name, algorithm: 'sha256', digest: f.sha256 })),
    },
  };
  return JSON.stringify(statement, null, 1);
}

const invalidStatement = (how: string, cause?: unknown): SluiceError =>
  new SluiceError('signature_invalid', `${SIGNATURE} ${how}`, { cause });

/**
 * The files that a statement lists.
 * @throws SluiceError signature_invalid: the statement has another type, or contradicts itself
 */
function readModelStatement(payload: Buffer): Named[] {
  let statement: Statement;
  try {
    statement = JSON.parse(payload.toString()) as Statement;
    if (statement._type !== IN_TOTO || statement.predicateType !== PREDICATE) throw new Error('of another type');
    const { method, hash_type } = statement.predicate.serialization;
    const algorithms = statement.predicate.resources.map((r) => r.algorithm);
    if (method !== 'files' || [hash_type, ...algorithms].some((a) => a !== 'sha256')) {
      throw invalidStatement(
        'uses another hash than SHA-256 or parts of files: sign with the defaults of model_signing',
      );
    }
    const { resources } = statement.predicate;
    const named = resources.map((r) => ({ name: String(r.name), sha256: String(r.digest) }));
    const [subject, ...others] = statement.subject;
    if (others.length > 0 || subject!.digest.sha256 !== rootOf(named.map((r) => r.sha256))) {
      throw new Error('its digest does not match its files');
    }
    return named;
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw invalidStatement('contains no statement in the model-signing format', cause);
  }
}

/**
 * Compares the files of a package with the files that were signed. A lock file that is newer than the signature is
 * accepted, because it only lists the same files.
 * @throws SluiceError signature_invalid, naming the files
 */
function assertSigned({ ref, files }: Pick<ModelPackage, 'ref' | 'files'>, signed: readonly Named[]): void {
  const before = new Map(signed.map((f) => [f.name, f.sha256]));
  const lock = files.find((f) => f.name === LOCK && before.has(LOCK));
  const now = [...hashedFiles(files), ...(lock ? [lock] : [])];
  const faults = now.flatMap(({ name, sha256 }) => {
    if (!before.has(name)) return [`${name} was added`];
    return before.get(name) === sha256 ? [] : [`${name} was changed`];
  });
  const names = new Set(now.map((f) => f.name));
  for (const name of before.keys()) {
    const hidden = name.split('/').some((part) => part.startsWith('.'));
    if (!names.has(name) && !hidden) faults.push(`${name} was removed`);
  }
  if (faults.length > 0) throw invalidStatement(`of ${ref} does not match its files: ${faults.slice(0, 5).join(', ')}`);
}

const BUNDLE = 'application/vnd.dev.sigstore.bundle.v0.3+json';

/** Hash algorithm, by the curve of the key. */
const HASHES: Readonly<Record<string, string>> = { prime256v1: 'sha256', secp384r1: 'sha384', secp521r1: 'sha512' };

const hashFor = (key: KeyObject): string | undefined =>
  key.asymmetricKeyType === 'ec' ? HASHES[key.asymmetricKeyDetails?.namedCurve ?? ''] : undefined;

interface Bundle {
  mediaType: string;
  verificationMaterial: {
    publicKey?: { hint?: string | null };
    x509CertificateChain?: { certificates: { rawBytes: string }[] };
    tlogEntries: unknown[];
  };
  dsseEnvelope: { payload: string; payloadType: string; signatures: { sig: string; keyid: string }[] };
}

/** A private key for signing, with its certificate chain. The certificate of the key comes first. */
export interface ModelSigner {
  key: KeyObject;
  certificates: readonly X509Certificate[];
}

/**
 * Signers that are trusted: the owner of a public key, or holders of certificates issued by a root. If `signers` is
 * set, only certificates with these names.
 */
export type ModelTrust =
  | { kind: 'key'; key: KeyObject }
  | { kind: 'certificates'; certificates: readonly X509Certificate[]; signers: readonly string[] | null };

/**
 * Maximum length of a chain. Real chains have a handful of certificates, and each certificate costs a signature
 * verification.
 */
const MAX_CERTIFICATES = 16;

/**
 * SHA-256 of the public key as PEM, by which bundles of the model-signing format identify a key. Messages use `keyIdOf`
 * instead.
 */
const hintOf = (key: KeyObject): string =>
  createHash('sha256')
    .update((key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'pem' }))
    .digest('hex');

/**
 * Reads a private key in PEM and, optionally, its certificates in PEM.
 * @throws SluiceError usage: the key is not on P-256, P-384 or P-521, or a certificate belongs to another key
 */
export function signerOf(pem: string, file: string, certificates: { pem: string; file: string } | null): ModelSigner {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch (cause) {
    throw new SluiceError('usage', `${file} contains no private key in PEM format without a passphrase`, { cause });
  }
  if (!hashFor(key)) throw new SluiceError('usage', `${file} contains a key that is not on P-256, P-384 or P-521`);
  const chain = certificates === null ? [] : readCertificates(certificates.pem, certificates.file);
  if (certificates !== null && !chain[0]!.checkPrivateKey(key)) {
    throw new SluiceError(
      'usage',
      `the first certificate of ${certificates.file} does not belong to the key in ${file}`,
    );
  }
  return { key, certificates: chain };
}

/**
 * Reads trusted keys or certificates from a PEM file. `signers`: names of the certificates that may sign; null for all
 * certificates that a root has issued.
 * @throws SluiceError usage
 */
export function trustOf(pem: string, file: string, signers: readonly string[] | null = null): ModelTrust {
  if (pem.includes('BEGIN CERTIFICATE')) {
    return { kind: 'certificates', certificates: readCertificates(pem, file), signers };
  }
  if (signers !== null) {
    throw new SluiceError('usage', `signer names need certificates, but ${file} contains none`);
  }
  rejectPrivateKey(pem, file);
  let key: KeyObject;
  try {
    key = createPublicKey(pem);
  } catch (cause) {
    throw new SluiceError('usage', `${file} contains neither a public key nor certificates in PEM format`, { cause });
  }
  if (!hashFor(key)) throw new SluiceError('usage', `${file} contains a key that is not on P-256, P-384 or P-521`);
  return { kind: 'key', key };
}

/** Creates the text of model.sig for a loaded package. */
export function signModel(model: Pick<ModelPackage, 'ref' | 'files'>, { key, certificates }: ModelSigner): string {
  const payload = Buffer.from(statementFor(model));
  const sig = sign(hashFor(key), preAuthentication(payload), key).toString('base64');
  const chain = certificates.map((c) => ({ rawBytes: c.raw.toString('base64') }));
  const bundle: Bundle = {
    mediaType: BUNDLE,
    verificationMaterial: {
      ...(chain.length > 0 ? { x509CertificateChain: { certificates: chain } } : { publicKey: { hint: hintOf(key) } }),
      tlogEntries: [],
    },
    dsseEnvelope: {
      payload: payload.toString('base64'),
      payloadType: STATEMENT_TYPE,
      signatures: [{ sig, keyid: '' }],
    },
  };
  return `${JSON.stringify(bundle)}\n`;
}

const invalid = (how: string, cause?: unknown): SluiceError =>
  new SluiceError('signature_invalid', `${SIGNATURE} ${how}`, { cause });

/**
 * The key that must have made the signature, and a description of the key's owner.
 * @throws SluiceError signature_invalid
 */
function signedWith(bundle: Bundle, trust: ModelTrust): { key: KeyObject; by: string } {
  const { publicKey, x509CertificateChain } = bundle.verificationMaterial;
  if (trust.kind === 'key') {
    const hint = hintOf(trust.key);
    if (publicKey?.hint && publicKey.hint !== hint) throw invalid('was made with another key');
    return { key: trust.key, by: `key ${keyIdOf(trust.key)}` };
  }
  if (!x509CertificateChain) throw invalid('was made with a key, but certificates are required');
  if (x509CertificateChain.certificates.length > MAX_CERTIFICATES) {
    throw invalid(`has more than ${MAX_CERTIFICATES} certificates`);
  }
  const [signer, ...between] = x509CertificateChain.certificates.map(
    (c) => new X509Certificate(Buffer.from(c.rawBytes, 'base64')),
  );
  if (!leadsToRoot(signer!, between, trust.certificates)) {
    throw invalid('was made with a certificate that no trusted certificate issued');
  }
  if (!isForSigning(signer!)) throw invalid('was made with a certificate that is not for signatures of code');
  const by = signer!.subject.replaceAll('\n', ', ');
  if (trust.signers !== null && !hasName(signer!, trust.signers)) {
    throw invalid(`was made by ${by}, which is not among the required signers`);
  }
  return { key: signer!.publicKey, by };
}

/**
 * Verifies an untrusted bundle against trusted signers. Returns a description of the signer.
 * @throws SluiceError signature_invalid
 */
export function verifyModel(
  model: Pick<ModelPackage, 'ref' | 'files'>,
  text: string,
  trust: ModelTrust,
): { by: string } {
  let bundle: Bundle;
  let payload: Buffer;
  let signature: Buffer;
  let signed: ReturnType<typeof signedWith>;
  try {
    bundle = JSON.parse(text) as Bundle;
    const { dsseEnvelope, mediaType } = bundle;
    if (mediaType !== BUNDLE || dsseEnvelope.payloadType !== STATEMENT_TYPE) throw new Error('another type');
    if (dsseEnvelope.signatures.length !== 1) throw new Error('not one signature');
    payload = Buffer.from(dsseEnvelope.payload, 'base64');
    signature = Buffer.from(dsseEnvelope.signatures[0]!.sig, 'base64');
    signed = signedWith(bundle, trust);
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw invalid('is not a signature in the model-signing format', cause);
  }
  const hash = hashFor(signed.key);
  if (!hash || !verify(hash, preAuthentication(payload), signed.key, signature)) {
    throw invalid('was changed, or made with another key');
  }
  assertSigned(model, readModelStatement(payload));
  return { by: signed.by };
}

/** Verifies the signature of a loaded package. @throws SluiceError signature_missing | signature_invalid | model_hash_mismatch */
export async function verifySignature(model: ModelPackage, trust: ModelTrust): Promise<{ by: string }> {
  if (!model.files.some((f) => f.name === SIGNATURE)) {
    throw new SluiceError('signature_missing', `${model.ref} is not signed: it has no ${SIGNATURE}`);
  }
  return verifyModel(model, (await readPackageFile(model, SIGNATURE)).toString(), trust);
}
