// The configuration of the tests of one mutant, whose files run one at a time in the order in which the campaign lists them; and of
// all tests, while their coverage is measured.
import { existsSync, readFileSync } from 'node:fs';
import { defineConfig, type TestUserConfig } from 'vitest/config';
import type { TestSequencer, TestSpecification } from 'vitest/node';
import base from '../../vitest.config.ts';
import { COVERAGE_VARIABLE, CPU_TABLE_VARIABLE, FILES_VARIABLE } from './campaign-variables.ts';
import ModuleReporter from './module-reporter.ts';
import { LEFT_OUT } from './reaching-tests.ts';

/** CPU seconds of a test file in the last check above which it is not measured: coverage makes it some times slower. */
const MOST_CPU_SECONDS = 8;

/** Test files that take long, according to the table that the last `npm run check` left. */
function costly(): string[] {
  const table = process.env[CPU_TABLE_VARIABLE];
  const lines = table === undefined || !existsSync(table) ? [] : readFileSync(table, 'utf8').trimEnd().split('\n');
  return lines
    .map((line) => line.split('\t'))
    .filter(([seconds]) => Number(seconds) > MOST_CPU_SECONDS)
    .map((cells) => cells.at(-1)!);
}

const order = (process.env[FILES_VARIABLE] ?? '').split(',');

class InOrder implements TestSequencer {
  shard(files: TestSpecification[]): TestSpecification[] {
    return files;
  }

  sort(files: TestSpecification[]): TestSpecification[] {
    const place = ({ moduleId }: TestSpecification): number => order.findIndex((file) => moduleId.endsWith(`/${file}`));
    return files.toSorted((a, b) => place(a) - place(b));
  }
}

export default defineConfig(async (env) => {
  const { test } = (await base(env)) as { test: TestUserConfig };
  const isMeasured = process.env[COVERAGE_VARIABLE] !== undefined;
  const maxWorkers = isMeasured ? 3 : 1;
  return {
    test: {
      ...test,
      maxWorkers,
      reporters: [new ModuleReporter()],
      ...(isMeasured ? {} : { sequence: { sequencer: InOrder } }),
      projects: test.projects!.map((project) => {
        const own = project as { test: TestUserConfig };
        const measured = {
          setupFiles: [own.test.setupFiles!, 'test/mutation/coverage-setup.ts'].flat(),
          // Tests with a real broker take longer than a mutant may.
          exclude: [
            ...(own.test.exclude ?? []),
            ...[...LEFT_OUT, 'connectors/kafka'].map((folder) => `test/${folder}/**`),
            ...costly(),
          ],
        };
        return { ...own, test: { ...own.test, ...(isMeasured ? measured : {}), maxWorkers } };
      }),
    },
  };
});
