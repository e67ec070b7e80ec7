// The interface of model registries, and the rules for resolving references.
import { didYouMean } from '../../core/did-you-mean.ts';
import { SluiceError } from '../../core/errors.ts';
import type { ModelPackage } from '../package/model-package.ts';
import type { JournalEntry, Mover } from './journal.ts';
import type { StateEntry, VersionState } from './state-journal.ts';

export interface Reference {
  id: string;
  version?: string;
  alias?: string;
}

/**
 * Parses `id`, `id:version` or `id@alias`.
 * @throws SluiceError model_not_found: the text is not a reference, so it must not be used as a path
 */
export function parseReference(text: string): Reference {
  const m =
    /^([a-z0-9][a-z0-9._-]{0,99})(?::([A-Za-z0-9][A-Za-z0-9._-]{0,63})|@([A-Za-z0-9][A-Za-z0-9._-]{0,63}))?$/.exec(
      text,
    );
  if (!m) throw new SluiceError('model_not_found', 'a model reference is id, id:version or id@alias');
  return { id: m[1]!, ...(m[2] ? { version: m[2] } : {}), ...(m[3] ? { alias: m[3] } : {}) };
}

export interface ModelEntry {
  id: string;
  /** Oldest first. Numeric versions are in numeric order. */
  versions: string[];
  aliases: Record<string, string>;
  /** States of all versions, including removed versions. */
  states: Record<string, VersionState>;
}

/** A model entry with the data that is needed to resolve references. */
export interface ResolvableEntry extends ModelEntry {
  /** Version → hash of the approved package; null if approvals are not required. */
  approved: Record<string, string> | null;
}

const PLAIN_NUMBER = /^[1-9][0-9]{0,14}$/;
let collator: Intl.Collator | null = null;

/** Compares two versions: the older one is smaller. Numeric versions are compared as numbers. */
export function byVersion(a: string, b: string): number {
  if (PLAIN_NUMBER.test(a) && PLAIN_NUMBER.test(b)) return Number(a) - Number(b);
  // Created on demand, because creating it takes as long as loading thirty modules.
  collator ??= new Intl.Collator('en', { numeric: true });
  return collator.compare(a, b);
}

/** One move of an alias. */
export interface AliasMove extends JournalEntry {
  alias: string;
  /** Null if the alias did not exist before. */
  from: string | null;
  /** Null if the alias was removed. */
  to: string | null;
}

/** States to which an existing version can change. */
export type StateChange = 'approved' | 'retired' | 'removed';

export interface Registry {
  /** All models, sorted by id. @throws SluiceError registry_unavailable */
  list(): Promise<ModelEntry[]>;
  /**
   * The package to which a reference resolves. The result may be slightly outdated: by half a second in a folder, by
   * `refresh_ms` in a remote registry. Scoring one application thus need not wait for reading YAML.
   * @throws SluiceError model_not_found | model_invalid | model_hash_mismatch | registry_unavailable
   */
  resolve(reference: string): Promise<ModelPackage>;
  /** Moves an alias; `to: null` removes it. @throws SluiceError model_not_found | registry_unavailable | usage */
  moveAlias(id: string, alias: string, to: string | null, by: string | Mover): Promise<AliasMove>;
  /** The moves of a model's aliases, oldest first. */
  history(id: string): Promise<AliasMove[]>;
  /**
   * Adds a version from a folder that contains a complete package. The version appears atomically and never changes
   * afterwards. `by`: the author. Returns the version, which differs from the requested version only if the registry
   * assigns the numbers.
   * @throws SluiceError version_exists | registry_unavailable | usage
   */
  add(id: string, version: string, folder: string, by?: string | Mover): Promise<string>;
  /** The state changes of a model's versions, oldest first; empty if the model does not exist. */
  states(id: string): Promise<StateEntry[]>;
  /**
   * Approves, retires or removes a version. `force`: even if references resolve to the version or processes use it.
   * @throws SluiceError model_not_found | model_retired | model_in_use | approval_refused | registry_unavailable |
   * usage
   */
  setState(id: string, version: string, to: StateChange, by: Mover, force?: boolean): Promise<StateEntry>;
}

/** The whole number that follows the existing versions. */
export const nextVersion = (versions: readonly string[]): number =>
  Math.max(0, ...versions.map(Number).filter((n) => Number.isInteger(n) && n > 0)) + 1;

/**
 * The version to which a reference resolves.
 * @throws SluiceError model_not_found | model_retired: the alias points to a retired version, or all versions are
 * retired | approval_missing
 */
export function pickVersion(entry: ResolvableEntry, ref: Reference): string {
  if (ref.version !== undefined) {
    if (!entry.versions.includes(ref.version)) throw noVersion(entry, ref.version);
    return approvedOnly(entry, ref.version);
  }
  const aliases = entry.aliases;
  const alias = ref.alias ?? 'champion';
  if (Object.hasOwn(aliases, alias)) {
    const version = aliases[alias]!;
    if (!entry.versions.includes(version)) {
      throw new SluiceError('model_invalid', `${ref.id}@${alias} points to version ${version}, which does not exist`);
    }
    return assertTarget(entry, version);
  }
  if (ref.alias !== undefined) {
    throw new SluiceError(
      'model_not_found',
      `${ref.id} has no alias ${ref.alias}${didYouMean(ref.alias, Object.keys(aliases))}`,
    );
  }
  return newest(entry);
}

/** The version to which an id alone resolves if the model has no champion. */
function newest({ id, versions, states, approved }: ResolvableEntry): string {
  const standing = versions.filter((v) => states[v] !== 'retired');
  if (standing.length === 0) throw new SluiceError('model_retired', `every version of ${id} is retired`);
  const found = standing.findLast((v) => approved === null || Object.hasOwn(approved, v));
  if (found !== undefined) return found;
  throw new SluiceError('approval_missing', `no version of ${id} has a valid approval`);
}

/**
 * Checks that an alias may point to this version.
 * @throws SluiceError model_not_found | model_retired | approval_missing
 */
export function assertTarget(entry: ResolvableEntry, version: string): string {
  if (!entry.versions.includes(version)) throw noVersion(entry, version);
  if (entry.states[version] === 'retired') {
    throw new SluiceError('model_retired', `${entry.id}:${version} is retired: an alias cannot point to it`);
  }
  return approvedOnly(entry, version);
}

function approvedOnly({ id, approved }: ResolvableEntry, version: string): string {
  if (approved === null || Object.hasOwn(approved, version)) return version;
  throw new SluiceError('approval_missing', `${id}:${version} has no valid approval`);
}

/** @throws SluiceError approval_missing: the approval is for a package with a different hash */
export function assertApprovedHash({ approved }: ResolvableEntry, version: string, model: ModelPackage): void {
  if (approved === null || approved[version] === model.sha256) return;
  throw new SluiceError('approval_missing', `${model.ref} is not the approved package: its hash differs`);
}

const noVersion = ({ id, versions, states }: ModelEntry, version: string): SluiceError => {
  const removed = states[version] === 'removed' ? '; it was removed' : '';
  return new SluiceError(
    'model_not_found',
    `${id} has no version ${version}${removed} (it has ${versions.join(', ')})`,
  );
};

/** Whether the address is that of a server (`s3://bucket/prefix` or `mlflow+https://host`), not of a folder. */
export const isRemote = (address: string): boolean => /^[a-z][a-z0-9+.-]+:\/\//i.test(address);

/** A path without leading and trailing slashes. */
export function withoutSlashes(path: string): string {
  let [start, end] = [0, path.length];
  while (path[start] === '/') start++;
  while (end > start && path[end - 1] === '/') end--;
  return path.slice(start, end);
}
