// Lines in front of the header: `--skip-lines` and `skip_lines` read a file as if they were absent, at their positions.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { encoded } from '../support/encodings.ts';
import { jobOf, killedRun, madeBy, OFTEN, scoreJob, unchained } from '../support/interrupted.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

const CLEAN = Buffer.concat([...generatePortfolio({ rows: 300, seed: 5, faults: 3, ids: true })]).toString('latin1');
/** Quotes and delimiters mean nothing in these lines. */
const PREAMBLE = ['Bank "Musterstadt', 'a,b,c,"', ''];

let folder = '';
beforeEach(() => {
  folder = scratch();
});

const put = (name: string, text: string | Uint8Array) =>
  writeFileSync(path.join(folder, name), typeof text === 'string' ? Buffer.from(text, 'latin1') : text);
const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');
const score = (file: string, output: string, ...flags: string[]) =>
  sluiceHere(
    ['score', file, '-m', 'credit-default', '-o', output, '--passthrough', 'application_id', '--quiet', ...flags],
    { cwd: folder },
  );
const skipped = (file: string, output: string, ...flags: string[]) =>
  score(file, output, '--skip-lines', '3', ...flags);

/** Fields of the rejects file. */
const rejectsOf = (name: string) =>
  read(name)
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.split(','));

test('predictions equal those of the file without its preamble; lines and bytes are those of the whole file', async () => {
  put('clean.csv', CLEAN);
  const before = `${PREAMBLE.join('\r\n')}\r\n`;
  put('bank.csv', before + CLEAN);
  expect(await score('clean.csv', 'want.csv')).toMatchObject({ code: 3 });
  expect(await skipped('bank.csv', 'got.csv')).toMatchObject({ code: 3, stderr: '' });
  expect(read('got.csv')).toBe(read('want.csv'));
  const want = rejectsOf('want.csv.rejects.csv').map(([, row, line, byte, ...rest]) => [
    row,
    String(Number(line) + 3),
    String(Number(byte) + before.length),
    ...rest,
  ]);
  expect(want.length).toBe(3);
  expect(rejectsOf('got.csv.rejects.csv').map(([, ...rest]) => rest)).toEqual(want);
});

describe('every way of reading', () => {
  const clean = () => read('want.csv');
  const rows = CLEAN.slice(CLEAN.indexOf('\n') + 1);
  const names = CLEAN.slice(0, CLEAN.indexOf('\n'));
  test.each<[what: string, name: string, bytes: string | Uint8Array, ...flags: string[]]>([
    ['LF', 'lf.csv', `${PREAMBLE.join('\n')}\n${CLEAN}`],
    ['CR', 'cr.csv', `${PREAMBLE.join('\r')}\r${CLEAN}`],
    ['compressed', 'z.csv.gz', gzipSync(Buffer.from(`${PREAMBLE.join('\n')}\n${CLEAN}`, 'latin1'))],
    ['one byte at a time', 'bytes.csv', `${PREAMBLE.join('\r\n')}\r\n${CLEAN}`, '--read-bytes', '1'],
    ['small blocks', 'blocks.csv', `${PREAMBLE.join('\n')}\n${CLEAN}`, '--block-bytes', '64'],
    ['a preamble longer than a block', 'long.csv', `${'x'.repeat(5000)}\n\n\n${CLEAN}`, '--block-bytes', '64'],
    ['without a header row', 'bare.csv', `${PREAMBLE.join('\n')}\n${rows}`, '--columns', names],
    ['a byte order mark', 'mark.csv', `\xef\xbb\xbf${PREAMBLE.join('\n')}\n${CLEAN}`],
  ])('%s', async (_, name, bytes, ...flags) => {
    put('clean.csv', CLEAN);
    await score('clean.csv', 'want.csv');
    put(name, bytes);
    expect(await skipped(name, 'out.csv', '--format', 'csv', ...flags)).toMatchObject({ code: 3, stderr: '' });
    expect(read('out.csv')).toBe(clean());
  });

  checkTest('UTF-16, a pipeline, explain and inspect', async () => {
    put('clean.csv', CLEAN);
    await score('clean.csv', 'want.csv');
    const text = `${PREAMBLE.join('\n')}\n${CLEAN}`;
    put('wide.csv', encoded(text, 'utf-16'));
    const valid = (output: string) => read(output).split('\n').slice(0, 50);
    await skipped('wide.csv', 'wide-out.csv', '--encoding', 'utf-16');
    expect(valid('wide-out.csv')).toEqual(valid('want.csv'));
    put('bank.csv', text);
    put(
      'p.yaml',
      'model: credit-default\nsource: { type: file, path: bank.csv, skip_lines: 3 }\nscore: { passthrough: [application_id] }\nsink: { type: file, path: p.csv }\n',
    );
    expect(await sluiceHere(['run', 'p.yaml'], { cwd: folder })).toMatchObject({ code: 3 });
    expect(read('p.csv')).toBe(clean());
    const why = (file: string, ...flags: string[]) =>
      sluiceHere(['explain', file, '--row', '7', '-m', 'credit-default', '--json', '--ignore', 'application_id', ...flags], { cwd: folder }); // biome-ignore format: one line
    const explained = await why('bank.csv', '--skip-lines', '3');
    expect([explained.code, explained.stdout]).toEqual([0, (await why('clean.csv')).stdout]);
    const inspected = await sluiceHere(['inspect', 'bank.csv', '-m', 'credit-default', '--skip-lines', '3', '--json'], { cwd: folder }); // biome-ignore format: one line
    expect(JSON.parse(inspected.stdout)).toMatchObject({ skipped_lines: 3 });
  });
});

checkTest('the manifest covers the skipped lines; verify names a changed row, and replay scores it', async () => {
  put('bank.csv', `${PREAMBLE.join('\n')}\n${CLEAN}`);
  await skipped('bank.csv', 'proven.csv');
  const verify = () =>
    sluiceHere(['verify', 'proven.csv', '--input', 'bank.csv', '--package', CREDIT_DEFAULT], { cwd: folder });
  expect(await verify()).toMatchObject({ code: 0 });
  const replayed = await sluiceHere(['replay', 'proven.csv', '--row', '7', '--input', 'bank.csv', '--package', CREDIT_DEFAULT], { cwd: folder }); // biome-ignore format: one line
  expect([replayed.code, replayed.stdout]).toEqual([0, expect.stringContaining('row 7 scored again with')]);
  put('proven.csv', read('proven.csv').replace('A00000009,9,true', 'A00000009,9,false'));
  expect((await verify()).stdout).toContain('scored again, row 9 differs');
  put('bank.csv', `${PREAMBLE.join('\n').replace('Bank', 'Bonk')}\n${CLEAN}`);
  expect((await verify()).stdout).toMatch(/^input: /m);
});

checkTest('an interrupted run resumes to the same files, and not with other skipped lines', async () => {
  const job = jobOf('in.csv', 'out.csv', { rows: 12_000, flags: ['--skip-lines', '2'] });
  const input = path.join(job.folder, 'in.csv');
  writeFileSync(input, Buffer.concat([Buffer.from('Bank\nPage 1\n'), readFileSync(input)]));
  const made = madeBy(job, await scoreJob(job, '--checkpoint-every', '0'));
  await killedRun(job);
  const other = await scoreJob({ ...job, flags: job.flags.with(-1, '1') }, '--resume', ...OFTEN);
  expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('[checkpoint_mismatch]')]);
  const run = await scoreJob(job, '--resume', ...OFTEN);
  expect([run.code, JSON.parse(run.stdout).resumedRows > 0]).toEqual([3, true]);
  expect(unchained(madeBy(job, run))).toEqual(unchained(made));
});

test('inputs that cannot have such lines are rejected', async () => {
  put('clean.csv', CLEAN);
  put('a.ndjson', '{}\n');
  const said = async (...args: string[]) => (await sluiceHere(args, { cwd: folder })).stderr;
  expect(await said('score', 'a.ndjson', '-m', 'credit-default', '--skip-lines', '1')).toContain(
    'skip_lines: applies to csv and tsv only',
  );
  expect(await said('score', 'clean.csv', '-m', 'credit-default', '--skip-lines', '400')).toContain(
    'the input has no header row after the first 400 lines, which are skipped [empty_input]',
  );
  expect(await said('score', 'clean.csv', '-m', 'credit-default', '--skip-lines', '-1')).toContain('skip-lines');
  await said('plan', 'clean.csv', '--shards', '2', '-o', 'plan.json');
  expect(
    await said('score', '--plan', 'plan.json', '--shard', '0', '-m', 'credit-default', '-o', 'p-{shard}.csv', '--skip-lines', '1'), // biome-ignore format: one line
  ).toContain('--skip-lines is not supported for shards');
});
