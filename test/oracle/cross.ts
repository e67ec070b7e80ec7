// Random combinations through some entry points, each judged by the oracle; a difference is shrunk to its smallest case.
//
// `npm run test:campaigns -- --effort E --seed S test/oracle` runs 200,000 × E combinations of one seed, which every failure prints.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import fc from '../support/seeded-fast-check.ts';
import { SEED, times } from '../support/tiers.ts';
import { type Case, combinations, type Reach } from './combinations.ts';
import { Judge } from './judge.ts';

const COUNT = times('crossings', { quick: 300, check: 500, campaigns: 200_000 });
/** Every entry point gets so many, however small its share is. */
const LEAST = Math.min(60, Math.ceil(COUNT / 12));

let judge: Judge;

/** Opens what lasts for the combinations of a test file. */
export function openJudge(): void {
  beforeAll(async () => {
    judge = await Judge.open(mkdtempSync(path.join(tmpdir(), 'sluice-crossings-')));
  });
  afterAll(async () => {
    await judge.close();
    rmSync(judge.folder, { recursive: true, force: true });
  });
}

/** A case in a few lines, for whoever has to find out what is wrong. */
const shown = (c: Case): string => JSON.stringify(c, null, 1).replace(/\n\s{3,}/g, ' ');

/** Judges a share of all combinations. */
export async function cross(reach: Reach, share: number): Promise<void> {
  const numRuns = Math.max(LEAST, Math.round(COUNT * share));
  if (COUNT > 10_000) console.log(`${numRuns} combinations of ${reach.entries.join(', ')}, seed ${SEED}`);
  await fc.assert(
    fc.asyncProperty(combinations(reach), async (c) => {
      const found = await judge.differences(c);
      expect(found, `seed ${SEED}\n${found.join('\n')}\n${shown(c)}`).toEqual([]);
    }),
    { numRuns, seed: SEED },
  );
}
