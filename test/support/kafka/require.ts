// Tests that need a real broker: left to `npm run check`, skipped by name where there is none to be had, failing where there must be.
import { describe } from 'vitest';
import { IN_CHECK, SKIPPED, TIER } from '../tiers.ts';
import { isRequired } from '../tools.ts';
import { whatIsMissing } from './install.ts';

/** SLUICE_REQUIRE=kafka: they run whatever the tier, and what is missing is an error. */
const required = isRequired('kafka');
const left = TIER === 'quick' && !required;
const missing = left ? null : whatIsMissing();

/** `describe` for suites with a real broker. */
export function requireKafka(name: string, suite: () => void): void {
  if (missing !== null && required) throw new Error(`${name}: needs ${missing}`);
  if (left) describe.skip(`${name}${SKIPPED}${IN_CHECK} with Java 17 and Maven`, suite);
  else if (missing !== null) describe.skip(`${name}${SKIPPED}needs ${missing}`, suite);
  else describe(name, suite);
}
