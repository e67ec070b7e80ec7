// Derives the lifecycle state of each version from folders, aliases, journal and approval policy.
import { SluiceError } from '../../core/errors.ts';
import type { ModelPackage } from '../package/model-package.ts';
import { SIGNATURE } from '../package/package-hash.ts';
import type { Mover } from './journal.ts';
import { type ModelEntry, pickVersion, type ResolvableEntry } from './registry.ts';
import { type Approvals, approvedIn, type StateEntry, statesOf } from './state-journal.ts';

/** The versions as the store lists them, with their journal. States are not applied yet. */
export interface FoundEntry extends Pick<ModelEntry, 'id' | 'versions' | 'aliases'> {
  journal: readonly StateEntry[];
}

/**
 * Returns null if no version remains.
 * @throws SluiceError signature_invalid: approvals are required, and the journal was changed
 */
export function withStandings(found: FoundEntry | null, approvals: Approvals | null): ResolvableEntry | null {
  if (found === null) return null;
  const { id, aliases, journal } = found;
  // The files of a removed version may still exist.
  const isRemoved = (version: string) => journal.findLast((e) => e.version === version)?.to === 'removed';
  const versions = found.versions.filter((v) => !isRemoved(v));
  if (versions.length === 0) return null;
  const states = statesOf({ versions, aliases }, journal);
  return { id, versions, aliases, states, approved: approvals === null ? null : approvedIn(journal, approvals) };
}

/** The fields of an entry that appear in lists. */
export const asListed = ({ id, versions, aliases, states }: ResolvableEntry): ModelEntry => ({
  ...{ id, versions, aliases, states },
});

/**
 * Rejects retiring or removing a version to which references resolve.
 * @throws SluiceError model_in_use, naming the references
 */
export function assertUnmeant(entry: ResolvableEntry, version: string): void {
  const { id, aliases } = entry;
  const meaning = Object.entries(aliases).flatMap(([alias, v]) => (v === version ? [`${id}@${alias}`] : []));
  if (!Object.hasOwn(aliases, 'champion') && isMeantBare(entry, version)) meaning.unshift(`${id} (the newest)`);
  if (meaning.length === 0) return;
  throw new SluiceError('model_in_use', `${meaning.join(', ')} points to ${id}:${version}: move it first`);
}

/**
 * Whether the id alone resolves to the version. Ignores the approval policy, because other processes may resolve
 * references without it.
 */
function isMeantBare(entry: ResolvableEntry, version: string): boolean {
  try {
    return pickVersion({ ...entry, approved: null }, { id: entry.id }) === version;
  } catch {
    return false;
  }
}

/**
 * Four-eyes principle: the person who signed a package must not approve it.
 * @throws SluiceError approval_refused
 */
export async function assertNotSigner(model: ModelPackage, { key }: Mover): Promise<void> {
  if (!model.files.some((f) => f.name === SIGNATURE)) return;
  if (!key) {
    throw new SluiceError('approval_refused', `${model.ref} is signed, so the approval must be signed, too (--key)`);
  }
  const [{ createPublicKey }, { verifySignature }] = await Promise.all([
    import('node:crypto'),
    import('../signing/model-signature.ts'),
  ]);
  const own = await verifySignature(model, { kind: 'key', key: createPublicKey(key) }).catch(() => null);
  if (own === null) return;
  throw new SluiceError('approval_refused', `${model.ref} was signed with this key: another person must approve it`);
}
