// The state of pipelines: what metrics ports report, filtered by the models of the caller, with unreachable members.
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Metrics } from '../../../src/monitor/metrics.ts';
import { type MetricsServer, serveMetrics } from '../../../src/monitor/metrics-server.ts';
import { type PipelineReports, reportPipeline } from '../../../src/monitor/pipeline-report.ts';
import { scratch, start } from '../../support/cli.ts';
import { freePort } from '../../support/ports.ts';
import { startService } from '../../support/service.ts';
import { modelOf, pipelineOf, startTenants, type TwoTenants } from '../../support/tenants.ts';
import { until } from '../../support/until.ts';

/** The metrics port of a process that reads a topic, with the metrics that a real run sets. */
async function member(name: string, model: string, { lag = 7, paused = false, port = 0 } = {}): Promise<MetricsServer> {
  const metrics = new Metrics('topic_run');
  metrics.paused.set({ pipeline: name }, paused ? 1 : 0);
  metrics.lagSeconds.set({ pipeline: name, topic: 't', partition: '0' }, 12);
  metrics.lagSeconds.set({ pipeline: name, topic: 't', partition: '1' }, 90);
  metrics.deadLetters.inc({ pipeline: name, code: 'bad_number' }, 2);
  const counts = { rows: 100, scored: 98, rejected: 2, rejectedByCode: { bad_number: 2 } };
  const known = { name, model, source: 'topic t', sink: 'topic p', started: new Date(0).toISOString(), lag, ...counts };
  const pipelines = () => reportPipeline(metrics, known, true);
  const server = await serveMetrics(metrics, { host: '127.0.0.1', port, ready: () => true, pipelines });
  onTestFinished(() => server.close());
  return server;
}

const at = (port: number): string => `http://127.0.0.1:${port}`;
const listed = async (service: { call: TwoTenants['ask'] }, tenant: 'alpha' | 'beta') =>
  JSON.parse((await service.call(tenant, 'GET', '/api/v1/pipelines')).text);

test('members of one pipeline are one entry: lags add up, the oldest age and the worst state count', async () => {
  const first = await member('loans', 'credit-default@champion');
  const second = await member('loans', 'credit-default@champion', { lag: 5, paused: true });
  const other = await member('cards', 'credit-default', { lag: 0 });
  const members = JSON.stringify([at(first.port), at(second.port), at(other.port)]);
  const service = await startService([`pipeline_members=${members}`]);
  const { pipelines, unreachable } = (await service.call('GET', '/api/v1/pipelines')).json;
  expect(unreachable).toEqual([]);
  expect(pipelines).toMatchObject([
    {
      name: 'loans',
      model: 'credit-default@champion',
      kind: 'topic',
      state: 'paused',
      lag: 12,
      oldestSeconds: 90,
      rows: 200,
      rejected: 4,
      deadLetters: { bad_number: 4 },
      members: [
        { state: 'running', lag: 7 },
        { state: 'paused', lag: 5 },
      ],
    },
    { name: 'cards', state: 'running', lag: 0 },
  ]);
});

test('a member that stops is unreachable with its last values; one that never answered is listed by its address', async () => {
  const [gone, silent] = [await freePort(), await freePort()];
  const stopping = await member('loans', 'credit-default', { port: gone });
  const service = await startService([`pipeline_members=${JSON.stringify([at(gone), at(silent)])}`]);
  const read = async () => (await service.call('GET', '/api/v1/pipelines')).json;
  expect(await read()).toMatchObject({ pipelines: [{ state: 'running' }], unreachable: [at(silent)] });
  await stopping.close();
  await expect.poll(read).toMatchObject({ pipelines: [{ state: 'unreachable', lag: 7 }], unreachable: [at(silent)] });
});

test.each([
  ['no JSON', (response: http.ServerResponse) => response.end('<html>')],
  ['another document', (response: http.ServerResponse) => response.end('{"pipelines":3}')],
  ['an endless answer', (response: http.ServerResponse) => void response.write('{"pipelines":[')],
  ['a redirect', (response: http.ServerResponse) => response.writeHead(302, { location: '/x' }).end()],
  ['too many bytes', (response: http.ServerResponse) => response.end(' '.repeat(2 ** 21))],
])('a member that answers with %s counts as unreachable', async (_name, answer) => {
  const server = http.createServer((_request, response) => answer(response)).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await until(() => server.listening);
  const address = at((server.address() as AddressInfo).port);
  const service = await startService([`pipeline_members=${JSON.stringify([address])}`]);
  const { status, json } = await service.call('GET', '/api/v1/pipelines');
  expect([status, json]).toEqual([200, { pipelines: [], unreachable: [address] }]);
});

test('a tenant sees the pipelines and uploads of its model only, and no address of other members', async () => {
  const alpha = await member('topic-alpha', modelOf('alpha'));
  const beta = await member('topic-beta', `${modelOf('beta')}@champion`);
  const hostile = await member('topic-odd', '../model');
  const members = [at(alpha.port), at(beta.port), at(hostile.port), at(await freePort())];
  const tenants = await startTenants(() => [`pipeline_members=${JSON.stringify(members)}`]);
  onTestFinished(() => tenants.close());
  for (const tenant of ['alpha', 'beta'] as const) {
    const other = tenant === 'alpha' ? 'beta' : 'alpha';
    const found = await listed({ call: tenants.ask }, tenant);
    expect(found.pipelines.map((p: { name: string }) => p.name)).toEqual([`topic-${tenant}`, pipelineOf(tenant)]);
    expect(found.pipelines[1]).toMatchObject({ kind: 'upload', state: 'accepts_uploads' });
    expect(found.unreachable).toEqual([]);
    expect(JSON.stringify(found)).not.toContain(other);
  }
});

test('a run of files reports itself on its metrics port', async () => {
  const folder = scratch();
  const file = path.join(folder, 'slow.yaml');
  writeFileSync(
    file,
    'model: credit-default\nsource: { type: stdio, format: csv }\nsink: { type: file, path: out.csv }\n',
  );
  const port = await freePort();
  const { child, done } = start(['run', file, '--metrics-port', String(port)], { cwd: folder });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await done;
  });
  const ask = async () =>
    fetch(`${at(port)}/pipelines`).then(
      async (response) => ((await response.json()) as PipelineReports).pipelines[0],
      () => null,
    );
  await expect.poll(ask).toMatchObject({ name: 'slow', model: 'credit-default', state: 'running', lag: null }); // biome-ignore format: one line
});
