// Journals of a model. Each entry contains the hash of the previous entry and, if a key is given, a signature. Later
// changes of the journal are thus detected.
import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';

export interface JournalEntry {
  /** Time in ISO 8601. */
  at: string;
  who: string;
  /** The reason, if one was given. */
  why?: string;
  /** Package hash of the version that the entry concerns. */
  package_sha256?: string | null;
  /** Hash of the previous entry; null for the first entry. Entries of older releases do not have this field. */
  previous?: string | null;
  signature?: { keyid: string; sig: string };
}

/** The author of an entry, the reason, and the key that signs the entry (Ed25519, or on a NIST curve). */
export interface Mover {
  who: string;
  why?: string;
  key?: KeyObject;
}

/** Returns the canonical text of an entry without its signature. */
type TextOf<E extends JournalEntry> = (entry: E) => string;

/** SHA-256 of a public key as SubjectPublicKeyInfo. Entries refer to a key by this id. */
export const signerId = (key: KeyObject): string =>
  createHash('sha256')
    .update((key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'der' }))
    .digest('hex');

const hashOf = <E extends JournalEntry>(entry: E, textOf: TextOf<E>): string =>
  createHash('sha256')
    .update(`${textOf(entry)}\n${entry.signature?.sig ?? ''}`)
    .digest('hex');

/** Chains an entry to the previous entry. Also signs the entry if a key is given. */
export function chained<E extends JournalEntry>(
  entry: E,
  before: E | undefined,
  textOf: TextOf<E>,
  key?: KeyObject,
): E {
  return signed({ ...entry, previous: before ? hashOf(before, textOf) : null }, textOf, key);
}

/** Signs an entry without chaining it. Without a key, returns the entry unchanged. */
export function signed<E extends JournalEntry>(entry: E, textOf: TextOf<E>, key?: KeyObject): E {
  if (!key) return entry;
  const sig = sign(algorithmOf(key), Buffer.from(textOf(entry)), key).toString('base64');
  return { ...entry, signature: { keyid: signerId(key), sig } };
}

const algorithmOf = (key: KeyObject): string | null => (key.asymmetricKeyType === 'ed25519' ? null : 'sha256');

/** Whether one of the keys signed exactly this entry. */
export function isSignedBy<E extends JournalEntry>(entry: E, keys: readonly KeyObject[], textOf: TextOf<E>): boolean {
  const { signature } = entry;
  const key = signature && keys.find((k) => signerId(k) === signature.keyid);
  if (!key) return false;
  return verify(algorithmOf(key), Buffer.from(textOf(entry)), key, Buffer.from(signature.sig, 'base64'));
}

/**
 * Checks that each entry continues the chain. If keys are given, also checks that one of them made every signature, and
 * that all entries selected by `asked` are signed. Entries of releases without a chain may come first.
 * @throws SluiceError signature_invalid, naming the entry
 */
export function checkChain<E extends JournalEntry>(
  entries: readonly E[],
  textOf: TextOf<E>,
  { keys, asked }: { keys: readonly KeyObject[] | null; asked: (entry: E) => boolean },
): { chained: number; signed: number } {
  let [inChain, withKey] = [0, 0];
  const broken = (i: number, how: string): SluiceError =>
    new SluiceError('signature_invalid', `entry ${i + 1} of ${entries.length} of the history ${how}`);
  for (const [i, entry] of entries.entries()) {
    const before = entries[i - 1];
    if (entry.previous === undefined && inChain > 0) throw broken(i, 'is not in its place in the chain');
    if (entry.previous !== undefined && entry.previous !== (before ? hashOf(before, textOf) : null)) {
      throw broken(i, 'does not follow the entry it was written after: an entry was changed, added or removed');
    }
    if (entry.previous !== undefined) inChain++;
    if (!keys || !(entry.signature !== undefined || asked(entry))) continue;
    if (!keys.some((key) => entry.signature?.keyid === signerId(key))) throw broken(i, 'is not signed with this key');
    if (!isSignedBy(entry, keys, textOf)) throw broken(i, 'was changed after it was signed');
    withKey++;
  }
  return { chained: inChain, signed: withKey };
}

/** The fields that all stored entries have in common. Unknown keys are dropped. */
export function journalFields({ at, who, why, package_sha256, previous, signature }: JournalEntry): JournalEntry {
  return {
    ...{ at, who },
    ...(why === undefined ? {} : { why }),
    ...(package_sha256 === undefined ? {} : { package_sha256 }),
    ...(previous === undefined ? {} : { previous }),
    ...(signature === undefined ? {} : { signature }),
  };
}
