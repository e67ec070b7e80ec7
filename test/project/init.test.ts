// `sluice init`: what it writes is in order, passes its tests, runs and serves; and it overwrites nothing.
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { scratch, sluiceHere, start } from '../support/cli.ts';
import { call } from '../support/service.ts';
import { testNeeding } from '../support/tools.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
/** Units quote it; a name without these would prove less. */
const AWKWARD = 'a "bank"\'s $pro%ject';

async function project(): Promise<string> {
  const cwd = scratch();
  const made = await sluiceHere(['init', AWKWARD], { cwd });
  expect(made).toMatchObject({
    code: 0,
    stderr: `created a project in ${AWKWARD}; see its README.md for the next steps\n`,
  });
  const folder = path.join(cwd, AWKWARD);
  const names = made.stdout.trimEnd().split('\n');
  expect(names.length).toBeGreaterThan(15);
  for (const name of names) expect(existsSync(path.join(cwd, name)), name).toBe(true);
  return folder;
}

test('the history of the registry says who put the first version there', async () => {
  const cwd = await project();
  const history = await sluiceHere(['model', 'history', 'credit-default'], { cwd });
  expect(history.stdout).toMatch(/^\S+ \S+: champion \(none\) → 1 because first version, written by sluice init\n$/);
  expect(history.stderr).toBe('aliases: 1 entry, 1 in one chain\nversions: no changes are recorded\n');
  writeFileSync(path.join(cwd, 'policy.yaml'), 'decisions: [{ name: approve, min_probability: 0 }]\n');
  const made = await sluiceHere(['model', 'new-version', '--from', 'credit-default', '--policy', 'policy.yaml', '--dry-run'], { cwd }); // biome-ignore format: one line
  expect(made.stderr).toContain(
    'sluice: policy.yaml has no scorecard and no reasons, so the new version has none: copy them from model.yaml of credit-default:1 to keep them\n',
  );
});

test('a new project passes lint and test, and its pipeline scores what is put in', async () => {
  const cwd = await project();
  expect(await sluiceHere(['lint', 'pipelines/nightly.yaml'], { cwd })).toMatchObject({ code: 0, stderr: '' });
  const tested = await sluiceHere(['test', 'pipelines/nightly.yaml'], { cwd });
  expect(tested).toMatchObject({ code: 0, stdout: expect.stringContaining('2 passed, 0 failed') });
  await sluiceHere(['generate', '--rows', '100', '--ids', '--clean', '-o', 'incoming/today.csv'], { cwd });
  const service = readFileSync(path.join(cwd, 'systemd/sluice-nightly.service'), 'utf8');
  const words = /^ExecStart="[^"]+" "[^"]+" (.+)$/m.exec(service)![1]!.split(' ');
  expect(await sluiceHere(words, { cwd })).toMatchObject({ code: 0 });
  expect(readdirSync(path.join(cwd, 'scored')).sort()).toEqual([
    'today.csv',
    'today.csv.manifest.json',
    'today.rejected.csv',
  ]);
  expect(readFileSync(path.join(cwd, 'metrics/nightly.prom'), 'utf8')).toContain('sluice_run_rows');
  expect(readFileSync(path.join(cwd, 'monitoring/rules.yaml'))).toEqual(readFileSync('k8s/monitoring/rules.yaml'));
});

test('its service starts with the settings as they are, but for the port, and predicts for a key that was made', async () => {
  const cwd = await project();
  expect(statSync(path.join(cwd, 'tls/server.key')).mode & 0o077).toBe(0);
  const token = (await sluiceHere(['keys', 'create', 'me'], { cwd })).stdout.trim();
  const doctor = await sluiceHere(['doctor', '--config', 'sluice.yaml'], { cwd });
  expect(doctor).toMatchObject({ code: 0, stderr: '' });
  const serving = start(['serve', '--config', 'sluice.yaml', '--port', '0'], { cwd });
  onTestFinished(() => void serving.child.kill('SIGKILL'));
  let words = '';
  serving.child.stderr!.on('data', (text: string) => {
    words += text;
  });
  await until(() => /serving https/.test(words));
  const port = Number(/127\.0\.0\.1:(\d+)/.exec(words)![1]);
  const reply = await call(port, token, 'GET', '/api/v1/models/credit-default@champion');
  expect(reply).toMatchObject({ status: 200, json: { id: 'credit-default' } });
  serving.child.kill('SIGTERM');
  expect(await serving.done).toMatchObject({ code: 0 });
});

test('nothing is overwritten: not a project, not a single file, and then nothing else is written either', async () => {
  const cwd = await project();
  const again = await sluiceHere(['init'], { cwd });
  expect(again).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(
      /^sluice: [^ ]+, [^ ]+, [^ ]+ and 14 more already exist in .*: nothing was written \[usage\]/,
    ),
  });
  const other = scratch();
  writeFileSync(path.join(other, 'sluice.yaml'), 'mine\n');
  expect((await sluiceHere(['init', other])).stderr).toMatch(/^sluice: sluice\.yaml already exist in/);
  expect(readdirSync(other)).toEqual(['sluice.yaml']);
  expect(readFileSync(path.join(other, 'sluice.yaml'), 'utf8')).toBe('mine\n');
  const file = path.join(scratch(), 'file');
  writeFileSync(file, '');
  expect(await sluiceHere(['init', path.join(file, 'below')])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('ENOTDIR'),
  });
});

test('other files of the folder stay', async () => {
  const cwd = scratch();
  mkdirSync(path.join(cwd, 'pipelines'));
  writeFileSync(path.join(cwd, 'pipelines', 'mine.yaml'), 'mine\n');
  expect(await sluiceHere(['init'], { cwd })).toMatchObject({ code: 0 });
  expect(readdirSync(path.join(cwd, 'pipelines')).sort()).toEqual(['mine.yaml', 'nightly.test.yaml', 'nightly.yaml']);
});

testNeeding(['systemd-analyze'], 'its units are what systemd understands', async () => {
  const cwd = await project();
  const units = readdirSync(path.join(cwd, 'systemd')).map((name) => path.join(cwd, 'systemd', name));
  const { stderr } = await run('systemd-analyze', ['verify', ...units]);
  // It has words for other units of the machine, too.
  expect(stderr.split('\n').filter((line) => line.includes('sluice'))).toEqual([]);
});
