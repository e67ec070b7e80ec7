// The bytes of predictions are those of JSON.stringify and of joined fields, for every task and format.
import { expect, test } from 'vitest';
import { type ColumnBatch, newBatch } from '../../../src/core/batch.ts';
import { createFormatter } from '../../../src/formats/choose-formatter.ts';
import { neutralField, plainField, quoteField } from '../../../src/formats/delimited/delimited-formatter.ts';
import { ByteWriter } from '../../../src/formats/write/byte-writer.ts';
import type { OutputSpec } from '../../../src/formats/write/formatter.ts';
import { shortestFloat32 } from '../../../src/formats/write/number.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';

const CLASSES = ['a,b', 'q"q', 'größe', '=1+1'];
const base = { id: 'm', version: 1, onnx: { file: 'm.onnx', sha256: '0'.repeat(64) }, columns: [], inputs: [] };
const BINARY: Manifest = {
  ...base,
  task: 'binary',
  classes: [0, 1],
  positive_class: 1,
  scorecard: { base_points: 600, base_odds: 20, points_to_double_odds: 40 },
  decisions: [
    { name: 'approve, "gladly"', min_probability: 0.8 },
    { name: 'Prüfung', min_probability: 0.3 },
  ],
};
const MULTICLASS: Manifest = { ...base, task: 'multiclass', classes: CLASSES };
const REGRESSION: Manifest = { ...base, task: 'regression' };

const values = Float32Array.of(0.9801286, 1e-9, 0.5, 0.50000006, 1, 0, 0.3, 123456.79);
const number = (v: number) => shortestFloat32(Math.fround(v));
const points = (p: number) => {
  const q = Math.min(1 - 1e-9, Math.max(1e-9, Math.fround(p)));
  return Math.round(600 - (40 / Math.LN2) * Math.log(20) + (40 / Math.LN2) * Math.log(q / (1 - q)));
};
const decision = (p: number) => (Math.fround(p) >= 0.8 ? 'approve, "gladly"' : Math.fround(p) >= 0.3 ? 'Prüfung' : '');

/** Rows of an answer, the second one rejected. */
function write(
  manifest: Manifest,
  format: 'ndjson' | 'csv',
  width: number,
  delimiter = ',',
  rest: Partial<OutputSpec> = {},
): string[] {
  const rows = values.length / width;
  const batch: ColumnBatch = {
    ...newBatch([], rows),
    rows,
    rejected: Uint8Array.from({ length: rows }, (_, r) => Number(r === 1)),
    rejections: [{ index: 1, code: 'bad_number', column: 'größe', message: 'not a number' }],
    passthrough: [Array.from({ length: rows }, (_, r) => (r === 0 ? null : `id"${r}`))],
  };
  const spec = { format, delimiter, passthrough: ['id'], passthroughIsJson: false, interpretation: null, ...rest };
  const out = new ByteWriter(1);
  createFormatter(spec, manifest).write(out, batch, { values, width }, 99_999_999, null);
  return out.view().toString().split('\n').slice(0, -1);
}

const head = (r: number) => `{"id":${r === 0 ? 'null' : JSON.stringify(`id"${r}`)},"row":${99_999_999 + r}`;
const REJECTED = `${head(1)},"error":{"code":"bad_number","column":"größe","message":"not a number"}}`;

test('binary', () => {
  const json = [...values].map((p, r) => {
    if (r === 1) return REJECTED;
    const rest = `"points":${points(p)},"decision":${JSON.stringify(decision(p))}`;
    return `${head(r)},"prediction":${p > 0.5},"probability":${number(p)},${rest}}`;
  });
  expect(write(BINARY, 'ndjson', 1)).toEqual(json);
  for (const d of [',', ';', '\t']) {
    const csv = [...values].map((p, r) => {
      const id = quoteField(r === 0 ? '' : `id"${r}`, d);
      if (r === 1) return [id, 99_999_999 + r, '', '', '', '', 'bad_number', 'größe', 'not a number'].join(d);
      const answer = [String(p > 0.5), number(p), points(p), quoteField(decision(p), d)];
      return [id, 99_999_999 + r, ...answer, '', '', ''].join(d);
    });
    expect(write(BINARY, 'csv', 1, d)).toEqual(csv);
  }
});

test('multiclass', () => {
  const json = [0, 1].map((r) => {
    if (r === 1) return REJECTED;
    const p = [...values.subarray(0, 4)];
    const all = CLASSES.map((c, i) => `${JSON.stringify(c)}:${number(p[i]!)}`).join(',');
    return `${head(r)},"prediction":"a,b","probability":${number(p[0]!)},"probabilities":{${all}}}`;
  });
  expect(write(MULTICLASS, 'ndjson', 4)).toEqual(json);
  const p = [...values.subarray(0, 4)].map(number);
  expect(write(MULTICLASS, 'csv', 4)[0]).toBe(['', 99_999_999, '"a,b"', p[0], ...p, '', '', ''].join(','));
});

test('regression', () => {
  const json = [...values].map((v, r) => (r === 1 ? REJECTED : `${head(r)},"value":${number(v)}}`));
  expect(write(REGRESSION, 'ndjson', 1)).toEqual(json);
  expect(write(REGRESSION, 'csv', 1, '|').at(-1)).toBe(`"id""7"|100000006|123456.79|||`);
});

test('an answer that is read on its own names the model and the passthrough columns, rejected or not', () => {
  const model = '{"modelId":"m","modelVersion":"1"';
  const json = [...values].map((v, r) =>
    r === 1
      ? `${model},"id":"id\\"1","error":{"code":"bad_number","column":"größe","message":"not a number"}}`
      : `${model},"id":${r === 0 ? 'null' : JSON.stringify(`id"${r}`)},"value":${number(v)}}`,
  );
  expect(write(REGRESSION, 'ndjson', 1, ',', { identity: 'model' })).toEqual(json);
  // JSON in: a missing key is left out, all keys together are a fragment.
  const given = (passthrough: string) =>
    write(REGRESSION, 'ndjson', 1, ',', { identity: 'model', passthrough: [passthrough], passthroughIsJson: true });
  expect(given('id')[0]).toBe(`${model},"value":${number(values[0]!)}}`);
  expect(given('id')[1]).toMatch(/^\{"modelId":"m","modelVersion":"1","id":id"1,"error":\{/);
  expect(given('*')[2]).toBe(`${model},id"2,"value":${number(values[2]!)}}`);
});

test.each(['=', '+', '-', '@', '\t', '\r'])('a text that begins with %j does not run as a formula', (first) => {
  const field = (text: string): string => neutralField(text, ';').replace(/^"(.*)"$/s, '$1');
  expect(field(`${first}SUM(A1)`)).toBe(`'${first}SUM(A1)`);
  expect(field(first)).toBe(`'${first}`);
  expect(field(`a${first}b`)).toBe(`a${first}b`);
});

test('a text that was kept from running as a formula is found again, and no other is touched', () => {
  const texts = ['=1+1', '+a', '-', '-5', '+1e5', '@x', '\tx', '\rx', "o'k", "'", '', 'a', 'A-1', '1=1'];
  for (const text of texts) expect(plainField(neutralField(text, ';').replace(/^"(.*)"$/s, '$1')), text).toBe(text);
});
