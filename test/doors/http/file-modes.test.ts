// Files that the service writes for itself are for its own user, whatever its umask; what a user asked for has the umask of the user.
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { createKey } from '../../../src/doors/commands/keys.ts';
import { scratch, sluice } from '../../support/cli.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import { predictUrl, startService } from '../../support/service.ts';

const modeOf = (file: string): string => (statSync(file).mode & 0o777).toString(8);

/** Mode of everything in a folder, by name. */
const modesIn = (folder: string): Record<string, string> =>
  Object.fromEntries(readdirSync(folder).map((name) => [name, modeOf(path.join(folder, name))]));

/** The umask of most systems, under which a file without a mode can be read by everybody. */
function withOpenUmask(): void {
  const before = process.umask(0o022);
  onTestFinished(() => void process.umask(before));
}

test('jobs, their table, results, uploads and locks, the audit log and spilled answers', async () => {
  withOpenUmask();
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  // What an earlier version left.
  mkdirSync(at('jobs'), { mode: 0o755 });
  for (const name of ['jobs.sqlite', 'jobs.sqlite.lock']) writeFileSync(path.join(at('jobs'), name), '');
  chmodSync(path.join(at('jobs'), 'jobs.sqlite'), 0o644);
  const s = await startService([`spill.folder=${at('spill')}`, `audit.file=${at('audit')}/audit.ndjson`], folder);
  const made = await s.call('POST', predictUrl('json'), { body: '[]', headers: { prefer: 'respond-async' } });
  const tus = { 'tus-resumable': '1.0.0', 'upload-length': '2' };
  expect((await s.call('POST', predictUrl('json'), { headers: tus })).status).toBe(201);
  await expect.poll(async () => (await s.call('GET', made.headers.location as string)).json.state).toBe('done');
  // The upload of the job is deleted after the job is done; the other one is still open.
  const uploads = () => readdirSync(at('jobs')).filter((name) => name.endsWith('.upload'));
  await expect.poll(() => uploads().length).toBe(1);
  expect([at('jobs'), at('spill'), at('audit')].map(modeOf)).toEqual(['700', '700', '700']);
  const jobs = modesIn(at('jobs'));
  for (const name of [
    'jobs.sqlite',
    'jobs.sqlite-wal',
    'jobs.sqlite-shm',
    'jobs.sqlite.lock',
    `${made.json.id}.result`,
  ]) {
    expect([name, jobs[name]]).toEqual([name, '600']);
  }
  expect(uploads().map((name) => jobs[name])).toEqual(['600']);
  const audit = modesIn(at('audit'));
  expect(Object.keys(audit)).toEqual(expect.arrayContaining(['audit.ndjson', 'audit.ndjson.lock']));
  expect(new Set(Object.values(audit))).toEqual(new Set(['600']));
});

test('keys and their lock', async () => {
  withOpenUmask();
  const file = path.join(scratch(), 'keys.yaml');
  writeFileSync(file, 'keys: []\n');
  expect(modeOf(file)).toBe('644');
  await createKey('batch', { file, scopes: 'predict' });
  expect([file, `${file}.lock`].map(modeOf)).toEqual(['600', '600']);
});

test('an output of `sluice score` has the umask of its user', async () => {
  withOpenUmask();
  const output = path.join(scratch(), 'out.csv');
  expect(
    (await sluice(['score', path.join(CREDIT_DEFAULT, 'selftest.csv'), '-m', 'credit-default', '-o', output])).code,
  ).toBe(0);
  expect(modeOf(output)).toBe('644');
});
