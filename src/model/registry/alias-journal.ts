// The journal of the aliases of a model: who moved what, when, why and to which package.
import type { KeyObject } from 'node:crypto';
import { epochMs } from '../../core/clock.ts';
import { chained, checkChain, journalFields, type Mover, signed } from './journal.ts';
import type { AliasMove } from './registry.ts';

const textOf = ({ at, who, alias, from, to, why, package_sha256, previous }: AliasMove): string =>
  JSON.stringify([at, who, alias, from, to, why ?? null, package_sha256 ?? null, previous ?? null]);

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
  const at = new Date(epochMs()).toISOString();
  const known = history.findLast((m) => m.alias === alias)?.to ?? null;
  const entries: AliasMove[] = [];
  const append = (move: AliasMove, signer?: KeyObject): void => {
    const before = entries.at(-1) ?? history.at(-1);
    // Nothing keeps two from moving an alias in MLflow at once: there is no chain there.
    const isLoose = unseen === 'moved in MLflow';
    entries.push(isLoose ? signed(move, textOf, signer) : chained(move, before, textOf, signer));
  };
  if (known !== from) append({ at, who: unseen, alias, from: known, to: from });
  append({ at, who, alias, from, to, ...(why === undefined ? {} : { why }), package_sha256 }, key);
  return entries;
}

/** An entry as it was kept; other keys are left out. */
export function journalEntry(json: string): AliasMove {
  const move = JSON.parse(json) as AliasMove;
  const { alias, from, to } = move;
  return { ...journalFields(move), alias, from, to };
}

/**
 * Checks that each entry stands behind the one it was written behind, and with keys, that one of them signed every move of an alias that was made
 * through Sluice. Entries of releases without a chain stand before it.
 * @throws SluiceError signature_invalid, naming the entry
 */
export const checkJournal = (
  moves: readonly AliasMove[],
  keys: readonly KeyObject[] | null,
): { chained: number; signed: number } =>
  checkChain(moves, textOf, { keys, asked: (move) => move.previous !== undefined && move.who !== 'edited by hand' });
