// The configuration of the tests of one mutant: their files run one at a time, in the order in which the campaign lists them.
import { defineConfig, type TestUserConfig } from 'vitest/config';
import type { TestSequencer, TestSpecification } from 'vitest/node';
import base from '../../vitest.config.ts';
import { FILES_VARIABLE } from './campaign-variables.ts';
import ModuleReporter from './module-reporter.ts';

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
  return {
    test: {
      ...test,
      maxWorkers: 1,
      reporters: [new ModuleReporter()],
      sequence: { sequencer: InOrder },
      projects: test.projects!.map((project) => {
        const own = project as { test: TestUserConfig };
        return { ...own, test: { ...own.test, maxWorkers: 1, sequence: {} } };
      }),
    },
  };
});
