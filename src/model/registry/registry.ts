// The interface of every model registry, and how references resolve in it.
import type { KeyObject } from 'node:crypto';
import { didYouMean } from '../../core/did-you-mean.ts';
import { SluiceError } from '../../core/errors.ts';
import type { ModelPackage } from '../package/model-package.ts';

export interface Reference {
  id: string;
  version?: string;
  alias?: string;
}

/**
 * `id`, `id:version` or `id@alias`.
 * @throws SluiceError model_not_found when the text is none of them (so it is never used as a path)
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
  /** Oldest first, numbers in numeric order. */
  versions: string[];
  aliases: Record<string, string>;
}

const PLAIN_NUMBER = /^[1-9][0-9]{0,14}$/;
let collator: Intl.Collator | null = null;

/** Oldest first, numbers in numeric order. */
export function byVersion(a: string, b: string): number {
  if (PLAIN_NUMBER.test(a) && PLAIN_NUMBER.test(b)) return Number(a) - Number(b);
  // Made when it is needed: that takes as long as loading thirty modules.
  collator ??= new Intl.Collator('en', { numeric: true });
  return collator.compare(a, b);
}

/** One move of an alias. */
export interface AliasMove {
  /** ISO time. */
  at: string;
  who: string;
  alias: string;
  /** null: the alias was not there. */
  from: string | null;
  /** null: the alias was removed. */
  to: string | null;
  /** The reason that was given. */
  why?: string;
  /** Package hash of the version it means from then on. */
  package_sha256?: string | null;
  /** Hash of the entry before; null: there was none. Absent in entries of older releases. */
  previous?: string | null;
  signature?: { keyid: string; sig: string };
}

/** Who moves an alias, why, and the key (Ed25519 or P-256) that signs the entry. */
export interface Mover {
  who: string;
  why?: string;
  key?: KeyObject;
}

export interface Registry {
  /** Every model, sorted by id. @throws SluiceError registry_unavailable */
  list(): Promise<ModelEntry[]>;
  /**
   * The package a reference resolves to, at most a short while stale (half a second in a folder, `refresh_ms` behind a network):
   * a request for one application must not pay for reading YAML.
   * @throws SluiceError model_not_found | model_invalid | model_hash_mismatch | registry_unavailable
   */
  resolve(reference: string): Promise<ModelPackage>;
  /** Moves an alias, or removes it with `to` null. @throws SluiceError model_not_found | registry_unavailable | usage */
  moveAlias(id: string, alias: string, to: string | null, by: string | Mover): Promise<AliasMove>;
  /** Moves of the aliases of a model, oldest first. */
  history(id: string): Promise<AliasMove[]>;
  /**
   * Adds a version from a folder with a complete package; it appears atomically and never changes again.
   * Returns the version it has: it differs from the one wanted only where the registry numbers versions itself.
   * @throws SluiceError version_exists | registry_unavailable | usage
   */
  add(id: string, version: string, folder: string): Promise<string>;
}

/** The next whole number after the existing versions. */
export const nextVersion = (versions: readonly string[]): number =>
  Math.max(0, ...versions.map(Number).filter((n) => Number.isInteger(n) && n > 0)) + 1;

/** The version a reference resolves to. @throws SluiceError model_not_found */
export function pickVersion(entry: ModelEntry, ref: Reference): string {
  if (ref.version !== undefined) {
    if (entry.versions.includes(ref.version)) return ref.version;
    throw new SluiceError(
      'model_not_found',
      `${ref.id} has no version ${ref.version} (it has ${entry.versions.join(', ')})`,
    );
  }
  const aliases = entry.aliases;
  const alias = ref.alias ?? 'champion';
  if (Object.hasOwn(aliases, alias)) {
    const version = aliases[alias]!;
    if (entry.versions.includes(version)) return version;
    throw new SluiceError('model_invalid', `${ref.id}@${alias} points to version ${version}, which is not there`);
  }
  if (ref.alias !== undefined) {
    throw new SluiceError(
      'model_not_found',
      `${ref.id} has no alias ${ref.alias}${didYouMean(ref.alias, Object.keys(aliases))}`,
    );
  }
  return entry.versions.at(-1)!;
}
