// Options of a file run that change no prediction, crossed with everything that does, and runs of several inputs.
//
// SLUICE_CROSSINGS and SLUICE_CROSSINGS_SEED as in cross.ts.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { times } from '../support/tiers.ts';
import { combinations, MODELS, type ModelName } from './combinations.ts';
import { folderOf } from './entries.ts';
import { OracleModel } from './oracle.ts';
import { allowed, runOptionDifferences, runOptions } from './run-options.ts';

const COUNT = times('SLUICE_CROSSINGS', { quick: 300, check: 1_000, campaigns: 200_000 });
const SEED = Number(process.env.SLUICE_CROSSINGS_SEED ?? Date.now() % 2 ** 31);
const RUNS = Math.max(15, Math.round(COUNT * 0.08));

const models = new Map<string, OracleModel>();
const effects = new Map<string, string>();
let folder: string;

beforeAll(async () => {
  for (const name of Object.keys(MODELS) as ModelName[]) {
    models.set(name, await OracleModel.open(path.join(folderOf(name), name, '1')));
  }
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-run-options-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('options of a run', async () => {
  if (COUNT > 10_000) console.log(`${RUNS} combinations of run options, seed ${SEED}`);
  const cases = combinations({ entries: ['command'], models: ['trees', 'classes', 'value'] });
  await fc.assert(
    fc.asyncProperty(cases, runOptions(), async (c, o) => {
      const run = path.join(folder, 'run');
      rmSync(run, { recursive: true, force: true });
      mkdirSync(run);
      const found = await runOptionDifferences(c, o, { folder: run, models, effects });
      expect(found, `seed ${SEED}\n${found.join('\n')}\n${JSON.stringify(allowed(c, o))}\n${JSON.stringify(c)}`).toEqual([]);
    }),
    { numRuns: RUNS, seed: SEED, interruptAfterTimeLimit: 3_600_000 },
  );
});
