// A registry in S3-compatible object storage: PREFIX/<id>/<version>/model.yaml …, PREFIX/<id>/aliases.yaml.
import { createHash, randomUUID } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { formatYaml } from '../../config/yaml.ts';
import { epochMs, sleep } from '../../core/clock.ts';
import { didYouMean } from '../../core/did-you-mean.ts';
import { SluiceError } from '../../core/errors.ts';
import { ownValue } from '../../core/own-keys.ts';
import { unavailable } from '../../storage/http-client.ts';
import { S3Client, type S3ClientOptions, type S3Object } from '../../storage/s3/s3-client.ts';
import type { PackageFile } from '../package/model-package.ts';
import { packageHash } from '../package/package-hash.ts';
import { aliasesWithoutFile, entriesFor, extendedJournal, journalEntries, type PlannedMove, readAliases } from './aliases.ts'; // biome-ignore format: one line
import { isPackagePath } from './cache.ts';
import type { Mover } from './journal.ts';
import { type AliasMove, byVersion, parseReference } from './registry.ts';
import type { Store, StoredEntry } from './remote.ts';
import { type PlannedState, readStates, type StateEntry, stateEntryFor, stateLine } from './state-journal.ts';
import type { FoundEntry } from './version-states.ts';

const ALIASES = 'aliases.yaml';
const HISTORY = 'aliases.history.jsonl';
const STATES = 'states.history.jsonl';
const MANIFEST = 'model.yaml';
/** Object by which an uploader claims a version. Names with a leading dot are not part of a package. */
const CLAIM = '.upload';
/** Age in ms from which on a claim counts as abandoned. */
const STALE_CLAIM_MS = 3600_000;
const PACKAGE_HASH = 'x-amz-meta-sluice-sha256';
/**
 * Begins a comment in aliases.yaml that repeats the last moves. Aliases and history are two objects. If a writer
 * crashes after writing the first of them, no move is lost.
 */
const LAST_MOVES = '# last moves: ';

const ATTEMPTS = 20;

export class S3Store implements Store {
  readonly name: string;
  readonly #client: S3Client;
  readonly #prefix: string;
  /** Journals by id. An entry is valid while its object has the same ETag. */
  readonly #journals = new Map<string, { etag: string; journal: StateEntry[] }>();

  /** `prefix`: may be empty; has no leading or trailing slash. */
  constructor(prefix: string, options: S3ClientOptions) {
    this.name = options.name;
    this.#client = new S3Client(options);
    this.#prefix = prefix === '' ? '' : `${prefix}/`;
  }

  close(): void {
    this.#client.close();
  }

  async entries(): Promise<FoundEntry[]> {
    const { folders } = await this.#client.list(this.#prefix, '/');
    const ids = folders.map((f) => f.slice(this.#prefix.length, -1)).filter(isId);
    const entries: FoundEntry[] = [];
    const next = ids.values();
    const worker = async () => {
      for (const id of next) {
        const entry = await this.entry(id).catch(ifInvalid);
        if (entry) entries.push(entry);
      }
    };
    await Promise.all(Array.from({ length: 8 }, worker));
    return entries.sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  async entry(id: string): Promise<StoredEntry | null> {
    const prefix = `${this.#prefix}${id}/`;
    const { objects } = await this.#client.list(prefix);
    const versions = new Map<string, S3Object[]>();
    for (const object of objects) {
      const [version, ...name] = object.key.slice(prefix.length).split('/');
      if (name.length > 0) versions.set(version!, [...(versions.get(version!) ?? []), object]);
    }
    const stamps: Record<string, string> = Object.create(null);
    for (const [version, files] of versions) {
      if (isVersion(version) && files.some((f) => f.key === `${prefix}${version}/${MANIFEST}`))
        stamps[version] = stampOf(files);
    }
    if (Object.keys(stamps).length === 0) return null;
    const has = (name: string) => objects.some((o) => o.key === prefix + name);
    const lost = async () => aliasesWithoutFile(prefix + ALIASES, (await this.#history(id)).moves);
    const aliases = has(ALIASES) ? (await this.#aliases(id)).aliases : has(HISTORY) ? await lost() : {};
    const written = objects.find((o) => o.key === `${prefix}${STATES}`);
    const journal = written ? await this.#journalAt(id, written.version) : [];
    return { id, versions: Object.keys(stamps).sort(byVersion), aliases, stamps, journal };
  }

  async states(id: string): Promise<StateEntry[]> {
    return (await this.#states(id)).journal;
  }

  /** The journal is written with the condition If-Match, so that concurrent writes are serialised. */
  async setState(id: string, planned: PlannedState): Promise<StateEntry> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { journal, text, etag } = await this.#states(id);
      const last = journal.findLast((e) => e.version === planned.version);
      // If the version was already recorded as removed, this call completes an interrupted removal.
      const isLeft = planned.to === 'removed' && last?.to === 'removed';
      const package_sha256 = planned.package_sha256 ?? last?.package_sha256 ?? null;
      const entry = isLeft ? last : stateEntryFor(journal, { ...planned, package_sha256 });
      const key = `${this.#prefix}${id}/${STATES}`;
      const condition = etag === null ? { ifNone: true as const } : { ifMatch: etag };
      const put = isLeft ? 'done' : await this.#client.put(key, Buffer.from(ended(text) + stateLine(entry)), condition);
      if (
        put === 'done' ||
        (put === 'unsure' && (await this.states(id)).some((e) => e.previous === entry.previous && e.at === entry.at))
      ) {
        // biome-ignore format: one line
        if (planned.to === 'removed') await this.#discard(id, planned.version);
        return entry;
      }
      await pause(attempt);
    }
    throw unavailable(this.name, `other processes keep changing the states of ${id}; run the command again`);
  }

  async fetch(id: string, version: string, folder: string): Promise<{ files: PackageFile[]; sha256?: string }> {
    const prefix = `${this.#prefix}${id}/${version}/`;
    const { objects } = await this.#client.list(prefix);
    const files: PackageFile[] = [];
    let sha256: string | undefined;
    for (const object of objects) {
      const name = object.key.slice(prefix.length);
      if (name === '' || name.endsWith('/') || name.split('/').some((part) => part.startsWith('.'))) continue;
      if (!isPackagePath(name)) {
        throw new SluiceError('model_invalid', `${id}:${version}: an object is named ${JSON.stringify(name)}`);
      }
      const file = path.join(folder, name);
      await mkdir(path.dirname(file), { recursive: true });
      const got = await this.#client.download(object.key, file);
      if (!got) throw unavailable(this.name, `${object.key} vanished while it was read`);
      files.push({ name, bytes: got.bytes, sha256: got.sha256 });
      if (name === MANIFEST) sha256 = got.headers[PACKAGE_HASH] as string | undefined;
    }
    return { files, ...(sha256 === undefined ? {} : { sha256 }) };
  }

  async moveAlias(id: string, move: Omit<PlannedMove, 'from'>): Promise<AliasMove> {
    const { alias, to } = move;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const current = await this.#aliases(id);
      const from = ownValue(current.aliases, alias) ?? null;
      if (to === null && from === null) {
        throw new SluiceError(
          'model_not_found',
          `${id} has no alias ${alias}${didYouMean(alias, Object.keys(current.aliases))}`,
        );
      }
      // Manual edits since the last move are recorded as well.
      const moves = entriesFor(await this.#heal(id, current.lastMoves), { ...move, from }, 'edited by hand');
      const { [alias]: _, ...others } = current.aliases;
      const aliases = Object.fromEntries(Object.entries(to === null ? others : { ...others, [alias]: to }).sort());
      // The comment stays on one line, whatever `who` contains, because JSON escapes line breaks.
      const text = `${LAST_MOVES}${JSON.stringify({ moves, nonce: randomUUID() })}\n${formatYaml(aliases)}`;
      const key = `${this.#prefix}${id}/${ALIASES}`;
      const condition = current.etag === null ? { ifNone: true as const } : { ifMatch: current.etag };
      const put = await this.#client.put(key, Buffer.from(text), condition);
      if (put === 'done' || (put === 'unsure' && without(moves, await this.history(id)).length === 0)) {
        await this.#append(id, moves);
        return moves.at(-1)!;
      }
      await pause(attempt);
    }
    throw unavailable(this.name, `other processes keep moving ${id}@${alias}; run the command again`);
  }

  async history(id: string): Promise<AliasMove[]> {
    // The aliases are read first. A move in their comment is then either already in the history, or was not yet written
    // to it.
    const { lastMoves } = await this.#aliases(id);
    const { moves } = await this.#history(id);
    return [...moves, ...without(lastMoves, moves)];
  }

  /** A version exists, and is complete, once it has a model.yaml. This file is therefore uploaded last. */
  async add(id: string, version: string, folder: string, files: PackageFile[], by: string | Mover): Promise<string> {
    const prefix = `${this.#prefix}${id}/${version}/`;
    const token = await this.#claim(id, version);
    const claim = `${prefix}${CLAIM}`;
    try {
      await this.#checkConditions(claim, token);
      if (await this.#client.get(`${prefix}${MANIFEST}`)) throw exists(id, version);
      for (const f of files) {
        if (f.name === MANIFEST) continue;
        await this.#client.put(`${prefix}${f.name}`, { ...f, file: path.join(folder, f.name) });
      }
      // Removes files of a crashed upload that are not part of this package.
      const names = new Set([...files.map((f) => f.name), CLAIM]);
      for (const { key } of (await this.#client.list(prefix)).objects) {
        if (!names.has(key.slice(prefix.length))) await this.#client.remove(key);
      }
      if ((await this.#client.get(claim))?.text !== token) throw beingAdded(id, version);
      const manifest = files.find((f) => f.name === MANIFEST)!;
      const body = { ...manifest, file: path.join(folder, MANIFEST) };
      const sha256 = packageHash(files);
      const key = `${prefix}${MANIFEST}`;
      await this.setState(id, { version, to: 'proposed', package_sha256: sha256, by });
      const put = await this.#client.put(key, body, { ifNone: true }, { [PACKAGE_HASH]: sha256 });
      if (put === 'refused' || (put === 'unsure' && hashOf((await this.#client.get(key))?.text) !== manifest.sha256)) {
        throw exists(id, version);
      }
      return version;
    } finally {
      if ((await this.#client.get(claim).catch(() => null))?.text === token) {
        await this.#client.remove(claim).catch(() => {});
      }
    }
  }

  /**
   * Claims the version for this upload, because concurrent uploads would mix their files.
   * @throws SluiceError version_exists
   */
  async #claim(id: string, version: string): Promise<string> {
    const key = `${this.#prefix}${id}/${version}/${CLAIM}`;
    const token = `${new Date(epochMs()).toISOString()} ${randomUUID()}\n`;
    const mine = async (put: 'done' | 'refused' | 'unsure') =>
      put === 'done' || (put === 'unsure' && (await this.#client.get(key))?.text === token);
    if (await mine(await this.#client.put(key, Buffer.from(token), { ifNone: true }))) return token;
    const other = await this.#client.get(key);
    const age = epochMs() - Date.parse(other?.text.split(' ')[0] ?? '');
    if (other && !(age < STALE_CLAIM_MS)) {
      if (await mine(await this.#client.put(key, Buffer.from(token), { ifMatch: other.etag }))) return token;
    }
    throw beingAdded(id, version);
  }

  /**
   * Checks that the storage supports conditional writes. Without conditional writes, versions could change.
   * @throws SluiceError registry_unavailable
   */
  async #checkConditions(claim: string, token: string): Promise<void> {
    const body = Buffer.from(token);
    const absent = await this.#client.put(claim, body, { ifNone: true });
    const changed = await this.#client.put(claim, body, { ifMatch: '"00000000000000000000000000000000"' });
    if (absent !== 'done' && changed !== 'done') return;
    throw unavailable(this.name, 'it does not support If-None-Match and If-Match on PUT, which a registry needs');
  }

  async #states(id: string): Promise<{ journal: StateEntry[]; text: string; etag: string | null }> {
    const key = `${this.#prefix}${id}/${STATES}`;
    const found = await this.#client.get(key);
    const text = found?.text ?? '';
    return { journal: readStates(key, text), text, etag: found?.etag ?? null };
  }

  async #journalAt(id: string, etag: string): Promise<StateEntry[]> {
    const known = this.#journals.get(id);
    if (known?.etag === etag) return known.journal;
    const found = await this.#states(id);
    if (found.etag !== null) this.#journals.set(id, { etag: found.etag, journal: found.journal });
    return found.journal;
  }

  /** Without its model.yaml, a version does not exist, so this file is removed first. */
  async #discard(id: string, version: string): Promise<void> {
    const prefix = `${this.#prefix}${id}/${version}/`;
    await this.#client.remove(`${prefix}${MANIFEST}`);
    for (const { key } of (await this.#client.list(prefix)).objects) await this.#client.remove(key);
  }

  async #aliases(
    id: string,
  ): Promise<{ aliases: Record<string, string>; etag: string | null; lastMoves: AliasMove[] }> {
    const key = `${this.#prefix}${id}/${ALIASES}`;
    const found = await this.#client.get(key);
    if (!found) return { aliases: {}, etag: null, lastMoves: [] };
    const aliases = await readAliases(key, found.text);
    const comment = found.text.split('\n').find((l) => l.startsWith(LAST_MOVES));
    return { aliases, etag: found.etag, lastMoves: comment ? readMoves(comment.slice(LAST_MOVES.length)) : [] };
  }

  async #history(id: string): Promise<{ moves: AliasMove[]; text: string; etag: string | null }> {
    const found = await this.#client.get(`${this.#prefix}${id}/${HISTORY}`);
    const text = found?.text ?? '';
    return { moves: journalEntries(text), text, etag: found?.etag ?? null };
  }

  /** Returns the history. If a writer crashed between its two writes, adds the missing moves. */
  async #heal(id: string, lastMoves: readonly AliasMove[]): Promise<AliasMove[]> {
    const { moves } = await this.#history(id);
    const missing = without(lastMoves, moves);
    if (missing.length > 0) await this.#append(id, missing);
    return [...moves, ...missing];
  }

  async #append(id: string, added: readonly AliasMove[]): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const { moves, text, etag } = await this.#history(id);
      const missing = without(added, moves);
      if (missing.length === 0) return;
      const body = Buffer.from(extendedJournal(text, missing));
      const condition = etag === null ? { ifNone: true as const } : { ifMatch: etag };
      if ((await this.#client.put(`${this.#prefix}${id}/${HISTORY}`, body, condition)) === 'done') return;
      await pause(attempt);
    }
    throw unavailable(this.name, `other processes keep writing the history of ${id}; run the command again`);
  }
}

const ended = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`);

/** Waits for a random time, which grows with each attempt. */
const pause = (attempt: number): Promise<void> => sleep(Math.random() * 50 * Math.min(attempt + 1, 10));

const exists = (id: string, version: string): SluiceError =>
  new SluiceError('version_exists', `${id}:${version} already exists`);

const beingAdded = (id: string, version: string): SluiceError =>
  new SluiceError('version_exists', `another process is uploading ${id}:${version}`);

const hashOf = (text: string | undefined): string =>
  createHash('sha256')
    .update(text ?? '')
    .digest('hex');

const stampOf = (files: readonly S3Object[]): string => {
  const kept = files.filter((f) => !f.key.endsWith(`/${CLAIM}`)).map((f) => `${f.key} ${f.version} ${f.bytes}`);
  return hashOf(kept.sort().join('\n'));
};

const same = (a: AliasMove, b: AliasMove): boolean =>
  a.at === b.at && a.who === b.who && a.alias === b.alias && a.from === b.from && a.to === b.to;

const without = (some: readonly AliasMove[], known: readonly AliasMove[]): AliasMove[] =>
  some.filter((m) => !known.some((k) => same(k, m)));

function readMoves(json: string): AliasMove[] {
  try {
    return (JSON.parse(json) as { moves: AliasMove[] }).moves;
  } catch {
    return [];
  }
}

const isId = (text: string): boolean => accepted(text);
const isVersion = (text: string): boolean => accepted(`m:${text}`);

function accepted(reference: string): boolean {
  try {
    parseReference(reference);
    return true;
  } catch {
    return false;
  }
}

/** Used so that a model with invalid aliases does not hide other models. */
function ifInvalid(error: unknown): null {
  if (error instanceof SluiceError && error.code === 'model_invalid') return null;
  throw error;
}
