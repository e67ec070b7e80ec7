// The report of a run: what it shows, what the next one is compared with, and that no value of an application is in it.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { comparedIn, embedded, REPORT_ID, type ReportData } from '../../src/report/report-data.ts';
import { reportPage } from '../../src/report/report-page.ts';
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
    if (empty || ['meta', 'br'].includes(name!)) continue;
    if (!close) open.push(name!);
    else if (open.pop() !== name) wrong.push(name!);
  }
  return [...wrong, ...open];
}

const DATA: ReportData = {
  name: '<b>"n\'', sluice: '1', node: 'v', began: '2026-11-22T01:30:00.000Z', model: '<i>m</i>:1', modelSha256: 'ab', evaluator: null,
  workers: null, seconds: 1, exitCode: 4, error: 'stopped </script><script>alert(1)</script>', options: [['a', '<x>']], outputs: ['<o>'],
  rejectLists: [], manifests: ['o.manifest.json'], edges: [0.5], training: { bins: [0.5, 0.5], missing: 0, unseen: 0 },
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
    expect(chart.split('</svg>')[1]).toMatch(/^\s*(<details><summary>as numbers<\/summary>)?<div class="wide"><table>/);
  for (const text of ['o.manifest.json', '3 (&#60;c&#62;)', '25.0 %', 'Exit code 4']) expect(page).toContain(text);
  expect(dataIn(page)).toEqual(DATA);
});

test('a run that published nothing is none to compare with: what it was compared with is', () => {
  const good = { began: DATA.began, model: DATA.model, rows: 10, score: DATA.score, decisions: DATA.decisions };
  expect(comparedIn(embedded(DATA))).toEqual(good);
  expect(comparedIn(embedded({ ...DATA, published: false, rows: 99, previous: good }))).toEqual(good);
  expect(comparedIn(embedded({ ...DATA, published: false }))).toBe(null);
  for (const other of ['', '<html>', `<script type="application/json" id="${REPORT_ID}">{</script>`])
    expect(comparedIn(other)).toBe(undefined);
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
