// Records of runs: `score` and pipelines write them, also when they fail, and the service lists those of the caller's models.
import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startRecord } from '../../../src/doors/commands/leave-run-record.ts';
import { newCounts } from '../../../src/runs/accumulator.ts';
import { RunFindings } from '../../../src/runs/gate.ts';
import { newRecordId, type RunRecord, RunRecords } from '../../../src/runs/run-records.ts';
import type { RunSpec } from '../../../src/runs/spec.ts';
import { scratch, sluiceHere } from '../../support/cli.ts';
import { controlClock } from '../../support/controlled-clock.ts';
import { startService } from '../../support/service.ts';
import { modelOf, startTenants } from '../../support/tenants.ts';

async function portfolio(folder: string, rows = 2000): Promise<string> {
  const file = path.join(folder, 'portfolio.csv');
  await sluiceHere(['generate', '--rows', String(rows), '--faults', '3', '--ids', '-o', file]);
  return file;
}

const scored = (input: string, output: string, records: string, ...more: string[]) =>
  sluiceHere([
    ...['score', input, '--model', 'credit-default', '--passthrough', 'application_id', '-o', output],
    ...['--run-records', records, '--quiet', ...more],
  ]);

const recordsIn = (folder: string): RunRecord[] =>
  readdirSync(folder)
    .sort()
    .map((name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as RunRecord);

test('a run with rejected rows, a stopped one and a failed one leave a record each', async () => {
  const folder = scratch();
  const records = path.join(folder, 'records');
  const input = await portfolio(folder);
  const output = path.join(folder, 'scored.csv');
  const report = path.join(folder, 'report.html');
  expect((await scored(input, output, records, '--report', report)).code).toBe(3);
  expect((await scored(input, output, records, '--max-rejects', '0')).code).toBe(4);
  expect((await scored(path.join(folder, 'none.csv'), output, records)).code).toBe(1);
  const [first, second, third] = recordsIn(records);
  expect(first).toMatchObject({
    state: 'rejected_rows',
    exitCode: 3,
    error: null,
    name: 'score',
    model: { reference: 'credit-default', id: 'credit-default', version: '1' },
    rows: 2000,
    scored: 1997,
    rejected: 3,
    report,
    outputs: [{ path: output, manifestSha256: expect.stringMatching(/^[0-9a-f]{64}$/) }],
  });
  expect(first!.drift!.columns).toHaveLength(5);
  expect(Date.parse(first!.ended!)).toBeGreaterThanOrEqual(Date.parse(first!.began));
  expect(second).toMatchObject({ state: 'gate_stopped', exitCode: 4, rows: 2000, rejected: 3, outputs: [] });
  expect(second!.error!.code).toBe('gate_stopped');
  expect(second!.gate!.verdict).toBe('stopped');
  expect(third).toMatchObject({ state: 'failed', exitCode: 1, rows: 0, error: { code: 'input_not_found' } });
});

test('a pipeline writes its record under its name, and a topic rejects the key', async () => {
  const folder = scratch();
  const input = await portfolio(folder);
  const file = path.join(folder, 'nightly.yaml');
  const pipeline = (source: string) =>
    writeFileSync(
      file,
      `model: credit-default\nsource: ${source}\nsink: { type: file, path: ${folder}/out.csv }\nscore: { passthrough: [application_id] }\nrun_records: ${folder}/records\n`,
    );
  pipeline(`{ type: file, path: ${input} }`);
  expect((await sluiceHere(['run', file])).code).toBe(3);
  expect(recordsIn(path.join(folder, 'records'))).toMatchObject([{ name: 'nightly', state: 'rejected_rows' }]);
  pipeline('{ type: kafka, topic: t, group: g }');
  const { code, stderr } = await sluiceHere(['lint', file]);
  expect(code).toBe(2);
  expect(stderr).toContain('run_records: is not supported for topics');
});

test('a record that cannot be written changes nothing about the run', async () => {
  const folder = scratch();
  const input = await portfolio(folder);
  const file = path.join(folder, 'a-file');
  writeFileSync(file, '');
  const { code, stderr } = await scored(input, path.join(folder, 'out.csv'), path.join(file, 'records'));
  expect(code).toBe(3);
  expect(stderr).toContain('cannot write the record of the run');
});

test('the service lists runs, and says whether their outputs are intact', async () => {
  const folder = scratch();
  const records = path.join(folder, 'records');
  const input = await portfolio(folder);
  const output = path.join(folder, 'scored.csv');
  await scored(input, output, records);
  const service = await startService([`run_records=${records}`]);
  const list = async () => (await service.call('GET', '/api/v1/runs')).json;
  const { recorded, runs } = await list();
  expect([recorded, runs.length, runs[0].outputs[0].manifest.state]).toEqual([true, 1, 'not_checked']);
  const one = `/api/v1/runs/${runs[0].id}`;
  const stateNow = async () => (await service.call('GET', one)).json.outputs[0].manifest;
  await expect.poll(stateNow).toMatchObject({ state: 'verified', findings: [] });
  expect((await list()).runs[0].outputs[0].manifest.state).toBe('verified');
  appendFileSync(output, 'one line more\n');
  await expect.poll(async () => (await stateNow()).state).toBe('changed');
  expect((await stateNow()).findings[0]).toMatch(/^output/);
  // A later run with the same output replaces its manifest.
  await scored(input, output, records, '--restart');
  await expect.poll(async () => (await stateNow()).state).toBe('replaced');
  expect((await service.call('GET', '/api/v1/runs?limit=1')).json.runs[0].id).not.toBe(runs[0].id);
  for (const limit of ['0', '201', 'x']) {
    expect((await service.call('GET', `/api/v1/runs?limit=${limit}`)).status).toBe(400);
  }
});

test('a run counts as killed when its process has not updated the record for three minutes', async () => {
  const clock = controlClock();
  const folder = scratch();
  const end = (name: string) => ({ type: 'file', path: path.join(folder, name) });
  const spec = { model: 'credit-default', source: end('in.csv'), sink: end('out.csv'), run_records: folder };
  const alive = await startRecord(spec as RunSpec, 'alive', () => {});
  const [own] = recordsIn(folder);
  const put = (id: string, record: object) => writeFileSync(path.join(folder, `${id}.json`), JSON.stringify(record));
  const { heartbeatSeconds, ...earlier } = own!;
  expect(heartbeatSeconds).toBe(30);
  const [dead, old] = [newRecordId(Date.now() + 1000), newRecordId(Date.now() + 2000)];
  put(dead, { ...own, id: dead, name: 'dead' });
  put(old, { ...earlier, id: old, name: 'of an earlier release' });
  const records = new RunRecords(folder);
  const states = async () =>
    Object.fromEntries((await records.list(10, () => true)).map(({ name, state }) => [name, state]));
  await clock.advance(170_000);
  const running = { alive: 'running', dead: 'running', 'of an earlier release': 'running' };
  await expect.poll(states).toEqual(running);
  await clock.advance(20_000);
  await expect.poll(states).toEqual({ ...running, dead: 'killed' });
  expect((await records.find(dead))!.state).toBe('killed');
  await alive!.end({ counts: newCounts(), findings: new RunFindings(), result: null, exitCode: 1, error: null });
  expect(await states()).toEqual({ ...running, alive: 'failed', dead: 'killed' });
});

test('without the setting no run is listed; an unreadable folder is an error without its path', async () => {
  const without = await startService();
  expect((await without.call('GET', '/api/v1/runs')).json).toEqual({ recorded: false, runs: [] });
  expect((await without.call('GET', '/api/v1/runs/20260101T000000000Z-00000000')).status).toBe(404);
  const folder = path.join(scratch(), 'records');
  const service = await startService([`run_records=${folder}`]);
  expect((await service.call('GET', '/api/v1/runs')).json).toEqual({ recorded: true, runs: [] });
  writeFileSync(folder, 'not a folder');
  const { status, text, json } = await service.call('GET', '/api/v1/runs');
  expect([status, json.code]).toEqual([503, 'storage_unavailable']);
  expect(text).not.toContain(folder);
});

test('damaged, oversized and foreign files are skipped, and ids are no paths', async () => {
  const folder = scratch();
  const input = await portfolio(folder, 50);
  await scored(input, path.join(folder, 'o.csv'), path.join(folder, 'records'));
  const records = path.join(folder, 'records');
  const [record] = recordsIn(records);
  const id = newRecordId(Date.now() + 1000);
  const put = (name: string, text: string) => writeFileSync(path.join(records, name), text);
  put(`${id.slice(0, -1)}0.json`, '{');
  put(`${id.slice(0, -1)}1.json`, JSON.stringify(record));
  put(`${id.slice(0, -1)}2.json`, ' '.repeat(300 * 1024));
  put('notes.json', JSON.stringify({ ...record, id: 'notes' }));
  mkdirSync(path.join(records, `${id.slice(0, -1)}3.json`));
  const found = new RunRecords(records);
  expect((await found.list(10, () => true)).map((r) => r.id)).toEqual([record!.id]);
  for (const wrong of ['notes', '../records/notes', `../records/${record!.id}`, '']) {
    expect(await found.find(wrong)).toBe(null);
  }
});

test('each tenant sees the runs of its model only, and those of others do not exist for it', async () => {
  const tenants = await startTenants((folder) => [`run_records=${folder}/records`]);
  onTestFinished(() => tenants.close());
  const records = path.join(tenants.folder, 'records');
  const input = await portfolio(tenants.folder, 100);
  for (const tenant of ['alpha', 'beta'] as const) {
    await sluiceHere([
      ...['score', input, '--model', modelOf(tenant), '--registry', path.join(tenants.folder, 'models'), '--quiet'],
      ...['--passthrough', '*', '-o', path.join(tenants.folder, `${tenant}.csv`), '--run-records', records],
    ]);
  }
  const ids: Record<string, string> = {};
  for (const tenant of ['alpha', 'beta'] as const) {
    const { text } = await tenants.ask(tenant, 'GET', '/api/v1/runs');
    const { runs } = JSON.parse(text);
    expect(runs.map((run: RunRecord) => run.model.id)).toEqual([modelOf(tenant)]);
    ids[tenant] = runs[0].id;
    const other = tenant === 'alpha' ? 'beta' : 'alpha';
    expect(text).not.toContain(other);
  }
  const plain = (text: string) => text.replace(/"requestId":"[^"]*"/, '');
  const theirs = await tenants.ask('alpha', 'GET', `/api/v1/runs/${ids.beta}`);
  const nobodys = await tenants.ask('alpha', 'GET', '/api/v1/runs/20260101T000000000Z-00000000');
  expect([theirs.status, plain(theirs.text)]).toEqual([nobodys.status, plain(nobodys.text)]);
  expect(theirs.status).toBe(404);
  expect((await tenants.ask('beta', 'GET', `/api/v1/runs/${ids.beta}`)).status).toBe(200);
});
