// The folder registry: DIR/<id>/<version>/model.yaml, with aliases in DIR/<id>/aliases.yaml, and with journals.
import { randomUUID } from 'node:crypto';
import { cp, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { monotonicMs } from '../../core/clock.ts';
import { didYouMean } from '../../core/did-you-mean.ts';
import { SluiceError } from '../../core/errors.ts';
import { underFileLock } from '../../core/file-lock.ts';
import { fileFault } from '../../core/file-system.ts';
import { ownValue } from '../../core/own-keys.ts';
import { loadPackage, versionOf } from '../package/load-package.ts';
import type { ModelPackage } from '../package/model-package.ts';
import { hashFolder, stampOf } from '../package/package-hash.ts';
import { sealPackage } from '../package/package-lock.ts';
import {
  aliasesWithoutFile,
  entriesFor,
  extendedJournal,
  journalEntries,
  lostAliases,
  readAliases,
} from './aliases.ts';
import { holdersOf, inUseFolder } from './in-use.ts';
import type { Mover } from './journal.ts';
import {
  type AliasMove,
  assertApprovedHash,
  assertTarget,
  byVersion,
  type ModelEntry,
  parseReference,
  pickVersion,
  type Registry,
  type ResolvableEntry,
  type StateChange,
} from './registry.ts';
import { type Approvals, type PlannedState, readStates, type StateEntry, stateEntryFor, stateLine } from './state-journal.ts'; // biome-ignore format: one line
import { asListed, assertNotSigner, assertUnmeant, withStandings } from './version-states.ts';

const ALIASES = 'aliases.yaml';
const HISTORY = 'aliases.history.jsonl';
const STATES = 'states.history.jsonl';

const FRESH_MS = 500;
const MAX_RESOLVED = 1000;

interface FolderOptions {
  /** If set, references resolve only to versions with a valid approval. */
  approvals?: Approvals | null;
  /** Called when a reference names a retired version by its number. */
  onRetired?: (ref: string) => void;
}

export class FolderRegistry implements Registry {
  readonly #folders: readonly string[];
  readonly #options: FolderOptions;
  readonly #loaded = new Map<string, { stamp: string; model: Promise<ModelPackage> }>();
  readonly #resolved = new Map<string, { at: number; model: Promise<ModelPackage> }>();
  /** By registry folder: the ids of the models that this process has found there. */
  readonly #found = new Map<string, Set<string>>();
  /** Files of aliases that this process has read. */
  readonly #aliased = new Set<string>();

  /** Folders are searched in order. The first folder that contains the id is used. */
  constructor(folders: readonly string[], options: FolderOptions = {}) {
    this.#folders = folders.map((f) => path.resolve(f));
    this.#options = options;
  }

  /** Every model in every folder, sorted by id. */
  async list(): Promise<ModelEntry[]> {
    const entries = new Map<string, ModelEntry>();
    for (const folder of this.#folders) {
      for (const id of await subfolders(folder)) {
        if (entries.has(id)) continue;
        // A folder that is invalid or does not belong to the registry (lost+found) must not hide other models. A folder
        // that cannot be read is skipped, too.
        const entry = await this.#entry(folder, id).catch((error: SluiceError) => {
          const denied = (error.cause as NodeJS.ErrnoException | undefined)?.code === 'EACCES';
          if (error.code === 'registry_unavailable' && !denied) throw error;
          return null;
        });
        if (entry) entries.set(id, asListed(entry));
      }
      await this.#assertMounted(folder, null);
    }
    return [...entries.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /**
   * The package to which a reference resolves. Results are cached for half a second, so that a request for one
   * application need not wait for reading YAML.
   * @throws SluiceError model_not_found | model_invalid
   */
  async resolve(reference: string): Promise<ModelPackage> {
    const now = monotonicMs();
    const known = this.#resolved.get(reference);
    if (known && now - known.at < FRESH_MS) return known.model;
    const model = this.#resolve(reference);
    if (this.#resolved.size > MAX_RESOLVED) this.#resolved.clear();
    this.#resolved.set(reference, { at: now, model });
    model.catch(() => this.#resolved.delete(reference));
    return model;
  }

  async moveAlias(id: string, alias: string, to: string | null, by: string | Mover): Promise<AliasMove> {
    const parsed = parseReference(`${id}@${alias}`);
    const folder = await this.#folderOf(parsed.id);
    return locked(path.join(folder, id), async () => {
      const entry = await this.#standing(folder, id);
      const model = to === null ? null : await this.#load(path.join(folder, id, assertTarget(entry, to)));
      if (model) assertApprovedHash(entry, to!, model);
      const from = ownValue(entry.aliases, alias) ?? null;
      if (to === null && from === null) throw new SluiceError('model_not_found', `${id} has no alias ${alias}`);
      const { [alias]: _, ...others } = entry.aliases;
      const aliases = Object.fromEntries(Object.entries(to === null ? others : { ...others, [alias]: to }).sort());
      const planned = { alias, from, to, package_sha256: model?.sha256 ?? null, by };
      // Manual edits since the last move are recorded as well.
      const journal = await readText(path.join(folder, id, HISTORY));
      const moves = entriesFor(journalEntries(journal), planned, 'edited by hand');
      // Imported on demand, because readers of aliases do not need the YAML library.
      const { formatYaml } = await import('../../config/yaml.ts');
      await writeWhole([
        { file: path.join(folder, id, ALIASES), text: formatYaml(aliases) },
        { file: path.join(folder, id, HISTORY), text: extendedJournal(journal, moves) },
      ]);
      this.#resolved.clear();
      return moves.at(-1)!;
    });
  }

  async history(id: string): Promise<AliasMove[]> {
    const folder = await this.#folderOf(id);
    return journalEntries(await readText(path.join(folder, id, HISTORY)));
  }

  async states(id: string): Promise<StateEntry[]> {
    parseReference(id);
    for (const folder of this.#folders) {
      const states = await readJournal(folder, id);
      if (states.length > 0 || (await subfolders(path.join(folder, id))).length > 0) return states;
    }
    return [];
  }

  async setState(id: string, version: string, to: StateChange, by: Mover, force = false): Promise<StateEntry> {
    parseReference(`${id}:${version}`);
    const folder = await this.#folderOf(id);
    const own = path.join(folder, id);
    return locked(own, async () => {
      const last = (await readJournal(folder, id)).findLast((e) => e.version === version);
      const isLeft = to === 'removed' && last?.to === 'removed' && (await subfolders(own)).includes(version);
      if (!isLeft) {
        const entry = { ...(await this.#standing(folder, id)), approved: null };
        pickVersion(entry, { id, version });
        if (to !== 'approved' && !force) {
          assertUnmeant(entry, version);
          await assertFree(own, `${id}:${version}`);
        }
      }
      // A damaged version can still be retired or removed.
      const loading = this.#load(path.join(own, version));
      const model = to === 'approved' ? await loading : await loading.catch(() => null);
      if (to === 'approved') await assertNotSigner(model!, by);
      const written = await appendState(folder, id, { version, to, package_sha256: model?.sha256 ?? null, by });
      if (to === 'removed') await removeFolder(own, version);
      this.#resolved.clear();
      return written;
    });
  }

  async add(id: string, version: string, source: string, by: string | Mover = 'unknown'): Promise<string> {
    const parsed = parseReference(`${id}:${version}`);
    const target = path.join(this.#folders[0]!, parsed.id, version);
    const temporary = path.join(this.#folders[0]!, parsed.id, `.${version}.${randomUUID()}.partial`);
    try {
      await mkdir(path.dirname(target), { recursive: true });
      if (await stat(target).catch(() => null)) throw exists(id, version);
      await cp(source, temporary, { recursive: true });
      await sealPackage(temporary);
      await syncFiles(temporary);
      const { sha256: package_sha256 } = await hashFolder(temporary);
      await locked(path.dirname(target), async () => {
        const history = await readJournal(this.#folders[0]!, id);
        const entry = stateEntryFor(history, { version, to: 'proposed', package_sha256, by });
        if (await stat(target).catch(() => null)) throw exists(id, version);
        await writeStates(this.#folders[0]!, id, [...history, entry]);
        // Fails if the folder exists and is not empty. If two processes add the same version at the same time, only one
        // succeeds.
        await rename(temporary, target);
      });
    } catch (cause) {
      await rm(temporary, { recursive: true, force: true });
      if (cause instanceof SluiceError) throw cause;
      const code = (cause as NodeJS.ErrnoException).code;
      if (code === 'ENOTEMPTY' || code === 'EEXIST') throw exists(id, version);
      throw new SluiceError('registry_unavailable', `${target} cannot be written (${code ?? cause})`, { cause });
    }
    this.#resolved.clear();
    return version;
  }

  async #folderOf(id: string): Promise<string> {
    parseReference(id);
    for (const folder of this.#folders) {
      if ((await subfolders(path.join(folder, id))).length > 0) return folder;
      await this.#assertMounted(folder, id);
    }
    const known = (await this.list()).map((e) => e.id);
    throw new SluiceError('model_not_found', `no model ${id}${didYouMean(id, known)}`);
  }

  async #entry(folder: string, id: string): Promise<ResolvableEntry | null> {
    const versions = (await subfolders(path.join(folder, id))).sort(byVersion);
    if (versions.length === 0) return null;
    const file = path.join(folder, id, ALIASES);
    const [text, journal] = await Promise.all([unlessAbsent(readFile(file, 'utf8'), null), readJournal(folder, id)]);
    const aliases = text === null ? await this.#withoutAliases(folder, id) : await readAliases(file, text);
    if (text !== null) this.#aliased.add(file);
    this.#found.set(folder, (this.#found.get(folder) ?? new Set()).add(id));
    return withStandings({ id, versions, aliases, journal }, this.#options.approvals ?? null);
  }

  /** @throws SluiceError model_invalid: the file of aliases was lost | registry_unavailable */
  async #withoutAliases(folder: string, id: string): Promise<Record<string, string>> {
    const file = path.join(folder, id, ALIASES);
    const none = aliasesWithoutFile(file, journalEntries(await readText(path.join(folder, id, HISTORY))));
    if (this.#aliased.has(file)) throw lostAliases(file, 'it did before');
    return none;
  }

  /**
   * Checks that the models of a folder have not disappeared without `model remove`, which leaves their journals. An
   * unmounted folder is empty or missing, and the next folder could have another model with the same id.
   * @throws SluiceError registry_unavailable
   */
  async #assertMounted(folder: string, id: string | null): Promise<void> {
    const found = this.#found.get(folder);
    if (!found) return;
    const there = await subfolders(folder);
    if (there.length > 0 && (id === null || !found.has(id) || there.includes(id))) return;
    const gone = there.length > 0 ? path.join(folder, id!) : folder;
    throw new SluiceError('registry_unavailable', `${gone} contained models before and is missing or empty now`);
  }

  async #standing(folder: string, id: string): Promise<ResolvableEntry> {
    const entry = await this.#entry(folder, id);
    if (entry) return entry;
    throw new SluiceError('model_not_found', `every version of ${id} was removed`);
  }

  /**
   * Loads a package. The result is cached until a file changes, because hashing the files and parsing model.yaml takes
   * tens of milliseconds.
   */
  async #load(folder: string): Promise<ModelPackage> {
    // Computed before reading, so that a change during reading causes the package to be read again.
    const stamp = (await stampOf(folder)) ?? '';
    const known = this.#loaded.get(folder);
    if (known && known.stamp === stamp) return known.model;
    const heldIn = inUseFolder(path.dirname(folder));
    const isOwn = path.dirname(path.dirname(folder)) === this.#folders[0];
    const model = loadPackage(folder).then((m) => (isOwn ? { ...m, heldIn } : m));
    this.#loaded.set(folder, { stamp, model });
    model.catch(() => {
      if (this.#loaded.get(folder)?.model === model) this.#loaded.delete(folder);
    });
    return model;
  }

  async #resolve(reference: string): Promise<ModelPackage> {
    const ref = parseReference(reference);
    for (const folder of this.#folders) {
      const entry = await this.#entry(folder, ref.id);
      if (!entry) {
        await this.#assertMounted(folder, ref.id);
        continue;
      }
      const version = pickVersion(entry, ref);
      const model = await this.#load(path.join(folder, ref.id, version));
      assertApprovedHash(entry, version, model);
      if (entry.states[version] === 'retired') this.#options.onRetired?.(`${ref.id}:${version}`);
      if (model.manifest.id !== ref.id || versionOf(model.manifest) !== version) {
        throw new SluiceError('model_invalid', `${path.join(ref.id, version)}: model.yaml names ${model.ref}`);
      }
      return model;
    }
    const known = (await this.list()).map((e) => e.id);
    throw new SluiceError('model_not_found', `no model ${ref.id}${didYouMean(ref.id, known)}`);
  }
}

async function readJournal(folder: string, id: string): Promise<StateEntry[]> {
  const file = path.join(folder, id, STATES);
  return readStates(file, await readText(file));
}

const writeStates = (folder: string, id: string, history: readonly StateEntry[]): Promise<void> =>
  writeWhole([{ file: path.join(folder, id, STATES), text: history.map(stateLine).join('') }]);

async function appendState(folder: string, id: string, planned: PlannedState): Promise<StateEntry> {
  const history = await readJournal(folder, id);
  const last = history.findLast((e) => e.version === planned.version);
  // The version was already recorded as removed: this call completes an interrupted removal.
  if (planned.to === 'removed' && last?.to === 'removed') return last;
  const entry = stateEntryFor(history, { ...planned, package_sha256: planned.package_sha256 ?? last?.package_sha256 ?? null }); // biome-ignore format: one line
  await writeStates(folder, id, [...history, entry]);
  return entry;
}

/** Checks that no process has loaded the version. @throws SluiceError model_in_use */
async function assertFree(own: string, ref: string): Promise<void> {
  const now = await timeIn(own);
  const holders = await holdersOf(own, ref.slice(ref.indexOf(':') + 1), now);
  if (holders.length === 0) return;
  throw new SluiceError('model_in_use', `${ref} is loaded by ${holders.slice(0, 5).join('; ')}`);
}

/** The current time in ms by the clock of the file system, which may be on another machine. */
async function timeIn(folder: string): Promise<number> {
  const probe = path.join(folder, `.${randomUUID()}.now`);
  const handle = await open(probe, 'wx');
  try {
    return (await handle.stat()).mtimeMs;
  } finally {
    await handle.close();
    await rm(probe, { force: true });
  }
}

/** The folder is renamed before it is deleted, so that it disappears atomically. */
async function removeFolder(own: string, version: string): Promise<void> {
  const gone = path.join(own, `.${version}.${randomUUID()}.removed`);
  try {
    await rename(path.join(own, version), gone);
    await rm(gone, { recursive: true, force: true });
  } catch (cause) {
    throw new SluiceError('registry_unavailable', `${path.join(own, version)} cannot be removed: ${fileFault(cause)}`, { cause }); // biome-ignore format: one line
  }
}

async function subfolders(folder: string): Promise<string[]> {
  const entries = await unlessAbsent(readdir(folder, { withFileTypes: true }), []);
  return entries.filter((e) => (e.isDirectory() || e.isSymbolicLink()) && !e.name.startsWith('.')).map((e) => e.name);
}

/**
 * The content of a file, or `otherwise` if the file does not exist. Other errors, such as a failing disk or too many
 * open files, are thrown: if the aliases were missing, another version would be served.
 * @throws SluiceError registry_unavailable
 */
async function unlessAbsent<T, U>(reading: Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await reading;
  } catch (cause) {
    const { code, path: file } = cause as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return otherwise;
    throw new SluiceError('registry_unavailable', `${file ?? 'the registry'} cannot be read (${code ?? 'unknown'})`, {
      cause,
    });
  }
}

const readText = (file: string): Promise<string> => unlessAbsent(readFile(file, 'utf8'), '');

const exists = (id: string, version: string): SluiceError =>
  new SluiceError('version_exists', `${id}:${version} already exists`);

/** Lock file in the folder of a model. Only one process at a time may change the model. */
const LOCK = '.lock.sqlite';
/** Maximum wait for the lock in ms. The wait allows many processes to take turns, each of which reads a package. */
const LOCK_WAIT_MS = 120_000;

/** Runs `work` while holding the lock of a model. @throws SluiceError registry_unavailable | errors of `work` */
function locked<T>(own: string, work: () => Promise<T>): Promise<T> {
  const refused = (cause: unknown): SluiceError => {
    const why = cause === null ? `another process has been changing it for ${LOCK_WAIT_MS / 1000} s` : fileFault(cause);
    return new SluiceError('registry_unavailable', `${own} cannot be locked: ${why}`, { cause });
  };
  return underFileLock(path.join(own, LOCK), { waitMs: LOCK_WAIT_MS, refused }, work);
}

/**
 * Replaces each file atomically: even after a crash, readers see either the old or the new text. All texts are on the
 * disk before the first file is replaced, so a full disk changes no file.
 * @throws SluiceError registry_unavailable
 */
async function writeWhole(texts: readonly { file: string; text: string }[]): Promise<void> {
  const staged = texts.map(({ file, text }) => ({ file, text, temporary: `${file}.${randomUUID()}.partial` }));
  try {
    for (const { text, temporary } of staged) {
      const handle = await open(temporary, 'w');
      try {
        await handle.writeFile(text);
        await handle.sync();
      } finally {
        await handle.close();
      }
    }
    for (const { file, temporary } of staged) await rename(temporary, file);
  } catch (cause) {
    for (const { temporary } of staged) await rm(temporary, { force: true }).catch(() => {});
    throw new SluiceError('registry_unavailable', `${texts[0]!.file} cannot be written: ${fileFault(cause)}`, {
      cause,
    });
  }
}

async function syncFiles(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const handle = await open(path.join(folder, name), 'r');
    await handle.sync().finally(() => handle.close());
  }
}
