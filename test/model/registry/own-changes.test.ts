// A process sees its own change of a remote registry at once and for good, whatever it had asked before.
import { cpSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { SluiceError } from '../../../src/core/errors.ts';
import { filesOf } from '../../../src/model/package/package-hash.ts';
import type { Registry } from '../../../src/model/registry/registry.ts';
import { RemoteRegistry, type Store, type StoredEntry } from '../../../src/model/registry/remote.ts';
import { scratch } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { makePackage, refOf } from '../../support/registries/packages.ts';

const REFRESH_MS = 1000;

/** A store of two versions in memory. `hold`: the next replies wait, with the state that they have read. */
class MemoryStore implements Store {
  readonly name = 'memory://test';
  readonly packages = new Map(['1', '2'].map((version) => [version, makePackage('m', version)]));
  champion: string | null = '1';
  isDown = false;
  #held: Promise<void> | null = null;
  /** Number of replies that wait. */
  waiting = 0;

  /** Replies to `count` requests wait until the returned function is called. */
  hold(count: number): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    let left = count;
    this.#gate = () => (left-- > 0 ? promise : null);
    return resolve;
  }
  #gate: () => Promise<void> | null = () => null;

  async #reply<T>(value: T): Promise<T> {
    if (this.isDown) throw new SluiceError('registry_unavailable', 'down');
    this.#held = this.#gate();
    if (this.#held === null) return value;
    this.waiting++;
    await this.#held;
    this.waiting--;
    return value;
  }

  #now(): StoredEntry {
    const versions = [...this.packages.keys()];
    const stamps = Object.fromEntries(versions.map((v) => [v, v]));
    const aliases: Record<string, string> = this.champion === null ? {} : { champion: this.champion };
    return { id: 'm', versions, aliases, journal: [], stamps };
  }

  entries = () => this.#reply([this.#now()]);
  entry = () => this.#reply(this.packages.size === 0 ? null : this.#now());

  async fetch(_: string, version: string, folder: string) {
    cpSync(this.packages.get(version)!, folder, { recursive: true });
    return { files: (await filesOf(folder))! };
  }

  async moveAlias(_: string, { alias, to }: { alias: string; to: string | null }) {
    const from = this.champion;
    this.champion = to;
    return { at: '', who: 'ann', alias, from, to, package_sha256: null } as never;
  }

  history = async () => [];
  add = async () => '3';
  states = async () => [];
  setState = async () => ({}) as never;
  close = () => {};
}

test('a refresh that had read the state before the move neither answers for it nor replaces it', async () => {
  const clock = controlClock();
  const store = new MemoryStore();
  const cacheFolder = scratch();
  const open = () => new RemoteRegistry(store, { cacheFolder, cacheMaxBytes: 2 ** 30, refreshMs: REFRESH_MS });
  const registry = open();
  onTestFinished(() => registry.close());
  expect(await refOf(registry.resolve('m'))).toBe('m:1');
  expect((await registry.list())[0]!.aliases).toEqual({ champion: '1' });

  for (const to of ['2', '1', '2']) {
    const release = store.hold(1);
    // The last refresh has ended and waits for the next one.
    await expect.poll(() => clock.timers).toBe(1);
    await clock.advance(REFRESH_MS);
    await expect.poll(() => store.waiting).toBe(1);
    await registry.moveAlias('m', 'champion', to, 'ann');
    expect(await refOf(registry.resolve('m'))).toBe(`m:${to}`);
    release();
    await expect.poll(() => [store.waiting, clock.timers]).toEqual([0, 1]);
    expect(await refOf(registry.resolve('m'))).toBe(`m:${to}`);
    expect((await registry.list())[0]!.aliases).toEqual({ champion: to });
  }
  // The version on disk, for an outage, is that of the last move, too.
  store.isDown = true;
  const later = open();
  onTestFinished(() => later.close());
  expect(await refOf(later.resolve('m'))).toBe('m:2');
});

test('a list that had been read before the move is not kept', async () => {
  const store = new MemoryStore();
  const registry = new RemoteRegistry(store, { cacheFolder: scratch(), cacheMaxBytes: 2 ** 30, refreshMs: REFRESH_MS });
  onTestFinished(() => registry.close());
  const release = store.hold(1);
  const before = registry.list();
  await expect.poll(() => store.waiting).toBe(1);
  await registry.moveAlias('m', 'champion', '2', 'ann');
  expect((await registry.list())[0]!.aliases).toEqual({ champion: '2' });
  release();
  expect((await before)[0]!.aliases).toEqual({ champion: '1' });
  expect((await registry.list())[0]!.aliases).toEqual({ champion: '2' });
});

test.each<[string, reference: string, remove: (store: MemoryStore) => void]>([
  ['an alias', 'm@champion', (store) => { store.champion = null; }], // biome-ignore format: one line
  ['a version', 'm:1', (store) => store.packages.delete('1')],
  ['a model', 'm', (store) => store.packages.clear()],
])('an outage does not bring back %s that was removed', async (_, reference, remove) => {
  const store = new MemoryStore();
  const kept = new Map(store.packages);
  const cacheFolder = scratch();
  const behind = { resolve: async () => { throw new SluiceError('model_not_found', 'no model m'); } } as unknown as Registry; // biome-ignore format: one line
  const open = () => {
    const registry = new RemoteRegistry(store, { cacheFolder, cacheMaxBytes: 2 ** 30, refreshMs: REFRESH_MS, behind });
    onTestFinished(() => registry.close());
    return registry;
  };
  const codeOf = (registry: RemoteRegistry) =>
    registry.resolve(reference).then(
      (model) => model.ref,
      (error: SluiceError) => error.code,
    );
  expect(await codeOf(open())).toBe('m:1');
  store.isDown = true;
  expect(await codeOf(open())).toBe('m:1');
  store.isDown = false;
  remove(store);
  expect(await codeOf(open())).toBe('model_not_found');
  store.isDown = true;
  expect(await codeOf(open())).toBe('registry_unavailable');
  store.isDown = false;
  store.champion = '1';
  for (const [version, folder] of kept) store.packages.set(version, folder);
  expect(await codeOf(open())).toBe('m:1');
});
