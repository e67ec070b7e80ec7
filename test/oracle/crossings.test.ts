// Random combinations of features through every entry point, compared with the oracle field by field.
//
// SLUICE_CROSSINGS=N runs N combinations, SLUICE_CROSSINGS_SEED=S those of a seed, which every failure prints.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { times } from '../support/tiers.ts';
import { type Case, combinations, ENTRIES, type Entry, MODELS, type ModelName } from './combinations.ts';
import { differences, reservedOf } from './compare.ts';
import { PACKAGES, runCase, World } from './entries.ts';
import { answer, OracleModel } from './oracle.ts';
import { storedInput } from './stored-input.ts';

const COUNT = times('CROSSINGS', { quick: 300, check: 1_000, campaigns: 200_000 });
const SEED = Number(process.env.SLUICE_CROSSINGS_SEED ?? Date.now() % 2 ** 31);

let world: World;
const models = new Map<ModelName, OracleModel>();
const effects = new Map<string, string>();

beforeAll(async () => {
  world = new World(mkdtempSync(path.join(tmpdir(), 'sluice-crossings-')));
  for (const name of Object.keys(MODELS) as ModelName[]) {
    const folder = path.join(PACKAGES[name === 'typed-columns' ? 1 : 0]!, name, '1');
    models.set(name, await OracleModel.open(folder));
  }
});
afterAll(async () => {
  await world.close();
  rmSync(world.folder, { recursive: true, force: true });
});

/** What differs in a case; none: it is right. */
async function judged(c: Case): Promise<string[]> {
  const stored = storedInput(c);
  const model = models.get(c.model)!;
  const isJson = c.output === 'json' || c.output === 'ndjson';
  const expected = await answer({
    model,
    input: stored.input,
    declared: stored.declared,
    passthrough: c.passthrough,
    failOnInvalid: c.onInvalid === 'fail',
    allowEmpty: c.entry === 'library' || (c.allowEmpty && c.entry !== 'http'),
    reserved: reservedOf(c, model),
    needsNames: !isJson,
    ...(c.maxRejects === null ? {} : { maxRejects: c.maxRejects }),
  });
  return differences({ c, model, expected, outcome: await runCase(c, stored, world), effects });
}

/** A case in a few lines, for whoever has to find out what is wrong. */
const shown = (c: Case): string => JSON.stringify(c, null, 1).replace(/\n\s{3,}/g, ' ');

async function cross(entries: readonly Entry[], names: readonly ModelName[], share: number): Promise<void> {
  const numRuns = Math.max(20, Math.round(COUNT * share));
  await fc.assert(
    fc.asyncProperty(combinations({ entries, models: names }), async (c) => {
      const found = await judged(c);
      expect(found, `seed ${SEED}\n${found.join('\n')}\n${shown(c)}`).toEqual([]);
    }),
    { numRuns, seed: SEED, endOnFailure: false, interruptAfterTimeLimit: Number.MAX_SAFE_INTEGER / 4 },
  );
}

const NATIVE = ['trees', 'classes', 'value'] as const;
const SHARES: Record<Entry, number> = { command: 0.3, pipeline: 0.1, shards: 0.03, library: 0.4, http: 0.12 };

test.each(ENTRIES)('%s: combinations of features do what the oracle says', async (entry) => {
  await cross([entry], NATIVE, SHARES[entry]);
});

test('a model that ONNX Runtime serves does, too', async () => {
  await cross(['library', 'http'], ['typed-columns'], 0.05);
});
