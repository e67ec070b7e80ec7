// `sluice top` against a real service and a real metrics port.
import { writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { VERSION } from '../../../src/core/version.ts';
import { parseMetrics, quantileOf, type Scrape, topLines } from '../../../src/doors/commands/top.ts';
import { Metrics } from '../../../src/monitor/metrics.ts';
import { serveMetrics } from '../../../src/monitor/metrics-server.ts';
import { scratch, sluiceHere, start } from '../../support/cli.ts';
import { faultyPortfolio } from '../../support/column-faults.ts';
import { predictUrl, type Service } from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';
import { checkTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

function trusted({ running }: Service): string {
  const file = path.join(scratch(), 'ca.crt');
  writeFileSync(file, running.certificate!);
  return file;
}

const portfolio = () =>
  faultyPortfolio(300, 1, (row, i) => {
    if (i % 100 === 1) row.amount = '12x';
  });

test('one measurement of a real service: rows, requests, latency, jobs, rejects by code, memory', async () => {
  const service = await sharedService();
  const { running, token, call } = service;
  const url = running.url;
  const env = { SLUICE_API_KEY: token };
  const headers = { 'content-type': 'text/csv' };
  const predict = () => call('POST', predictUrl('csv', '&delimiter=comma'), { body: portfolio(), headers });
  // The first request loads the model, which can take longer than the interval.
  expect((await predict()).status).toBe(200);
  const shown = sluiceHere(['top', url, '--once', '--interval', '3', '--ca', trusted(service)], { env });
  // Requests until the measurement ends, so that some of them are within the interval.
  let ended = false;
  void shown.finally(() => {
    ended = true;
  });
  while (!ended) {
    const { status } = await predict();
    expect(status).toBe(200);
  }
  const { code, stdout, stderr } = await shown;
  expect([code, stderr]).toEqual([0, '']);
  const figure = (name: string): number => Number(new RegExp(`^ +${name} +([\\d.,]+)`, 'm').exec(stdout)![1]!.replaceAll(',', '')); // biome-ignore format: one line
  for (const name of ['rows/s', 'rejects/s', 'requests/s', 'memory', 'latency p50, p95'])
    expect([name, figure(name) > 0]).toEqual([name, true]);
  expect(figure('rows/s') / figure('requests/s')).toBeGreaterThan(100);
  expect(stdout).toMatch(/^ +ready +yes$/m);
  expect(stdout).toMatch(/^ +jobs +0 running, 0 queued, 0 failed$/m);
  expect(stdout).toMatch(/^ +credit-default:1 +[\d.,]+ +[\d,]+$/m);
  expect(stdout).toMatch(/^ +bad_number +[\d,]+ +[\d,]+$/m);
  expect(stdout).not.toMatch(/\x1b|NaN|undefined/);
});

checkTest('it refreshes until it is interrupted, with plain lines outside a terminal', async () => {
  const service = await sharedService();
  const { running, token } = service;
  const env = { SLUICE_API_KEY: token };
  const { child, done } = start(['top', running.url, '--interval', '1', '--ca', trusted(service)], { env });
  let text = '';
  child.stdout!.on('data', (part: string) => {
    text += part;
  });
  await until(() => (text.match(/ready +yes/g) ?? []).length >= 2);
  child.kill('SIGINT');
  expect(await done).toMatchObject({ code: 0, stderr: '' });
});

test('a metrics port without a key: lag and dead letters of a pipeline', async () => {
  const metrics = new Metrics('topic_run');
  const at = { pipeline: 'loans', topic: 't', partition: '0' };
  metrics.lag.set(at, 1200);
  metrics.lag.set({ ...at, partition: '1' }, 34);
  metrics.lagSeconds.set(at, 75);
  metrics.deadLetters.inc({ pipeline: 'loans', code: 'bad_number' }, 3);
  const pipelines = async () => ({ sluice: VERSION, pipelines: [] });
  const server = await serveMetrics(metrics, { host: '127.0.0.1', port: 0, ready: () => true, pipelines });
  onTestFinished(() => server.close());
  const url = `http://127.0.0.1:${server.port}`;
  const run = await sluiceHere(['top', url, '--once', '--interval', '1'], { env: { SLUICE_API_KEY: 'secret' } });
  expect([run.code, run.stderr]).toEqual([0, '']);
  expect(run.stdout).toMatch(/^ +pipeline +lag +oldest +dead letters\/s$/m);
  expect(run.stdout).toMatch(/^ +loans +1,234 +75 s +0$/m);
  expect(run.stdout).not.toContain('requests/s');
});

test('what cannot be read ends with a clear error, which never contains the key', async () => {
  const service = await sharedService();
  const { running, token } = service;
  const keys: (string | undefined)[] = [];
  const other = http.createServer((request, response) => {
    keys.push(request.headers.authorization);
    response.end('<html>hello</html>');
  });
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void other.close());
  const port = (other.address() as AddressInfo).port;
  const cases: [args: string[], key: string, code: number, words: RegExp][] = [
    [['http://127.0.0.1:1'], '', 1, /cannot read http:\/\/127\.0\.0\.1:1\/metrics: ECONNREFUSED .*\[metrics_unavailable\]/],
    [[running.url], token, 1, /the certificate is not trusted \(use --ca FILE\)/],
    [[running.url, '--ca', trusted(service)], '', 1, /status 401: set SLUICE_API_KEY to a key with the scope metrics/],
    [[running.url, '--ca', trusted(service)], 'sluice_wrong', 1, /status 401: the key in SLUICE_API_KEY needs the scope metrics/],
    [[`http://127.0.0.1:${port}`], token, 1, /the response contains no metrics of Sluice/],
    [['localhost:9464'], '', 2, /URL must be an address/],
    [['https://user:pass@localhost'], '', 2, /without a password/],
  ]; // biome-ignore format: a table
  for (const [args, key, code, words] of cases) {
    const run = await sluiceHere(['top', ...args, '--once', '--interval', '1'], { env: { SLUICE_API_KEY: key } });
    expect([args, run.code, run.stdout]).toEqual([args, code, '']);
    expect(run.stderr).toMatch(words);
    if (key !== '') expect(run.stderr).not.toContain(key);
  }
  // A key is never sent unencrypted.
  expect(keys).toEqual([undefined]);
});

const scrape = (at: number, text: string): Scrape => ({ at, series: parseMetrics(text) });

test('samples are parsed with escaped labels; other lines are ignored', () => {
  const text =
    '# HELP a b\na 1\nb{x="1,}",y="q\\"\\\\\\n"} 2.5e3 1700000000\nc{le="+Inf"} +Inf\nbroken{x="1\nd{} NaN\n\ne 7\n';
  const found = parseMetrics(text);
  expect(found.get('a')).toEqual([{ labels: {}, value: 1 }]);
  expect({ ...found.get('b')![0]!.labels }).toEqual({ x: '1,}', y: 'q"\\\n' });
  expect([found.get('b')![0]!.value, found.get('c')![0]!.value, found.get('e')![0]!.value]).toEqual([
    2500,
    Infinity,
    7,
  ]);
  expect([found.has('d'), found.size]).toEqual([false, 4]);
});

test('a counter that restarted counts from 0; names of models are shown without control characters', () => {
  const lines = topLines(
    scrape(0, 'sluice_rows_total{model="m\\nx\x1b[2J"} 1000\n'),
    scrape(2000, 'sluice_ready 0\nsluice_rows_total{model="m\\nx\x1b[2J"} 50\n'),
  );
  const text = lines.join('\n');
  expect(text).toMatch(/ready +NO/);
  expect(text).toMatch(/rows\/s +25$/m);
  expect(text).toMatch(/^ +m x \[2J +25 +50$/m);
  expect(text).not.toContain('\x1b');
});

test('all figures of a service and a pipeline: rates of ten seconds, the largest first, five of each', () => {
  const models = (rows: (n: number) => number): string =>
    [1, 2, 3, 4, 5, 6].map((n) => `sluice_rows_total{model="m${n}"} ${rows(n)}\n`).join('');
  const requests = (served: number, fast: number, watching: number): string => `sluice_http_requests_queued 3
sluice_http_request_seconds_count{route="/predict"} ${served}
sluice_http_request_seconds_count{route="/metrics"} ${watching}
sluice_http_request_seconds_bucket{route="/predict",le="0.1"} ${fast}
sluice_http_request_seconds_bucket{route="/predict",le="0.3"} ${served}
sluice_http_request_seconds_bucket{route="/predict",le="+Inf"} ${served}
sluice_http_request_seconds_bucket{route="/metrics",le="0.1"} ${watching}
sluice_http_request_seconds_bucket{route="/metrics",le="+Inf"} ${watching}
`;
  const before = `${models((n) => 1000 * n)}${requests(100, 60, 9000)}sluice_rows_rejected_total{code="bad_number"} 5
sluice_http_errors_total{code="unknown_model"} 1
sluice_worker_busy_seconds_total{worker="0"} 10
sluice_worker_busy_seconds_total{worker="1"} 20
process_cpu_seconds_total 7
sluice_dead_letters_total{pipeline="loans",code="bad_number"} 2
`;
  const now = `${models((n) => 1000 * n + (n === 2 ? 5000 : n === 6 ? 25 : 0))}${requests(200, 110, 9900)}sluice_ready 1
sluice_rows_rejected_total{code="bad_number"} 45
sluice_rows_rejected_total{code="missing_value"} 1200
sluice_rows_rejected_total{code="unknown_category"} 0
sluice_http_errors_total{code="unknown_model"} 21
sluice_jobs{state="running"} 2
sluice_jobs{state="queued"} 1234
sluice_jobs{state="failed"} 1
sluice_workers 2
sluice_worker_busy_seconds_total{worker="0"} 16
sluice_worker_busy_seconds_total{worker="1"} 25
process_cpu_seconds_total 19.5
process_resident_memory_bytes ${250 * 2 ** 20}
sluice_kafka_lag_records{pipeline="loans",partition="0"} 9
sluice_kafka_lag_records{pipeline="cards",partition="0"} 9
sluice_kafka_lag_records{pipeline="cards",partition="1"} 2
sluice_kafka_lag_seconds{pipeline="cards",partition="0"} 4
sluice_kafka_lag_seconds{pipeline="cards",partition="1"} 31
sluice_kafka_lag_seconds{pipeline="loans",partition="0"} 0
sluice_dead_letters_total{pipeline="loans",code="bad_number"} 17
`;
  const lines = topLines(scrape(5000, before), scrape(15_000, now));
  expect(lines.join('\n')).toBe(`  ready             yes
  rows/s            503
  rejects/s         124
  requests/s        10
  errors/s          2.0
  latency p50, p95  100 ms, 280 ms
  requests waiting  3
  jobs              2 running, 1,234 queued, 1 failed
  workers           2, 55 % busy
  CPU               1.25 cores
  memory            250 MB

  pipeline  lag  oldest  dead letters/s
  cards      11    31 s               0
  loans       9     0 s             1.5

  model  rows/s   rows
  m2        500  7,000
  m6        2.5  6,025
  m5          0  5,000
  m4          0  4,000
  m3          0  3,000

  rows rejected by code    now  total
  missing_value          1,200  1,200
  bad_number                40     45

  requests failed by code  now  total
  unknown_model             20     21`);
});

test('quantiles are interpolated within a bucket', () => {
  const buckets = new Map([['0.1', 10], ['0.2', 20], ['+Inf', 20]]); // biome-ignore format: one line
  expect(quantileOf(buckets, 0.75)).toBeCloseTo(0.15, 12);
  expect(quantileOf(buckets, 0.25)).toBeCloseTo(0.05, 12);
  expect(quantileOf(new Map([['0.1', 0], ['+Inf', 4]]), 0.5)).toBe(0.1); // biome-ignore format: one line
  expect(quantileOf(new Map(), 0.5)).toBe(null);
});
