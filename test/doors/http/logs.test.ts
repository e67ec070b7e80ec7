// Lines of the log as an operator finds them: by the id the client holds, by the trace it named, with what happened.
import path from 'node:path';
import { expect, test } from 'vitest';
import { scratch, sluiceHere, start } from '../../support/cli.ts';
import { collectedLog, type LogLine } from '../../support/collected-log.ts';
import { call, PREDICT, predictUrl, startService } from '../../support/service.ts';
import { checkTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const [TRACE, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const IDENTITY = { 'x-request-id': 'loan-4711/1', traceparent: `00-${TRACE}-${SPAN}-01` };

test('a request keeps its id and trace: in the answer, in a problem, in its line and in those of its job', async () => {
  const { log, lines } = collectedLog();
  const s = await startService([], undefined, { log });
  const of = (event: string) => lines.filter((l) => l.event === event && l.fields.request_id === 'loan-4711/1');
  const reply = await s.call('POST', predictUrl('json'), { body: '[]', headers: IDENTITY });
  expect([reply.status, reply.headers['x-request-id']]).toEqual([200, 'loan-4711/1']);
  await expect.poll(() => of('request')).toHaveLength(1);
  expect(of('request')[0]).toMatchObject({
    level: 'info',
    fields: {
      trace_id: TRACE,
      method: 'POST',
      route: `${PREDICT}.json`,
      status: 200,
      key: 'dev',
      model: expect.stringMatching(/^credit-default:\d+$/),
      rows: 0,
      rejected: 0,
      bytes_in: 2,
      bytes_out: Number(reply.headers['content-length'] ?? reply.text.length),
    },
  });
  const refused = await s.call('POST', predictUrl('json', '&modelId=x&top_effects=-1'), {
    body: '[]',
    headers: IDENTITY,
  });
  expect([refused.status, refused.json.requestId]).toEqual([400, 'loan-4711/1']);
  await expect.poll(() => of('request')).toHaveLength(2);
  expect(of('request')[1]).toMatchObject({
    level: 'info',
    fields: { status: 400, code: 'bad_request', trace_id: TRACE },
  });
  const job = await s.call('POST', predictUrl('json'), {
    body: '[{}]',
    headers: { ...IDENTITY, prefer: 'respond-async' },
  });
  expect(job.status).toBe(201);
  await expect.poll(() => of('job_failed')).toHaveLength(1);
  expect(of('job_queued')[0]!.fields).toMatchObject({ job_id: job.json.id, trace_id: TRACE, key: 'dev' });
  expect(of('job_started')).toHaveLength(1);
  expect(of('job_failed')[0]).toMatchObject({
    level: 'info',
    fields: { job_id: job.json.id, code: 'nothing_scored', trace_id: TRACE },
  });
  await expect.poll(() => of('request')).toHaveLength(3);
  expect(of('request')[2]!.fields).toMatchObject({ job_id: job.json.id, status: 201 });
});

test.each(['two words', 'x'.repeat(129), 'ümlaut'])('what is no id is replaced by one: %s', async (unfit) => {
  const { log, lines } = collectedLog();
  const s = await startService([], undefined, { log });
  const headers = { 'x-request-id': Buffer.from(unfit).toString('latin1'), traceparent: `00-${TRACE}` };
  const reply = await s.call('GET', '/nothing', { headers });
  expect(reply.json.requestId).toMatch(/^[0-9a-f-]{36}$/);
  expect(reply.headers['x-request-id']).toBe(reply.json.requestId);
  const found = () => lines.find((l) => l.fields.request_id === reply.json.requestId);
  await expect.poll(found).toMatchObject({ fields: { route: 'none', status: 404, code: 'not_found' } });
  expect(found()!.fields).not.toHaveProperty('trace_id');
});

test('of many successes some have a line, which say how many they stand for; refusals all have one', async () => {
  const { log, lines } = collectedLog();
  const s = await startService(['log.requests_per_second=2', 'log.sample_one_in=10'], undefined, { log });
  const each = async (n: number, url: string) => {
    for (let i = 0; i < n; i += 10)
      await Promise.all(Array.from({ length: 10 }, () => s.call('POST', url, { body: '[]' })));
  };
  await each(100, predictUrl('json'));
  await each(30, predictUrl('json', '&top_effects=-1'));
  const of = (status: number) => lines.filter((l) => l.event === 'request' && l.fields.status === status);
  await expect.poll(() => of(400)).toHaveLength(30);
  const successes = of(200);
  const stoodFor = successes.reduce((sum, l) => sum + Number(l.fields.sampled ?? 1), 0);
  expect(successes.length).toBeLessThan(60);
  expect(stoodFor).toBeGreaterThan(90);
  expect(stoodFor).toBeLessThanOrEqual(100);
  // Whoever asks for the health has no line but for those who want all.
  await s.call('GET', '/livez');
  await expect.poll(() => lines.filter((l) => l.fields.route === '/livez').map((l) => l.level)).toEqual(['debug']);
});

test('an answer that its client does not wait for has a line that says so', async () => {
  const { log, lines } = collectedLog();
  const s = await startService([], undefined, { log });
  const https = await import('node:https');
  const headers = { authorization: `API-Key ${s.token}`, 'x-request-id': 'gone-1' };
  const to = { host: '127.0.0.1', port: s.port, method: 'POST', path: predictUrl('csv'), rejectUnauthorized: false, agent: false, headers } as const; // biome-ignore format: one line
  const request = https.request(to);
  request.on('error', () => {});
  request.write('amount');
  await expect.poll(async () => (await s.call('GET', '/metrics')).text).toMatch(/sluice_http_uploads_in_flight 1/);
  request.destroy();
  const found = (): LogLine | undefined => lines.find((l) => l.fields.request_id === 'gone-1');
  await expect.poll(found).toMatchObject({ level: 'info', fields: { cut: true, code: 'client_gone' } });
});

checkTest('as a process, everything on standard error is JSON, from its start to its end', async () => {
  const folder = scratch();
  const args = [
    'serve',
    '--dev',
    '--port',
    '0',
    '--registry',
    path.resolve('src/bundled'),
    '--set',
    'workers=1',
    `spill.folder=${folder}`,
  ];
  const { child, done } = start(args, { cwd: folder, env: { SLUICE_LOG_FORMAT: 'auto' } });
  let words = '';
  child.stderr!.on('data', (text: string) => {
    words += text;
  });
  await until(() => words.includes('"dev_key"'));
  const linesOf = (text: string) => text.trimEnd().split('\n').map((line) => JSON.parse(line) as Record<string, unknown>); // biome-ignore format: one line
  const started = linesOf(words);
  const { port } = new URL(String(started.find((l) => l.event === 'service_started')!.url));
  const { key } = started.find((l) => l.event === 'dev_key') as { key: string };
  expect((await call(Number(port), key, 'POST', predictUrl('json'), { body: '[]' })).status).toBe(200);
  await until(() => words.includes('"request"'));
  child.kill('SIGTERM');
  const { code, stderr } = await done;
  expect(code).toBe(0);
  const lines = linesOf(stderr);
  for (const line of lines) {
    expect(line).toMatchObject({ service: 'sluice', pid: child.pid });
    expect(new Date(String(line.time)).getTime()).toBeGreaterThan(1.7e12);
  }
  expect(lines.map((l) => l.event)).toEqual([
    'service_started',
    'dev_key',
    'request',
    'service_stopping',
    'service_stopped',
  ]);
});

checkTest(
  'what keeps `serve` or `run` from beginning is a line of the log, with the exit code it always had',
  async () => {
    const folder = scratch();
    for (const [args, code] of [
      [['serve', '--set', 'limits.row=1'], 2],
      [['serve'], 2],
      [['run', 'there-is-none.yaml'], 2],
    ] as const) {
      const run = await sluiceHere([...args], { cwd: folder, env: { SLUICE_LOG_FORMAT: 'json' } });
      expect([args, run.code]).toEqual([args, code]);
      const lines = run.stderr.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line
      expect(lines).toEqual([
        expect.objectContaining({ level: 'fatal', event: 'command_failed', code: 'usage', exit_code: 2 }),
      ]);
    }
    const wrong = await sluiceHere(['serve', '--dev'], { cwd: folder, env: { SLUICE_LOG_LEVEL: 'loud' } });
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('$SLUICE_LOG_LEVEL must be one of')]);
  },
);
