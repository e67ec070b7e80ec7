// What the gate stops and what it lets pass: planted faults of columns, clean files, and limits one by one.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import { gateSaid } from '../../src/config/gate-flags.ts';
import type { GateLimits } from '../../src/config/options/gate-limits.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import type { ColumnDrift, DriftReport } from '../../src/drift/drift-report.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { Manifest } from '../../src/model/package/manifest.ts';
import { newCounts } from '../../src/runs/accumulator.ts';
import { gateFaults, judgeGate, refuseStopped } from '../../src/runs/gate.ts';
import { parsePipeline } from '../../src/runs/read-pipeline.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { COLUMN_FAULTS, faultyPortfolio } from '../support/column-faults.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest, SEED, times } from '../support/tiers.ts';

/** What docs/gate.md recommends to start with. */
const RECOMMENDED = ['--max-rejects', '0.01', '--max-missing', '0.2', '--max-unseen', '0.01', '--max-out-of-range', '0.01', '--max-psi', '0.1', '--max-score-psi', '0.1', '--min-rows', '1000']; // biome-ignore format: one line
const ROUNDS = times('gate rounds', { quick: 1, check: 1, campaigns: 10 });

test('the page recommends the limits that are tried here', () => {
  const yaml = readFileSync('docs/gate.md', 'utf8').match(/^gate:\n((?: {2}.*\n)+)/m)![1]!;
  const said = yaml
    .trimEnd()
    .split('\n')
    .flatMap((line) => {
      const [, key, value] = /^ {2}(\w+): ([\d.]+)/.exec(line)!;
      return [`--${key!.replaceAll('_', '-')}`, value!];
    });
  expect(said).toEqual(RECOMMENDED);
});

checkTest('every planted fault of a column is stopped by the limits recommended, and no clean file is', async () => {
  const folder = scratch();
  const [input, output] = [path.join(folder, 'in'), path.join(folder, 'out')];
  for (const made of [input, output]) mkdirSync(made);
  const seed = SEED;
  const named = (name: string, round: number) => `${name.replaceAll(' ', '-')}-${round}`;
  const cleans = Array.from({ length: 20 * ROUNDS }, (_, i) => named('clean', i));
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { name, plant }] of COLUMN_FAULTS.entries()) {
      writeFileSync(
        path.join(input, `${named(name, round)}.csv`),
        faultyPortfolio(4000, seed + i + 1000 * round, plant),
      );
    }
  }
  for (const [i, name] of cleans.entries()) {
    writeFileSync(path.join(input, `${name}.csv`), Buffer.concat([...generatePortfolio({ rows: 4000, seed: seed + 100_000 + i })])); // biome-ignore format: one line
  }
  const { code, stdout } = await sluiceHere([
    ...['score', `${input}/*.csv`, '-m', 'credit-default', '-o', `${output}/{name}.csv`, '--json', '--quiet'],
    ...RECOMMENDED,
  ]);
  expect(code).toBe(4);
  const left = cleans.flatMap((name) => [`${name}.csv`, `${name}.csv.manifest.json`]);
  expect(readdirSync(output).sort()).toEqual(left.sort());
  const { gate } = JSON.parse(stdout);
  for (const { name, columns } of COLUMN_FAULTS) {
    const found = gate.inputs.find((one: { input: string }) => one.input.endsWith(`/${named(name, 0)}.csv`));
    const exceeded: string[] = found.exceeded.map((one: { column: string }) => one.column);
    expect(found.verdict, name).toBe('stopped');
    expect(exceeded, name).toEqual(expect.arrayContaining([...columns]));
    if (columns.length === 0) expect(found.exceeded[0].limit, name).toBe('max_rejects');
  }
  expect(COLUMN_FAULTS.length).toBeGreaterThanOrEqual(20);
});

test('drift of a run covers the inputs that were published, and all inputs only if none was published', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  writeFileSync(
    at('a.csv'),
    faultyPortfolio(1200, 1, () => {}),
  );
  writeFileSync(
    at('b.csv'),
    faultyPortfolio(1300, 2, (row) => {
      row.credit_product_id = 'unknown';
    }),
  );
  // The first rows are scored before the input fails.
  writeFileSync(at('c.csv.gz'), gzipSync(faultyPortfolio(20_000, 3, () => {})).subarray(0, -200));
  let runs = 0;
  const run = async (inputs: string, ...more: string[]) => {
    const records = at(`records-${runs++}`);
    const { code, stdout } = await sluiceHere([
      ...['score', at(inputs), '-m', 'credit-default', '-o', at('out/{name}.csv'), '--input-format', 'csv'],
      ...['--workers', '1', '--json', '--max-unseen', '0.5', '--report', at('run.html'), '--run-records', records],
      ...more,
    ]);
    const [record] = readdirSync(records).map((name) => JSON.parse(readFileSync(path.join(records, name), 'utf8')));
    const summary = JSON.parse(stdout);
    const drift = summary.drift['credit-default:1'];
    const report = /id="sluice-run-report">(.*?)<\/script>/.exec(readFileSync(at('run.html'), 'utf8'))![1]!;
    const rows = [drift.rows, record.drift.rows, JSON.parse(report).rows];
    return { code, scored: summary.scored, rows, columnsDrifted: [drift.columnsDrifted, record.drift.columnsDrifted] };
  };
  const apart = await run('[abc].*');
  expect(apart).toEqual({ code: 1, scored: 1200, rows: [1200, 1200, 1200], columnsDrifted: [0, 0] });
  // One rejects file: the outputs of all inputs are published together.
  const together = await run('[abc].*', '--rejects', at('rejects.csv'));
  expect(together).toEqual(apart);
  const stopped = await run('b.csv');
  expect(stopped).toEqual({ code: 4, scored: 0, rows: [1300, 1300, 1300], columnsDrifted: [1, 1] });
});

test('a run that is stopped ends with 4, leaves what is there as it was and says which column by how much', async () => {
  const folder = scratch();
  const input = path.join(folder, 'in.csv');
  const output = path.join(folder, 'out.csv');
  writeFileSync(
    input,
    faultyPortfolio(1200, 3, (row) => {
      row.credit_product_id = String(Number(row.credit_product_id));
      if (row.amount!.startsWith('2')) row.amount = 'x';
    }),
  );
  writeFileSync(output, 'of yesterday');
  const args = ['score', input, '-m', 'credit-default', '-o', output, '--workers', '1'];
  const stopped = await sluiceHere([...args, '--max-unseen', 'source_type=0,*=0.02', '--json']);
  expect(stopped.code).toBe(4);
  expect(stopped.stderr).toMatch(
    /the gate stopped \S+in\.csv, nothing was published: a limit is not met \[gate_stopped\]\n.*\n {2}credit_product_id +unseen +100\.0 % +2\.0 % +0\.0 %\n/,
  );
  expect(readFileSync(output, 'utf8')).toBe('of yesterday');
  expect(readdirSync(folder).sort()).toEqual(['in.csv', 'out.csv']);
  const summary = JSON.parse(stopped.stdout);
  expect(summary).toMatchObject({
    rows: 0,
    gate: { verdict: 'stopped', limits: { max_unseen: { source_type: 0, '*': 0.02 } } },
  });
  const [{ rows, scored, rejected, exceeded }] = summary.gate.inputs;
  expect([rows, scored + rejected, rejected > 0]).toEqual([1200, 1200, true]);
  expect(exceeded).toEqual([
    { limit: 'max_unseen', column: 'credit_product_id', found: 1, allowed: 0.02, training: 0 },
  ]);

  const passed = await sluiceHere([...args, '--max-unseen', 'credit_product_id=1']);
  expect(passed.code).toBe(3);
  expect(passed.stderr).toContain('gate passed: max_unseen');
  expect(readFileSync(output, 'utf8')).toMatch(/^row,/);
});

describe('what a gate wants is looked for before anything is read', () => {
  let manifest: Manifest;
  beforeAll(async () => {
    ({ manifest } = await loadPackage(CREDIT_DEFAULT));
  });
  const without = (change: (m: Manifest) => void): Manifest => {
    const changed = structuredClone(manifest);
    change(changed);
    return changed;
  };

  test.each<[string, GateLimits, (m: Manifest) => void, RegExp | null]>([
    ['no baseline', { max_psi: 0.1 }, (m) => delete m.baseline, /max_psi need a baseline/],
    ['no baseline, and none is wanted', { max_rejects: 0, min_rows: 5 }, (m) => delete m.baseline, null],
    [
      'a baseline without the score',
      { max_score_psi: 1 },
      (m) => delete m.baseline!.score,
      /the baseline has no score/,
    ],
    ['a column that is none', { max_unseen: { incom: 0.1 } }, () => {}, /no column incom \(did you mean income\?\)/],
    ['unseen numbers', { max_unseen: { income: 0.1 } }, () => {}, /max_unseen: income is not measured/],
    ['unseen booleans', { max_unseen: { had_arrears: 0.1 } }, () => {}, /max_unseen: had_arrears is not measured/],
    ['unseen categories', { max_unseen: { source_type: 0.1, '*': 1 } }, () => {}, null],
    [
      'a column without a baseline',
      { max_missing: { income: 0 } },
      (m) => delete m.baseline!.columns.income,
      /income is not measured/,
    ],
    ['a range of what is no number', { max_out_of_range: { source_type: 0 } }, () => {}, /source_type is not measured/],
    [
      'a range that nobody knows',
      { max_out_of_range: { income: 0 } },
      (m) => delete m.baseline!.columns.income!.min,
      /income is not measured/,
    ],
    ['all there is', { max_psi: { '*': 1, income: 2 }, max_out_of_range: { income: 0 } }, () => {}, null],
  ])('%s', (_, limits, change, fault) => {
    const faults = gateFaults(limits, without(change)).join('\n');
    if (fault) expect(faults).toMatch(fault);
    else expect(faults).toBe('');
  });

  test.each([
    ['standard output', ['-o', '-']],
    ['a pipe', ['-o', '/dev/stderr']],
  ])('%s cannot be held back', async (_, to) => {
    const { code, stderr, stdout } = await sluiceHere([
      'score',
      'none.csv',
      '-m',
      'credit-default',
      ...to,
      '--format',
      'csv',
      '--max-rejects',
      '0',
    ]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/a gate needs a file as the output/);
  });

  test.each([
    [
      'a topic',
      'source: { type: kafka, topic: a, group: g }\nsink: { type: kafka, topic: b }',
      /gate: is not supported for topics/,
    ],
    ['standard output', 'source: { type: stdio }\nsink: { type: stdio }', /gate: needs a file or table as the sink/],
    [
      'an upload',
      'source: { type: upload }\nsink: { type: file, path: "{name}.csv" }',
      /gate: is not supported for uploads/,
    ],
  ])('a pipeline with %s has none', async (_, ends, fault) => {
    const parsed = await parsePipeline('p.yaml', `model: m\n${ends}\ngate: { max_rejects: 0 }\n`);
    expect(parsed.ok ? '' : parsed.problems.map(({ message }) => message).join()).toMatch(fault);
  });
});

const column = (name: string, more: Partial<ColumnDrift>): ColumnDrift => ({
  column: name,
  psi: 0.05,
  now: { bins: [1], missing: 0, unseen: 0 },
  training: { bins: [1], missing: 0, unseen: 0 },
  outOfRange: null,
  ...more,
});
const reportOf = (...columns: ColumnDrift[]): DriftReport => ({
  rows: 5000,
  enough: true,
  score: null,
  decisions: [],
  columns,
});
const counted = (rows: number, rejected: number) => ({ ...newCounts(), rows, rejected, scored: rows - rejected });

test.each<[string, GateLimits, DriftReport | null, ReturnType<typeof counted>, [string, string | null, number][]]>([
  ['a share of rejected rows', { max_rejects: 0.01 }, null, counted(1000, 11), [['max_rejects', null, 0.011]]],
  ['exactly that share', { max_rejects: 0.01 }, null, counted(1000, 10), []],
  ['a number of rejected rows', { max_rejects: 5 }, null, counted(1000, 6), [['max_rejects', null, 6]]],
  ['none may be rejected', { max_rejects: 0 }, null, counted(1000, 1), [['max_rejects', null, 0.001]]],
  ['an empty input has no share', { max_rejects: 0 }, null, counted(0, 0), []],
  ['too few rows', { min_rows: 10 }, null, counted(9, 0), [['min_rows', null, 9]]],
  [
    'the limit of a column before that of the others',
    { max_psi: { a: 0.01, '*': 1 } },
    reportOf(column('a', {}), column('b', {})),
    counted(5000, 0),
    [['max_psi', 'a', 0.05]],
  ],
  ['no limit for others', { max_psi: { a: 0.01 } }, reportOf(column('b', { psi: 9 })), counted(5000, 0), []],
  [
    'no PSI of a few rows',
    { max_psi: 0, max_score_psi: 0 },
    { ...reportOf(column('a', { psi: null })), rows: 10, enough: false },
    counted(10, 0),
    [],
  ],
  [
    'the score',
    { max_score_psi: 0.1 },
    { ...reportOf(), score: { psi: 0.2, now: null, training: { bins: [], missing: 0, unseen: 0 } } },
    counted(5000, 0),
    [['max_score_psi', null, 0.2]],
  ],
  [
    'the worst first',
    { max_psi: 0.01, max_missing: 0.2 },
    reportOf(column('a', { now: { bins: [0.5], missing: 0.5, unseen: 0 } }), column('b', { psi: 0.9 })),
    counted(5000, 0),
    [
      ['max_psi', 'b', 0.9],
      ['max_psi', 'a', 0.05],
      ['max_missing', 'a', 0.5],
    ],
  ],
  [
    'out of range',
    { max_out_of_range: 0 },
    reportOf(column('a', { outOfRange: 0.25 }), column('b', {})),
    counted(5000, 0),
    [['max_out_of_range', 'a', 0.25]],
  ],
])('limits: %s', (_, limits, report, counts, expected) => {
  const { verdict, exceeded } = judgeGate(limits, counts, report, new Map());
  expect(exceeded.map(({ limit, column, found }) => [limit, column, found])).toEqual(expected);
  expect(verdict).toBe(expected.length > 0 ? 'stopped' : 'passed');
});

test('rows that were rejected for what is limited count as much as those that were scored', () => {
  const report = reportOf(column('a', { outOfRange: 0, now: { bins: [0.9], missing: 0.1, unseen: 0 } }));
  const rejects = new Map([['a', { unseen_category: 5000, missing_value: 1250, number_out_of_range: 5000 / 3, bad_number: 7 }]]); // biome-ignore format: one line
  const { exceeded } = judgeGate(
    { max_unseen: 0, max_missing: 0, max_out_of_range: 0 },
    counted(5000, 0),
    report,
    rejects,
  );
  const shares = Object.fromEntries(exceeded.map(({ limit, found }) => [limit, Number(found.toFixed(9))]));
  expect(shares).toEqual({ max_unseen: 0.5, max_missing: 0.28, max_out_of_range: 0.25 });
});

test('exactly the allowed share of scored and rejected rows passes', () => {
  const rows = 100;
  for (let rejected = 0; rejected < rows; rejected++) {
    for (let outside = 0; outside <= rows - rejected; outside++) {
      const outOfRange = outside / (rows - rejected);
      const report = { ...reportOf(column('a', { outOfRange })), rows: rows - rejected };
      const rejects = new Map([['a', { number_out_of_range: rejected }]]);
      const allowed = (outside + rejected) / rows;
      const { exceeded } = judgeGate({ max_out_of_range: allowed }, counted(rows, rejected), report, rejects);
      expect([rejected, outside, exceeded]).toEqual([rejected, outside, []]);
    }
  }
});

test('a message names the worst twenty and how many more there are', () => {
  const columns = Array.from({ length: 30 }, (_, i) => column(`c${i}`, { psi: 1 + i }));
  const verdict = judgeGate({ max_psi: 0.1 }, counted(5000, 0), reportOf(...columns), new Map());
  const counts = { rows: 5000, rejectedByCode: { bad_number: 86, column_count: 200 } };
  expect(() => refuseStopped('x', verdict, counts)).toThrow(
    /30 limits are not met\n[\s\S]*c29[\s\S]*c10 [\s\S]*\n {2}and 10 more\n5,000 rows read, rejected by code: column_count 200, bad_number 86$/,
  );
});

test.each<[string, GateLimits | RegExp]>([
  ['0.05', { max_unseen: 0.05 }],
  ['0', { max_unseen: 0 }],
  ['a=0.1, *=0.2', { max_unseen: { a: 0.1, '*': 0.2 } }],
  ['a=b=1', { max_unseen: { 'a=b': 1 } }],
  ['__proto__=0.5', { max_unseen: JSON.parse('{"__proto__":0.5}') }],
  ['1.5', /takes a share from 0 to 1/],
  ['a=', /takes a share/],
  ['a=0.1,b', /wants column=limit/],
  ['=1', /wants column=limit/],
  ['a=0.1,a=0.2', /names a column twice/],
  ['NaN', /takes a share/],
])('--max-unseen %s', (text, expected) => {
  if (expected instanceof RegExp) expect(() => gateSaid({ maxUnseen: text })).toThrow(expected);
  else expect(gateSaid({ maxUnseen: text })).toEqual(expected);
});

checkTest('inputs of a pattern are judged one by one, and another failure decides the exit code', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  writeFileSync(at('a.csv'), faultyPortfolio(50, 1));
  writeFileSync(
    at('b.csv'),
    faultyPortfolio(50, 1, (row) => {
      row.source_type = 'online';
    }),
  );
  const args = [
    'score',
    at('*.csv'),
    '-m',
    'credit-default',
    '-o',
    at('{name}.json'),
    '--workers',
    '1',
    '--max-unseen',
    '0',
    '--quiet',
  ];
  const gated = await sluiceHere(args);
  expect([gated.code, existsSync(at('a.json')), existsSync(at('b.json'))]).toEqual([4, true, false]);
  writeFileSync(at('c.csv'), 'none,of,these\n1,2,3\n');
  expect((await sluiceHere(args)).code).toBe(1);
});

test('the log of a stopped run names each input, its columns and their limits, and no header cell', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  const lines = async (): Promise<{ event: string; msg: string; code?: string }[]> => {
    const { stderr } = await sluiceHere(['run', at('nightly.yaml'), '--log-format', 'json']);
    return stderr.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line
  };
  const pipeline = (limits: string, more = '') =>
    writeFileSync(
      at('nightly.yaml'),
      `model: credit-default\nsource: { type: file, path: ${at('*.csv')}${more} }\nsink: { type: file, path: "${at('{name}.json')}" }\ngate: { ${limits} }\n`,
    );
  writeFileSync(at('a.csv'), faultyPortfolio(50, 1, (row) => { row.source_type = 'online'; })); // biome-ignore format: one line
  pipeline('max_unseen: 0');
  const stopped = await lines();
  expect(stopped.find(({ event }) => event === 'run_finished')).toMatchObject({
    msg: 'nothing was published; 50 rows read were stopped by the gate',
    rows: 0,
  });
  const single = stopped.find(({ event }) => event === 'command_failed');
  expect(single).toMatchObject({
    code: 'gate_stopped',
    msg: `the gate stopped ${at('a.csv')}, nothing was published: source_type unseen 100.0 % (limit 0.0 %); 50 rows read`,
  });
  writeFileSync(at('b.csv'), 'jane,doe,5\n1,2,3\n');
  const mixed = await lines();
  expect(mixed.find(({ event }) => event === 'command_failed')!.msg).toMatch(
    /^2 of 2 inputs failed.*a\.csv: the gate stopped .* source_type unseen .*; .*b\.csv: .*\[header_mismatch\]$/,
  );
  expect(JSON.stringify(mixed)).not.toContain('jane');
  writeFileSync(
    at('b.csv'),
    faultyPortfolio(20, 1, () => {}),
  );
  expect((await lines()).find(({ event }) => event === 'run_finished')!.msg).toBe(
    '20 rows read = 20 scored + 0 rejected; 50 rows read were stopped by the gate',
  );
});
