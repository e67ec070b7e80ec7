// The journal of a model's versions. The journal records proposals, approvals, retirements and removals, with author,
// time and reason.
import type { KeyObject } from 'node:crypto';
import { epochMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { chained, checkChain, isSignedBy, type JournalEntry, journalFields, type Mover, signerId } from './journal.ts';

/** The states that journal entries record. */
type RecordedState = 'proposed' | 'approved' | 'retired' | 'removed';

/** A recorded state, or `champion` for the version to which the alias champion points. */
export type VersionState = RecordedState | 'champion';

export interface StateEntry extends JournalEntry {
  version: string;
  /** Null if the version did not exist, or if its addition was not recorded. */
  from: RecordedState | null;
  to: RecordedState;
}

export interface PlannedState {
  version: string;
  to: RecordedState;
  /** Null if the package could not be read. */
  package_sha256: string | null;
  by: string | Mover;
}

/** Which approvals are accepted: those signed with one of these keys, or `any` for all approvals in the journal. */
export type Approvals = readonly KeyObject[] | 'any';

const textOf = ({ at, who, version, from, to, why, package_sha256, previous }: StateEntry): string =>
  JSON.stringify(['state', at, who, version, from, to, why ?? null, package_sha256 ?? null, previous ?? null]);

const lastOf = (history: readonly StateEntry[], version: string): StateEntry | undefined =>
  history.findLast((e) => e.version === version);

/** The entry for the addition of a version; undefined if the addition was not recorded. */
const proposalOf = (history: readonly StateEntry[], version: string): StateEntry | undefined =>
  history.findLast((e) => e.version === version && e.to === 'proposed');

/**
 * Creates the next entry of a journal.
 * @throws SluiceError version_exists: the number was used before
 * @throws SluiceError model_retired: the version is already retired
 * @throws SluiceError approval_refused: the approver may be the person who added the version
 */
export function stateEntryFor(history: readonly StateEntry[], planned: PlannedState): StateEntry {
  const { version, to, package_sha256, by } = planned;
  const { who, why, key } = typeof by === 'string' ? { who: by, why: undefined, key: undefined } : by;
  const from = lastOf(history, version)?.to ?? null;
  // A version whose proposal was recorded but which was not added can be proposed again.
  if (to === 'proposed' && from !== null && from !== 'proposed') {
    throw new SluiceError('version_exists', `version ${version} ${from === 'removed' ? 'was removed, and its number is not reused' : 'is already in the journal'}`); // biome-ignore format: one line
  }
  if (to === 'retired' && from === 'retired') throw new SluiceError('model_retired', `${version} is already retired`);
  if (to === 'approved') assertOther(history, version, key);
  const at = new Date(epochMs()).toISOString();
  const entry = { at, who, version, from, to, ...(why === undefined ? {} : { why }), package_sha256 };
  return chained<StateEntry>(entry, history.at(-1), textOf, key);
}

/** Four-eyes principle: the person who signed the addition of a version must not approve the version. */
function assertOther(history: readonly StateEntry[], version: string, key: KeyObject | undefined): void {
  const adder = proposalOf(history, version)?.signature;
  if (!adder) return;
  if (!key) {
    throw new SluiceError(
      'approval_refused',
      `${version} was signed when it was added, so the approval must be signed, too (--key)`,
    );
  }
  if (signerId(key) !== adder.keyid) return;
  throw new SluiceError('approval_refused', `${version} was added with this key: another person must approve it`);
}

const STATES: readonly string[] = ['proposed', 'approved', 'retired', 'removed'] satisfies RecordedState[];

/** Parses the text of a stored journal. @throws SluiceError model_invalid: a line is damaged */
export function readStates(file: string, text: string): StateEntry[] {
  return text.split('\n').flatMap((line, i) => {
    if (line === '') return [];
    try {
      const entry = JSON.parse(line) as StateEntry;
      const { version, from, to } = entry;
      if (typeof version !== 'string' || !STATES.includes(to)) throw new Error('of another form');
      return [{ ...journalFields(entry), version, from, to }];
    } catch (cause) {
      throw new SluiceError('model_invalid', `${file}:${i + 1}:1 is not an entry of a version journal`, { cause });
    }
  });
}

export const stateLine = (entry: StateEntry): string => `${JSON.stringify(entry)}\n`;

/**
 * Checks the chain. If keys are given, also checks that one of them made each signature.
 * @throws SluiceError signature_invalid, naming the entry
 */
export const checkStates = (
  history: readonly StateEntry[],
  keys: readonly KeyObject[] | null,
): { chained: number; signed: number } => checkChain(history, textOf, { keys, asked: () => false });

/** Whether one of the keys signed exactly this entry. */
export const isStateSignedBy = (entry: StateEntry, keys: readonly KeyObject[]): boolean =>
  isSignedBy(entry, keys, textOf);

/** The current state of each version of a model, including removed versions. */
export function statesOf(
  { versions, aliases }: { versions: readonly string[]; aliases: Record<string, string> },
  history: readonly StateEntry[],
): Record<string, VersionState> {
  const states: Record<string, VersionState> = Object.create(null);
  for (const { version, to } of history) if (to === 'removed') states[version] = to;
  for (const version of versions) {
    // If a version exists although the journal records its removal, someone added its folder by hand.
    const last = lastOf(history, version)?.to ?? 'proposed';
    const isChampion = last !== 'retired' && Object.hasOwn(aliases, 'champion') && aliases.champion === version;
    states[version] = isChampion ? 'champion' : last;
  }
  return { ...states };
}

/**
 * Version → hash of the approved package. A retired version stays approved, so that its runs can be repeated.
 * @throws SluiceError signature_invalid: the journal was changed
 */
export function approvedIn(history: readonly StateEntry[], approvals: Approvals): Record<string, string> {
  checkStates(history, null);
  const approved: Record<string, string> = Object.create(null);
  for (const entry of history) {
    const { version, to, package_sha256 } = entry;
    if (to === 'removed') delete approved[version];
    if (to !== 'approved' || !package_sha256) continue;
    const adder = proposalOf(history, version)?.signature;
    const isOther = !adder || (entry.signature !== undefined && entry.signature.keyid !== adder.keyid);
    if (isOther && (approvals === 'any' || isStateSignedBy(entry, approvals))) approved[version] = package_sha256;
  }
  return approved;
}
