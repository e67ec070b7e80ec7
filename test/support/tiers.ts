// How much of the test suite runs: what a bare machine can in minutes, all of it, or its campaigns whole.
import { describe, type TestFunction, test } from 'vitest';

/**
 * `quick`: `npm test`. `check`: `npm run check`, and vitest called by hand: real servers of others too, and a sample of the
 * campaigns. `campaigns`: `npm run test:campaigns`. vitest.config.ts decides.
 */
export type Tier = 'quick' | 'check' | 'campaigns';
export const TIER = (process.env.SLUICE_TIER ?? 'check') as Tier;

/** Between the name of a test and the reason why it does not run; the reporter of skipped tests looks for it. */
export const SKIPPED = ' — skipped: ';
export const IN_CHECK = '`npm run check` runs it';
const IN_CAMPAIGNS = '`npm run test:campaigns` runs it';

/** How many times a campaign does what it does; the variable says otherwise for one run. */
export function times(variable: string, of: Record<Tier, number>): number {
  return Number(process.env[variable] ?? of[TIER]);
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
