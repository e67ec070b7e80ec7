// `sluice outcomes` as people call it: on what the sinks of this house write, in every format; what it prints, writes and refuses.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { outcomeTables } from '../../../src/doors/commands/outcome-words.ts';
import type { OutcomeReport } from '../../../src/outcomes/outcome-report.ts';
import { measure, textSource } from '../../outcomes/sources.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { checkTest, testOfMany } from '../../support/tiers.ts';

const LABELS = 'id,ok,month\nA,1,2026-01\nB,0,2026-01\nC,1,2026-02\nD,,2026-02\n';
const SCORED =
  'id,row,prediction,probability,decision,error_code,error_column,error_message\nA,1,true,0.9,approve,,,\nB,2,false,0.4,decline,,,\nC,3,true,0.7,approve,,,\nD,4,true,0.7,approve,,,\nE,5,,,,bad_number,amount,not a plain decimal number\n';

function folder(): string {
  const cwd = scratch();
  writeFileSync(path.join(cwd, 'labels.csv'), LABELS);
  writeFileSync(path.join(cwd, 'scored.csv'), SCORED);
  return cwd;
}

const CALL = [
  'outcomes',
  'scored.csv',
  '--labels',
  'labels.csv',
  '--key',
  'id',
  '--model',
  'credit:3',
  '--month',
  'month',
];

test('tables on standard output, counts on standard error, the report and its metrics in files', async () => {
  const cwd = folder();
  const run = await sluiceHere([...CALL, '-o', 'report.json', '--metrics-file', 'outcomes.prom'], { cwd });
  expect([run.code, run.stderr]).toEqual([
    0,
    'labels: 4 rows, 4 keys, 1 of them without an outcome yet; 3 were predicted\n' +
      'predictions: 5 rows of one input = 3 matched + 0 repeated + 0 withdrawn + 1 without a label + 1 rejected + 0 without a key\n',
  ]);
  expect(run.stdout).toMatch(/^credit:3 {2}2026-01 +2 +1 +50\.00 % +1\.0000 +1\.0000 +1\.0000 +0\.0850/m);
  expect(run.stdout).toMatch(/^credit:3 {2}2026-02 +1 +0 +0\.00 % +- +- +- +0\.0900/m);
  expect(run.stdout).toMatch(/^credit:3 {2}all +approve +2 +66\.67 % +0 +0\.00 %$/m);
  expect(run.stdout).toMatch(/only one outcome, so AUC, KS and slope are undefined: credit:3 2026-02\n$/);
  const report = JSON.parse(readFileSync(path.join(cwd, 'report.json'), 'utf8')) as OutcomeReport;
  expect(report.groups.map((g) => [g.month, g.rows, g.auc])).toEqual([['2026-01', 2, 1], ['2026-02', 1, null]]); // biome-ignore format: a table
  expect(readFileSync(path.join(cwd, 'outcomes.prom'), 'utf8').split('\n').filter((l) => l.startsWith('sluice'))).toEqual([
    'sluice_outcome_rows{model="credit:3",month="2026-01"} 2',
    'sluice_outcome_rows{model="credit:3",month="2026-02"} 1',
    'sluice_outcome_auc{model="credit:3",month="2026-01"} 1',
    'sluice_outcome_ks{model="credit:3",month="2026-01"} 1',
    expect.stringMatching(/^sluice_outcome_brier\{model="credit:3",month="2026-01"\} 0\.08/),
    expect.stringMatching(/^sluice_outcome_brier\{model="credit:3",month="2026-02"\} 0\.09/),
    'sluice_outcome_bad_ratio{model="credit:3",month="2026-01",decision="approve"} 0',
    'sluice_outcome_bad_ratio{model="credit:3",month="2026-01",decision="decline"} 1',
    'sluice_outcome_bad_ratio{model="credit:3",month="2026-02",decision="approve"} 0',
  ]); // biome-ignore format: a table
});

test('rows at fault are told, and nothing is written', async () => {
  const cwd = folder();
  writeFileSync(path.join(cwd, 'labels.csv'), 'id,ok\nA,1\nB,Jane.Doe-77\n');
  const run = await sluiceHere([...CALL.slice(0, -2), '-o', 'report.json', '--metrics-file', 'm.prom', '--json'], {
    cwd,
  });
  expect(run).toMatchObject({
    code: 1,
    stdout: '',
    stderr:
      'sluice: labels.csv: one row cannot be used [outcomes_invalid]\n' +
      '  row 2, ok: not a configured outcome label [bad_boolean]\n' +
      '  Follow the message; no report was written.\n',
  });
  expect(['report.json', 'm.prom'].filter((f) => existsSync(path.join(cwd, f)))).toEqual([]);
});

const FILES = ['outcomes', 'scored.csv', '--labels', 'labels.csv'];
const MISTAKES: [words: RegExp, args: string[]][] = [
  [/--labels or --labels-topic/, ['outcomes', 'scored.csv', '--key', 'id']],
  [/--labels or --labels-topic/, [...FILES, '--labels-topic', 't', '--key', 'id']],
  [/missing predictions: name files, or use --pipeline/, ['outcomes', '--labels', 'labels.csv', '--key', 'id']],
  [/--labels-topic needs --pipeline/, ['outcomes', 'scored.csv', '--labels-topic', 't', '--key', 'id']],
  [/need --key/, FILES],
  [/--labels needs --label-key/, ['outcomes', '--pipeline', 'p.yaml', '--labels', 'labels.csv']],
  [/mutually exclusive/, [...FILES, '--key', 'id', '--month', 'month', '--time', 'at']],
  [/mutually exclusive/, [...FILES, '--key', 'id', '--model', 'a:1', '--model-column', 'by']],
  [/an alias may have moved since/, [...FILES, '--key', 'id', '--model', 'credit@champion']],
  [/does not name the model of its predictions/, [...FILES, '--key', 'id']],
  [/the report is an input: labels\.csv/, [...FILES, '--key', 'id', '--model', 'a:1', '-o', 'labels.csv']],
  [/is written twice/, [...FILES, '--key', 'id', '--model', 'a:1', '-o', 'x', '--metrics-file', 'x']],
];

for (const [i, [words, args]] of MISTAKES.entries()) {
  testOfMany(i, 6)(`usage: ${args.slice(1).join(' ')}`, async () => {
    const cwd = folder();
    const run = await sluiceHere(args, { cwd });
    expect([run.code, run.stdout]).toEqual([2, '']);
    expect(run.stderr).toMatch(words);
    expect(run.stderr).toMatch(/\[usage\]\n {2}run `sluice outcomes --help`\n$/);
    expect(readFileSync(path.join(cwd, 'labels.csv'), 'utf8')).toBe(LABELS);
  });
}

const semicolons = (text: string): string => text.replaceAll(',', ';');
const tabs = (text: string): string => text.replaceAll(',', '\t');
const asLines = (text: string): string => {
  const [names, ...rows] = text.trimEnd().split('\n').map((line) => line.split(','));
  return rows.map((row) => `${JSON.stringify(Object.fromEntries(row.map((cell, i) => [names![i], cell])))}\n`).join('');
}; // biome-ignore format: two lines

checkTest('a flag or the ending of the name states the format of labels and of predictions', async () => {
  const cwd = folder();
  const files: [name: string, write: (text: string) => string, flags: (of: string) => string[]][] = [
    ['a.tsv', tabs, () => []],
    ['a.ndjson', asLines, () => []],
    ['a', (text) => text, () => []],
    ['a.txt', semicolons, (of) => [`--${of}delimiter`, 'semicolon']],
    ['a.dat', tabs, (of) => [`--${of}format`, 'tsv']],
    ['a.csv', semicolons, (of) => [`--${of}delimiter`, 'semicolon']],
  ];
  for (const [name, write, flags] of files) {
    writeFileSync(path.join(cwd, `labels-${name}`), write(LABELS));
    writeFileSync(path.join(cwd, `scored-${name}`), write(SCORED));
    for (const args of [
      ['scored.csv', '--labels', `labels-${name}`, ...flags('labels-')],
      [`scored-${name}`, '--labels', 'labels.csv', ...flags('')],
    ]) {
      const run = await sluiceHere(['outcomes', ...args, '--key', 'id', '--model', 'credit:3', '--json'], { cwd });
      expect([args, run.code, run.stderr.split('\n')[1]]).toEqual([args, 0, expect.stringContaining('= 3 matched')]);
    }
  }
});

test('tables keep their columns where there is no decision', async () => {
  const labels = textSource('id,ok\nA,1\nB,0\n', 'csv');
  const report = await measure(labels, [textSource('id,probability\nA,0.5\nB,0.5\n', 'csv')]);
  const [figures, decisions, deciles] = outcomeTables(report).split('\n\n');
  expect(figures).toMatch(/^model +month +rows/);
  expect(decisions!.split('\n')[1]).toMatch(/^credit:3 +all +- +2 +100\.00 % +1 +50\.00 %$/);
  expect(deciles!.split('\n')[1]).toMatch(/^credit:3 +1 +2 +0\.5000 +0\.5000$/);
});

checkTest('what the sinks write is read: every format and compression says the same', async () => {
  const cwd = scratch();
  const generate = (name: string, ...more: string[]) => sluiceHere(['generate', '--rows', '3000', '--ids', '-o', name, ...more], { cwd }); // biome-ignore format: one line
  await Promise.all([generate('p.csv'), generate('l.csv', '--outcome')]);
  const reports: unknown[] = [];
  for (const name of ['csv', 'tsv', 'ndjson', 'json', 'parquet', 'csv.gz', 'ndjson.zst', 'json.zst']) {
    const file = `scored.${name}`;
    await sluiceHere(['score', 'p.csv', '-m', 'credit-default', '--passthrough', 'application_id', '-o', file], {
      cwd,
    });
    const model = name.startsWith('json') ? [] : ['--model', 'credit-default:1'];
    const call = ['outcomes', file, '--labels', 'l.csv', '--key', 'application_id', ...model, '--json'];
    const run = await sluiceHere(call, { cwd });
    expect([name, run.code]).toEqual([name, 0]);
    reports.push(JSON.parse(run.stdout));
  }
  expect(reports[0]).toMatchObject({
    predictions: { rows: 3000 },
    groups: [{ model: 'credit-default:1', month: null }],
  });
  for (const report of reports) expect(report).toEqual(reports[0]);
});
