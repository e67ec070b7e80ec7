// How much of the test suite runs: what a bare machine can in minutes, all of it, or its campaigns whole.
import { appendFileSync, mkdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, type TestFunction, test } from 'vitest';

/**
 * `quick`: `npm test`. `check`: `npm run check`, and vitest called by hand: real servers of others too, and a sample of the
 * campaigns. `campaigns`: `npm run test:campaigns`. vitest.config.ts decides.
 */
export type Tier = 'quick' | 'check' | 'campaigns';
export const TIER = (process.env.SLUICE_TIER ?? 'check') as Tier;

/** Between the name of a test and the reason why it does not run; the reporter of skipped tests looks for it. */
export const SKIPPED = ' — skipped: ';
export const IN_CHECK = '`npm run check` runs it';
export const IN_CAMPAIGNS = '`npm run test:campaigns` runs it';

/** Of every random choice of a run: fixed in `npm test` and `npm run check`, new in each campaign, printed at its end. */
export const SEED = Number(process.env.SLUICE_SEED ?? 1);
/** `npm run test:campaigns -- --effort N`: 1 is a whole campaign, 0.1 a tenth of it. */
const EFFORT = Number(process.env.SLUICE_EFFORT ?? 1);
/** `npm run test:campaigns -- --only REGEX`: the cases of a campaign whose names match. */
export const ONLY = process.env.SLUICE_ONLY === undefined ? null : new RegExp(process.env.SLUICE_ONLY);
/** Sizes of campaigns for the summary of a run, a line each: tab-separated test file, name of the repetition, number. */
export const SIZES_FILE = 'sizes.tsv';
/** The same for CPU seconds: tab-separated test file, seconds. */
export const CPU_FILE = 'cpu-seconds.tsv';
/** Folder of both, read before a test may change the environment. */
const FOLDER = process.env.SLUICE_CACHE;

/** Leaves a line about the current test file for the summary at the end of the run. */
export function leaveLine(name: typeof SIZES_FILE | typeof CPU_FILE, ...cells: (string | number)[]): void {
  const file = expect.getState().testPath;
  if (FOLDER === undefined || file === undefined) return;
  mkdirSync(FOLDER, { recursive: true });
  appendFileSync(path.join(FOLDER, name), `${[path.relative(process.cwd(), file), ...cells].join('\t')}\n`);
}

function record(what: string, size: number): number {
  if (TIER === 'campaigns') leaveLine(SIZES_FILE, what, size);
  return size;
}

/** How often the tests of a tier repeat something; `what` names it in the summary of a campaign. */
export function times(what: string, of: Record<Tier, number>): number {
  return record(what, TIER === 'campaigns' ? Math.max(of.check, Math.round(of.campaigns * EFFORT)) : of[TIER]);
}

/** The same for loops that try every nth case: a campaign tries all. */
export function stride(what: string, of: Record<'quick' | 'check', number>): number {
  return record(what, TIER === 'campaigns' ? Math.max(1, Math.round(1 / EFFORT)) : of[TIER]);
}

/** `test` for what takes long and is left out of `npm test`. */
export function checkTest(name: string, run: TestFunction): void {
  if (TIER === 'quick') test.skip(`${name}${SKIPPED}${IN_CHECK}`, run);
  else test(name, run);
}

/** `test` for what only the campaigns do. */
export function campaignTest(name: string, run: TestFunction): void {
  if (TIER === 'campaigns') test(name, run);
  else test.skip(`${name}${SKIPPED}${IN_CAMPAIGNS}`, run);
}

/** `test` for one of many: `npm test` runs every `step`th. */
export const testOfMany = (index: number, step: number): typeof checkTest =>
  index % step === 0 ? (name, run) => void test(name, run) : checkTest;

/** A suite for each of many; `npm test` and `npm run check` run one in so many of them. */
export function describeEach<T extends { name: string }>(
  all: readonly T[],
  { quick, check = 1 }: { quick: number; check?: number },
  suite: (name: string, one: T) => void,
): void {
  const step = { quick, check, campaigns: 1 }[TIER];
  for (const [i, one] of all.entries()) {
    const runs = i % check === 0 ? IN_CHECK : IN_CAMPAIGNS;
    if (i % step === 0) describe(one.name, () => suite(one.name, one));
    else describe.skip(`${one.name}${SKIPPED}${runs}`, () => suite(one.name, one));
  }
}
