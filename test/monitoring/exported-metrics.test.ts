// Each process exports the metric families of the table that it can have, and no others; each alert judges metrics its process exports.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { type Exporter, METRICS_PROCESSES } from '../../src/monitor/metric-registration.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { ALERTS } from '../../tools/alerts/alert-table.ts';
import { RECORDINGS } from '../../tools/alerts/recordings.ts';
import { Times } from '../../tools/alerts/times.ts';
import { familiesOf, samplesOf } from '../support/exposition.ts';
import { TABLE, tableOf } from '../support/metric-table.ts';
import { checkTest } from '../support/tiers.ts';
import { WatchedRun } from '../support/watched-run.ts';
import { WatchedService } from '../support/watched-service.ts';

const portfolio = (rows: number): Buffer => Buffer.concat([...generatePortfolio({ rows, seed: 11 })]);

test('every family has an exporter, and the table is the same for every process', () => {
  expect(TABLE.size).toBeGreaterThan(90);
  for (const [name, exporters] of TABLE) expect(exporters.length, name).toBeGreaterThan(0);
  for (const process of METRICS_PROCESSES) expect(new Metrics(process).exporters).toEqual(TABLE);
});

test('a gauge has no sample before it is set; counters start at 0', async () => {
  for (const process of METRICS_PROCESSES) {
    const samples = samplesOf(await new Metrics(process).text()).filter(({ name }) => name.startsWith('sluice_'));
    const gauges = samples.filter(({ name }) => !/_(total|bucket|sum|count)$/.test(name));
    expect(gauges.map(({ name }) => name)).toEqual(['sluice_build_info']);
  }
  expect(await new Metrics('serve').text()).toMatch(/^sluice_http_cut_answers_total 0$/m);
});

checkTest('a serving process exports its families and no others', async () => {
  await using service = await WatchedService.start();
  await service.predict(portfolio(100));
  for (const columns of [false, true]) {
    const { text } = await service.request('GET', columns ? '/metrics/columns' : '/metrics');
    expect(familiesOf(text)).toEqual(tableOf('serve', columns));
  }
});

checkTest(
  'a batch run exports its families and no others, and its metrics file holds none but those of the file',
  async () => {
    await using run = await WatchedRun.start(portfolio(5000));
    await expect.poll(() => run.page('/readyz')).toBe('ready\n');
    expect(familiesOf(await run.page('/metrics'))).toEqual(tableOf('batch_run', false));
    expect(familiesOf(await run.page('/metrics/columns'))).toEqual(tableOf('batch_run', true));
    const { run: ended, metricsFile } = await run.finish();
    expect([0, 3]).toContain(ended.code);
    const written = familiesOf(metricsFile);
    expect(written).toContain('sluice_run_rows');
    const inTable = tableOf('metrics_file', false);
    expect(written.filter((name) => !inTable.includes(name))).toEqual([]);
  },
);

test('what a source file measures is exported by each process that runs it', () => {
  const families = new Map(
    Object.entries(new Metrics('serve'))
      .filter(([, field]) => 'labels' in Object(field))
      .map(([field, { name }]) => [field, name as string]),
  );
  const homes: readonly [home: RegExp, exporters: readonly Exporter[]][] = [
    [/^doors\/http\//, ['serve']],
    [/^engine\/host-events\.ts/, ['serve', 'topic_run']],
    [/^runs\/account\.ts/, METRICS_PROCESSES],
    [/^runs\/(plan-)?file-run\.ts/, ['batch_run']],
    [/^runs\/topics\//, ['topic_run']],
    [/^monitor\/left-metrics\.ts/, ['metrics_file']],
    [/^(monitor\/(certificates|disks|metrics-server)|doors\/commands\/run-log)\.ts/, ['batch_run', 'topic_run']],
  ];
  let checked = 0;
  for (const file of readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((f) => f.endsWith('.ts'))) {
    const exporters = homes.find(([home]) => home.test(file.split(path.sep).join('/')))?.[1] ?? [];
    const text = readFileSync(path.join('src', file), 'utf8');
    for (const [, field] of text.matchAll(/metrics[!?]?\.(\w+)/g)) {
      const name = families.get(field!);
      if (name === undefined) continue;
      for (const exporter of exporters) {
        expect(TABLE.get(name), `${file} measures ${name}`).toContain(exporter);
        checked++;
      }
    }
  }
  expect(checked).toBeGreaterThan(80);
});

/** Families of an expression, those of the recordings it names included. */
function familiesIn(expr: string): string[] {
  const names = [...expr.matchAll(/\b(?:sluice[_:])\w[\w:]*/g)].map((m) => m[0]);
  return names.flatMap((name) => {
    const recording = RECORDINGS.find(({ record }) => record === name);
    if (recording) return familiesIn(recording.expr(new Times()));
    return TABLE.has(name) ? [name] : [name.replace(/_(bucket|sum|count)$/, '')];
  });
}

test('each alert judges metrics that every process it is for exports', () => {
  for (const { name, expr, exporters, refinedBy = [] } of ALERTS) {
    expect(exporters.length, name).toBeGreaterThan(0);
    for (const family of familiesIn(expr(new Times())).filter((one) => !refinedBy.includes(one))) {
      for (const exporter of exporters) expect(TABLE.get(family), `${name}: ${family}`).toContain(exporter);
    }
  }
});
