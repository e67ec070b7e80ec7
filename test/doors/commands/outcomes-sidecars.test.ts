// `sluice outcomes` and patterns: the files that a run writes beside its predictions are no predictions.
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

const LABELS = ['--labels', 'labels.csv', '--key', 'application_id', '--model', 'credit-default:1'];

const cwd = mkdtempSync(path.join(tmpdir(), 'sluice-sidecars-'));
afterAll(() => rmSync(cwd, { recursive: true, force: true }));

beforeAll(async () => {
  const [header, ...rows] = readFileSync(path.join(CREDIT_DEFAULT, 'selftest.csv'), 'utf8').trimEnd().split('\n');
  const lines = rows.slice(0, 40).map((row, i) => `A${i},${row}`);
  const amount = header!.split(',').indexOf('amount') + 1;
  lines[5] = lines[5]!.split(',').with(amount, 'a lot').join(',');
  writeFileSync(path.join(cwd, 'in.csv'), `application_id,${header}\n${lines.join('\n')}\n`);
  writeFileSync(
    path.join(cwd, 'labels.csv'),
    `application_id,ok\n${lines.map((_, i) => `A${i},${i % 2}`).join('\n')}\n`,
  );
  for (const name of ['s1.csv', 's2.ndjson']) {
    const beside = ['--report', `${name}.html`, '--metrics-file', `${name}.prom`];
    const scored = await sluiceHere(['score', 'in.csv', '--model', 'credit-default', '--passthrough', 'application_id', '-o', name, ...beside], { cwd }); // biome-ignore format: one line
    expect([scored.code, scored.stderr.includes('rejected: bad_number 1')]).toEqual([3, true]);
  }
});

const counted = (stderr: string) => /predictions: .*/.exec(stderr)?.[0];

test('a pattern reads predictions only, and the sidecar files it skips are listed', async () => {
  const one = await sluiceHere(['outcomes', 's1*', ...LABELS], { cwd });
  expect([one.code, counted(one.stderr)]).toEqual([
    0,
    'predictions: 40 rows of one input = 39 matched + 0 repeated + 0 withdrawn + 0 without a label + 1 rejected + 0 without a key',
  ]);
  expect(one.stderr).toContain(
    'skipped 4 sidecar files of s1*: s1.csv.html (report), s1.csv.manifest.json (manifest), s1.csv.prom (metrics), s1.csv.rejects.csv (rejects file)',
  );
  const both = await sluiceHere(['outcomes', 's*', ...LABELS, '--on-duplicate', 'last'], { cwd });
  expect([both.code, counted(both.stderr)]).toEqual([
    0,
    'predictions: 80 rows of 2 inputs = 39 matched + 39 repeated + 0 withdrawn + 0 without a label + 2 rejected + 0 without a key',
  ]);
});

test('sidecar files are refused by name where nothing else is meant', async () => {
  const named = await sluiceHere(['outcomes', 's1.csv', 's2.ndjson.manifest.json', ...LABELS], { cwd });
  expect([named.code, named.stderr]).toEqual([
    2,
    expect.stringContaining(
      's2.ndjson.manifest.json contains no predictions: its name is that of a sidecar file (manifest)',
    ),
  ]);
  const pattern = await sluiceHere(['outcomes', '*.rejects.csv', ...LABELS], { cwd });
  expect([pattern.code, pattern.stderr]).toEqual([
    2,
    expect.stringContaining('s1.csv.rejects.csv (rejects file), s2.ndjson.rejects.csv (rejects file)'),
  ]);
});

test('a JSON file of another kind under a name of its own is refused, not counted as rejected rows', async () => {
  copyFileSync(path.join(cwd, 's2.ndjson.manifest.json'), path.join(cwd, 'other.json'));
  const run = await sluiceHere(['outcomes', 's1.csv', 'other.json', ...LABELS], { cwd });
  expect([run.code, run.stdout]).toEqual([1, '']);
  expect(run.stderr).toMatch(/other\.json: one row cannot be used[\s\S]*row 1, probability: .*no prediction/);
});

test('a pipeline leaves out the sidecar files of inputs that the same pattern matches', async () => {
  const folder = scratch();
  copyFileSync(path.join(cwd, 'in.csv'), path.join(folder, 'a.csv'));
  copyFileSync(path.join(cwd, 's1.csv.rejects.csv'), path.join(folder, 'a.csv.rejects.csv'));
  const yaml = `model: credit-default
source: { type: file, path: "*.csv" }
score: { passthrough: [application_id] }
sink: { type: file, path: "out/{name}.csv" }
on_invalid: report
`;
  writeFileSync(path.join(folder, 'nightly.yaml'), yaml);
  mkdirSync(path.join(folder, 'out'));
  const run = await sluiceHere(['run', 'nightly.yaml', '--json'], { cwd: folder });
  expect(JSON.parse(run.stdout)).toMatchObject({ rows: 40, scored: 39, rejected: 1 });
  // Without its output beside it a file of such a name is an input like any other.
  rmSync(path.join(folder, 'a.csv'));
  const alone = await sluiceHere(['run', 'nightly.yaml'], { cwd: folder });
  expect([alone.code, alone.stderr]).toEqual([1, expect.stringContaining('header_mismatch')]);
});
