// A journal of a model: entries that each have the hash of the one before and, if there is a key, a signature, so that nothing can be
// taken out or changed afterwards without being seen.
import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';

export interface JournalEntry {
  /** ISO time. */
  at: string;
  who: string;
  /** The reason that was given. */
  why?: string;
  /** Package hash of the version that is meant. */
  package_sha256?: string | null;
  /** Hash of the entry before; null: there was none. Absent in entries of older releases. */
  previous?: string | null;
  signature?: { keyid: string; sig: string };
}

/** Who writes an entry, why, and the key (Ed25519 or on a NIST curve) that signs it. */
export interface Mover {
  who: string;
  why?: string;
  key?: KeyObject;
}

/** The one text of an entry, without its signature. */
type TextOf<E extends JournalEntry> = (entry: E) => string;

/** SHA-256 of the public key as SubjectPublicKeyInfo: what entries name a key by. */
export const signerId = (key: KeyObject): string =>
  createHash('sha256')
    .update((key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'der' }))
    .digest('hex');

const hashOf = <E extends JournalEntry>(entry: E, textOf: TextOf<E>): string =>
  createHash('sha256')
    .update(`${textOf(entry)}\n${entry.signature?.sig ?? ''}`)
    .digest('hex');

/** An entry in its place behind another one, signed if there is a key. */
export function chained<E extends JournalEntry>(
  entry: E,
  before: E | undefined,
  textOf: TextOf<E>,
  key?: KeyObject,
): E {
  return signed({ ...entry, previous: before ? hashOf(before, textOf) : null }, textOf, key);
}

/** An entry as it is, signed if there is a key. */
export function signed<E extends JournalEntry>(entry: E, textOf: TextOf<E>, key?: KeyObject): E {
  if (!key) return entry;
  const sig = sign(algorithmOf(key), Buffer.from(textOf(entry)), key).toString('base64');
  return { ...entry, signature: { keyid: signerId(key), sig } };
}

const algorithmOf = (key: KeyObject): string | null => (key.asymmetricKeyType === 'ed25519' ? null : 'sha256');

/** Whether one of the keys signed an entry as it is. */
export function isSignedBy<E extends JournalEntry>(entry: E, keys: readonly KeyObject[], textOf: TextOf<E>): boolean {
  const { signature } = entry;
  const key = signature && keys.find((k) => signerId(k) === signature.keyid);
  if (!key) return false;
  return verify(algorithmOf(key), Buffer.from(textOf(entry)), key, Buffer.from(signature.sig, 'base64'));
}

/**
 * Checks that each entry follows the one it was written after, and with keys, that one of them signed every entry that
 * is signed or selected by `asked`. Entries of releases without a chain precede it.
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

/** What every entry has, as it was kept; other keys are left out. */
export function journalFields({ at, who, why, package_sha256, previous, signature }: JournalEntry): JournalEntry {
  return {
    ...{ at, who },
    ...(why === undefined ? {} : { why }),
    ...(package_sha256 === undefined ? {} : { package_sha256 }),
    ...(previous === undefined ? {} : { previous }),
    ...(signature === undefined ? {} : { signature }),
  };
}
