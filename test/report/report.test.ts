// The report of a run: what it shows, what the next one is compared with, and that no value of an application is in it.
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { comparedIn, embedded, REPORT_ID, type ReportData } from '../../src/report/report-data.ts';
import { reportPage, runVerdict } from '../../src/report/report-page.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { faultyPortfolio } from '../support/column-faults.ts';
import { checkTest } from '../support/tiers.ts';

const dataIn = (page: string): ReportData => JSON.parse(page.split(`id="${REPORT_ID}">`)[1]!.split('</script>')[0]!);

/** Elements that are opened and not closed, or closed and not opened. */
function unbalanced(page: string): string[] {
  const open: string[] = [];
  const wrong: string[] = [];
  for (const [, close, name, empty] of page
    .replaceAll(/<(script|style)[^>]*>[\s\S]*?<\/\1>/g, '')
    .matchAll(/<(\/?)([a-z]\w*)[^>]*?(\/?)>/g)) {
    if (empty || ['meta', 'br', 'wbr'].includes(name!)) continue;
    if (!close) open.push(name!);
    else if (open.pop() !== name) wrong.push(name!);
  }
  return [...wrong, ...open];
}

const DATA: ReportData = {
  name: '<b>"n\'', sluice: '1', node: 'v', began: '2026-11-22T01:30:00.000Z', model: '<i>m</i>:1', modelSha256: 'ab', evaluator: null,
  workers: null, seconds: 1, exitCode: 4, error: 'stopped </script><script>alert(1)</script>', options: [['a', '<x>']], outputs: ['<o>'],
  inputsDoneBefore: 0, rejectLists: [], manifests: ['o.manifest.json'], edges: [0.5], training: { bins: [0.5, 0.5], missing: 0, unseen: 0 },
  scorePsi: null, score: { bins: [0.4, 0.6], missing: 0, unseen: 0 }, decisions: [{ decision: '<d>', share: 0.25 }], rows: 10,
  columns: [{ column: '<c>', psi: 0.3, missing: 0, missingInTraining: 0, unseen: 0.5, outOfRange: null }],
  progress: [[0, 0], [1, 10], [2, 30]], published: true, previous: null,
  inputs: [{ input: '<in>', rows: 10, scored: 9, rejected: 1, rejectedByCode: { bad_number: 1 }, rejects: [{ row: 3, code: 'bad_number', column: '<c>' }], verdict: 'stopped', exceeded: [['column', 'what'], ['<c>', 'PSI']] }],
}; // biome-ignore format: a table

test('a page is one whole document that loads and runs nothing, with everything escaped', () => {
  const page = reportPage(DATA);
  expect(unbalanced(page)).toEqual([]);
  expect(page).not.toMatch(/<(b|i|x|o|d|c|in)>|alert\(1\)<\/script>/);
  expect(page.match(/<script/g)).toHaveLength(1);
  expect(page).not.toMatch(/(src|href)=|url\(|@import|https?:/);
  expect(page).toMatch(/name="viewport"/);
  expect(page).toMatch(/@media print/);
  // A table beside each chart.
  for (const chart of page.split('<svg').slice(1))
    expect(chart.split('</svg>')[1]).toMatch(
      /^\s*(<details><summary>as numbers<\/summary>)?<div class="wide"[^>]*><table>/,
    );
  for (const text of ['o.manifest.json', '3 (&#60;c&#62;)', '25.0 %', 'Exit code 4']) expect(page).toContain(text);
  expect(dataIn(page)).toEqual(DATA);
});

const CLEAN: ReportData = {
  ...DATA, exitCode: 0, error: null, rows: 2000, scorePsi: 0.01,
  columns: [{ ...DATA.columns[0]!, column: 'income', psi: 0.02 }, { ...DATA.columns[0]!, column: 'age', psi: 0.01 }],
  inputs: [{ ...DATA.inputs[0]!, rows: 2000, scored: 2000, rejected: 0, rejectedByCode: {}, rejects: [], verdict: null, exceeded: [] }],
}; // biome-ignore format: a table
const withRejects = (rejected: number): ReportData => ({ ...CLEAN, exitCode: 3, inputs: [{ ...CLEAN.inputs[0]!, scored: 2000 - rejected, rejected }] }); // biome-ignore format: one line
const withPsi = (psi: number | null, scorePsi: number | null = 0.01): ReportData => ({ ...CLEAN, scorePsi, columns: CLEAN.columns.map((c) => ({ ...c, psi })) }); // biome-ignore format: one line

test.each([
  ['a clean run', CLEAN, 'good', 'No problem found', 'Every row was scored'],
  ['some rejects', withRejects(20), 'warn', 'Complete, with remarks', '20 of 2,000 rows were rejected (1.0 %)'],
  ['many rejects', withRejects(100), 'bad', 'Check before use', '100 of 2,000 rows were rejected (5.0 %)'],
  ['inputs of an earlier run', { ...CLEAN, inputsDoneBefore: 2 }, 'warn', 'Complete, with remarks', 'already scored 2 inputs'],
  ['some drift', withPsi(0.1), 'warn', 'Complete, with remarks', 'income differs most'],
  ['strong drift', withPsi(6.98), 'bad', 'Check before use', 'PSI 6.980, strong drift. 2 of 2 columns drifted'],
  ['a strong drift of the score', withPsi(0, 0.25), 'bad', 'Check before use', 'The scores differ'],
  ['drift that was not measured', withPsi(null, null), 'none', 'Complete, but drift was not checked', 'too few rows'],
  ['a stopped run', { ...withPsi(6.98), exitCode: 4, error: 'the gate stopped it\nmore' }, 'bad', 'Stopped by the gate', 'the gate stopped it'],
  ['a failed run', { ...CLEAN, exitCode: 1, error: 'no space', published: false }, 'bad', 'Failed: nothing was published', 'no space'],
] as const)('the first line answers whether the run is right: %s', (_, data, level, headline, point) => {
  const said = runVerdict(data);
  expect(said.level).toBe(level);
  expect(said.headline).toContain(headline);
  expect(said.points[0]).toContain(point);
  const page = reportPage(data);
  expect(page).toContain(`<div class="verdict ${level}"><p>${headline}`);
  // The verdict comes first, and the settings come last.
  const titles = [...page.matchAll(/<h2>([^<]*)/g)].map(([, title]) => title);
  expect(page.indexOf('class="verdict')).toBeLessThan(page.indexOf('<h2>'));
  expect([titles[0], titles.at(-1)]).toEqual(['Score', 'Settings']);
}); // biome-ignore format: a table

test('charts have numbers on both axes', () => {
  const page = reportPage({ ...CLEAN, edges: [0.25, 0.5, 0.75], training: { bins: [0.1, 0.2, 0.3, 0.4], missing: 0, unseen: 0 }, score: { bins: [0.4, 0.3, 0.2, 0.1], missing: 0, unseen: 0 } }); // biome-ignore format: one line
  const charts = page.split('<svg').slice(1).map((part) => [...part.split('</svg>')[0]!.matchAll(/<text[^>]*>([^<]*)/g)].map(([, text]) => text)); // biome-ignore format: one line
  expect(charts[0]).toEqual(expect.arrayContaining(['0 %', '40 %', 'share of rows', 'score', '0.25', '0.50', '0.75']));
  expect(charts[1]).toEqual(expect.arrayContaining(['income', '0.02', '¦ strong drift from 0.25']));
  expect(charts.at(-1)).toEqual(expect.arrayContaining(['rows per second', 'seconds since the start', '0', '2']));
});

test('the score of the previous run is shown only if it had the same bins', () => {
  const previous = { began: DATA.began, model: 'm:1', rows: 10, score: { bins: [0.123, 0.877], missing: 0, unseen: 0 }, decisions: [] }; // biome-ignore format: one line
  expect(reportPage({ ...CLEAN, previous: { ...previous, edges: DATA.edges } })).toContain('12.3 %');
  for (const edges of [[0.4], [], [0.5, 0.6], undefined]) {
    const page = reportPage({ ...CLEAN, previous: { ...previous, ...(edges ? { edges } : {}) } });
    expect(page.split('<script')[0]).not.toContain('12.3 %');
    expect(page).toContain('10 rows; its score had other bins');
  }
});

test('a run that published nothing is none to compare with: what it was compared with is', () => {
  const good = {
    began: DATA.began,
    model: DATA.model,
    rows: 10,
    edges: DATA.edges,
    score: DATA.score,
    decisions: DATA.decisions,
  };
  expect(comparedIn(embedded(DATA))).toEqual(good);
  expect(comparedIn(embedded({ ...DATA, published: false, rows: 99, previous: good }))).toEqual(good);
  expect(comparedIn(embedded({ ...DATA, rows: 0, score: null, inputsDoneBefore: 3, previous: good }))).toEqual(good);
  expect(comparedIn(embedded({ ...DATA, published: false }))).toBe(null);
  for (const other of ['', '<html>', `<script type="application/json" id="${REPORT_ID}">{</script>`])
    expect(comparedIn(other)).toBe(undefined);
});

checkTest('the report of a resumed run states how many inputs it does not cover', async () => {
  const folder = scratch();
  for (const [name, seed] of [['a', 1], ['b', 2]] as const) writeFileSync(path.join(folder, `${name}.csv`), Buffer.concat([...generatePortfolio({ rows: 20, seed })])); // biome-ignore format: one line
  const report = path.join(folder, 'run.html');
  const run = async () => {
    const { code, stderr } = await sluiceHere(['score', `${folder}/?.csv`, '-m', 'credit-default', '-o', `${folder}/{name}.out.csv`, '--report', report, '--resume', '--workers', '1']); // biome-ignore format: one line
    expect(code, stderr).toBe(0);
    return readFileSync(report, 'utf8');
  };
  const first = dataIn(await run());
  expect(first).toMatchObject({ inputsDoneBefore: 0, rows: 40 });
  rmSync(path.join(folder, 'b.out.csv'));
  const second = await run();
  expect(dataIn(second)).toMatchObject({ inputsDoneBefore: 1, rows: 20, previous: { rows: 40 } });
  expect(second.match(/already scored 1 input, which this report does not cover/g)).toHaveLength(2);
  expect(dataIn(await run())).toMatchObject({ inputsDoneBefore: 2, rows: 0, previous: { rows: 20 } });
  expect(dataIn(await run()).previous).toMatchObject({ rows: 20 });
});

checkTest('runs leave reports, also when the gate stops them; no value of an application is in one', async () => {
  const folder = scratch();
  const at = (name: string) => path.join(folder, name);
  const run = (...more: string[]) =>
    sluiceHere([
      'score',
      at('in.csv'),
      '-m',
      'credit-default',
      '-o',
      at('out.csv'),
      '--report',
      at('run.html'),
      '--workers',
      '1',
      ...more,
    ]);
  const canary = (row: Record<string, string>, index: number): void => {
    if (index % 40 === 0) row.occupation_type = 'Jane Doe 7731';
    if (index % 50 === 1) row.amount = '7731.77x';
    if (index % 50 === 2) row.income = '977317.31';
  };
  writeFileSync(at('in.csv'), faultyPortfolio(2000, 1, canary));
  expect((await run()).code).toBe(3);
  const first = dataIn(readFileSync(at('run.html'), 'utf8'));
  expect(first).toMatchObject({ exitCode: 3, published: true, previous: null, rows: 1960, outputs: [at('out.csv')] });
  expect(first.decisions.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 9);
  expect(first.inputs[0]!.rejects[0]).toEqual({ row: 2, code: 'bad_number', column: 'amount' });

  const stopped = await run('--max-unseen', '0.001');
  expect(stopped.code).toBe(4);
  const second = readFileSync(at('run.html'), 'utf8');
  expect(dataIn(second)).toMatchObject({ exitCode: 4, published: false, previous: { began: first.began, rows: 1960 } });
  expect(second).toContain('Stopped by the gate');
  expect(second).not.toMatch(/Jane|7731/);

  expect((await run()).code).toBe(3);
  const third = readFileSync(at('run.html'), 'utf8');
  expect(dataIn(third).previous!.began).toBe(first.began);
  expect(third).toContain('previous run');
  expect(unbalanced(third)).toEqual([]);

  // What is no report is not replaced, and the run is what it was.
  writeFileSync(at('run.html'), 'mine');
  const kept = await run();
  expect([kept.code, readFileSync(at('run.html'), 'utf8')]).toEqual([3, 'mine']);
  expect(kept.stderr).toMatch(/cannot write the report \S+run\.html/);
  const refused = await sluiceHere([
    'score',
    at('in.csv'),
    '-m',
    'credit-default',
    '-o',
    at('o2.csv'),
    '--report',
    at('in.csv'),
  ]);
  expect([refused.code, existsSync(at('o2.csv'))]).toEqual([2, false]);
});
