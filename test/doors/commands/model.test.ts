// `sluice model` as people use it: add from an ONNX file and a training table, look, verify, move aliases.
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { checkTest } from '../../support/tiers.ts';
import { readRows, toTsv, ZOO } from '../../support/zoo.ts';

const TRAIN = path.join(ZOO, 'data/train.csv');
const CLEAN = path.join(ZOO, 'data/clean.csv');
const model = (name: string, file = 'model.onnx') => path.join(ZOO, 'models', name, file);
const IGNORE = ['--ignore', 'loss_rate,grade'];

const add = (registry: string, name: string, ...more: string[]) =>
  sluiceHere([
    'model',
    'add',
    model(name),
    '--id',
    name,
    '--training-data',
    TRAIN,
    ...IGNORE,
    '--registry',
    registry,
    ...more,
  ]);

const against = (name: string) => ['--expected', model(name, 'expected-clean.csv'), '--expected-rows', CLEAN];

describe('add', () => {
  test('a pipeline with one input a column needs nothing but its training table and predictions', async () => {
    const registry = path.join(scratch(), 'models');
    const { code, stdout, stderr } = await add(
      registry,
      'skl-boosting-int64',
      ...against('skl-boosting-int64'),
      '--json',
    );
    expect([code, stderr]).toEqual([0, expect.stringContaining('registered skl-boosting-int64:1')]);
    const { report, manifest } = JSON.parse(stdout);
    expect(report.selfTest).toMatchObject({ passed: true, rows: 200 });
    expect(manifest).toMatchObject({ outcome: 'ok', positive_class: 1, classes: [0, 1], task: 'binary' });
    // What training made of missing values is found by trying what reproduces its predictions.
    expect(stderr).toContain('because this reproduces the given predictions');
    const folder = path.join(registry, 'skl-boosting-int64', '1');
    for (const file of [
      'model.yaml',
      'model.onnx',
      'package.lock',
      'background.csv',
      'selftest.csv',
      'selftest-expected.csv',
      'report.md',
      'report.json',
    ]) {
      expect(existsSync(path.join(folder, file)), file).toBe(true);
    }
    expect(readFileSync(path.join(folder, 'background.csv'), 'utf8').trimEnd().split('\n')).toHaveLength(101);
    expect(manifest.baseline.columns.amount.counts.reduce((a: number, b: number) => a + b)).toBe(3000);
    expect(manifest.baseline.columns.source_type.counts).toMatchObject({ ONLINE: expect.any(Number) });
    // And it scores: ids keep their zeros, what is missing is taken.
    const input = path.join(registry, 'in.tsv');
    writeFileSync(
      input,
      toTsv(
        manifest.columns.map((c: { name: string }) => c.name),
        readRows('data/clean.csv'),
      ),
    );
    const scored = await sluiceHere([
      'score',
      input,
      '--model',
      'skl-boosting-int64',
      '--registry',
      registry,
      '-o',
      path.join(registry, 'out.csv'),
      '--json',
    ]);
    expect(JSON.parse(scored.stdout)).toMatchObject({ rows: 200 });
  });

  test('an encoded matrix is refused without its codes, naming every column at once', async () => {
    const { code, stderr } = await add(path.join(scratch(), 'models'), 'lightgbm-zipmap');
    expect(code).toBe(1);
    for (const column of ['source_type', 'occupation_type', 'partner_id'])
      expect(stderr).toContain(`column ${column} holds`);
    expect(stderr).toContain('--encoding codes.json');
    expect(stderr).toContain('[registration_refused]');
  });

  test('with codes it is registered; versions count up and never change', async () => {
    const registry = path.join(scratch(), 'models');
    const codes = ['--encoding', model('lightgbm-zipmap', 'codes.json')];
    expect((await add(registry, 'lightgbm-zipmap', ...codes, ...against('lightgbm-zipmap'))).stdout).toBe(
      'lightgbm-zipmap:1\n',
    );
    expect((await add(registry, 'lightgbm-zipmap', ...codes, '--alias', 'champion')).stdout).toBe(
      'lightgbm-zipmap:2\n',
    );
    const again = await add(registry, 'lightgbm-zipmap', ...codes, '--as-version', '2');
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('[version_exists]')]);
    const list = await sluiceHere(['model', 'list', '--registry', registry]);
    expect(list.stdout).toContain('lightgbm-zipmap\t1,2\tchampion=2');
  });

  test('a wrong encoding is noticed by the self-test, and nothing is registered', async () => {
    const folder = scratch();
    const codes = JSON.parse(readFileSync(model('lightgbm-zipmap', 'codes.json'), 'utf8'));
    [codes.codes.source_type.ONLINE, codes.codes.source_type.AGENT] = [
      codes.codes.source_type.AGENT,
      codes.codes.source_type.ONLINE,
    ];
    writeFileSync(path.join(folder, 'codes.json'), JSON.stringify(codes));
    const { code, stderr } = await add(
      path.join(folder, 'models'),
      'lightgbm-zipmap',
      '--encoding',
      path.join(folder, 'codes.json'),
      ...against('lightgbm-zipmap'),
    );
    expect(code).toBe(1);
    expect(stderr).toMatch(/rows of 200 differ .*Likely causes:.*\[self_test_failed\]/s);
    expect(existsSync(path.join(folder, 'models', 'lightgbm-zipmap'))).toBe(false);
  });

  test('--dry-run shows the proposal and registers nothing', async () => {
    const registry = path.join(scratch(), 'models');
    const { code, stdout, stderr } = await add(registry, 'skl-logistic-zipmap', '--dry-run');
    expect([code, existsSync(registry)]).toEqual([0, false]);
    expect(stdout).toMatch(/^id: skl-logistic-zipmap\nversion: 1\ntask: binary\n/);
    expect(stderr).toContain('was not compared with predictions of the training library');
  });

  test.each([
    ['a file that is no ONNX', () => [TRAIN], /damaged|not an ONNX file/, 'model_invalid'],
    ['a file that is not there', () => ['/none.onnx'], /cannot be opened/, 'input_not_found'],
    [
      'a table with numbers grouped by commas',
      () => [model('skl-logistic-zipmap'), 'amount', '"1,000"'],
      /column amount: 3,000 values with spaces or separators/,
      'registration_refused',
    ],
    [
      'a table that lacks a column',
      () => [model('skl-logistic-zipmap'), 'amount', null],
      /has an input amount, but no training column/,
      'registration_refused',
    ],
  ])('%s is refused with its reason', async (_name, setup, words, code) => {
    const [onnx, column, value] = setup();
    const folder = scratch();
    const lines = readFileSync(TRAIN, 'utf8').trimEnd().split('\n');
    const at = lines[0]!.split(',').indexOf(column ?? '');
    const table = path.join(folder, 't.csv');
    const changed = lines.map((l, i) => {
      const cells = l.split(',');
      if (value === null) cells.splice(at, 1);
      else if (value !== undefined && i > 0) cells[at] = value;
      return cells.join(',');
    });
    writeFileSync(table, changed.join('\n'));
    const run = await sluiceHere([
      'model',
      'add',
      onnx!,
      '--id',
      'm',
      '--training-data',
      table,
      ...IGNORE,
      '--registry',
      path.join(folder, 'models'),
    ]);
    expect(run.code).toBe(1);
    expect(run.stderr).toMatch(words);
    expect(run.stderr).toContain(`[${code}]`);
  });
});

describe('look and verify', () => {
  let added: string;
  beforeAll(async () => {
    added = path.join(mkdtempSync(path.join(tmpdir(), 'sluice-added-')), 'models');
    expect((await add(added, 'skl-logistic-zipmap', ...against('skl-logistic-zipmap'))).code).toBe(0);
  });
  afterAll(() => rmSync(path.dirname(added), { recursive: true, force: true }));
  /** A registry of its own with the model that was added once for all. */
  const withModel = (): string => {
    const registry = path.join(scratch(), 'models');
    cpSync(added, registry, { recursive: true });
    return registry;
  };

  test('show gives columns, aliases with history and an application that can be scored', async () => {
    const registry = withModel();
    await sluiceHere(['model', 'alias', 'skl-logistic-zipmap@champion', '1', '--registry', registry, '--who', 'ana']);
    const { stdout } = await sluiceHere([
      'model',
      'show',
      'skl-logistic-zipmap@champion',
      '--registry',
      registry,
      '--json',
    ]);
    const shown = JSON.parse(stdout);
    expect(shown).toMatchObject({
      version: '1',
      aliases: { champion: '1' },
      history: [{ who: 'ana', from: null, to: '1' }],
    });
    expect(Object.keys(shown.sample)).toEqual(shown.columns.map((c: { name: string }) => c.name));
    const text = await sluiceHere(['model', 'show', 'skl-logistic-zipmap', '--registry', registry]);
    expect(text.stdout).toContain('ana: champion (none) → 1');
    const removed = await sluiceHere([
      'model',
      'alias',
      'skl-logistic-zipmap@champion',
      '--remove',
      '--registry',
      registry,
    ]);
    expect(removed.stdout).toBe('skl-logistic-zipmap@champion: 1 → (removed)\n');
  });

  checkTest('verify repeats the checks; a package whose model was changed fails', async () => {
    const registry = withModel();
    const good = await sluiceHere(['model', 'verify', 'skl-logistic-zipmap', '--registry', registry, '--json']);
    expect(good.code).toBe(0);
    expect(JSON.parse(good.stdout)).toMatchObject({
      selfTest: { passed: true, rows: 200 },
      batchInvariance: { different: { 1: 0, 17: 0 } },
    });
    const folder = path.join(registry, 'skl-logistic-zipmap', '1');
    const file = path.join(folder, 'selftest-expected.csv');
    writeFileSync(file, readFileSync(file, 'utf8').replace(/0\.\d+/, '0.5'));
    const changed = await sluiceHere(['model', 'verify', folder]);
    expect(changed.stderr).toMatch(/selftest-expected\.csv was changed: .*\[model_hash_mismatch\]/);
    expect((await sluiceHere(['model', 'seal', folder])).stderr).toContain('[model_hash_mismatch]');
    rmSync(path.join(folder, 'package.lock'));
    const bad = await sluiceHere(['model', 'verify', folder]);
    expect([bad.code, bad.stderr]).toEqual([1, expect.stringContaining('[self_test_failed]')]);
    const sealed = await sluiceHere(['model', 'seal', 'skl-logistic-zipmap:1', '--registry', registry]);
    expect([sealed.code, sealed.stdout]).toEqual([0, expect.stringMatching(/^skl-logistic-zipmap:1 [0-9a-f]{64}\n$/)]);
    const again = await sluiceHere(['model', 'seal', folder]);
    expect([again.code, again.stderr]).toEqual([0, expect.stringContaining('matches its package.lock')]);
    rmSync(path.join(folder, 'package.lock'));
    const onnx = readFileSync(path.join(folder, 'model.onnx'));
    onnx[onnx.length - 20]! ^= 1;
    writeFileSync(path.join(folder, 'model.onnx'), onnx);
    expect((await sluiceHere(['model', 'verify', folder])).stderr).toContain('[model_hash_mismatch]');
  });

  test('aliases want a whole reference', async () => {
    const run = await sluiceHere(['model', 'alias', 'credit-default', '1']);
    expect([run.code, run.stderr]).toEqual([2, expect.stringContaining('id@alias')]);
  });
});
