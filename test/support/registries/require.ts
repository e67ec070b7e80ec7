// Tests that need a real server: left to `npm run check`, skipped by name where there is none to be had, failing where there must be.
import { describe } from 'vitest';
import { IN_CHECK, SKIPPED, TIER } from '../tiers.ts';
import { isRequired } from '../tools.ts';
import type { Installed } from './install.ts';

/** SLUICE_REQUIRE=registries: they run whatever the tier, and what is missing is an error. */
const required = isRequired('registries');

/** `describe` for suites with a real server, which is installed first. */
export async function requireServer(
  name: string,
  install: () => Promise<Installed>,
  suite: (folder: string) => void,
): Promise<void> {
  if (TIER === 'quick' && !required) {
    describe.skip(`${name}${SKIPPED}${IN_CHECK} with Java 17, Maven and Python 3`, () => suite(''));
    return;
  }
  const installed = await install();
  if (installed.missing === null) {
    describe(name, () => suite(installed.folder));
    return;
  }
  if (required) throw new Error(`${name}: needs ${installed.missing}`);
  describe.skip(`${name}${SKIPPED}needs ${installed.missing}`, () => suite(''));
}
