// Requests for more models than may be loaded at once: each gets the model that it names, however the others interleave.
import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type ErrorCode, SluiceError } from '../../src/core/errors.ts';
import { ModelHost } from '../../src/engine/model-host.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import type { Registry } from '../../src/model/registry/registry.ts';
import { scoredBy } from '../support/pooled.ts';
import { makePackage } from '../support/registries/packages.ts';
import fc from '../support/seeded-fast-check.ts';
import { checkTest, times } from '../support/tiers.ts';
import { until } from '../support/until.ts';

const IDS = ['m-0', 'm-1', 'm-2', 'm-3'];
const VERSIONS = ['1', '2'];
const RUNS = times('interleavings of model requests', { quick: 0, check: 4, campaigns: 500 });

async function packages(): Promise<Map<string, ModelPackage>> {
  const found = new Map<string, ModelPackage>();
  for (const id of IDS)
    for (const version of VERSIONS) found.set(`${id}:${version}`, await loadPackage(makePackage(id, version)));
  return found;
}

/** Every `every`-th call fails; null: none. */
const failing = (every: number | null, error: () => SluiceError) => {
  let calls = 0;
  return (): void => {
    calls++;
    if (every !== null && calls % every === 0) throw error();
  };
};

const often = fc.option(fc.integer({ min: 2, max: 5 }));
const request = fc.record({
  id: fc.constantFrom(...IDS),
  /** Turns of the event loop before the request, while it holds the model, and rows that it scores meanwhile. */
  before: fc.nat(3),
  during: fc.nat(3),
  rows: fc.constantFrom(0, 0, 0, 2, 300),
  interpreted: fc.boolean(),
  /** A new version of the model appears before the request. */
  moves: fc.boolean(),
});
const plan = fc.record({
  max: fc.integer({ min: 1, max: 3 }),
  workers: fc.integer({ min: 1, max: 2 }),
  /** Requests one after the other, on as many connections at the same time. */
  connections: fc.array(fc.array(request, { maxLength: 8 }), { minLength: 1, maxLength: 6 }),
  /** Turns of the event loop before the registry answers; 0: at once, as a registry with a cache. */
  resolving: fc.nat(2),
  unavailable: often,
  refused: often,
});

const turns = async (n: number): Promise<void> => {
  for (let i = 0; i < n; i++) await setImmediate();
};

checkTest('a request gets a version of the model that it names, after one look into the registry', async () => {
  const all = await packages();
  const outputs = new Map<string, string>();
  await fc.assert(
    fc.asyncProperty(plan, async ({ max, workers, connections, resolving, unavailable, refused }) => {
      const newest = new Map(IDS.map((id) => [id, 1]));
      const total = connections.flat().length;
      let resolved = 0;
      const looped = Promise.withResolvers<never>();
      looped.promise.catch(() => {});
      const down = failing(unavailable, () => new SluiceError('registry_unavailable', 'down'));
      const registry: Pick<Registry, 'resolve'> = {
        resolve: async (id) => {
          if (++resolved > total) {
            looped.reject(new Error('a request looks into the registry more than once'));
            // Without an answer: a loop that never waits for one would stop this process.
            await new Promise(() => {});
          }
          await turns(resolving);
          down();
          return all.get(`${id}:${newest.get(id)}`)!;
        },
      };
      const refuse = failing(refused, () => new SluiceError('model_invalid', 'refused'));
      const host = new ModelHost({
        registry: registry as Registry,
        workers,
        engine: 'native',
        max,
        retryMs: 0,
        tryOut: async () => {
          await turns(1);
          refuse();
        },
      });
      const wrong: string[] = [];
      const ask = async (asked: (typeof connections)[number][number]): Promise<void> => {
        const { id, before, during, rows, interpreted, moves } = asked;
        await turns(before);
        if (moves) newest.set(id, 2);
        const hosted = await host.use(id).catch((error: unknown) => {
          if (!(error instanceof SluiceError)) throw error;
          if (!['registry_unavailable', 'model_invalid'].includes(error.code)) wrong.push(error.message);
          return null;
        });
        if (!hosted) return;
        const { model, pool, release } = hosted;
        const version = Number(model.manifest.version);
        if (model.manifest.id !== id || version > newest.get(id)!) wrong.push(`${id} is answered by ${model.ref}`);
        await turns(during);
        if (rows > 0) {
          const scored = await scoredBy({ model, pool, rows, blockBytes: 4096, interpreted });
          const key = `${rows} ${interpreted}`;
          if (scored.rows !== rows) wrong.push(`${id} scored ${scored.rows} of ${rows} rows`);
          // The models differ in their names only.
          if ((outputs.get(key) ?? scored.out) !== scored.out) wrong.push(`${id} gives other predictions`);
          outputs.set(key, scored.out);
        }
        release();
      };
      try {
        const asked = connections.map(async (requests) => {
          for (const one of requests) await ask(one);
        });
        await Promise.race([looped.promise, Promise.all(asked)]);
        expect(wrong).toEqual([]);
        expect(resolved).toBe(total);
        await expect.poll(() => host.loaded.models).toBeLessThanOrEqual(max);
      } finally {
        await host.close();
      }
    }),
    { numRuns: RUNS },
  );
});

test.each([
  ['back to the version in use', ['1', '2', '1'], '1'],
  ['on to a third version', ['1', '2', '3'], '3'],
])('a reference that is moved %s while a version loads', async (_, moves, last) => {
  const versions = new Map<string, ModelPackage>();
  for (const version of ['1', '2', '3']) versions.set(version, await loadPackage(makePackage('m-0', version)));
  let named = moves[0]!;
  const held = Promise.withResolvers<void>();
  const swaps: string[] = [];
  let loads = 0;
  const host = new ModelHost({
    registry: { resolve: async () => versions.get(named)! } as unknown as Registry,
    workers: 1,
    engine: 'native',
    max: 5,
    // Version 2 loads until it is released.
    tryOut: (model) => (model.ref === 'm-0:2' ? held.promise : Promise.resolve()),
    onLoaded: () => loads++,
    onSwap: (_reference, from, to) => swaps.push(`${from.ref} → ${to.ref}`),
  });
  const used = async (): Promise<string> => {
    const { model, release } = await host.use('m-0@champion');
    release();
    return String(model.manifest.version);
  };
  try {
    expect(await used()).toBe('1');
    for (const version of moves.slice(1)) {
      named = version;
      expect(await used()).toBe('1');
    }
    await until(async () => (await used()) === last, 'the last version');
    held.resolve();
    await until(() => loads === new Set(moves).size, 'the end of the load');
    for (let i = 0; i < 20; i++) {
      await turns(1);
      expect(await used()).toBe(last);
    }
    await until(() => host.loaded.models === 1, 'the other versions are closed');
    expect(swaps).toEqual(last === '1' ? [] : ['m-0:1 → m-0:3']);
  } finally {
    await host.close();
  }
});

test('an outage does not bring back a reference that was removed', async () => {
  const model = await loadPackage(makePackage('m-0', '1'));
  let answer: ModelPackage | ErrorCode = model;
  const resolve = async () => {
    if (typeof answer === 'string') throw new SluiceError(answer, 'no');
    return answer;
  };
  const host = new ModelHost({ registry: { resolve } as unknown as Registry, workers: 1, engine: 'native', max: 5 });
  const used = async (): Promise<string> => {
    const hosted = await host.use('m-0@challenger').catch((error: SluiceError) => error);
    if (hosted instanceof SluiceError) return hosted.code;
    hosted.release();
    return hosted.model.ref;
  };
  const answers: string[] = [];
  try {
    for (answer of [model, 'registry_unavailable', 'model_not_found', 'registry_unavailable', 'model_retired', model, 'registry_unavailable'] as const) // biome-ignore format: one line
      answers.push(await used());
    expect(answers).toEqual(['m-0:1', 'm-0:1', 'model_not_found', 'registry_unavailable', 'model_retired', 'm-0:1', 'm-0:1']); // biome-ignore format: one line
  } finally {
    await host.close();
  }
});
