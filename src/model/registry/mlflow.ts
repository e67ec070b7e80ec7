// A registry in an MLflow tracking server. Registered models have versions and aliases; packages are artifacts of runs.
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { epochMs } from '../../core/clock.ts';
import { didYouMean } from '../../core/did-you-mean.ts';
import { SluiceError } from '../../core/errors.ts';
import { unavailable } from '../../storage/http-client.ts';
import type { PackageFile } from '../package/model-package.ts';
import { LOCK, packageHash, SIGNATURE } from '../package/package-hash.ts';
import { lockText } from '../package/package-lock.ts';
import { readModelYaml } from '../package/read-model-yaml.ts';
import { entriesFor, journalEntry, type PlannedMove } from './aliases.ts';
import { isPackagePath } from './cache.ts';
import {
  MlflowClient,
  type MlflowClientOptions,
  type MlflowModel,
  MlflowRefusal,
  type MlflowVersion,
} from './mlflow-client.ts';
import { type AliasMove, byVersion, parseReference, withoutSlashes } from './registry.ts';
import type { Store, StoredEntry } from './remote.ts';
import type { StateEntry } from './state-journal.ts';
import type { FoundEntry } from './version-states.ts';

/**
 * Tag that has the value `uploading` until all files are uploaded. Another tool may have registered a version without
 * this tag; such a version counts as complete.
 */
const STATE = 'sluice.state';
const PACKAGE_HASH = 'sluice.sha256';
/**
 * Prefix of tags on the registered model. Each alias move has its own tag, so that concurrent moves do not overwrite
 * each other.
 */
const MOVE = 'sluice.alias_move.';
const MANIFEST = 'model.yaml';
/** Age in ms from which on an upload counts as abandoned. */
const STALE_UPLOAD_MS = 3600_000;
const FILES_MAX = 1000;

interface MlflowStoreOptions extends MlflowClientOptions {
  /** Name of the experiment whose runs contain the packages that were added. */
  experiment: string;
}

export class MlflowStore implements Store {
  readonly name: string;
  readonly #client: MlflowClient;
  readonly #experiment: string;

  constructor(options: MlflowStoreOptions) {
    this.name = options.name;
    this.#client = new MlflowClient(options);
    this.#experiment = options.experiment;
  }

  close(): void {
    this.#client.close();
  }

  async entries(): Promise<FoundEntry[]> {
    const [models, versions] = await this.#asked(Promise.all([this.#client.models(), this.#client.versions()]));
    return models
      .filter((m) => isId(m.name))
      .map((m) =>
        entryOf(
          m,
          versions.filter((v) => v.name === m.name),
        ),
      )
      .filter((e) => e.versions.length > 0)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async entry(id: string): Promise<StoredEntry | null> {
    const model = await this.#asked(this.#client.model(id));
    if (!model) return null;
    const entry = entryOf(model, await this.#asked(this.#versions(id)));
    return entry.versions.length > 0 ? entry : null;
  }

  async fetch(id: string, version: string, folder: string): Promise<{ files: PackageFile[]; sha256?: string }> {
    const ref = `${id}:${version}`;
    return this.#asked(
      (async () => {
        const found = (await this.#versions(id)).find((v) => v.version === version);
        const uri = found && (await this.#client.downloadUri(id, version));
        if (!uri) throw unavailable(this.name, `${ref} vanished while it was read`);
        const root = artifactPath(uri);
        if (root === null) {
          throw new SluiceError(
            'model_invalid',
            `${ref}: its artifacts are at ${new URL(uri).protocol}//…, which the tracking server does not serve (see its --serve-artifacts)`,
          );
        }
        const names = await this.#namesBelow(ref, root);
        if (!names.includes(MANIFEST)) {
          const what = names.includes('MLmodel') ? 'an MLflow model without model.yaml' : 'no model.yaml';
          throw new SluiceError(
            'model_invalid',
            `${ref} holds ${what}: download its ONNX file and register it with sluice model add FILE.onnx --training-data TABLE.csv`,
          );
        }
        const files: PackageFile[] = [];
        for (const name of names) {
          const file = path.join(folder, name);
          await mkdir(path.dirname(file), { recursive: true });
          const { bytes, sha256 } = await this.#client.downloadArtifact(`${root}/${name}`, file);
          files.push({ name, bytes, sha256 });
        }
        const sha256 = tagOf(found, PACKAGE_HASH);
        return { files, ...(sha256 === undefined ? {} : { sha256 }) };
      })(),
    );
  }

  /** MLflow has no conditional writes. Concurrent moves are therefore all applied, and the last one takes effect. */
  async moveAlias(id: string, planned: Omit<PlannedMove, 'from'>): Promise<AliasMove> {
    const { alias, to } = planned;
    const model = await this.#asked(this.#client.model(id));
    if (!model) throw new SluiceError('model_not_found', `${this.name} has no model ${id}`);
    const from = model.aliases?.find((a) => a.alias === alias)?.version ?? null;
    if (to === null && from === null) {
      const known = (model.aliases ?? []).map((a) => a.alias);
      throw new SluiceError('model_not_found', `${id} has no alias ${alias}${didYouMean(alias, known)}`);
    }
    // Moves that other tools made since the last move are recorded as well.
    const entries = entriesFor(movesOf(model), { ...planned, from }, 'moved in MLflow');
    const move = entries.pop()!;
    for (const before of entries) await this.#record(id, 0, before);
    await this.#asked(this.#client.setAlias(id, alias, to));
    await this.#record(id, 1, move);
    return move;
  }

  /**
   * MLflow cannot store a journal: everyone can edit any tag, and entries cannot be chained without conditional writes.
   */
  async states(): Promise<StateEntry[]> {
    return [];
  }

  async setState(): Promise<never> {
    throw new SluiceError(
      'usage',
      `${this.name} does not store version states: approve, retire and remove versions in MLflow`,
    );
  }

  async history(id: string): Promise<AliasMove[]> {
    const model = await this.#asked(this.#client.model(id));
    return model ? movesOf(model) : [];
  }

  /**
   * Adds a version, whose number the server assigns. Steps: create the version with the mark `uploading`, write its
   * number into model.yaml, upload all files, remove the mark.
   */
  async add(id: string, version: string, folder: string, files: PackageFile[]): Promise<string> {
    if (!/^[1-9]\d{0,8}$/.test(version)) {
      throw new SluiceError('usage', `${this.name} assigns version numbers 1, 2, …: ${version} is not such a number`);
    }
    return this.#asked(this.#add(id, version, folder, files));
  }

  async #add(id: string, wanted: string, folder: string, files: PackageFile[]): Promise<string> {
    const client = this.#client;
    refuseTaken(id, wanted, await this.#versions(id));
    await client.createModel(id);
    const run = await client.createRun(await client.experiment(this.#experiment), `${id} package`);
    const root = artifactPath(run.artifact_uri);
    if (root === null) {
      throw new SluiceError('usage', `${this.name} does not serve artifacts (see its --serve-artifacts)`);
    }
    const source = `${run.artifact_uri}/package`;
    const version = await client.createVersion(id, source, run.run_id, { [STATE]: 'uploading' });
    try {
      if (Number(version) < Number(wanted)) {
        throw new SluiceError(
          'usage',
          `${this.name} assigns version numbers: the next version of ${id} is ${version}, not ${wanted}`,
        );
      }
      if (version !== wanted) {
        const others = (await this.#versions(id)).filter((v) => v.version !== version);
        refuseTaken(id, wanted, others);
      }
      const text = await readFile(path.join(folder, MANIFEST), 'utf8');
      const manifest = Buffer.from(version === wanted ? text : await withVersion(text, version));
      if (version !== wanted && files.some((f) => f.name === SIGNATURE)) {
        throw new SluiceError(
          'usage',
          `${this.name} assigned version ${version}, but the package was signed as version ${wanted}`,
        );
      }
      const sha256 = createHash('sha256').update(manifest).digest('hex');
      const uploaded = files.map((f) => (f.name === MANIFEST ? { ...f, bytes: manifest.length, sha256 } : f));
      for (const f of files) {
        if (f.name === MANIFEST || f.name === LOCK) continue;
        await client.uploadArtifact(`${root}/package/${f.name}`, { file: path.join(folder, f.name), bytes: f.bytes });
      }
      await client.uploadArtifact(`${root}/package/${LOCK}`, Buffer.from(lockText(uploaded)));
      await client.uploadArtifact(`${root}/package/${MANIFEST}`, manifest);
      await client.tagVersion(id, version, PACKAGE_HASH, packageHash(uploaded));
      await client.tagVersion(id, version, STATE, 'ready');
    } catch (error) {
      await client.deleteVersion(id, version).catch(() => {});
      await client.endRun(run.run_id, 'FAILED').catch(() => {});
      throw error;
    }
    await client.endRun(run.run_id, 'FINISHED').catch(() => {});
    return version;
  }

  /** Compares the names again, because some databases ignore case when they compare names. */
  async #versions(id: string): Promise<MlflowVersion[]> {
    return (await this.#client.versions(`name='${id}'`)).filter((v) => v.name === id);
  }

  /** Tags are sorted by key. `order` determines the order of moves with the same time. */
  #record(id: string, order: 0 | 1, move: AliasMove): Promise<void> {
    const key = `${MOVE}${move.at.replaceAll(':', '-')}.${order}.${randomUUID().slice(0, 8)}`;
    return this.#asked(this.#client.tagModel(id, key, JSON.stringify(move)));
  }

  async #namesBelow(ref: string, root: string): Promise<string[]> {
    const names: string[] = [];
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      const listed = await this.#client.listArtifacts(folder === '' ? root : `${root}/${folder}`);
      for (const item of listed) {
        // Some servers return names, and others return full paths. In both cases, the last segment is the name.
        const base = item.path.split('/').filter(Boolean).at(-1) ?? '';
        if (base.startsWith('.')) continue;
        const name = folder === '' ? base : `${folder}/${base}`;
        if (!isPackagePath(name)) {
          throw new SluiceError('model_invalid', `${ref}: an artifact is named ${JSON.stringify(name)}`);
        }
        (item.folder ? folders : names).push(name);
      }
      if (names.length + folders.length > FILES_MAX) {
        throw new SluiceError('model_invalid', `${ref} contains more than ${FILES_MAX} files`);
      }
    }
    return names.sort();
  }

  /** Converts a rejection that the caller does not expect to a SluiceError. */
  async #asked<T>(call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      if (!(error instanceof MlflowRefusal)) throw error;
      const code = error.code === 'INVALID_PARAMETER_VALUE' ? 'usage' : 'registry_unavailable';
      throw new SluiceError(code, `${this.name}: ${error.message.slice(0, 300)}`, { cause: error });
    }
  }
}

function entryOf(model: MlflowModel, versions: readonly MlflowVersion[]): StoredEntry {
  const whole = versions.filter(isWhole);
  const stamps: Record<string, string> = Object.create(null);
  for (const v of whole) {
    stamps[v.version] = [v.run_id, v.source, v.creation_timestamp, tagOf(v, PACKAGE_HASH)].join(' ');
  }
  return {
    id: model.name,
    versions: whole.map((v) => v.version).sort(byVersion),
    aliases: Object.fromEntries((model.aliases ?? []).map((a) => [a.alias, a.version])),
    stamps,
    journal: [],
  };
}

const isWhole = (v: MlflowVersion): boolean =>
  (v.status ?? 'READY') === 'READY' && (tagOf(v, STATE) ?? 'ready') === 'ready';

const tagOf = (v: MlflowVersion, key: string): string | undefined => v.tags?.find((t) => t.key === key)?.value;

/** @throws SluiceError version_exists: the number is taken, or its upload is still in progress */
function refuseTaken(id: string, version: string, versions: readonly MlflowVersion[]): void {
  const taken = versions.find((v) => v.version === version);
  if (!taken) return;
  if (isWhole(taken)) throw new SluiceError('version_exists', `${id}:${version} already exists`);
  if (epochMs() - taken.creation_timestamp < STALE_UPLOAD_MS) {
    throw new SluiceError('version_exists', `another process is uploading ${id}:${version}`);
  }
}

/** The alias moves in the tags of a model, oldest first. */
function movesOf(model: MlflowModel): AliasMove[] {
  const tags = (model.tags ?? []).filter((t) => t.key.startsWith(MOVE)).sort((a, b) => (a.key < b.key ? -1 : 1));
  return tags.flatMap((t) => journalEntry(t.value));
}

/** Changes only the version number in the text of model.yaml. @throws SluiceError model_invalid */
async function withVersion(text: string, version: string): Promise<string> {
  const changed = text.replace(/^version:[ \t]{0,8}(?:"[^"\n]*"|'[^'\n]*'|[^\s#'"][^\s#]*)/m, `version: ${version}`);
  const parsed = await readModelYaml(MANIFEST, changed);
  if (parsed.ok && String(parsed.value.version) === version) return changed;
  throw new SluiceError(
    'model_invalid',
    `the version in ${MANIFEST} cannot be set to ${version}: put it on its own line`,
  );
}

/** The path of artifacts below the server's artifact proxy; null if the artifacts are stored elsewhere. */
function artifactPath(uri: string): string | null {
  const found = withoutSlashes(behindProxy(uri) ?? '');
  return found === '' || found.split('/').includes('..') ? null : found;
}

const PROXY = '/api/2.0/mlflow-artifacts/artifacts/';

function behindProxy(uri: string): string | null {
  const scheme = 'mlflow-artifacts:';
  if (uri.startsWith(scheme)) {
    const rest = uri.slice(scheme.length);
    if (!rest.startsWith('//')) return rest.startsWith('/') ? rest : null;
    const host = rest.indexOf('/', 2);
    return host < 0 ? null : rest.slice(host);
  }
  const at = /^https?:\/\//.test(uri) ? uri.indexOf(PROXY) : -1;
  return at < 0 ? null : uri.slice(at + PROXY.length);
}

function isId(text: string): boolean {
  try {
    return parseReference(text).id === text;
  } catch {
    return false;
  }
}
