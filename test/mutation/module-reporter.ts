// Writes a line of JSON for each test file that ends, so that a run that is stopped early still shows what it found.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import type { Reporter, TestModule } from 'vitest/node';
import { RESULTS_VARIABLE } from './campaign-variables.ts';

/** What a run reports of one test file. */
export interface ModuleResult {
  file: string;
  /** Milliseconds with imports and setup. */
  ms: number;
  /** `load error`: the file could not be imported, or a hook of the file failed. */
  state: 'passed' | 'failed' | 'load error' | 'skipped';
  /** The first test that failed, or null. */
  failure: string | null;
}

export default class ModuleReporter implements Reporter {
  onTestModuleEnd(module: TestModule): void {
    const { collectDuration, duration, environmentSetupDuration, prepareDuration, setupDuration } = module.diagnostic();
    const failed = [...module.children.allTests('failed')][0];
    const isBroken = failed === undefined && module.state() === 'failed';
    const result: ModuleResult = {
      file: module.relativeModuleId,
      ms: Math.round(collectDuration + duration + environmentSetupDuration + prepareDuration + setupDuration),
      state: failed ? 'failed' : isBroken ? 'load error' : module.state() === 'passed' ? 'passed' : 'skipped',
      failure: failed?.fullName ?? (isBroken ? (module.errors()[0]?.message ?? null) : null),
    };
    const target = process.env[RESULTS_VARIABLE];
    if (target !== undefined) appendFileSync(target, `${JSON.stringify(result)}\n`);
  }
}

/** The values of a file with a line of JSON for each; none if there is no file. */
export function jsonLinesOf<T>(file: string): T[] {
  const lines = existsSync(file) ? readFileSync(file, 'utf8').trimEnd().split('\n') : [];
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as T);
}
