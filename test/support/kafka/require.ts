// Tests that need a real broker: skipped with a loud reason where there is none to be had, failing where there must be.
import { describe } from 'vitest';
import { whatIsMissing } from './install.ts';

const missing = await whatIsMissing();

/** `describe` for suites with a real broker. SLUICE_REQUIRE_KAFKA=1 turns the skip into a failure. */
export function requireKafka(name: string, suite: () => void): void {
  if (missing === null) {
    describe(name, suite);
    return;
  }
  if (process.env.SLUICE_REQUIRE_KAFKA) throw new Error(`${name}: needs ${missing}`);
  console.warn(`\n*** SKIPPED: "${name}" needs ${missing}. Set SLUICE_REQUIRE_KAFKA=1 to make this an error. ***\n`);
  describe.skip(`${name} (needs ${missing})`, suite);
}
