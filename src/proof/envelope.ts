// The DSSE envelope of a statement. The envelope is signed with Ed25519 or P-256 if there is a key, and always
// protected against accidental changes.
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { keyIdOf, preAuthentication, rejectPrivateKey, STATEMENT_TYPE } from '../core/dsse.ts';
import { SluiceError } from '../core/errors.ts';
import { canonicalJson, type JsonValue } from './canonical-json.ts';

interface Signature {
  keyid: string;
  sig: string;
}

interface Envelope {
  payload: string;
  payloadType: string;
  /**
   * SHA-256 over the envelope as canonical JSON, without this member. The hash detects accidental changes even in an
   * envelope without a signature.
   */
  sha256: string;
  signatures: Signature[];
}

/** Reads a key. @throws SluiceError usage: the text is not a key, or the key is neither Ed25519 nor P-256 */
export function readKey(pem: string, kind: 'private' | 'public', file: string): KeyObject {
  if (kind === 'public') rejectPrivateKey(pem, file);
  let key: KeyObject;
  try {
    key = kind === 'private' ? createPrivateKey(pem) : createPublicKey(pem);
  } catch (cause) {
    throw new SluiceError('usage', `${file} contains no ${kind} key in PEM format without a passphrase`, { cause });
  }
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519' || (type === 'ec' && details?.namedCurve === 'prime256v1')) return key;
  throw new SluiceError('usage', `${file} contains a key that is neither Ed25519 nor P-256`);
}

const algorithmOf = (key: KeyObject): string | null => (key.asymmetricKeyType === 'ed25519' ? null : 'sha256');

/** Creates the text of an envelope. If `key` is null, the envelope has no signature. */
export function seal(statement: JsonValue, key: KeyObject | null): string {
  const payload = Buffer.from(canonicalJson(statement));
  const signatures: Signature[] = [];
  if (key !== null) {
    const sig = sign(algorithmOf(key), preAuthentication(payload), key).toString('base64');
    signatures.push({ keyid: keyIdOf(key), sig });
  }
  const body = { payload: payload.toString('base64'), payloadType: STATEMENT_TYPE, signatures };
  return `${canonicalJson({ ...body, sha256: checksum(body) } as unknown as JsonValue)}\n`;
}

const checksum = (body: Omit<Envelope, 'sha256'>): string =>
  createHash('sha256')
    .update(canonicalJson(body as unknown as JsonValue))
    .digest('hex');

export interface Opened {
  statement: JsonValue;
  /** Key ids of the signatures. If a key was given, only the id of the signature that was verified. */
  signedBy: string[];
}

/**
 * Reads an envelope and checks that it is unchanged. If a key is given, also verifies the signature.
 * @throws SluiceError manifest_invalid: the envelope is damaged, or not signed with that key
 */
export function unseal(text: string, key: KeyObject | null): Opened {
  let envelope: Envelope;
  let statement: JsonValue;
  let body: Omit<Envelope, 'sha256'>;
  try {
    envelope = JSON.parse(text) as Envelope;
    const { sha256: _, ...rest } = envelope;
    body = rest;
    statement = JSON.parse(Buffer.from(envelope.payload, 'base64').toString()) as JsonValue;
  } catch (cause) {
    throw damaged('it is not a manifest of Sluice', cause);
  }
  const payload = Buffer.from(envelope.payload, 'base64');
  // If a manifest has the same content but is not in canonical form, it was changed, too.
  if (canonicalJson(statement) !== payload.toString() || payload.toString('base64') !== envelope.payload) {
    throw damaged('its payload is not in canonical form');
  }
  if (`${canonicalJson(envelope as unknown as JsonValue)}\n` !== text)
    throw damaged('it was created by another producer');
  if (envelope.payloadType !== STATEMENT_TYPE) throw damaged('its payload has another type');
  if (envelope.sha256 !== checksum(body)) throw damaged('it was changed after it was written');
  if (key === null) return { statement, signedBy: envelope.signatures.map((s) => s.keyid) };
  const id = keyIdOf(key);
  const own = envelope.signatures.find((s) => s.keyid === id);
  if (!own) throw new SluiceError('manifest_invalid', notSignedWith(id, envelope.signatures));
  if (!verify(algorithmOf(key), preAuthentication(payload), key, Buffer.from(own.sig, 'base64'))) {
    throw new SluiceError('manifest_invalid', 'the signature of the manifest is broken');
  }
  return { statement, signedBy: [id] };
}

function notSignedWith(id: string, signatures: Envelope['signatures']): string {
  const refused = 'the manifest is not signed with this key';
  if (signatures.length === 0) return `${refused}: it has no signature`;
  // The ids in a manifest can be any text, so all characters other than hexadecimal digits are removed.
  const short = (keyid: string) => keyid.replaceAll(/[^0-9a-f]/g, '').slice(0, 16);
  return `${refused} (${short(id)}), but with ${signatures.map(({ keyid }) => short(keyid)).join(', ')}`;
}

const damaged = (how: string, cause?: unknown): SluiceError =>
  new SluiceError('manifest_invalid', `the manifest is damaged: ${how}`, { cause });
