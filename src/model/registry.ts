// The folder registry: DIR/<id>/<version>/model.yaml, with aliases in DIR/<id>/aliases.yaml.
import { readdir, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { Type } from 'typebox';
import { didYouMean, formatProblem, parseYaml } from '../config/yaml-document.ts';
import { SluiceError } from '../core/errors.ts';
import { loadPackage, type ModelPackage, versionOf } from './package.ts';

const AliasesSchema = Type.Record(Type.String(), Type.Union([Type.String(), Type.Integer()]));

export interface Reference {
  id: string;
  version?: string;
  alias?: string;
}

/**
 * `id`, `id:version` or `id@alias`.
 * @throws SluiceError model_not_found when the text is none of them (nothing of it is used as a path then)
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

const byVersion = new Intl.Collator('en', { numeric: true }).compare;

const FRESH_MS = 500;
const MAX_RESOLVED = 1000;

export class FolderRegistry {
  readonly #folders: readonly string[];
  readonly #loaded = new Map<string, { stamp: string; model: ModelPackage }>();
  readonly #resolved = new Map<string, { at: number; model: Promise<ModelPackage> }>();

  /** Folders are searched in order; the first that has the id serves it. */
  constructor(folders: readonly string[]) {
    this.#folders = folders.map((f) => path.resolve(f));
  }

  /** Every model of every folder, sorted by id. */
  async list(): Promise<ModelEntry[]> {
    const entries = new Map<string, ModelEntry>();
    for (const folder of this.#folders) {
      for (const id of await subfolders(folder)) {
        if (entries.has(id)) continue;
        const entry = await readEntry(folder, id);
        if (entry) entries.set(id, entry);
      }
    }
    return [...entries.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * The package a reference means now, or meant within the last half second: a request for one application must not
   * pay for reading YAML.
   * @throws SluiceError model_not_found | model_invalid
   */
  async resolve(reference: string): Promise<ModelPackage> {
    const now = performance.now();
    const known = this.#resolved.get(reference);
    if (known && now - known.at < FRESH_MS) return known.model;
    const model = this.#resolve(reference);
    if (this.#resolved.size > MAX_RESOLVED) this.#resolved.clear();
    this.#resolved.set(reference, { at: now, model });
    model.catch(() => this.#resolved.delete(reference));
    return model;
  }

  /** Parsing model.yaml takes tens of milliseconds on the thread that answers requests: once is enough until it changes. */
  async #load(folder: string): Promise<ModelPackage> {
    const info = await stat(path.join(folder, 'model.yaml')).catch(() => null);
    const stamp = info ? `${info.mtimeMs} ${info.size} ${info.ino}` : '';
    const known = this.#loaded.get(folder);
    if (known && known.stamp === stamp) return known.model;
    const model = await loadPackage(folder);
    this.#loaded.set(folder, { stamp, model });
    return model;
  }

  async #resolve(reference: string): Promise<ModelPackage> {
    const ref = parseReference(reference);
    for (const folder of this.#folders) {
      const entry = await readEntry(folder, ref.id);
      if (!entry) continue;
      const version = pickVersion(entry, ref);
      const model = await this.#load(path.join(folder, ref.id, version));
      if (model.manifest.id !== ref.id || versionOf(model.manifest) !== version) {
        throw new SluiceError('model_invalid', `${path.join(ref.id, version)}: model.yaml says it is ${model.ref}`);
      }
      return model;
    }
    const known = (await this.list()).map((e) => e.id);
    throw new SluiceError('model_not_found', `no model ${ref.id}${didYouMean(ref.id, known)}`);
  }
}

function pickVersion(entry: ModelEntry, ref: Reference): string {
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
    throw new SluiceError('model_not_found', `${ref.id}@${alias} points to version ${version}, which is not there`);
  }
  if (ref.alias !== undefined) {
    throw new SluiceError(
      'model_not_found',
      `${ref.id} has no alias ${ref.alias}${didYouMean(ref.alias, Object.keys(aliases))}`,
    );
  }
  return entry.versions.at(-1)!;
}

async function readEntry(folder: string, id: string): Promise<ModelEntry | null> {
  const versions = (await subfolders(path.join(folder, id))).sort(byVersion);
  if (versions.length === 0) return null;
  const file = path.join(folder, id, 'aliases.yaml');
  let text = '';
  try {
    text = await readFile(file, 'utf8');
  } catch {
    return { id, versions, aliases: {} };
  }
  const parsed = parseYaml(file, text === '' ? '{}' : text, AliasesSchema);
  if (!parsed.ok) throw new SluiceError('model_invalid', parsed.problems.map(formatProblem).join('\n'));
  return { id, versions, aliases: Object.fromEntries(Object.entries(parsed.value).map(([k, v]) => [k, String(v)])) };
}

async function subfolders(folder: string): Promise<string[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.filter((e) => (e.isDirectory() || e.isSymbolicLink()) && !e.name.startsWith('.')).map((e) => e.name);
  } catch {
    return [];
  }
}
