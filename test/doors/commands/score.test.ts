// The command as people run it: exit codes, files that are whole or not there, signals, full disks.
import { execFileSync, spawn } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { MAIN, type Run, scratch, sluice, sluiceHere, start } from '../../support/cli.ts';
import { checkTest } from '../../support/tiers.ts';
import { testNeeding } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const portfolios = new Map<string, Buffer>();

function portfolioFile(folder: string, rows: number, faults = 0, name = 'portfolio.csv'): string {
  const file = path.join(folder, name);
  const delimiter = name.endsWith('.tsv') ? '\t' : ',';
  const key = `${rows} ${faults} ${delimiter}`;
  const bytes = portfolios.get(key) ?? Buffer.concat([...generatePortfolio({ rows, seed: 8, faults, delimiter })]);
  portfolios.set(key, bytes);
  writeFileSync(file, bytes);
  return file;
}

const score = (file: string, ...args: string[]): Promise<Run> =>
  sluiceHere(['score', file, '-m', 'credit-default', ...args]);

/** Everything in the folder, so that nothing half done can hide. */
const left = (folder: string): string[] => readdirSync(folder).sort();

describe('exit codes', () => {
  test('0 when every row is scored, and the summary adds up', async () => {
    const folder = scratch();
    const file = portfolioFile(folder, 500);
    const out = path.join(folder, 'scored.csv');
    const run = await score(file, '-o', out, '--json');
    expect(run.code).toBe(0);
    const summary = JSON.parse(run.stdout);
    expect(summary).toMatchObject({
      model: 'credit-default',
      modelVersion: '1',
      rows: 500,
      scored: 500,
      rejected: 0,
      skipped: 0,
      rejects: null,
    });
    expect(summary.modelSha256).toMatch(/^[0-9a-f]{64}$/);
    expect(summary.peakMemoryBytes).toBeGreaterThan(1e7);
    expect(summary.bytesWritten).toBe(readFileSync(out).length);
    expect(left(folder)).toEqual(['portfolio.csv', 'scored.csv', 'scored.csv.manifest.json']);
  });

  test('3 when rows were rejected, and their file is named', async () => {
    const folder = scratch();
    const out = path.join(folder, 'scored.ndjson');
    const run = await score(portfolioFile(folder, 500, 4), '-o', out);
    expect(run.code).toBe(3);
    expect(run.stderr).toContain(`${out}.rejects.csv`);
    expect(run.stderr).toContain('500 rows read = 496 scored + 4 rejected');
    expect(readFileSync(`${out}.rejects.csv`, 'utf8').trimEnd().split('\n')).toHaveLength(5);
  });

  test('1 with --on-invalid fail, and nothing under the final name', async () => {
    const folder = scratch();
    const run = await score(
      portfolioFile(folder, 500, 1),
      '-o',
      path.join(folder, 'scored.csv'),
      '--on-invalid',
      'fail',
    );
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('[invalid_row]');
    expect(left(folder)).toEqual(['portfolio.csv']);
  });

  test.each([
    [['score', '-m', 'credit-default'], /missing FILE/],
    [['score', 'x.csv'], /required option/],
    [['score', 'x.csv', '-m', 'credit-default', '--workers', '0'], /--workers takes/],
    [['score', 'x.csv', '-m', 'credit-default', '--wrokers', '2'], /did you mean --workers/i],
    [['score', 'x.csv', '-m', 'credit-default', '--delimiter', 'colon'], /--delimiter takes/],
    [['score', 'x.csv', '-m', 'credit-default', '--format', 'xml'], /--format takes/],
    [['score', 'x.csv', '-m', 'credit-default', '-o', 'x.csv'], /the output is the input/],
    [['socre'], /unknown command/],
  ])('2 for %j', async (args, words) => {
    const run = await sluiceHere(args);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(words);
    expect(run.stdout).toBe('');
  });

  test('1 for what is not there, each in words', async () => {
    const folder = scratch();
    const file = portfolioFile(folder, 5);
    const cases: [string[], RegExp][] = [
      [[path.join(folder, 'none.csv')], /ENOENT.*\[input_not_found\]/],
      [[folder], /is a folder \[input_not_found\]/],
      [[file, '-o', path.join(file, 'folder', 'out.csv')], /ENOTDIR.*\[output_unwritable\]/],
      [[file, '-o', folder], /is a folder \[output_exists_as_folder\]/],
      [[file, '--delimiter', 'tab', '-o', path.join(folder, 'o.csv')], /delimited by comma.*\[wrong_delimiter\]/],
    ];
    for (const [args, words] of cases) {
      const run = await score(args[0]!, ...args.slice(1));
      expect(run.stderr).toMatch(words);
      expect(run.code).toBe(1);
    }
    const wrong = await sluiceHere(['score', file, '-m', 'credit-defautl']);
    expect(wrong.stderr).toMatch(/did you mean credit-default\?\) \[model_not_found\]/);
    expect(wrong.code).toBe(1);
    expect(left(folder)).toEqual(['portfolio.csv']);
  });

  test('folders of outputs, rejects files and reports are created', async () => {
    const folder = scratch();
    const file = portfolioFile(folder, 5);
    const files = ['out/of/today/o.csv', 'rejected/r.csv', 'reports/r.html'].map((name) => path.join(folder, name));
    const [output, rejects, report] = files as [string, string, string];
    const run = await score(file, '-o', output, '--rejects', rejects, '--report', report);
    expect(run.code, run.stderr).toBe(0);
    for (const name of files) expect(existsSync(name), name).toBe(true);
  });

  test('a model file that is not the one the package describes is refused', async () => {
    const folder = scratch();
    const version = path.join(folder, 'registry', 'mine', '1');
    mkdirSync(version, { recursive: true });
    const bundled = path.resolve('src/bundled/credit-default/1');
    writeFileSync(
      path.join(version, 'model.yaml'),
      readFileSync(path.join(bundled, 'model.yaml'), 'utf8').replace('credit-default', 'mine'),
    );
    const bytes = readFileSync(path.join(bundled, 'model.onnx'));
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(path.join(version, 'model.onnx'), bytes);
    // In this process a model is known by the hash that its package names.
    const run = await sluice([
      'score',
      portfolioFile(folder, 5),
      '-m',
      'mine',
      '--registry',
      path.join(folder, 'registry'),
    ]);
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('[model_hash_mismatch]');
  });
});

describe('streams', () => {
  test('- reads standard input and writes standard output, with words on standard error only', async () => {
    const folder = scratch();
    const bytes = readFileSync(portfolioFile(folder, 300, 2, 'p.tsv'));
    const run = await sluice(['score', '-', '-m', 'credit-default:1'], { stdin: bytes });
    expect(run.code).toBe(3);
    const rows = parse(run.stdout, { columns: true, delimiter: '\t' });
    expect(rows).toHaveLength(300);
    expect(run.stderr).toContain('2 rejected');
    const file = await score(path.join(folder, 'p.tsv'), '-o', path.join(folder, 'out.tsv'));
    expect(file.code).toBe(3);
    expect(readFileSync(path.join(folder, 'out.tsv'), 'utf8')).toBe(run.stdout);
  });

  checkTest('a reader that goes away ends the run with a word', async () => {
    const folder = scratch();
    const file = portfolioFile(folder, 30_000);
    const { child, done } = start(['score', file, '-m', 'credit-default@champion']);
    child.stdout!.once('data', () => child.stdout!.destroy());
    const run = await done;
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('[output_closed]');
  });
});

describe('an output is whole or not there', () => {
  /** A run whose input never ends, and that has written some of its output. */
  const inTheMiddle = async (folder: string) => {
    const bytes = readFileSync(portfolioFile(folder, 20_000));
    const args = ['score', '-', '--input-format', 'csv', '-m', 'credit-default', '-o', path.join(folder, 'scored.csv')];
    const run = start(args, { stdin: 'open' });
    run.child.stdin!.write(bytes);
    const written = () => left(folder).find((name) => name.endsWith('.partial') || name.endsWith('.kept'));
    await until(
      () => {
        const name = written();
        return name !== undefined && statSync(path.join(folder, name)).size > 0;
      },
      'bytes of a partial file',
      5,
    );
    return run;
  };

  checkTest('SIGINT in the middle', async () => {
    const folder = scratch();
    const { child, done } = await inTheMiddle(folder);
    child.kill('SIGINT');
    const run = await done;
    expect(run.code).toBe(1);
    expect(run.stderr).toContain('stopped by SIGINT [cancelled]');
    expect(left(folder)).toEqual(['portfolio.csv']);
  });

  checkTest('kill -9 in the middle', async () => {
    const folder = scratch();
    const { child, done } = await inTheMiddle(folder);
    child.kill('SIGKILL');
    expect((await done).signal).toBe('SIGKILL');
    expect(existsSync(path.join(folder, 'scored.csv'))).toBe(false);
    // The next run clears up what the killed one could not.
    expect((await score(portfolioFile(folder, 50), '-o', path.join(folder, 'scored.csv'))).code).toBe(0);
    expect(left(folder)).toEqual(['portfolio.csv', 'scored.csv', 'scored.csv.manifest.json']);
  });

  test('through a link, the file it points to is replaced and the link stays', async () => {
    const folder = scratch();
    const file = portfolioFile(folder, 20);
    mkdirSync(path.join(folder, 'far'));
    symlinkSync(path.join('far', 'real.csv'), path.join(folder, 'link.csv'));
    writeFileSync(path.join(folder, 'far', 'real.csv'), 'old');
    expect((await score(file, '-o', path.join(folder, 'link.csv'))).code).toBe(0);
    expect(lstatSync(path.join(folder, 'link.csv')).isSymbolicLink()).toBe(true);
    expect(readFileSync(path.join(folder, 'far', 'real.csv'), 'utf8')).toMatch(/^row,/);
    expect(left(folder)).toEqual(['far', 'link.csv', 'link.csv.manifest.json', 'portfolio.csv']);
  });

  test('an older output stays as it was when the new run fails', async () => {
    const folder = scratch();
    const out = path.join(folder, 'scored.csv');
    writeFileSync(out, 'yesterday');
    expect((await score(portfolioFile(folder, 200, 1), '-o', out, '--on-invalid', 'fail')).code).toBe(1);
    expect(readFileSync(out, 'utf8')).toBe('yesterday');
    expect((await score(portfolioFile(folder, 200), '-o', out)).code).toBe(0);
    expect(readFileSync(out, 'utf8')).toMatch(/^row,prediction/);
  });

  testNeeding(['bash'], 'a full disk (limit of the file size)', async () => {
    const folder = scratch();
    const file = portfolioFile(folder, 60_000);
    // SIGXFSZ ignored, writes beyond 256 KiB fail: what a quota does.
    const script = 'trap "" XFSZ; ulimit -f 256; exec "$@"';
    const child = spawn('bash', [
      '-c',
      script,
      'bash',
      process.execPath,
      MAIN,
      'score',
      file,
      '-m',
      'credit-default',
      '-o',
      path.join(folder, 'scored.csv'),
      // On a busy machine, the run may reach its first checkpoint, which keeps the partial output.
      '--checkpoint-every',
      '0',
    ]);
    let stderr = '';
    child.stderr.on('data', (d) => {
      stderr += d;
    });
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect(stderr).toContain('[output_full]');
    expect(code).toBe(1);
    expect(left(folder)).toEqual(['portfolio.csv']);
  });

  test.runIf(existsSync('/dev/full'))('a full device', async () => {
    const folder = scratch();
    const run = await score(portfolioFile(folder, 3000), '-o', '/dev/full', '--format', 'csv');
    expect(run.stderr).toMatch(/ENOSPC.*\[output_full\]/);
    expect(run.code).toBe(1);
  });

  test.each([
    ['grows', (file: string) => appendFileSync(file, 'x')],
    ['is cut', (file: string) => truncateSync(file, 1000)],
    ['vanishes', (file: string) => unlinkSync(file)],
  ])('an input that %s while it is read', async (_name, change) => {
    const folder = scratch();
    const out = path.join(folder, 'scored.csv');
    const file = portfolioFile(folder, 60_000);
    const { done } = start(['score', file, '-m', 'credit-default', '-o', out]);
    await until(() => left(folder).some((f) => f.endsWith('.partial')), 'a partial file', 5);
    change(file);
    const run = await done;
    expect(run.stderr).toMatch(/\[input_changed\]/);
    expect(run.code).toBe(1);
    expect(left(folder).filter((f) => f !== 'portfolio.csv')).toEqual([]);
  });
});

testNeeding(['mkfifo'], 'a pipe as output is written to directly', async () => {
  const folder = scratch();
  const pipe = path.join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  const reader = spawn('cat', [pipe]);
  let got = '';
  reader.stdout.on('data', (d) => {
    got += d;
  });
  const closed = new Promise((resolve) => reader.on('close', resolve));
  const run = await score(portfolioFile(folder, 50), '-o', pipe, '--format', 'ndjson');
  expect(run.code).toBe(0);
  await closed;
  expect(got.trimEnd().split('\n')).toHaveLength(50);
});
