// What a run leaves behind: the end of every run, the last one that succeeded, and nothing that a collector of several pipelines refuses.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import type { DriftDigest } from '../../../src/drift/drift-report.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { sampleOf, samplesOf } from '../../support/exposition.ts';
import { freePort } from '../../support/ports.ts';
import { checkTest } from '../../support/tiers.ts';
import { checkTestNeeding } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const SUCCESS = 'sluice_run_last_success_timestamp_seconds';
const END = 'sluice_run_last_end_timestamp_seconds';

function nightly(name: string, more = ''): { folder: string; file: string; input: string; left: string } {
  const folder = scratch();
  const input = path.join(folder, 'in.csv');
  writeFileSync(input, Buffer.concat([...generatePortfolio({ rows: 50, seed: 3, oddness: 'none' })]));
  const file = path.join(folder, `${name}.yaml`);
  const yaml = `model: credit-default
source: { type: file, path: ${input} }
sink: { type: file, path: ${folder}/out.csv }
score: { workers: 1 }
${more}`;
  writeFileSync(file, yaml);
  return { folder, file, input, left: path.join(folder, `${name}.prom`) };
}

function spawned(command: string, ...args: string[]): ChildProcess {
  const child = spawn(command, args, { stdio: 'ignore' });
  const exited = new Promise((resolve) => child.on('exit', resolve));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return child;
}

const get = async (url: string): Promise<string> => (await fetch(url)).text();
const answers = (url: string) =>
  until(() => fetch(url).then((r) => r.ok, () => false)); // biome-ignore format: one line

checkTest(
  'a run that fails keeps when the last one succeeded, and a file that is none of a run is not touched',
  async () => {
    const { file, input, left } = nightly('nightly "one"', 'deadline: "2020-01-01T06:00"');
    const pipeline = 'nightly \\"one\\"';
    const began = Date.now() / 1000;
    const good = await sluiceHere(['run', file, '--metrics-file', left]);
    expect([good.code, good.stderr]).toEqual([0, expect.stringContaining('the run was late: it ended')]);
    const first = readFileSync(left, 'utf8');
    const of = (text: string, name: string, labels = {}) => sampleOf(text, name, { pipeline, ...labels });
    expect(of(first, SUCCESS)).toBeGreaterThanOrEqual(began);
    expect(of(first, 'sluice_run_last_exit_code')).toBe(0);
    expect(of(first, 'sluice_run_rows', { outcome: 'scored' })).toBe(50);
    expect(of(first, 'sluice_run_deadline_slack_seconds')).toBeLessThan(-3600);
    expect(samplesOf(first).filter((m) => m.labels.pipeline !== pipeline)).toEqual([]);
    expect(first).not.toMatch(/^(process_|nodejs_|sluice_ready|sluice_workers|sluice_in_flight)/m);

    writeFileSync(input, 'amount\n1\n');
    expect((await sluiceHere(['run', file, '--metrics-file', left])).code).toBe(1);
    const second = readFileSync(left, 'utf8');
    expect(of(second, SUCCESS)).toBe(of(first, SUCCESS));
    expect(of(second, END)).toBeGreaterThan(of(first, END)!);
    expect(of(second, 'sluice_run_last_exit_code')).toBe(1);

    // A run that is refused has an end, too; but it writes over nothing that it does not know.
    const refused = ['run', file.replace('.yaml', '.yml'), '--metrics-file', left];
    writeFileSync(file.replace('.yaml', '.yml'), readFileSync(file, 'utf8').replace('credit-default', 'no-such-model'));
    expect((await sluiceHere(refused)).code).toBe(1);
    const third = readFileSync(left, 'utf8');
    expect([of(third, SUCCESS), of(third, 'sluice_run_last_exit_code')]).toEqual([of(first, SUCCESS), 1]);
    expect((await sluiceHere(['run', file, '--metrics-file', input])).code).not.toBe(0);
    expect(readFileSync(input, 'utf8')).toBe('amount\n1\n');
  },
);

checkTest('the drift of the whole run is written, and none of a run with too few rows', async () => {
  const { file, input, left } = nightly('nightly');
  const portfolio = (drift: boolean) => Buffer.concat([...generatePortfolio({ rows: 2000, seed: 4, drift })]);
  const figures = async (rows: Buffer) => {
    writeFileSync(input, rows);
    const { stdout, code, stderr } = await sluiceHere(['run', file, '--metrics-file', left, '--json']);
    expect([0, 3], stderr).toContain(code);
    const text = readFileSync(left, 'utf8');
    const worst = samplesOf(text).find((m) => m.name === 'sluice_run_column_psi_max');
    const [psi, drifted] = ['sluice_run_score_psi', 'sluice_run_columns_drifted'].map((name) => sampleOf(text, name));
    const [summary] = Object.values(JSON.parse(stdout).drift as Record<string, DriftDigest>);
    return { psi, drifted, worst, summary: summary! };
  };
  const drifted = await figures(portfolio(true));
  expect(drifted.psi).toBe(drifted.summary.scorePsi);
  expect([drifted.drifted, drifted.summary.columnsDrifted]).toEqual([3, 3]);
  const largest = drifted.summary.columns.toSorted((a, b) => b.psi! - a.psi!)[0]!;
  expect(drifted.worst).toMatchObject({ labels: { column: largest.column, pipeline: 'nightly' }, value: largest.psi });
  // Figures of the last hour would stand in the file for as long as it does.
  expect(readFileSync(left, 'utf8')).not.toMatch(/^sluice_(score_psi|column|drift_)/m);

  const healthy = await figures(portfolio(false));
  expect(healthy.drifted).toBe(0);
  expect(healthy.worst!.value).toBeLessThan(0.1);

  const few = portfolio(true).toString().split('\n').slice(0, 900).join('\n');
  expect(await figures(Buffer.from(`${few}\n`))).toMatchObject({
    psi: undefined,
    drifted: undefined,
    worst: undefined,
  });
});

checkTest('where metrics cannot be left, the run is what it was', async () => {
  const { file, folder } = nightly('nightly');
  const port = await freePort();
  const places = [
    '--metrics-file',
    `${folder}/no/such/folder/run.prom`,
    '--push-gateway',
    `http://u:secret@127.0.0.1:${port}`,
  ];
  const { code, stderr } = await sluiceHere(['run', file, ...places]);
  expect(code).toBe(0);
  expect(stderr).toContain('cannot write the metrics to');
  expect(stderr).toContain('cannot push the metrics');
  expect(stderr).not.toContain('secret');
  expect(existsSync(`${folder}/out.csv`)).toBe(true);
  const wrong = await sluiceHere(['run', file, '--push-gateway', 'ftp://x']);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('must start with http:// or https://')]);
});

checkTestNeeding(
  ['Prometheus push gateway'],
  'a push gateway keeps one group a pipeline, replaced with every run',
  async () => {
    const { file, input } = nightly('nightly');
    const other = nightly('other');
    const port = await freePort();
    spawned('prometheus-pushgateway', `--web.listen-address=127.0.0.1:${port}`);
    const gateway = `http://127.0.0.1:${port}`;
    await answers(`${gateway}/-/ready`);
    for (const pipeline of [file, other.file]) {
      const { code, stderr } = await sluiceHere(['run', pipeline, '--push-gateway', gateway]);
      expect([code, stderr]).toEqual([0, expect.not.stringContaining('cannot push')]);
    }
    const first = await get(`${gateway}/metrics`);
    writeFileSync(input, 'amount\n1\n');
    expect((await sluiceHere(['run', file, '--push-gateway', gateway])).code).toBe(1);
    const second = await get(`${gateway}/metrics`);
    const of = (text: string, name: string, pipeline: string) => sampleOf(text, name, { pipeline, job: 'sluice' });
    expect(of(second, SUCCESS, 'nightly')).toBe(of(first, SUCCESS, 'nightly'));
    expect(of(second, 'sluice_run_last_exit_code', 'nightly')).toBe(1);
    expect(of(second, 'sluice_rows_total', 'nightly')).toBeUndefined();
    expect(of(second, 'sluice_rows_total', 'other')).toBe(50);
    expect(of(second, 'sluice_run_last_exit_code', 'other')).toBe(0);
  },
);

checkTestNeeding(['Prometheus node exporter'], 'a node exporter takes the files of several pipelines', async () => {
  const texts = path.join(scratch(), 'texts');
  mkdirSync(texts);
  for (const name of ['nightly', 'other']) {
    const { file } = nightly(name);
    expect((await sluiceHere(['run', file, '--metrics-file', path.join(texts, `${name}.prom`)])).code).toBe(0);
  }
  const port = await freePort();
  const address = `http://127.0.0.1:${port}`;
  spawned('prometheus-node-exporter', `--web.listen-address=127.0.0.1:${port}`, '--collector.disable-defaults', '--collector.textfile', `--collector.textfile.directory=${texts}`); // biome-ignore format: one line
  await answers(`${address}/metrics`);
  const text = await get(`${address}/metrics`);
  expect(text).toContain('node_textfile_scrape_error 0');
  for (const pipeline of ['nightly', 'other']) expect(sampleOf(text, 'sluice_rows_total', { pipeline })).toBe(50);
});
