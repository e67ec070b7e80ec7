// A mistake on the command line: told on one line, and the next says where the help is.
import { expect, test } from 'vitest';
import { sluiceHere } from '../../support/cli.ts';

test.each([
  [['socre'], "unknown command 'socre' (did you mean score?)", 'sluice'],
  [['model', 'shwo'], "unknown command 'shwo' (did you mean show?)", 'sluice model'],
  [
    ['score', 'x.csv', '-m', 'm', '--wrokers', '2'],
    "unknown option '--wrokers' (did you mean --workers?)",
    'sluice score',
  ],
  [['score', 'x.csv'], "required option '-m, --model <ref>' not specified", 'sluice score'],
  [['score', 'x.csv', '-m', 'm', '--workers', '0'], '--workers takes a whole number from 1 to 256', 'sluice score'],
  [['keys', 'create'], "missing required argument 'name'", 'sluice keys create'],
  [['model', 'alias', 'x'], 'model alias takes id@alias and a version, or id@alias --remove', 'sluice model alias'],
])('%j', async (args, mistake, command) => {
  const run = await sluiceHere(args);
  expect(run.stderr).toBe(`sluice: ${mistake} [usage]\n  run \`${command} --help\`\n`);
  expect([run.code, run.stdout]).toEqual([2, '']);
});

test('a command that is only the beginning of one shows its help', async () => {
  const run = await sluiceHere(['model']);
  expect([run.code, run.stdout]).toEqual([2, '']);
  expect(run.stderr).toMatch(/^Usage: sluice model/);
});
