// Frames over HTTP: what goes in as Arrow comes back as Arrow, with the predictions of JSON, and while it is still being sent.
import {
  type Column,
  columnFromArray,
  type DataType,
  dictionary,
  nullType,
  tableFromColumns,
  tableFromIPC,
  tableToIPC,
  utf8,
} from '@uwdata/flechette';
import { describe, expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { type Columns, END, recordMessage, schemaMessage } from '../../support/arrow-messages.ts';
import {
  asNative,
  asObjects,
  openUpload,
  PREDICT,
  predictUrl,
  type Service,
  startService,
} from '../../support/service.ts';
import { sharedService } from '../../support/shared-service.ts';
import { checkTest } from '../../support/tiers.ts';

type Row = Record<string, unknown>;
const NO_BYTES = new Uint8Array(0);

const portfolio = (rows: number, faults = 0): Row[] =>
  asNative(asObjects(Buffer.concat([...generatePortfolio({ rows, seed: 17, faults, oddness: 'none' })]).toString()));

/** Numbers and booleans with their types, words as a dictionary; `batch`: rows of a record batch. */
function frame(rows: readonly Row[], batch = rows.length): Buffer {
  const names = Object.keys(rows[0]!);
  const columns = names.map((name): [string, Column<unknown>] => {
    const values = rows.map((row) => row[name] ?? null);
    const type = values.some((v) => typeof v === 'string') ? dictionary(utf8()) : undefined;
    return [name, columnFromArray(values, type, { maxBatchRows: batch }) as Column<unknown>];
  });
  return Buffer.from(tableToIPC(tableFromColumns(columns), { format: 'stream' })!);
}

const ARROW = { headers: { 'content-type': 'application/vnd.apache.arrow.stream' } };
const predict = (s: Service, body: Uint8Array, path = predictUrl('arrow')) => s.call('POST', path, { body, ...ARROW });
const rowsOf = (bytes: Uint8Array): Row[] => tableFromIPC(new Uint8Array(bytes)).toArray() as Row[];

/** A prediction of JSON as a row of the table. */
const flat = ({ error, interpretation: _, ...prediction }: Row): Row => {
  const { code = null, column = null, message = null } = (error ?? {}) as Row;
  return { prediction: null, probability: null, points: null, decision: null, ...prediction, error_code: code, error_column: column, error_message: message }; // biome-ignore format: one line
};

test('a frame gives the predictions of JSON, rejected rows in their places', async () => {
  const s = await sharedService();
  const good = portfolio(1_000);
  for (const [given, batch] of [
    [good, 1_000],
    [good, 7],
  ] as const) {
    const want = (await s.call('POST', predictUrl('json'), { body: JSON.stringify(given) })).json;
    const answer = await predict(s, frame(given, batch));
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'application/vnd.apache.arrow.stream']);
    expect(rowsOf(answer.bytes)).toEqual(want.predictions.map(flat));
  }
  const texts = good.map((row, i) => {
    const words = Object.entries(row).map(([name, value]) => [name, value === null ? null : String(value)]);
    return {
      application_id: i % 7 === 0 ? null : `ä${i}`,
      ...Object.fromEntries(words),
      ...(i % 10 === 3 ? { income: 'much' } : {}),
    } as Row;
  });
  const want = (
    await s.call('POST', predictUrl('json', '&passthrough=application_id'), { body: JSON.stringify(texts) })
  ).json;
  expect(want.summary.rejected).toBe(100);
  const answer = await predict(s, frame(texts, 300), predictUrl('arrow', '&passthrough=application_id'));
  const echoed = want.predictions.map((p: Row, i: number) => ({ ...flat(p), application_id: texts[i]!.application_id ?? null })); // biome-ignore format: one line
  expect(rowsOf(answer.bytes)).toEqual(echoed);
});

checkTest('an interpretation is that of JSON', async () => {
  const s = await sharedService();
  const given = portfolio(20);
  const path = (format: string) => `${PREDICT}/interpretation.${format}?modelId=credit-default`;
  const want = (await s.call('POST', path('json'), { body: JSON.stringify(given) })).json;
  const rows = rowsOf((await predict(s, frame(given), path('arrow'))).bytes);
  for (const [i, { interpretation }] of want.predictions.entries()) {
    expect(rows[i]!.base).toBe(interpretation.base);
    const effects = interpretation.effects.map(({ column, effect }: Row) => [column, effect]);
    expect(effects.map(([column]: [string]) => [column, rows[i]![`effect.${column}`]])).toEqual(effects);
  }
});

checkTest('predictions come back while the frame is still being sent', async () => {
  const s = await sharedService();
  const rows = Array.from({ length: 14 }, () => portfolio(1_000)).flat();
  const bytes = frame(rows, 1_000);
  const authorization = { authorization: `API-Key ${s.token}` };
  const most = Math.floor((bytes.length * 12.5) / 14);
  const answered = Promise.withResolvers<Buffer>();
  const upload = openUpload(
    s.port,
    { ...authorization, ...ARROW.headers },
    (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => {
        // The rest is sent when something came back.
        if (chunks.push(chunk) === 1) upload.end(bytes.subarray(most));
      });
      response.on('end', () => answered.resolve(Buffer.concat(chunks)));
      response.on('error', answered.reject);
    },
    'arrow',
  );
  upload.on('error', answered.reject);
  upload.write(bytes.subarray(0, most));
  expect(rowsOf(await answered.promise)).toHaveLength(14_000);
});

describe('refused with a code', () => {
  const sound = frame(portfolio(50));
  const nested = Buffer.from(tableToIPC(tableFromColumns([['amount', columnFromArray([[1], [2]]) as Column<unknown>]]), { format: 'stream' })!); // biome-ignore format: one line
  test.each([
    ['cut in a batch', sound.subarray(0, sound.length - 100), '', 'truncated_input'],
    ['no Arrow', Buffer.from('a,b\n1,2\n3,4\n'), '', 'truncated_input'],
    ['empty', Buffer.alloc(0), '', 'empty_input'],
    ['nested', nested, '', 'header_mismatch'],
    ['all columns passed through', sound, '&passthrough=*', 'bad_request'],
    ['columns that are not the model’s', frame([{ x: 1 }]), '', 'unexpected_column'],
  ])('%s', async (_, body, query, code) => {
    const s = await sharedService();
    const { status, json } = await predict(s, body, predictUrl('arrow', query));
    const codes = [json?.code, ...(json?.errors ?? []).map((e: Row) => e.code)];
    expect([status, codes]).toEqual([expect.any(Number), expect.arrayContaining([code])]);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).toBeLessThan(500);
  });

  checkTest('other columns, and more rows, columns and bytes than a request may have, before its rows', async () => {
    const s = await startService(['limits.rows=100', 'limits.columns=30', 'limits.expanded_bytes=2000']);
    const names = Object.keys(portfolio(1)[0]!);
    const table = (of: DataType, columns: readonly string[], records: Columns) =>
      Buffer.concat([
        schemaMessage(Object.fromEntries(columns.map((name) => [name, of]))),
        recordMessage(records),
        END,
      ]);
    const nulls = (rows: number) =>
      table(nullType(), names, { rows, nodes: names.map(() => [rows, rows]), buffers: [] });
    const limitOf = async (body: Uint8Array) => {
      const { json } = await predict(s, body);
      return [json.code, json.limit, json.detail];
    };
    expect((await predict(s, frame([{ x: 1 }]))).json.code).toBe('header_mismatch');
    const limited = (limit: string) => ['limit_exceeded', limit, expect.any(String)];
    expect(await limitOf(nulls(1_000_000_000))).toEqual(limited('rows'));
    expect(await limitOf(nulls(100))).toEqual(limited('expanded_bytes'));
    const many = Array.from({ length: 31 }, (_, i) => `c${i}`);
    expect(await limitOf(table(nullType(), many, { rows: 0, nodes: [], buffers: [] }))).toEqual(limited('columns'));
    const MOST = 64 * 1024 * 1024;
    const claims = { zstd: new Uint8Array(8), claims: MOST + 64 };
    const large = {
      rows: 1,
      nodes: names.map(() => [1, 0] as const),
      buffers: names.flatMap(() => [NO_BYTES, NO_BYTES, claims]),
    };
    expect(await limitOf(table(utf8(), names, large))).toEqual([
      'limit_exceeded',
      undefined,
      expect.stringContaining(`a record batch takes more than ${MOST} bytes`),
    ]);
  });

  test('another content type', async () => {
    const s = await sharedService();
    const headers = { 'content-type': 'text/csv' };
    expect((await s.call('POST', predictUrl('arrow'), { body: sound, headers })).json.code).toBe('invalid_content');
  });
});
