// `sluice inspect` at the command line: report, exit codes, usage errors, and the errors that name the command.
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import type { Inspection } from '../../../src/inspect/inspection.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { encoded } from '../../support/encodings.ts';
import { startService } from '../../support/service.ts';

const portfolio = (rows = 60) =>
  Buffer.concat([...generatePortfolio({ rows, seed: 8, ids: true, oddness: 'none' })]).toString();
const inspect = (args: string[], cwd: string) => sluiceHere(['inspect', ...args, '-m', 'credit-default'], { cwd });

function folderWith(files: Readonly<Record<string, string | Buffer>>): string {
  const cwd = scratch();
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(cwd, name), content);
  return cwd;
}

test('the report ends with the command, on a line of its own', async () => {
  const cwd = folderWith({ 'my file.txt': portfolio().replaceAll(',', ';') });
  const run = await inspect(['my file.txt'], cwd);
  expect([run.code, run.stderr]).toEqual([0, '']);
  const lines = run.stdout.split('\n');
  expect(lines[0]).toBe('my file.txt for credit-default:1: 60 rows inspected, the whole file');
  expect(lines.slice(-3)).toEqual([
    'Run:',
    "sluice score 'my file.txt' --model credit-default -o 'my file.scored.csv' --input-format csv --delimiter semicolon --ignore application_id",
    '',
  ]);
  for (const fact of [
    'format     csv ',
    'encoding   utf-8 ',
    'delimiter  semicolon ',
    'numbers    decimal point, no thousands separator  high: ',
  ]) {
    expect(run.stdout).toContain(fact);
  }
  expect(run.stdout).toMatch(/^ {2}amount +number +amount +same name +high +0\.0 % +– +0$/m);
});

test('control characters of names do not reach the terminal, and no flag contains them', async () => {
  const text = portfolio().replace('amount', '"am\u001b[2Jount\n"').replace('term', '"ter\u0007m"');
  const run = await inspect(['p.csv'], folderWith({ 'p.csv': text }));
  expect(run.stdout).toContain('am\ufffd[2Jount');
  expect(run.stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
  expect(run.stdout.trimEnd().split('\n').at(-1)).toMatch(/ --columns unused_1,amount,[^ ]*,term,[^ ]* --ignore '\*'$/);
});

test('--json prints the same report for programs, --output and --registry are part of the command', async () => {
  const cwd = folderWith({ 'p.csv': portfolio() });
  const registry = path.resolve('src/bundled');
  const run = await inspect(['p.csv', '--json', '-o', 'x.parquet', '--registry', registry], cwd);
  const found = JSON.parse(run.stdout) as Inspection;
  expect(found).toMatchObject({
    file: 'p.csv',
    model: 'credit-default:1',
    verdict: 'ready',
    skipped_lines: 0,
    ignored: ['application_id'],
  });
  expect(found.command).toBe(
    `sluice score p.csv --model credit-default --registry ${registry} -o x.parquet --ignore application_id`,
  );
});

test('exit codes: 0 all rows, 3 some rows or a question, 1 no command', async () => {
  const text = portfolio();
  const cwd = folderWith({
    'all.csv': text,
    'some.csv': text.replace(/\n(A\d+),\d+/, '\n$1,x'),
    'question.csv': text.replace('amount', 'KREDIT'),
    'none.csv': text.replaceAll('true', 'ja').replaceAll('false', 'nein'),
  });
  const codes: unknown[] = [];
  for (const name of ['all.csv', 'some.csv', 'question.csv', 'none.csv']) codes.push((await inspect([name], cwd)).code);
  expect(codes).toEqual([0, 3, 3, 1]);
  const question = await inspect(['question.csv'], cwd);
  expect(question.stdout).toMatch(
    /^Question: which input columns are these\? Candidates for --rename, the best one first:\n {2}amount=KREDIT\n\n/m,
  );
  expect(question.stdout).toMatch(/\nIf amount is KREDIT, run:\nsluice score question\.csv [^\n]*\n$/);
  const none = await inspect(['none.csv'], cwd);
  expect(none.stdout).toMatch(
    /\nNo command can score this file correctly:\n {2}every inspected row would be rejected: [^\n]*\n$/,
  );
});

test.each<[what: string, file: string, code: number, message: RegExp]>([
  [
    'standard input',
    '-',
    2,
    /^sluice: inspect reads a file twice, so it does not read standard input: save it to a file \[usage\]\n/,
  ],
  ['a device', '/dev/null', 2, /can be read only once: save it to a file \[usage\]\n/],
  ['a missing file', 'missing.csv', 1, /^sluice: missing\.csv cannot be opened: .* \[input_not_found\]\n/],
  ['a folder', 'folder', 1, /^sluice: folder is a folder \[input_not_found\]\n/],
  ['a workbook', 'book.csv', 1, /an Excel workbook \(\.xlsx\).* \[foreign_content\]\n/],
])('%s', async (_, file, code, message) => {
  const cwd = folderWith({ 'book.csv': Buffer.from('PK\x03\x04aaaaaaaaaaaa') });
  mkdirSync(path.join(cwd, 'folder'));
  const run = await inspect([file], cwd);
  expect([run.code, run.stdout]).toEqual([code, '']);
  expect(run.stderr).toMatch(message);
});

test.each<[code: string, content: string | Buffer]>([
  ['header_mismatch', portfolio()],
  ['wrong_delimiter', portfolio().replaceAll(',', ';')],
  ['invalid_encoding', encoded(portfolio(), 'utf-16')],
  ['foreign_content', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0])],
  [
    'nothing_scored',
    portfolio()
      .replaceAll(/^A\d+,/gm, '')
      .replace('application_id,', '')
      .replaceAll(/(true|false)/g, 'x$1'),
  ],
])('%s of score and run names the command', async (code, content) => {
  const cwd = folderWith({
    'the file.csv': content,
    'p.yaml':
      'model: credit-default@champion\nsource: { type: file, path: the file.csv }\nsink: { type: file, path: out.csv }\n',
  });
  const scored = await sluiceHere(['score', 'the file.csv', '-m', 'credit-default', '-o', 'out.csv'], { cwd });
  expect([scored.code, scored.stderr]).toEqual([1, expect.stringContaining(`[${code}]\n`)]);
  expect(scored.stderr).toMatch(/\n {2}run: sluice inspect 'the file\.csv' --model credit-default\n/);
  const run = await sluiceHere(['run', 'p.yaml'], { cwd });
  expect(run.stderr).toMatch(/\n {2}run: sluice inspect 'the file\.csv' --model credit-default@champion\n/);
});

test('errors about anything else, and of standard input, do not name it', async () => {
  const cwd = folderWith({ 'p.csv': portfolio() });
  const missing = await sluiceHere(['score', 'missing.csv', '-m', 'credit-default', '-o', 'out.csv'], { cwd });
  expect(missing.stderr).not.toContain('sluice inspect');
  const several = await sluiceHere(['score', '*.csv', '-m', 'credit-default', '-o', 'out-{name}.csv'], { cwd });
  expect(several.stderr).toContain('  run: sluice inspect FILE --model credit-default\n');
});

const PREDICT = '/api/v1/scoring/predict.csv?modelId=credit-default&delimiter=comma';

test('the service does not name it', async () => {
  const service = await startService([]);
  const body = portfolio(5).replaceAll(',', ';');
  const answer = await service.call('POST', PREDICT, { body, headers: { 'content-type': 'text/csv' } });
  expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(/wrong_delimiter|header_mismatch/)]);
  expect(answer.text).not.toContain('inspect');
});
