// Windows, figures and metrics of drift: what they hold, what they forget, and that no value of an input is in them.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { DriftMonitor, type MeasuredPart } from '../../src/drift/drift-monitor.ts';
import { DriftPlan } from '../../src/drift/drift-plan.ts';
import { driftDigest, driftFigures, driftWords } from '../../src/drift/drift-report.ts';
import { TABLE_BUCKETS } from '../../src/drift/sketch.ts';
import { scoreChunks } from '../../src/engine/score-chunks.ts';
import { WorkerPool } from '../../src/engine/worker-pool.ts';
import { loadPackage } from '../../src/model/package/load-package.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { RunAccount } from '../../src/runs/account.ts';
import { inChunks } from '../support/blocks.ts';
import { CANARY, SUNG } from '../support/canaries.ts';
import { CREDIT_DEFAULT } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

const MINUTE = 60_000;
const REF = 'credit-default:1';

let model: ModelPackage;
let plan: DriftPlan;
beforeAll(async () => {
  model = await loadPackage(CREDIT_DEFAULT);
  plan = DriftPlan.of(model.manifest)!;
});

/** `rows` rows, all of them in the first bin of each column. */
function part(rows: number): MeasuredPart {
  const cells = new Uint32Array(plan.cells);
  cells[0] = rows;
  for (const { at } of plan.columns) cells[at] = rows;
  return { cells, numbers: Uint32Array.of(0, rows, TABLE_BUCKETS + 1, rows), manifest: model.manifest };
}

async function scored(csv: string | Buffer): Promise<{ metrics: Metrics; account: RunAccount }> {
  const metrics = new Metrics('serve');
  const account = new RunAccount(metrics, 'test');
  const pool = await WorkerPool.start({ model, workers: 1 });
  const unit = account.unit();
  await scoreChunks({
    account: unit,
    model,
    pool,
    input: { format: 'delimited', delimiter: ',' },
    chunks: inChunks(Buffer.from(csv), 65_536),
    output: { format: 'ndjson', delimiter: ',' },
    passthrough: [],
    write: async () => {},
  });
  unit.settle();
  await pool.close();
  return { metrics, account };
}

test('the last hour forgets what is an hour old, the last day what is a day old, and the start nothing', () => {
  let now = Date.UTC(2026, 0, 1);
  const monitor = new DriftMonitor(() => now);
  const rows = () => (['hour', 'day', 'start'] as const).map((span) => monitor.report(REF, span)!.rows);
  monitor.add(REF, part(10));
  expect(rows()).toEqual([10, 10, 10]);
  monitor.add(REF, part(5));
  expect(rows()).toEqual([15, 15, 15]);
  now += 54 * MINUTE;
  expect(rows()).toEqual([15, 15, 15]);
  monitor.add(REF, part(100));
  expect(rows()).toEqual([115, 115, 115]);
  now += 6 * MINUTE;
  expect(rows()).toEqual([100, 115, 115]);
  now += 22 * 60 * MINUTE;
  expect(rows()).toEqual([0, 115, 115]);
  now += 60 * MINUTE;
  expect(rows()).toEqual([0, 0, 115]);
  monitor.add(REF, part(1));
  expect(rows()).toEqual([1, 1, 116]);
  // A day without a row: the model is forgotten.
  now += 26 * 60 * MINUTE;
  expect(monitor.models()).toEqual([]);
  expect(monitor.report(REF, 'hour')).toBe(null);
});

test('rows within the same hour are in it, whatever the minute', () => {
  for (let minute = 0; minute < 60; minute++) {
    let now = Date.UTC(2026, 0, 1, 7, minute, 30);
    const monitor = new DriftMonitor(() => now);
    monitor.add(REF, part(7));
    now += 54 * MINUTE;
    expect(monitor.report(REF, 'hour')!.rows, `${minute}`).toBe(7);
    now += 7 * MINUTE;
    expect(monitor.report(REF, 'hour')!.rows, `${minute}`).toBe(0);
  }
});

test('counts of another package under the same reference are not added to those of this one', async () => {
  const monitor = new DriftMonitor(() => 1000);
  monitor.add(REF, part(10));
  // Loaded again as it was.
  monitor.add(REF, { ...part(10), manifest: (await loadPackage(CREDIT_DEFAULT)).manifest });
  expect(monitor.report(REF, 'start')!.rows).toBe(20);
  const other = structuredClone(model.manifest);
  other.baseline!.score!.counts[0]!++;
  monitor.add(REF, { ...part(3), manifest: other });
  expect(monitor.report(REF, 'start')!.rows).toBe(3);
});

test('below 1,000 rows there is no PSI, with 1,000 there is', () => {
  const figuresOf = (rows: number) => {
    const monitor = new DriftMonitor(() => 1000);
    monitor.add(REF, part(rows));
    return driftFigures(monitor.report(REF, 'hour')!);
  };
  expect(figuresOf(999)).toBe(null);
  const figures = figuresOf(1000)!;
  expect(figures.scorePsi).toBeGreaterThan(1);
  expect(figures.drifted).toBeGreaterThan(10);
});

test('the training data again do not drift; those of the drifted portfolio do, in the columns that were moved', async () => {
  const stable = await scored(Buffer.concat([...generatePortfolio({ rows: 4000, seed: 2, oddness: 'none' })]));
  const calm = stable.account.drift.report(REF, 'start')!;
  expect(calm.score!.psi).toBeLessThan(0.02);
  for (const { column, psi } of calm.columns) expect(psi, column).toBeLessThan(0.03);
  expect(driftWords(driftDigest(calm))).toBe(null);

  const drifted = await scored(Buffer.concat([...generatePortfolio({ rows: 4000, seed: 2, drift: true })]));
  const report = drifted.account.drift.report(REF, 'start')!;
  const moved = report.columns.filter(({ psi }) => psi! >= 0.25).map(({ column }) => column);
  expect(moved).toEqual(['source_type', 'income', 'occupation_type']);
  const income = report.columns.find(({ column }) => column === 'income')!;
  const before = calm.columns.find(({ column }) => column === 'income')!;
  expect(income.quantiles!.p50 / before.quantiles!.p50).toBeGreaterThan(0.55);
  expect(income.quantiles!.p50 / before.quantiles!.p50).toBeLessThan(0.65);
  const occupation = report.columns.find(({ column }) => column === 'occupation_type')!;
  expect(occupation.now!.missing - occupation.training.missing).toBeGreaterThan(0.2);
  const source = report.columns.find(({ column }) => column === 'source_type')!;
  expect(source.now!.unseen).toBeGreaterThan(0.06);
  expect(driftWords(driftDigest(report))).toMatch(
    /PSI of the score 0\.\d\d[\s\S]*\n {2}source_type .* [78]\.\d %[\s\S]*\n {2}occupation_type .* (2|3)\d\.\d %[\s\S]*\n {2}income /,
  );

  // The same as metrics.
  const text = await drifted.metrics.text();
  expect(text).toContain(`sluice_score_psi{model="${REF}"} ${report.score!.psi}`);
  expect(text).toContain(`sluice_columns_drifted{model="${REF}"} 3`);
  expect(text).toContain(`sluice_drift_window_rows{model="${REF}"} 4000`);
  expect(text.split('\n').filter((line) => line.startsWith('sluice_') && line.includes(REF)).length).toBeLessThan(30);
  const columns = await drifted.metrics.columnsText();
  const of = (name: string) =>
    [...columns.matchAll(new RegExp(`^${name}\\{model="${REF}",column="income",bin="(\\w+)"\\} (\\S+)$`, 'gm'))].map(
      ([, bin, value]) => [bin!, Number(value)] as const,
    );
  expect(of('sluice_column_bin_rows_total')).toEqual(
    [...income.now!.bins, income.now!.missing, income.now!.unseen].map((share, i) => [
      ['missing', 'unseen'][i - income.now!.bins.length] ?? String(i),
      Math.round(share * report.rows),
    ]),
  );
  expect(of('sluice_column_baseline_ratio').reduce((sum, [, share]) => sum + share, 0)).toBeCloseTo(1, 12);
  expect(columns).toContain(`sluice_score_bin_rows_total{model="${REF}",bin="0"}`);
});

test('no value of an application is in metrics or reports', async () => {
  const lines = readFileSync(path.join(CREDIT_DEFAULT, 'selftest.csv'), 'utf8').trimEnd().split('\n');
  const names = lines[0]!.split(',');
  const texts = ['source_type', 'occupation_type', 'marital_status', 'verificator_id', 'partner_id'];
  const rows = lines.slice(1, 101).map((line, i) => {
    const cells = line.split(',');
    cells[names.indexOf(texts[i % texts.length]!)] = `${CANARY}${i}`;
    return cells.join(',');
  });
  const { metrics, account } = await scored(`${lines[0]}\n${rows.join('\n')}\n`);
  const report = account.drift.report(REF, 'start')!;
  expect(report.columns.find(({ column }) => column === 'partner_id')!.now!.unseen).toBeCloseTo(0.2, 6);
  const said = JSON.stringify(report) + (await metrics.text()) + (await metrics.columnsText());
  expect(said).not.toMatch(SUNG);
  // Not even categories that the package lists.
  for (const word of ['PENSIONER', 'BRANCH', 'P0007']) expect(said).not.toContain(word);
});

checkTest('a model takes less than 2 MB, and no more after a week than after two days', () => {
  // In a process of its own: here the heap also grows by what vitest does meanwhile.
  const script = `
import { DriftMonitor } from ${JSON.stringify(path.resolve('src/drift/drift-monitor.ts'))};
import { DriftPlan } from ${JSON.stringify(path.resolve('src/drift/drift-plan.ts'))};
import { TABLE_BUCKETS } from ${JSON.stringify(path.resolve('src/drift/sketch.ts'))};
import { loadPackage } from ${JSON.stringify(path.resolve('src/model/package/load-package.ts'))};
import { setImmediate as turn } from 'node:timers/promises';
const { manifest } = await loadPackage(${JSON.stringify(CREDIT_DEFAULT)});
const plan = DriftPlan.of(manifest);
const held = async () => {
  // Buffers are given back behind the collection that finds them.
  for (let i = 0; i < 3; i++) { gc(); await turn(); }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
};
const cells = new Uint32Array(plan.cells);
for (const { at } of plan.columns) cells[at] = 1000;
cells[0] = 1000;
// The widest there can be: numbers over all magnitudes, of both signs, in every sketch.
const numbers = Uint32Array.from({ length: plan.sketches * 200 }, (_, i) => i)
  .reduce((all, i) => { all.push(Math.floor(i / 200) * TABLE_BUCKETS + (i % 200) * 10, 5); return all; }, []);
const part = { cells, numbers: Uint32Array.from(numbers), manifest };
let now = Date.UTC(2026, 0, 1);
const day = (monitor) => {
  for (let slot = 0; slot < 24 * 12; slot++, now += 5 * 60_000) monitor.add('credit-default:1', part);
};
day(new DriftMonitor(() => now));
// What loading the modules left, such as compiled code that is not used again, is given back after many collections.
for (let i = 0; i < 20; i++) await held();
const before = await held();
const monitor = new DriftMonitor(() => now);
const grown = [];
for (let n = 0; n < 7; n++) { day(monitor); grown.push((await held()) - before); }
console.log(JSON.stringify({ grown, rows: monitor.report('credit-default:1', 'day').rows }));
`;
  const args = ['--expose-gc', '--disable-warning=ExperimentalWarning', '--input-type=module', '-e', script];
  const measure = (): { grown: number[]; rows: number } =>
    JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }));
  /** Days with more than 2 MB, or hardly any, and the growth of the last five days beyond 0.2 MB. */
  const faults = ({ grown }: { grown: number[] }) => [
    ...grown.filter((bytes) => bytes > 2e6 || bytes < 1e5),
    Math.max(2e5, grown.at(-1)! - grown[1]!) - 2e5,
  ];
  // Node gives memory of its own back at times of its choice. What the monitor holds is the same in each measurement.
  let measured = measure();
  for (let again = 0; again < 3 && !faults(measured).every((bytes) => bytes === 0); again++) measured = measure();
  expect(measured.rows).toBeGreaterThan(270_000);
  expect(faults(measured)).toEqual([0]);
});
