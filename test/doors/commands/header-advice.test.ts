// A header that does not match the model: one line per mistake, and flags that make the file acceptable as it is.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';

const portfolio = (rows: number): string => Buffer.concat([...generatePortfolio({ rows, seed: 3 })]).toString();

/** Words of a command line in which only single quotes are special. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/(?:[^\s']|'[^']*')+/g)].map(([word]) => word.replaceAll("'", ''));

const header = (change: (names: string[]) => string[]) => (text: string) => {
  const [first, ...rows] = text.split('\n');
  return [change(first!.split(',')).join(','), ...rows].join('\n');
};
const renamed = (names: Record<string, string>) => header((all) => all.map((name) => names[name] ?? name));

const CASES: [what: string, change: (text: string) => string, lines: RegExp[]][] = [
  [
    'another spelling of two names',
    renamed({ income: 'Income', monthly_payment: 'Monthly Payment' }),
    [
      /column income is missing \(did you mean Income\?\)/,
      /--rename '?income=Income,monthly_payment=Monthly Payment'?/,
    ],
  ],
  ['spaces around a name', renamed({ term: ' term ' }), [/column term is missing/, /add: --trim/]],
  [
    'a column of its own',
    (text) => text.replaceAll(/$/gm, ',x').replace(/,x\n?$/, ''),
    [/column 24 of the header is not a model column/, /add: --ignore '\*'/],
  ],
  [
    'one without a counterpart',
    renamed({ banned: 'zzz' }),
    [/column banned is missing\n/, /--constants banned=VALUE --ignore '\*'/],
  ],
];

test.each(CASES)('%s: the printed flags accept the file', async (_, change, lines) => {
  const folder = scratch();
  const input = path.join(folder, 'in.csv');
  writeFileSync(input, change(portfolio(20)));
  const args = ['score', input, '-m', 'credit-default', '-o', path.join(folder, 'out.csv')];
  const refused = await sluiceHere(args);
  expect([refused.code, refused.stdout]).toEqual([1, '']);
  expect(refused.stderr).toMatch(/^sluice: the header does not match the columns of the model \[header_mismatch\]\n/);
  for (const line of lines) expect(refused.stderr).toMatch(line);
  const flags = /add: (.*)\n/.exec(refused.stderr)![1]!;
  const accepted = await sluiceHere([...args, ...wordsOf(flags.replace('=VALUE', '=false'))]);
  expect([accepted.code, accepted.stderr]).toEqual([0, expect.stringContaining('20 scored + 0 rejected')]);
});

test('a terminal shows the names of extra columns; a log of standard error does not', async () => {
  const input = path.join(scratch(), 'in.csv');
  writeFileSync(
    input,
    portfolio(20)
      .replaceAll(/$/gm, ',colour')
      .replace(/,colour\n?$/, ''),
  );
  const { isTTY } = process.stderr;
  onTestFinished(() => {
    process.stderr.isTTY = isTTY;
  });
  for (const isTerminal of [true, false]) {
    process.stderr.isTTY = isTerminal;
    const { stderr } = await sluiceHere(['score', input, '-m', 'credit-default', '-o', `${input}.ndjson`]);
    expect(stderr).toContain(`column ${isTerminal ? 'colour' : '24 of the header'} is not a model column`);
    expect(stderr.includes('colour')).toBe(isTerminal);
  }
});

test('another delimiter: the flag is printed, and accepts the file', async () => {
  const folder = scratch();
  const input = path.join(folder, 'in.csv');
  writeFileSync(input, portfolio(20).replaceAll(',', ';'));
  const args = ['score', input, '-m', 'credit-default', '-o', path.join(folder, 'out.csv')];
  const refused = await sluiceHere(args);
  expect(refused.stderr).toBe(
    `sluice: the header row is delimited by semicolon, not by comma [wrong_delimiter]
  Add: --delimiter semicolon
  run: sluice inspect ${input} --model credit-default
`,
  );
  expect((await sluiceHere([...args, '--delimiter', 'semicolon'])).code).toBe(0);
});

test('columns with other names: the printed template, filled in, accepts the file', async () => {
  const folder = scratch();
  const input = path.join(folder, 'in.csv');
  writeFileSync(input, renamed({ amount: 'KREDIT', term: 'LAUFZEIT' })(portfolio(20)));
  const args = ['score', input, '-m', 'credit-default', '-o', path.join(folder, 'out.csv')];
  const template = /declare them: (--rename .*)\n/.exec((await sluiceHere(args)).stderr)![1]!;
  expect(template).toBe('--rename amount=NAME,term=NAME');
  const filled = template.replace('NAME', 'KREDIT').replace('NAME', 'LAUFZEIT');
  expect((await sluiceHere([...args, ...wordsOf(filled)])).code).toBe(0);
});

test('a pipeline is told the keys of its source', async () => {
  const folder = scratch();
  writeFileSync(path.join(folder, 'in.csv'), renamed({ income: 'Income', banned: 'zzz' })(portfolio(20)));
  const pipeline = path.join(folder, 'p.yaml');
  const written = (source: string) =>
    writeFileSync(
      pipeline,
      `model: credit-default\nsource: ${source}\nsink: { type: file, path: ${folder}/out.csv }\n`,
    );
  written(`{ type: file, path: ${folder}/in.csv }`);
  const refused = await sluiceHere(['run', pipeline, '--log-format', 'text']);
  const keys = /add: source: \{ (.*) \}\n/.exec(refused.stderr)![1]!;
  expect(keys).toBe('columns: { rename: { income: "Income" }, constants: { banned: VALUE }, ignore: "*" }');
  written(`{ type: file, path: ${folder}/in.csv, ${keys.replace('VALUE', 'false')} }`);
  const accepted = await sluiceHere(['run', pipeline, '--log-format', 'text']);
  expect([accepted.code, readFileSync(path.join(folder, 'out.csv'), 'utf8').trimEnd().split('\n').length]).toEqual([
    0, 21,
  ]);
});

test('a mistake in a pipeline file refers to the page with its keys, not to the flags of the command', async () => {
  const pipeline = path.join(scratch(), 'p.yaml');
  writeFileSync(
    pipeline,
    'model: credit-default\nsource: { type: file, pth: in.csv }\nsink: { type: file, path: out.csv }\n',
  );
  for (const command of ['run', 'lint'])
    expect((await sluiceHere([command, pipeline])).stderr).toMatch(
      /p\.yaml:2:.*\[usage\]\n {2}docs\/pipelines\.md lists all keys/s,
    );
});

test('lines in front of the header: the printed flag or key accepts the file', async () => {
  const folder = scratch();
  const input = path.join(folder, 'in.csv');
  writeFileSync(input, `Export of applications\n${portfolio(20)}`);
  const args = ['score', input, '-m', 'credit-default', '-o', path.join(folder, 'out.csv')];
  const refused = await sluiceHere(args);
  expect(refused.stderr).toContain('  If other lines precede the header row, add: --skip-lines N\n');
  expect((await sluiceHere([...args, '--skip-lines', '1'])).code).toBe(0);
  const pipeline = path.join(folder, 'p.yaml');
  writeFileSync(
    pipeline,
    `model: credit-default\nsource: { type: file, path: ${input} }\nsink: { type: file, path: ${folder}/p.csv }\n`,
  );
  expect((await sluiceHere(['run', pipeline, '--log-format', 'text'])).stderr).toContain(
    'add to its source: skip_lines: N',
  );
});
