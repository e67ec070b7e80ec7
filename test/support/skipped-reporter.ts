// The last lines of a test run: what was skipped, by name, and what it takes to run it.
import type { Reporter, TestCase, TestModule, TestSuite, Vitest } from 'vitest/node';
import { SKIPPED } from './tiers.ts';

const NAMES_SHOWN = 4;

/** Name and reason as they stand in the name of the test or of a suite around it; null: skipped without a reason. */
function reasonOf(test: TestCase): { name: string; reason: string } | null {
  for (let at: TestCase | TestSuite | TestModule = test; at.type !== 'module'; at = at.parent) {
    const [name, reason] = at.name.split(SKIPPED);
    if (reason !== undefined) return { name: name!, reason };
  }
  return null;
}

export class SkippedReporter implements Reporter {
  #vitest: Vitest | undefined;

  onInit(vitest: Vitest): void {
    this.#vitest = vitest;
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // Who runs tests by a pattern skips the others and knows it.
    const byPattern = this.#vitest?.config.testNamePattern !== undefined;
    const groups = new Map<string, { names: Set<string>; tests: number }>();
    for (const module of modules) {
      for (const test of module.children.allTests('skipped')) {
        const { name, reason } = reasonOf(test) ?? {
          name: test.fullName,
          reason: byPattern ? '' : 'no reason is given',
        };
        if (reason === '') continue;
        const key = `${module.relativeModuleId}\n${reason}`;
        const group = groups.get(key) ?? { names: new Set(), tests: 0 };
        groups.set(key, group);
        group.names.add(name);
        group.tests++;
      }
    }
    if (groups.size === 0) return;
    const lines = [...groups].map(([key, { names, tests }]) => {
      const [file, reason] = key.split('\n');
      const shown = [...names].slice(0, NAMES_SHOWN).join(', ');
      const more = names.size > NAMES_SHOWN ? ` and ${names.size - NAMES_SHOWN} more` : '';
      return `  ${file} (${tests} ${tests === 1 ? 'test' : 'tests'}): ${shown}${more}: ${reason}`;
    });
    process.stdout.write(`Skipped:\n${lines.join('\n')}\n\n`);
  }
}
