// `npm run test:campaigns -- [--effort N] [--seed N] [--only REGEX] [files]`: the tests of vitest.config.ts that have a campaign, at full size.
import { spawnSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const OPTIONS = { effort: { type: 'string' }, seed: { type: 'string' }, only: { type: 'string' } } as const;
const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true });

const env: NodeJS.ProcessEnv = { ...process.env };
for (const name of ['effort', 'seed'] as const) {
  const text = values[name];
  if (text === undefined) continue;
  if (!(Number(text) > 0)) throw new Error(`--${name} takes a number above 0`);
  env[`SLUICE_${name.toUpperCase()}`] = text;
}
if (values.only !== undefined) env.SLUICE_ONLY = new RegExp(values.only).source;

const args = ['run', '--mode', 'campaigns', ...positionals];
process.exit(spawnSync('vitest', args, { stdio: 'inherit', env, shell: process.platform === 'win32' }).status ?? 1);
