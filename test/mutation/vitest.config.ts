// The configuration of the tests of one mutant, whose files run one at a time in the order in which the campaign lists them; and of
// all tests, while their coverage is measured.
import { defineConfig, type TestUserConfig } from 'vitest/config';
import type { TestSequencer, TestSpecification } from 'vitest/node';
import base from '../../vitest.config.ts';
import { COVERAGE_VARIABLE, FILES_VARIABLE } from './campaign-variables.ts';
import ModuleReporter from './module-reporter.ts';
import { LEFT_OUT } from './reaching-tests.ts';

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
          exclude: [...(own.test.exclude ?? []), ...LEFT_OUT.map((folder) => `test/${folder}/**`)],
        };
        return { ...own, test: { ...own.test, ...(isMeasured ? measured : {}), maxWorkers, sequence: {} } };
      }),
    },
  };
});
