// The bytes that DSSE signs, the type of an in-toto statement, and fingerprints of keys.
// https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md

import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
import { SluiceError } from './errors.ts';

export const STATEMENT_TYPE = 'application/vnd.in-toto+json';

/** The bytes to sign: type and payload, each preceded by its length. */
export function preAuthentication(payload: Uint8Array): Buffer {
  const head = `DSSEv1 ${STATEMENT_TYPE.length} ${STATEMENT_TYPE} ${payload.length} `;
  return Buffer.concat([Buffer.from(head), payload]);
}

/** The fingerprint of a key in all messages: SHA-256 of the public key as SubjectPublicKeyInfo (DER), hexadecimal. */
export const keyIdOf = (key: KeyObject): string =>
  createHash('sha256')
    .update((key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'der' }))
    .digest('hex');

/**
 * Rejects a private key where a public key is expected. Node would derive the public key, and the mistake of handing out a
 * private key would go unnoticed. @throws SluiceError usage
 */
export function rejectPrivateKey(pem: string, file: string): void {
  if (!pem.includes('PRIVATE KEY-----')) return;
  throw new SluiceError('usage', `${file} contains a private key: use the public key, and keep the private key secret`);
}
