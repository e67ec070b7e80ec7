// Every pair of settings occurs in at least one combination that is judged, whatever the random ones happen to have.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import fc from '../support/seeded-fast-check.ts';
import { checkTest, SEED, times } from '../support/tiers.ts';
import { combinations, ENTRIES } from './combinations.ts';
import { Judge } from './judge.ts';
import { covering, pairsOf } from './pairwise.ts';

/** Covering sets of so many seeds. */
const SETS = times('pairwise sets', { quick: 1, check: 1, campaigns: 200 });

const all = combinations({ entries: ENTRIES, models: ['trees', 'classes', 'value'] });
let judge: Judge;

beforeAll(async () => {
  judge = await Judge.open(mkdtempSync(path.join(tmpdir(), 'sluice-pairwise-')));
});
afterAll(async () => {
  await judge.close();
  rmSync(judge.folder, { recursive: true, force: true });
});

checkTest('every pair of settings', async () => {
  for (let set = 0; set < SETS; set++) {
    const seed = SEED + set;
    for (const c of covering(all, seed).cases) {
      const found = await judge.differences(c);
      expect(found, `seed ${seed}\n${found.join('\n')}\n${JSON.stringify(c)}`).toEqual([]);
    }
  }
});

test('the chosen combinations have the pairs of all candidates, and are few', () => {
  const { cases, pairs } = covering(all, 1, 500);
  const covered = new Set(cases.flatMap(pairsOf));
  const candidates = new Set(fc.sample(all, { numRuns: 500, seed: 1 }).flatMap(pairsOf));
  expect([covered.size, candidates.size]).toEqual([pairs, pairs]);
  expect(pairs).toBeGreaterThan(4_000);
  expect(cases.length).toBeLessThan(200);
});
