// Declarations through the doors that take them: flags, pipelines, lint; and what is said where one is missing or wrong.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { FileSource } from '../../src/connectors/file/file-options.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import { pipelineOf } from '../../src/runs/complete-pipeline.ts';
import { endpoint } from '../../src/runs/endpoint-specs.ts';
import { differencesOf, identityOf } from '../../src/runs/plugins/interrupted-run.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { encoded } from '../support/encodings.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

const [HEADER, ...LINES] = Buffer.concat([...generatePortfolio({ rows: 40, seed: 11, oddness: 'none', ids: true })])
  .toString()
  .trimEnd()
  .split('\n');
const NAMES = HEADER!.split(',');
const ROWS = LINES.map((line, i) => line.split(',').map((text, c) => (NAMES[c] === 'application_id' ? `Ä${i}` : text)));
const isAmount = (c: number) => ['amount', 'term', 'income', 'monthly_payment', 'pt_income'].includes(NAMES[c]!);
const CLEAN = [NAMES, ...ROWS].map((row) => row.join(',')).join('\n');

const german = (text: string): string => {
  const [whole, ...fraction] = text.split('.');
  return [whole!.replace(/\B(?=(\d{3})+$)/g, '.'), ...fraction].join(',');
};

/** As a host writes it. */
const HOST = encoded(
  [
    NAMES.map((name) => ` ${name === 'amount' ? 'BETRAG' : name} `).concat('FILLER'),
    ...ROWS.map((row) =>
      row
        .map((text, c) => {
          if (text === '') return 'NULL';
          return isAmount(c) ? ` ${german(text)} ` : text;
        })
        .concat('x'),
    ),
  ]
    .map((row) => row.join(';'))
    .join('\r\n'),
  'windows-1252',
);
const FLAGS = [
  ...['--delimiter', 'semicolon', '--encoding', 'windows-1252', '--decimal', 'comma', '--thousands', 'point'],
  ...['--trim', '--null-values', 'NULL,N/A', '--rename', 'amount=BETRAG', '--ignore', 'FILLER'],
];
const SOURCE = `delimiter: semicolon
  encoding: windows-1252
  decimal: comma
  thousands: point
  trim: true
  null_values: ["NULL", "N/A"]
  columns: { rename: { amount: BETRAG }, ignore: [FILLER] }`;
const score = (folder: string, ...args: string[]) =>
  sluiceHere(
    ['score', ...args, '-m', 'credit-default', '--passthrough', 'application_id', '--workers', '1', '--quiet'],
    {
      cwd: folder,
    },
  );

checkTest(
  'a file of a host is scored as its clean form: by flags, by a pipeline, packed, without a header',
  async () => {
    const folder = scratch();
    const put = (name: string, bytes: string | Uint8Array) => writeFileSync(path.join(folder, name), bytes);
    const read = (name: string) => readFileSync(path.join(folder, name), 'utf8');
    put('clean.csv', CLEAN);
    put('host.csv', HOST);
    put('host.csv.gz', gzipSync(HOST));
    put('bare.csv', HOST.subarray(HOST.indexOf(0x0a) + 1));
    put('p.yaml', `model: credit-default\nsource:\n  type: file\n  path: host.csv\n  ${SOURCE}\nscore: { passthrough: [application_id], workers: 1 }\nsink: { type: file, path: p-out.csv }\n`); // biome-ignore format: one line
    expect(await score(folder, 'clean.csv', '-o', 'want.csv')).toMatchObject({ code: 0 });
    expect(await score(folder, 'host.csv', '-o', 'a.csv', '--format', 'csv', ...FLAGS)).toMatchObject({
      code: 0,
      stderr: '',
    });
    expect(await score(folder, 'host.csv.gz', '-o', 'b.csv', ...FLAGS)).toMatchObject({ code: 0, stderr: '' });
    const names = NAMES.map((name) => (name === 'amount' ? 'BETRAG' : name)).concat('FILLER');
    expect(await score(folder, 'bare.csv', '-o', 'c.csv', ...FLAGS, '--columns', names.join(','))).toMatchObject({ code: 0, stderr: '' }); // biome-ignore format: one line
    expect(await sluiceHere(['lint', 'p.yaml'], { cwd: folder })).toMatchObject({ code: 0 });
    expect(await sluiceHere(['run', 'p.yaml'], { cwd: folder })).toMatchObject({ code: 0 });
    // Outputs are delimited like their input where only flags say so.
    const like = (name: string) => read(name).replaceAll(';', ',');
    const want = read('want.csv');
    expect(want).toContain('Ä39');
    for (const name of ['a.csv', 'b.csv', 'c.csv', 'p-out.csv']) expect(like(name), name).toBe(want);
    const explained = await sluiceHere(['explain', 'host.csv', '--row', '7', '-m', 'credit-default', '--json', ...FLAGS], { cwd: folder }); // biome-ignore format: one line
    const plain = await sluiceHere(['explain', 'clean.csv', '--row', '7', '-m', 'credit-default', '--json'], {
      cwd: folder,
    });
    expect(JSON.parse(explained.stdout)).toEqual(JSON.parse(plain.stdout));
  },
);

checkTest('what is not declared is refused with the declaration that helps', async () => {
  const folder = scratch();
  const said = async (bytes: string | Uint8Array, ...args: string[]) => {
    writeFileSync(path.join(folder, 'in.csv'), bytes);
    const run = await score(folder, 'in.csv', '-o', 'out.ndjson', ...args);
    return `${run.stderr} ${run.code === 3 ? readFileSync(path.join(folder, 'out.ndjson'), 'utf8') : ''}`;
  };
  const cell = (text: string) => ROWS[0]!.map((t, c) => (NAMES[c] === 'amount' ? text : t)).join(',');
  const cells = await said([CLEAN, cell('"1.234,56"'), cell(' 12 '), cell('N/A')].join('\n'));
  for (const option of ['decimal: comma with thousands: point', 'trim', 'null_values']) {
    expect(cells).toContain(`declare ${option})`);
  }
  expect(await said(encoded(CLEAN, 'utf-16'))).toContain('declare encoding: utf-16');
  expect(await said(encoded(CLEAN, 'latin1'))).toContain('declare encoding: latin1 or windows-1252');
  expect(await said(LINES.join('\n'))).toContain('add: --columns a,b');
  expect(await said(CLEAN.replace('amount', 'BETRAG'))).toContain('--constants amount=VALUE');
  expect(await said(CLEAN.replace('amount', 'BETRAG'), '--rename', 'amount=BETRAG', '--constants', 'term=12')).toContain('column term: the column is declared as a constant'); // biome-ignore format: one line
});

const pipeline = (source: string, rest = '') =>
  `model: credit-default\nsource: ${source}\nsink: { type: file, path: out.csv }\n${rest}`;

checkTest('contradictions are told by lint, with their place', async () => {
  const folder = scratch();
  mkdirSync(path.join(folder, 'p'));
  const problems = async (text: string) => {
    writeFileSync(path.join(folder, 'p', 'x.yaml'), text);
    return (await sluiceHere(['lint', 'p/x.yaml'], { cwd: folder })).stderr;
  };
  const of = (said: string, rest?: string) => problems(pipeline(`{ type: file, path: in.csv, ${said} }`, rest));
  expect(await of('thousands: point')).toContain(
    'x.yaml:2:48 source.thousands: is the same separator as the decimal point',
  );
  const all = await of(
    'decimal: comma, thousands: comma, header: false, columns: { rename: { amount: X, term: X }, ignore: [X], constants: { amount: 1 } }',
  );
  for (const part of [
    'thousands: is the same separator as decimal',
    'header: false needs columns.names',
    'rename: two columns have the name X in the input',
    'ignore: X is also renamed',
    'constants: amount is also renamed',
  ]) {
    expect(all).toContain(part);
  }
  expect(await of('columns: { names: [a, b] }')).toContain('names require header: false');
  expect(await of('columns: { ignore: "*" }', 'score: { passthrough: "*" }')).toContain(
    'ignore: * and passthrough: * are mutually exclusive',
  );
  expect(await of('columns: { constants: { amuont: 1 } }')).toContain('constants: amuont is not a model column');
  expect(await of('columns: { constants: { amount: viel } }')).toContain('the value for column amount is invalid');
  expect(await of('columns: { rename: { amuont: X } }')).toContain('rename: amuont is neither a model column');
  expect(await problems(pipeline('{ type: file, path: in.parquet, encoding: latin1 }'))).toContain(
    'a Parquet file is not a text format',
  );
  expect(await problems(pipeline('{ type: file, path: in.ndjson, header: false }'))).toContain(
    'header: applies to csv and tsv only',
  );
  expect(await of('decimal: comma')).toBe('');
});

test('flags that are no pairs are refused', async () => {
  const run = await score(scratch(), 'in.csv', '--rename', 'amount');
  expect([run.code, run.stderr]).toEqual([2, expect.stringContaining('--rename takes pairs column=value')]);
});

test('whatever is declared is part of what a run that goes on has to be, also of a column called path', async () => {
  const name = path.join(scratch(), 'in.csv');
  writeFileSync(name, CLEAN);
  const model = await loadPackage(CREDIT_DEFAULT);
  const identity = (said: Partial<FileSource>) => {
    const source = { type: 'file' as const, path: name, ...said };
    const spec = {
      ...pipelineOf({ model: 'credit-default', source, sink: { type: 'file', path: 'o.csv' } as never }),
      source,
    };
    return identityOf({
      spec,
      model,
      input: endpoint(name, source, 'csv'),
      output: endpoint('o.csv', {}, 'csv'),
      list: null,
      distinguishing: {},
    });
  };
  const plain = await identity({});
  const declarations: Partial<FileSource>[] = [
    ...[{ decimal: 'comma' as const }, { trim: true }, { null_values: ['-'] }, { encoding: 'latin1' as const }],
    ...[
      { columns: { ignore: ['x'] } },
      { columns: { rename: { path: 'X' } } },
      { columns: { constants: { workers: 1 } } },
    ],
    ...[{ header: false, columns: { names: ['a'] } }, { trailer: { marker: 'T', rows_field: 2 } }],
  ];
  for (const said of declarations) {
    expect(differencesOf(plain, await identity(said)), JSON.stringify(said)).not.toEqual([]);
    expect(differencesOf(await identity(said), await identity(structuredClone(said)))).toEqual([]);
  }
});

/** The same applications in each format of text, under the names of the model. */
const byFormat = (rows: readonly string[][]): Record<string, string> => {
  const objects = rows.map((row) => JSON.stringify(Object.fromEntries(NAMES.map((name, c) => [name, row[c]]))));
  return {
    'in.csv': CLEAN,
    'in.tsv': CLEAN.replaceAll(',', '\t'),
    'in.ndjson': objects.join('\n'),
    'in.json': `[${objects}]`,
  };
};

test.each([
  { what: 'a column of the model', name: 'amount' },
  { what: 'a passthrough column', name: 'application_id' },
])('$what that is declared under another name is not read under its own name, in any format', async ({ name }) => {
  const folder = scratch();
  for (const [file, text] of Object.entries(byFormat(ROWS))) {
    writeFileSync(path.join(folder, file), text);
    for (const more of [[], ['--ignore', '*']]) {
      const run = await score(folder, file, '-o', 'out.csv', '--rename', `${name}=BETRAG`, ...more);
      expect(run, `${file} ${more}`).toMatchObject({ code: 1 });
      expect(run.stderr, `${file} ${more}`).toMatch(/missing|unexpected_column|not in the header/);
      expect(existsSync(path.join(folder, 'out.csv')), file).toBe(false);
    }
  }
});
