// Parquet and Arrow files over HTTP, answered as NDJSON: the predictions of JSON, wrong types rejected before a row, limits.
import { readdirSync } from 'node:fs';
import { type Column, columnFromArray, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { asNative, asObjects, predictUrl, type Service, startService } from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';

type Row = Record<string, unknown>;

const portfolio = (rows: number): Row[] =>
  asNative(asObjects(Buffer.concat([...generatePortfolio({ rows, seed: 17, faults: 0, oddness: 'none' })]).toString()));

const valuesOf = (rows: readonly Row[], name: string) => rows.map((row) => row[name] ?? null);

function parquet(rows: readonly Row[], change: (name: string, values: unknown[]) => unknown[] = (_, v) => v): Buffer {
  const columnData = Object.keys(rows[0]!).map((name) => ({ name, data: change(name, valuesOf(rows, name)) as string[] })); // biome-ignore format: one line
  return Buffer.from(parquetWriteBuffer({ columnData, rowGroupSize: 700 }));
}

function arrow(rows: readonly Row[], format: 'file' | 'stream'): Buffer {
  const columns = Object.keys(rows[0]!).map((name): [string, Column<unknown>] => {
    const values = valuesOf(rows, name);
    return [name, columnFromArray(values, values.some((v) => typeof v === 'string') ? utf8() : undefined) as Column<unknown>]; // biome-ignore format: one line
  });
  return Buffer.from(tableToIPC(tableFromColumns(columns), { format })!);
}

const table = (query = '', path = 'predict') => `/api/v1/scoring/${path}/table.ndjson?modelId=credit-default${query}`;
const PARQUET = { 'content-type': 'application/vnd.apache.parquet' };
const send = (s: Service, body: Uint8Array, url = table(), headers: Record<string, string> = PARQUET) =>
  s.call('POST', url, { body, headers });
const linesOf = (text: string): Row[] => text.trimEnd().split('\n').map((line) => JSON.parse(line)); // biome-ignore format: one line

test('Parquet and Arrow give the lines of NDJSON, with ids and rejected rows', async () => {
  const s = await sharedService();
  const rows: Row[] = portfolio(2000).map((row, i) => ({ application_id: `a${i}`, ...row }));
  // Rows without any value of the model.
  for (const i of [5, 1500]) {
    rows[i] = Object.fromEntries(
      Object.keys(rows[0]!).map((name) => [name, name === 'application_id' ? `a${i}` : null]),
    );
  }
  const query = '&passthrough=*';
  const body = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  const want = await s.call('POST', predictUrl('ndjson', query), { body });
  expect([want.status, linesOf(want.text).filter((row) => row.error).length]).toEqual([200, 2]);
  for (const file of [parquet(rows), arrow(rows, 'file'), arrow(rows, 'stream')]) {
    const answer = await send(s, file, table(query), { 'content-type': 'application/octet-stream' });
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/x-ndjson; charset=utf-8']);
    expect(answer.text === want.text).toBe(true);
  }
  const explained = await send(s, parquet(rows.slice(0, 3)), table('&passthrough=application_id', 'predict/interpretation')); // biome-ignore format: one line
  expect(linesOf(explained.text).map((row) => (row.interpretation as Row).method)).toEqual(Array(3).fill('tree_interventional')); // biome-ignore format: one line
});

test('a wrong type, other columns and damaged files are rejected before a row, without their values', async () => {
  const s = await sharedService();
  const rows = portfolio(800);
  const numbers = parquet(rows, (name, values) => (name === 'credit_product_id' ? values.map((_, i) => i) : values));
  const wrong = await send(s, numbers);
  expect([wrong.status, wrong.json.code]).toEqual([400, 'bad_type']);
  expect(wrong.json.errors).toEqual([{ code: 'bad_type', column: 'credit_product_id', message: expect.stringMatching(/contains numbers, but the model takes text/) }]); // biome-ignore format: one line
  const { amount: _, ...others } = rows[0]!;
  const missing = await send(s, parquet([{ ...others, ok: true }]));
  expect([missing.status, missing.json.code]).toEqual([400, 'outcome_present']);
  const extra = await send(s, parquet([{ ...others, 'Ann Smith': 'secret' }]));
  expect(extra.json.errors.map((e: Row) => [e.code, e.column])).toEqual([['missing_column', 'amount'], ['unexpected_column', undefined]]); // biome-ignore format: one line
  expect(extra.text).not.toMatch(/Ann|secret/);
  const whole = parquet(rows);
  for (const cut of [
    whole.subarray(0, whole.length - 5),
    whole.subarray(0, 4),
    Buffer.concat([whole.subarray(0, 900), whole.subarray(1000)]),
  ]) {
    const answer = await send(s, cut);
    expect([answer.status, answer.json.code]).toEqual([400, 'truncated_input']);
  }
  expect((await send(s, Buffer.alloc(0))).json.code).toBe('empty_input');
  expect((await send(s, whole, table(), { 'content-type': 'text/csv' })).json.code).toBe('invalid_content');
  const inParts = { ...PARQUET, 'tus-resumable': '1.0.0', 'upload-length': '9' };
  expect((await send(s, Buffer.alloc(0), table(), inParts)).json.code).toBe('bad_request');
});

test('limits of rows, columns, bytes and the temporary file, which is removed', async () => {
  const limits = ['limits.rows=500', 'limits.columns=24', 'spill.max_bytes=30000'];
  const s = await startService(limits);
  const limitOf = async (body: Uint8Array) => {
    const { status, json } = await send(s, body);
    return [status, json.code, json.limit ?? json.detail];
  };
  const rows = portfolio(400);
  const wide = rows.map((row) => ({ ...row, a: 1, b: 2 }));
  expect(await limitOf(parquet(wide.slice(0, 5)))).toEqual([400, 'limit_exceeded', 'columns']);
  expect(await limitOf(parquet(portfolio(2000)))).toEqual([400, 'limit_exceeded', 'spill.max_bytes']);
  const few = parquet(rows.slice(0, 20));
  expect((await send(s, few)).status).toBe(200);
  const many = parquet(Array.from({ length: 600 }, () => rows[0]!));
  expect(many.length).toBeLessThan(30_000);
  expect(await limitOf(many)).toEqual([400, 'limit_exceeded', 'rows']);
  const metrics = await s.call('GET', '/metrics');
  expect(metrics.text).toMatch(/^sluice_http_spilled_bytes 0$/m);
  expect(readdirSync(s.folder).filter((name) => name.startsWith('sluice-'))).toEqual([]);
});
