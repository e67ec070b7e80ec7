// Traces as a collector gets them: one id from the request to its job and to the records, and nothing of an input.
import { expect, test, vi } from 'vitest';
import { type Word, words } from '../../src/core/log.ts';
import { openTracer } from '../../src/monitor/otlp-tracer.ts';
import { linksOf, withBatchSpan } from '../../src/runs/topics/answer-records.ts';
import { CANARY, SUNG } from '../support/canaries.ts';
import { collectedLog } from '../support/collected-log.ts';
import { controlClock } from '../support/controlled-clock.ts';
import { startOtlpReceiver } from '../support/otlp-receiver.ts';
import { predictUrl, startService } from '../support/service.ts';

const [TRACE, SPAN] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
const headers = { traceparent: `00-${TRACE}-${SPAN}-01`, 'x-request-id': 'loan-1' };

test('a request and its job are spans of the trace that the client named', async () => {
  const { endpoint, spans, resource, text } = await startOtlpReceiver();
  const { log, lines } = collectedLog();
  vi.stubEnv('OTEL_RESOURCE_ATTRIBUTES', 'deployment.environment.name=test');
  const tracer = await openTracer({ env: {}, endpoint, log });
  vi.unstubAllEnvs();
  const s = await startService([], undefined, { log, tracer });
  await s.call('POST', predictUrl('json'), { body: '[]', headers });
  await s.call('POST', predictUrl('json'), {
    body: `[{"amount":"${CANARY}"}]`,
    headers: { ...headers, prefer: 'respond-async' },
  });
  await s.call('GET', '/nothing');
  await s.call('GET', '/livez', { headers });
  await expect.poll(() => lines.filter((l) => l.event === 'job_failed')).toHaveLength(1);
  await expect.poll(() => lines.filter((l) => l.event === 'request')).toHaveLength(4);
  await tracer!.close();
  expect(resource).toMatchObject({ 'service.name': 'sluice', 'deployment.environment.name': 'test' });
  const of = (traceId: string) => spans.filter((span) => span.traceId === traceId);
  expect(of(TRACE).map((span) => span.name).sort()).toEqual(['POST /api/v1/scoring/predict.json', 'POST /api/v1/scoring/predict.json', 'job']); // biome-ignore format: one line
  const [first, second] = of(TRACE).filter((span) => span.kind === 'SPAN_KIND_SERVER');
  expect([first!.parentSpanId, second!.parentSpanId]).toEqual([SPAN, SPAN]);
  expect(first!.attributes).toMatchObject({ 'http.response.status_code': 200, 'sluice.request_id': 'loan-1' });
  // The job is a child of the request that made it.
  const job = of(TRACE).find((span) => span.name === 'job')!;
  expect(job.parentSpanId).toBe(second!.spanId);
  expect(job).toMatchObject({ status: 'STATUS_CODE_ERROR', attributes: { 'error.type': 'nothing_scored' } });
  // Whoever names no trace gets one of its own; whoever asks for the health gets none.
  expect(spans.filter((span) => span.traceId !== TRACE)).toMatchObject([
    { parentSpanId: '', attributes: { 'http.response.status_code': 404, 'error.type': 'not_found' } },
  ]);
  // Its line names the span, too.
  const line = lines.find((l) => l.event === 'request' && l.fields.status === 200)!;
  expect(line.fields).toMatchObject({ trace_id: TRACE, span_id: first!.spanId });
  expect(text()).not.toMatch(SUNG);
});

test('a micro-batch is linked to the traces of its records, each once; a failure is told by its code', async () => {
  const { endpoint, spans, text } = await startOtlpReceiver();
  const tracer = await openTracer({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint }, log: () => {} });
  const record = (traceparent?: string) => ({
    key: null,
    value: Buffer.from(CANARY),
    headers: { [CANARY]: Buffer.from(CANARY), ...(traceparent ? { traceparent: Buffer.from(traceparent) } : {}) },
    topic: 'loans',
    partition: 1,
    offset: 7n,
    timestamp: 0n,
  });
  const other = 'a'.repeat(32);
  const records = [
    record(headers.traceparent),
    record(headers.traceparent),
    record(`00-${other}-${SPAN}-00`),
    record(),
    record(CANARY),
  ];
  expect(linksOf(records as never).map((l) => l.traceId)).toEqual([TRACE, other]);
  expect(await withBatchSpan(tracer, records as never, async () => 5)).toBe(5);
  const fails = withBatchSpan(tracer, records as never, () => Promise.reject(new TypeError(CANARY)));
  await expect(fails).rejects.toThrow(TypeError);
  await tracer!.close();
  expect(spans).toMatchObject([
    {
      kind: 'SPAN_KIND_CONSUMER',
      links: [TRACE, other],
      status: 'STATUS_CODE_UNSET',
      attributes: { 'messaging.destination.name': 'loans', 'sluice.rows': 5 },
    },
    { status: 'STATUS_CODE_ERROR' },
  ]);
  expect(text()).not.toMatch(SUNG);
});

test('of the traces that begin here so many a second are recorded; whoever began one decides of it, linked or a parent', async () => {
  controlClock();
  const { endpoint, spans } = await startOtlpReceiver();
  const tracer = (await openTracer({ env: {}, endpoint, perSecond: 3, log: () => {} }))!;
  const named = (sampled: boolean) => ({ traceId: TRACE as Word, spanId: SPAN as Word, sampled });
  const roots = Array.from({ length: 500 }, () => tracer.begin('root' as Word, { kind: 'server' }));
  const linked = tracer.begin('linked' as Word, { kind: 'consumer', links: [named(false), named(true)] });
  const child = tracer.begin('child' as Word, { kind: 'server', parent: named(true) });
  const unwanted = tracer.begin('unwanted' as Word, { kind: 'server', parent: named(false) });
  for (const span of [...roots, linked, child, unwanted]) span.end({});
  await tracer.close();
  // All have an id for their lines.
  expect(new Set(roots.map(({ context }) => context.traceId)).size).toBe(500);
  const sampled = roots.filter(({ context }) => context.sampled);
  expect(sampled).toHaveLength(3);
  expect(spans.filter(({ name }) => name === 'root')).toHaveLength(sampled.length);
  expect(
    spans
      .map(({ name }) => name)
      .filter((name) => name !== 'root')
      .sort(),
  ).toEqual(['child', 'linked']);
});

test('without an endpoint there is no tracer; a collector that refuses holds nothing up and is told once', async () => {
  expect(await openTracer({ env: {}, log: () => {} })).toBeNull();
  expect(
    await openTracer({ env: { OTEL_SDK_DISABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://x' }, log: () => {} }),
  ).toBeNull();
  await expect(openTracer({ env: {}, endpoint: 'collector:4318', log: () => {} })).rejects.toMatchObject({
    code: 'usage',
  });
  const { endpoint } = await startOtlpReceiver(400);
  const { log, lines } = collectedLog();
  const tracer = await openTracer({ env: {}, endpoint, log });
  for (let i = 0; i < 3; i++) tracer!.begin(words`x`, { kind: 'internal' }).end({});
  await tracer!.close();
  expect(lines.map((l) => [l.level, l.event, l.says])).toEqual([['warn', 'tracing_failed', 'traces cannot be sent']]);
});
