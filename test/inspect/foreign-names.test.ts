// A file whose names do not resemble those of the model: what `sluice inspect` finds out, and what can be declared.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { DeclaredReading } from '../../src/inspect/file-sample.ts';
import { inspectFile } from '../../src/inspect/inspect-file.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { type Applications, applicationsFor } from './applications.ts';
import { GERMAN_NAMES, germanFile } from './german-file.ts';
import { cleanText, predictionsIn, runPrinted } from './printed-command.ts';

let applications: Applications;
let model: Awaited<ReturnType<typeof loadPackage>>;
beforeAll(async () => {
  applications = await applicationsFor(CREDIT_DEFAULT, 200);
  model = await loadPackage(CREDIT_DEFAULT);
});

async function inspected(content: string | Buffer, declared: DeclaredReading = {}) {
  const file = path.join(scratch(), 'bank.csv');
  writeFileSync(file, content);
  return inspectFile({ file, model, modelName: 'credit', output: 'out.csv', declared });
}

test('the notation of numbers is judged from columns that look like numbers, and is not certain', async () => {
  const found = await inspected(germanFile(applications));
  expect(found.numbers).toEqual({
    value: 'decimal comma, thousands point',
    confidence: 'medium',
    reason:
      'no number column of the model is known yet; columns such as KREDITBETRAG, EINKOMMEN, RATE look like decimal comma, thousands point',
  });
});

test('known whole numbers do not decide about the other columns', async () => {
  const found = await inspected(germanFile(applications).toString('latin1').replace(';LAUFZEIT;', ';term;'));
  expect(found.numbers).toMatchObject({ value: 'decimal comma, thousands point', confidence: 'medium' });
  expect(found.numbers!.reason).toMatch(/^the known number columns have whole numbers without separators; columns/);
});

test('a notation that no value confirms is not certain', async () => {
  const found = await inspected('a;b\nx;y\nz;w\n');
  expect(found.numbers).toMatchObject({ confidence: 'low', reason: expect.stringMatching(/: not checked$/) });
});

describe('declarations', () => {
  const { term: _, ...most } = GERMAN_NAMES;

  test('the printed command scores the file like the clean one', async () => {
    const cwd = scratch();
    writeFileSync(path.join(cwd, 'bank.csv'), germanFile(applications));
    writeFileSync(path.join(cwd, 'clean.csv'), cleanText(applications));
    const rename = Object.entries(GERMAN_NAMES).map((pair) => pair.join('='));
    const flags = ['--rename', rename.join(','), '--ignore', 'FILIALE,STICHTAG', '--encoding', 'windows-1252'];
    const run = await sluiceHere(['inspect', 'bank.csv', '-m', 'credit-default', ...flags], { cwd });
    expect([run.code, run.stderr]).toEqual([0, '']);
    expect(run.stdout).toMatch(/^encoding +windows-1252 +high: declared$/m);
    expect(run.stdout).toMatch(/^ {2}amount +number +KREDITBETRAG +declared +high /m);
    expect(run.stdout).toContain('Ignored columns: ANTRAGSDATUM, STICHTAG, FILIALE\n');
    runPrinted(run.stdout.trimEnd().split('\n').at(-1)!, cwd);
    await sluiceHere(['score', 'clean.csv', '-m', 'credit-default', '-o', 'clean.scored.csv', '--quiet'], { cwd });
    const [scored, clean] = ['bank', 'clean'].map((name) => predictionsIn(path.join(cwd, `${name}.scored.csv`)));
    expect(scored).toEqual(clean);
  });

  test('numbers, constants and all unused columns are taken as given', async () => {
    const found = await inspected(germanFile(applications), {
      columns: { rename: most, constants: { term: '12' }, ignore: '*' },
      decimal: 'comma',
      thousands: 'point',
      delimiter: 'semicolon',
    });
    expect(found).toMatchObject({
      verdict: 'ready',
      delimiter: { value: 'semicolon', confidence: 'high', reason: 'declared' },
      numbers: { value: 'decimal comma, thousands point', confidence: 'high', reason: 'declared' },
      open_columns: [],
    });
    expect(found.columns.find(({ column }) => column === 'term')).toMatchObject({ input: '= 12', match: 'constant' });
    expect(found.command).toMatch(/ --decimal comma --thousands point .* --constants term=12 --ignore '\*'$/);
  });

  test('names of the fields of a file without a header row', async () => {
    const { columns, rows } = applications;
    const text = rows.map((row) => `${[...row].reverse().join('|')}\n`).join('');
    const names = columns.map(({ name }) => name).reverse();
    const found = await inspected(text, { columns: { names } });
    expect([found.verdict, found.header]).toEqual(['ready', { value: 'none', confidence: 'high', reason: 'declared' }]);
    expect(found.command).toContain(` --columns ${names.join(',')}`);
  });

  test.each<[string, DeclaredReading, string]>([
    [
      'a name that the file lacks',
      { columns: { rename: { amount: 'KREDITBETRA' } } },
      'rename: the file has no column',
    ],
    ['an ignored name that the file lacks', { columns: { ignore: ['X'] } }, 'ignore: the file has no column X'],
    ['a column that the model lacks', { columns: { rename: { x: 'RATE' } } }, 'rename: x is not a column of the model'],
    ['one mark for two purposes', { decimal: 'comma', thousands: 'comma' }, 'thousands: is the same separator'],
    ['too few names of fields', { columns: { names: ['a', 'b'] } }, 'columns: 2 names are declared'],
  ])('%s is an error', async (_what, declared, message) => {
    await expect(inspected(germanFile(applications), declared)).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringContaining(message),
    });
  });
});

test('columns without a counterpart: one line for each, and one template at the end', async () => {
  const cwd = scratch();
  writeFileSync(path.join(cwd, 'bank.csv'), germanFile(applications));
  const run = await sluiceHere(['inspect', 'bank.csv', '-m', 'credit-default'], { cwd });
  expect(run.code).toBe(3);
  const lines = run.stdout.trimEnd().split('\n');
  expect(lines).toContain('  source_type=VERTRIEBSWEG');
  expect(lines).toContain('  income=EINKOMMEN, or KREDITBETRAG');
  expect(lines).toContain('No command yet: 23 columns of the model have no counterpart by name.');
  expect(lines.filter((line) => line.includes('sluice score'))).toEqual([lines.at(-1)]);
  expect(lines.at(-1)).toMatch(
    /^sluice score bank\.csv .* --skip-lines 1 --encoding windows-1252 --trailer \S+ --decimal comma --thousands point --rename 'amount=\?,source_type=\?,.*,banned=\?' --ignore '\*'$/,
  );
  expect(run.stdout).not.toMatch(/No command can score|remove the last line/);
  // The open pairs of the template are no declarations.
  const again = await sluiceHere(
    ['inspect', 'bank.csv', '-m', 'credit-default', '--rename', 'amount=KREDITBETRAG,source_type=?', '--json'],
    { cwd },
  );
  const found = JSON.parse(again.stdout) as { open_columns: string[]; template: string };
  expect(found.open_columns).toHaveLength(22);
  expect(found.template).toContain(" --rename 'amount=KREDITBETRAG,source_type=?,");
});

test('a column that no values resemble has no candidate, and the exit code of a file without a command', async () => {
  const text = germanFile(applications)
    .toString('latin1')
    .replaceAll(/;(?:BRANCH|ONLINE|[A-Z_]+);CASH/g, ';X;CASH');
  const found = await inspected(text);
  expect(found.verdict).toBe('impossible');
  expect(found.problems).toEqual([
    expect.stringMatching(/^23 columns of the model have no counterpart by name: amount,/),
  ]);
  expect(found.template).toContain('source_type=?');
});

test('a column whose values fit no other column is the first candidate', async () => {
  const found = await inspected(germanFile(applications));
  const first = (column: string) => found.questions.find((one) => one.column === column)!.answers[0]!.flags;
  for (const column of [
    'amount',
    'source_type',
    'term',
    'income',
    'occupation_type',
    'credit_product_id',
    'pt_income',
  ]) {
    expect(first(column)).toBe(`--rename ${column}=${GERMAN_NAMES[column]}`);
  }
});

test('known categories in another distribution are a candidate', async () => {
  const text = germanFile(applications)
    .toString('latin1')
    .replaceAll(/;(?:[A-Z_]+);CASH/g, ';PARTNER;CASH');
  const found = await inspected(text.replaceAll(';PARTNER;', ';ONLINE;'));
  const { answers } = found.questions.find(({ column }) => column === 'source_type')!;
  expect(answers.map(({ flags }) => flags)).toEqual(['--rename source_type=VERTRIEBSWEG']);
});
