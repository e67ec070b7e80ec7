// The Open Inference Protocol over real TLS sockets: the predictions of the predict operations, and refusals its clients understand.
import { mkdtempSync, rmSync } from 'node:fs';
import https from 'node:https';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { asNative, asObjects, predictUrl, type Service, startService } from '../../support/service.ts';

interface Input {
  name: string;
  shape: number[];
  datatype: string;
  data: unknown[];
}

const DATATYPE: Record<string, string> = { boolean: 'BOOL', number: 'FP64', string: 'BYTES' };

/** The columns of applications as tensors. */
function tensors(rows: readonly Record<string, unknown>[], wide = false): Input[] {
  return Object.keys(rows[0]!).map((name) => {
    const data = rows.map((row) => row[name] ?? null);
    const datatype = DATATYPE[typeof data.find((value) => value !== null)] ?? 'BYTES';
    return { name, shape: wide ? [rows.length, 1] : [rows.length], datatype, data: wide ? data.map((v) => [v]) : data };
  });
}

const applications = (rows: number): Record<string, unknown>[] =>
  asNative(asObjects(Buffer.concat([...generatePortfolio({ rows, seed: 29, oddness: 'none' })]).toString()));

const INFER = '/v2/models/credit-default/infer';

let s: Service;
beforeAll(async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-infer-'));
  s = await startService([], folder, { keep: true });
  return async () => {
    await s.running.stop();
    rmSync(folder, { recursive: true });
  };
});
const infer = (body: unknown, path = INFER) => s.call('POST', path, { body: JSON.stringify(body) });

test.each([1, 2, 40, 3000])('%i rows have the predictions of predict.json, as columns of either shape', async (n) => {
  const rows = applications(n);
  const { predictions } = (await s.call('POST', predictUrl('json'), { body: JSON.stringify(rows) })).json;
  for (const wide of [false, true]) {
    const { status, json } = await infer({ id: 'night 7', inputs: tensors(rows, wide) });
    expect([status, json.id, json.model_name, json.model_version]).toEqual([200, 'night 7', 'credit-default', '1']);
    expect(json.parameters.package_sha256).toMatch(/^[0-9a-f]{64}$/);
    expect(json.outputs.map((o: Input) => [o.name, o.datatype, o.shape])).toEqual([
      ['prediction', 'BOOL', [n]],
      ['probability', 'FP64', [n]],
      ['points', 'INT64', [n]],
      ['decision', 'BYTES', [n]],
    ]);
    for (const { name, data } of json.outputs as Input[]) {
      expect(data, name).toEqual(predictions.map((p: Record<string, unknown>) => p[name]));
    }
  }
});

test('a client finds what it asks for before it sends: health, metadata, one version, some of the outputs', async () => {
  const get = (path: string, token?: null) => s.call('GET', path, token === null ? { token } : {});
  expect((await get('/v2', null)).json).toMatchObject({ name: 'sluice', extensions: ['binary_tensor_data'] });
  expect((await get('/v2/health/live', null)).json).toEqual({ live: true });
  expect((await get('/v2/health/ready', null)).json).toEqual({ ready: true });
  expect((await get('/v2/models/credit-default/ready')).json).toEqual({ name: 'credit-default', ready: true });
  const { json } = await get('/v2/models/credit-default');
  expect(json.inputs).toHaveLength(23);
  expect(json.inputs).toContainEqual({ name: 'income', datatype: 'FP64', shape: [-1] });
  expect(json.inputs).toContainEqual({ name: 'source_type', datatype: 'BYTES', shape: [-1] });
  expect(json.outputs).toContainEqual({ name: 'probability', datatype: 'FP64', shape: [-1] });
  const rows = applications(3);
  const inputs = tensors(rows);
  const chosen = await infer(
    { inputs, outputs: [{ name: 'probability' }] },
    '/v2/models/credit-default/versions/1/infer',
  );
  expect(chosen.json.outputs.map((o: Input) => o.name)).toEqual(['probability']);
  expect((await get('/v2/models/credit-default/versions/1/ready')).status).toBe(200);
});

describe('what is refused is told in words, where these clients look for them', () => {
  const rows = applications(2);
  const good = tensors(rows);
  const [first] = good as [Input];
  const but = (change: Partial<Input>) => ({ inputs: [{ ...first, ...change }, ...good.slice(1)] });
  test.each<[string, unknown, number, RegExp]>([
    ['no JSON', null, 400, /inputs/],
    ['no inputs', { inputs: [] }, 400, /inputs/],
    ['no name', but({ name: 7 as never }), 400, /inputs\[0\] has no name/],
    ['a datatype that is none', but({ datatype: 'FLOAT' }), 400, /datatype must be one of BOOL/],
    ['a datatype that is a member of every object', but({ datatype: 'toString' }), 400, /datatype must be one of BOOL/],
    ['a matrix', but({ shape: [1, 2] }), 400, /must be \[rows\] or \[rows, 1\]/],
    ['another shape than its data', but({ shape: [3] }), 400, /as many elements/],
    ['an element of another type', but({ data: [true, 1] }), 400, /an element is not of type FP64/],
    ['no tensor for a column of the model', { inputs: good.slice(1) }, 400, /missing/],
    ['a column twice', { inputs: [...good, first] }, 400, /same name/],
    [
      'columns of different lengths',
      { inputs: [...good, { ...first, name: 'x', shape: [1], data: [1] }] },
      400,
      /same number/,
    ],
    ['no rows', { inputs: [{ ...first, shape: [0], data: [] }] }, 400, /no row/],
    ['an output that there is not', { inputs: good, outputs: [{ name: 'logit' }] }, 400, /prediction, probability/],
    ['an invalid application', but({ datatype: 'BYTES', data: ['12', 'many'] }), 400, /row 2|bad_number|number/],
  ])('%s', async (_, body, status, words) => {
    const reply = await infer(body);
    expect([reply.status, reply.json.error]).toEqual([status, expect.stringMatching(words)]);
    expect(reply.json.error).toBe(reply.json.detail);
  });

  test('no key, no such model, too much', async () => {
    const none = await s.call('POST', INFER, { token: null, body: '{}' });
    expect([none.status, none.json.error]).toEqual([401, expect.any(String)]);
    const strange = await infer({ inputs: good }, '/v2/models/nobody/infer');
    expect([strange.status, strange.json.code]).toEqual([404, 'model_not_found']);
    const large = await s.call('POST', INFER, { body: Buffer.alloc(17 * 1024 * 1024, 32) });
    expect([large.status, large.json.code]).toEqual([400, 'limit_exceeded']);
    expect((await s.call('GET', INFER)).status).toBe(405);
  });

  test('more inputs than a request may have, and one that is not a model column', async () => {
    const inputs = Array.from({ length: 2001 }, (_, i) => ({ ...first, name: `c${i}` }));
    expect((await infer({ inputs })).json).toMatchObject({ code: 'limit_exceeded', limit: 'columns' });
    const strange = await infer({ inputs: [...good, { ...first, name: 'x' }] });
    expect(strange.json).toMatchObject({ code: 'header_mismatch', detail: expect.stringContaining('inputs[') });
  });

  test('bodies of a key that are held take bounded memory together', async () => {
    const bytesRead = async () => {
      const { text } = await s.call('GET', '/metrics');
      return Number(/^sluice_http_request_body_bytes_total(?:\{.*\})? (\S+)$/m.exec(text)![1]);
    };
    const before = await bytesRead();
    const large = Buffer.alloc(15 * 1024 * 1024, 32);
    const to = {
      host: '127.0.0.1',
      port: s.port,
      method: 'POST',
      path: INFER,
      rejectUnauthorized: false,
      agent: false,
    };
    const held = [1, 2].map(() => {
      const request = https.request({ ...to, headers: { authorization: `API-Key ${s.token}` } });
      request.on('error', () => {});
      request.write(large);
      return request;
    });
    await expect.poll(bytesRead).toBe(before + 2 * large.length);
    const refused = await s.call('POST', INFER, { body: large });
    expect([refused.status, refused.json.code]).toEqual([503, 'overloaded']);
    for (const request of held) request.destroy();
    await expect
      .poll(async () => (await s.call('POST', INFER, { body: large })).json.code, { interval: 200 })
      .toBe('bad_request');
  });
});
