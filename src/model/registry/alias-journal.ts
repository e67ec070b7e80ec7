// The journal of the aliases of a model: who moved what, when, why and to which package, each entry with the hash of the one before and,
// if there is a key, a signature, so that nothing can be taken out or changed afterwards without being seen.
import { createHash, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { SluiceError } from '../../core/errors.ts';
import type { AliasMove, Mover } from './registry.ts';

/** The one text of an entry, without its signature. */
const textOf = ({ at, who, alias, from, to, why, package_sha256, previous }: AliasMove): string =>
  JSON.stringify([at, who, alias, from, to, why ?? null, package_sha256 ?? null, previous ?? null]);

/** SHA-256 of an entry, as the one behind it has it. */
export const entryHash = (move: AliasMove): string =>
  createHash('sha256')
    .update(`${textOf(move)}\n${move.signature?.sig ?? ''}`)
    .digest('hex');

const keyIdOf = (key: KeyObject): string =>
  createHash('sha256')
    .update((key.type === 'private' ? createPublicKey(key) : key).export({ type: 'spki', format: 'der' }))
    .digest('hex');

export interface PlannedMove {
  alias: string;
  from: string | null;
  to: string | null;
  /** Package hash of `to`. */
  package_sha256: string | null;
  by: string | Mover;
}

/** What a move that was not made through Sluice is told as. */
type Unseen = 'edited by hand' | 'moved in MLflow';

/** The entries a move adds behind `history`: the move, and before it whatever happened unseen since the last one. */
export function entriesFor(history: readonly AliasMove[], planned: PlannedMove, unseen: Unseen): AliasMove[] {
  const { alias, from, to, package_sha256, by } = planned;
  const { who, why, key } = typeof by === 'string' ? { who: by, why: undefined, key: undefined } : by;
  const at = new Date().toISOString();
  const known = history.findLast((m) => m.alias === alias)?.to ?? null;
  const last = history.at(-1);
  const entries: AliasMove[] = [];
  const append = (move: AliasMove): void => {
    const before = entries.at(-1) ?? last;
    // Nothing keeps two from moving an alias in MLflow at once: there is no chain there.
    const chain = unseen === 'moved in MLflow' ? {} : { previous: before ? entryHash(before) : null };
    entries.push({ ...move, ...chain });
  };
  if (known !== from) append({ at, who: unseen, alias, from: known, to: from });
  append({ at, who, alias, from, to, ...(why === undefined ? {} : { why }), package_sha256 });
  if (key) {
    const entry = entries.at(-1)!;
    const sig = sign(algorithmOf(key), Buffer.from(textOf(entry)), key).toString('base64');
    entry.signature = { keyid: keyIdOf(key), sig };
  }
  return entries;
}

const algorithmOf = (key: KeyObject): string | null => (key.asymmetricKeyType === 'ed25519' ? null : 'sha256');

/** An entry as it was kept; other keys are left out. */
export function journalEntry(json: string): AliasMove {
  const { at, who, alias, from, to, why, package_sha256, previous, signature } = JSON.parse(json) as AliasMove;
  return {
    ...{ at, who, alias, from, to },
    ...(why === undefined ? {} : { why }),
    ...(package_sha256 === undefined ? {} : { package_sha256 }),
    ...(previous === undefined ? {} : { previous }),
    ...(signature === undefined ? {} : { signature }),
  };
}

/**
 * Checks that each entry stands behind the one it was written behind, and with a key, that it signed every move of an alias that was made
 * through Sluice. Entries of releases without a chain stand before it.
 * @throws SluiceError signature_invalid, naming the entry
 */
export function checkJournal(moves: readonly AliasMove[], key: KeyObject | null): { chained: number; signed: number } {
  let [chained, signed] = [0, 0];
  const broken = (i: number, how: string): SluiceError =>
    new SluiceError('signature_invalid', `entry ${i + 1} of ${moves.length} of the history ${how}`);
  for (const [i, move] of moves.entries()) {
    const before = moves[i - 1];
    if (move.previous === undefined && chained > 0) throw broken(i, 'has lost its place in the chain');
    if (move.previous !== undefined && move.previous !== (before ? entryHash(before) : null)) {
      throw broken(i, 'does not stand behind the one it was written behind: one was changed, added or taken out');
    }
    if (move.previous !== undefined) chained++;
    const { signature } = move;
    const asked = signature !== undefined || (move.previous !== undefined && move.who !== 'edited by hand');
    if (!key || !asked) continue;
    if (signature?.keyid !== keyIdOf(key)) throw broken(i, 'is not signed with this key');
    if (!verify(algorithmOf(key), Buffer.from(textOf(move)), key, Buffer.from(signature.sig, 'base64'))) {
      throw broken(i, 'was changed after it was signed');
    }
    signed++;
  }
  return { chained, signed };
}
