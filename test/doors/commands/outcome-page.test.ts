// The page of `sluice outcomes --html`: its verdict, its figures, and hostile names as text.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { outcomePage, outcomeVerdict } from '../../../src/doors/commands/outcome-page.ts';
import type { OutcomeGroup, OutcomeReport } from '../../../src/outcomes/outcome-report.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';

const HOSTILE = '<img src=x onerror=alert(1)>:1';
const ORIGIN = { predictions: ['<script>alert(2)</script>.csv'], labels: '"><b>l.csv', at: new Date(0) };

const group = (more: Partial<OutcomeGroup> = {}): OutcomeGroup => ({
  model: HOSTILE,
  month: null,
  ...{ rows: 10_000, positives: 8000, negatives: 2000, auc: 0.8, gini: 0.6, ks: 0.5, brier: 0.1 },
  calibration: {
    deciles: [{ rows: 10_000, meanProbability: 0.8, observedRate: 0.8 }],
    ece: 0.01,
    intercept: 0,
    slope: 1,
  },
  decisions: [{ decision: '<i>approve</i>', rows: 100, bad: 20, badRatio: 0.2 }],
  ...more,
});

const months = (...aucs: number[]): OutcomeGroup[] =>
  aucs.map((auc, i) => group({ auc, gini: 2 * auc - 1, month: `2026-0${i + 1}` }));

test.each([
  ['a model that works', group(), [], 'good', 'AUC 0.800'],
  ['a weak model', group({ auc: 0.55 }), [], 'bad', 'hardly separates'],
  ['probabilities that are too high', group({ calibration: { ...group().calibration!, ece: 0.06, deciles: [{ rows: 10_000, meanProbability: 0.9, observedRate: 0.8 }] } }), [], 'bad', 'too high'],
  ['probabilities that are too low', group({ calibration: { ...group().calibration!, ece: 0.03, deciles: [{ rows: 10_000, meanProbability: 0.77, observedRate: 0.8 }] } }), [], 'warn', 'too low'],
  ['an AUC that falls', group(), months(0.8, 0.79, 0.7), 'warn', 'from 0.800 (2026-01) to 0.700 (2026-03)'],
  ['an AUC that falls by chance', group(), months(0.8, 0.7).map((m) => ({ ...m, positives: 80, negatives: 20 })), 'good', 'AUC 0.800'],
  // 51 and 58 rows are the example of Hanley and McNeil: the standard error of 0.893 is 0.0325. Those of 0.79 and 0.77 are 0.0442 and 0.0459.
  ['an AUC that falls by a little less than two standard errors', group(), months(0.893, 0.79).map((m) => ({ ...m, positives: 51, negatives: 58 })), 'good', 'AUC 0.800'],
  ['an AUC that falls by a little more', group(), months(0.893, 0.77).map((m) => ({ ...m, positives: 51, negatives: 58 })), 'warn', 'from 0.893 (2026-01) to 0.770 (2026-02)'],
  ['a calibration that differs by chance', group({ rows: 40, calibration: { ...group().calibration!, ece: 0.06, deciles: [{ rows: 40, meanProbability: 0.86, observedRate: 0.8 }] } }), [], 'good', 'agree'],
  ['one outcome only', group({ auc: null, gini: null, ks: null }), [], 'none', 'undefined'],
] as const)('the verdict of %s', (_, whole, byMonth, level, point) => {
  const verdict = outcomeVerdict(whole, [...byMonth]);
  expect([verdict.level, verdict.points.join(' ')]).toEqual([level, expect.stringContaining(point)]);
}); // biome-ignore format: a table

test('hostile names of models, files and decisions are text', () => {
  const report: OutcomeReport = {
    labels: { rows: 100, keys: 100, unknown: 0, matched: 100, repeated: 0 },
    predictions: { rows: 100, matched: 100, repeated: 0, withdrawn: 0, unlabelled: 0, withoutProbability: 0, withoutKey: 0, sources: 1 },
    groups: months(0.8, 0.7),
    totals: [group()],
  }; // biome-ignore format: a table
  const page = outcomePage(report, ORIGIN);
  expect(page).not.toMatch(/<script|<img|<b>|<i>/);
  expect(page).toContain('&#60;script&#62;alert(2)');
  expect(page).toContain('&#60;i&#62;approve');
  expect(page).not.toMatch(/(src|href)=[^x]|url\(|https?:|\sstyle=/);
});

test('--html writes AUC, KS, the calibration table and the months', async () => {
  const cwd = scratch();
  const rows = Array.from({ length: 40 }, (_, i) => ({ id: `A${i}`, p: (i + 1) / 41, ok: Number(i % 5 !== 0 && i > 8), month: i % 2 }));
  writeFileSync(path.join(cwd, 'labels.csv'), `id,ok,month\n${rows.map((r) => `${r.id},${r.ok},2026-0${r.month + 1}\n`).join('')}`);
  writeFileSync(path.join(cwd, 'scored.csv'), `id,row,probability,decision\n${rows.map((r, i) => `${r.id},${i + 1},${r.p},approve\n`).join('')}`);
  const call = ['outcomes', 'scored.csv', '--labels', 'labels.csv', '--key', 'id', '--model', 'credit:3', '--month', 'month'];
  const run = await sluiceHere([...call, '--html', 'page.html', '--json'], { cwd });
  expect([run.code, run.stderr]).toEqual([0, expect.stringContaining('40 matched')]);
  const { totals } = JSON.parse(run.stdout) as OutcomeReport;
  const page = readFileSync(path.join(cwd, 'page.html'), 'utf8');
  const text = page.replaceAll(/<[^>]*>/g, '|');
  const { auc, ks, calibration } = totals[0]!;
  for (const words of [auc!.toFixed(4), ks!.toFixed(4), calibration!.ece.toFixed(4), '2026-01', '2026-02', 'credit:3', 'scored.csv', 'labels.csv', 'predicted probability', 'observed rate']) expect(text).toContain(words);
  expect(page.match(/<svg/g)).toHaveLength(2);
  const over = await sluiceHere([...call, '--html', 'labels.csv'], { cwd });
  expect([over.code, over.stderr]).toEqual([2, expect.stringContaining('the page is an input')]);
}); // biome-ignore format: tables
