// No kind of work may cost more CPU than in the last release: pairs of runs of both programs, by `npm run bench`.
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect } from 'vitest';
import { campaignTest } from '../support/tiers.ts';

const ROOT = path.join(import.meta.dirname, '../..');
/** Largest ratio of CPU seconds. */
const LIMIT = 1.03;

campaignTest('each kind of work costs at most 1.03 times the CPU of the last release', () => {
  const args = ['bench/main.ts', '--compare', 'release', '--models', 'credit-default', '--limit', String(LIMIT)];
  const { status, stdout, stderr } = spawnSync(process.execPath, [...args, '--rounds', '9'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  expect(status, `${stdout}\n${stderr.slice(-4000)}`).toBe(0);
  for (const part of ['plain', 'real', 'parquet', 'json', 'effects', 'one application', 'draining a topic']) {
    expect(stdout).toContain(`credit-default, ${part}`);
  }
});
