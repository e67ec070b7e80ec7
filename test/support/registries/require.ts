// Tests that need a real server: skipped with a loud reason where there is none to be had, failing where there must be.
import { describe } from 'vitest';
import type { Installed } from './install.ts';

/** `describe` for suites with a real server. SLUICE_REQUIRE_REGISTRIES=1 turns the skip into a failure. */
export function requireServer(name: string, installed: Installed, suite: (folder: string) => void): void {
  if (installed.missing === null) {
    describe(name, () => suite(installed.folder));
    return;
  }
  const { missing } = installed;
  if (process.env.SLUICE_REQUIRE_REGISTRIES) throw new Error(`${name}: needs ${missing}`);
  console.warn(
    `\n*** SKIPPED: "${name}" needs ${missing}. Set SLUICE_REQUIRE_REGISTRIES=1 to make this an error. ***\n`,
  );
  describe.skip(`${name} (needs ${missing})`, () => suite(''));
}
