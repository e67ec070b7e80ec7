// Limits of tensors of the Open Inference Protocol: what a request claims is checked before anything is made of it.
import { describe, expect, test } from 'vitest';
import { TensorTable } from '../../../src/doors/http/wire/tensor-table.ts';
import { readInferRequest, refuseUnknownInputs } from '../../../src/doors/http/wire/tensors.ts';
import { LineBatch } from '../../../src/formats/columns/line-batch.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import { framed } from '../../support/binary-frames.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';

const tensor = (name: string, data: readonly unknown[], datatype = 'FP64') => ({ name, shape: [data.length], datatype, data }); // biome-ignore format: one line
const refusal = (code: string, message: RegExp) => expect.objectContaining({ code, message: expect.stringMatching(message) }); // biome-ignore format: one line
const read = (inputs: readonly object[], limits = { rows: 10, columns: 3 }) =>
  readInferRequest(Buffer.from(JSON.stringify({ inputs })), limits);

test('rows and inputs have a largest number', () => {
  expect(read([tensor('a', Array(10).fill(1))]).rows).toBe(10);
  expect(() => read([tensor('a', Array(11).fill(1))])).toThrow(refusal('limit_exceeded', /10 rows/));
  const inputs = (count: number) => Array.from({ length: count }, (_, i) => tensor(`c${i}`, [1]));
  expect(read(inputs(3)).columns).toHaveLength(3);
  expect(() => read(inputs(4))).toThrow(refusal('limit_exceeded', /3 columns/));
  // Their number is checked before they are read.
  expect(() => read(Array(4).fill(7))).toThrow(refusal('limit_exceeded', /3 columns/));
});

test('an input that is not a model column is refused without its name', async () => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const { columns } = read([tensor('income', [1]), tensor('n'.repeat(1000), [1])]);
  expect(() => refuseUnknownInputs(columns, manifest)).toThrow(
    refusal('header_mismatch', /^inputs\[1\] is not a column of the model$/),
  );
  refuseUnknownInputs(columns.slice(0, 1), manifest);
});

describe('tensors as bytes', () => {
  const binary = (shape: number, datatype: string, size: number, behind = Buffer.alloc(4)) => {
    const json = { inputs: [{ name: 'a', shape: [shape], datatype, parameters: { binary_data_size: size } }] };
    const { body, headers } = framed(json, behind);
    return () => readInferRequest(body, { rows: 2 ** 50, columns: 3, jsonLength: headers['inference-header-content-length'] }); // biome-ignore format: one line
  };

  test('a shape alone allocates nothing', () => {
    for (const rows of [2 ** 20, 2 ** 40]) {
      expect(binary(rows, 'BYTES', 4)).toThrow(refusal('bad_request', /as many BYTES elements as the shape/));
      expect(binary(rows, 'FP64', 4)).toThrow(refusal('bad_request', /binary_data_size must be 8 bytes for each/));
    }
  });

  test('no tensor is longer than the body', () => {
    expect(binary(1, 'INT32', 4)().rows).toBe(1);
    expect(binary(2, 'INT32', 8)).toThrow(refusal('bad_request', /exceeds the bytes after the JSON/));
    const long = Buffer.from([100, 0, 0, 0, 97]);
    expect(binary(1, 'BYTES', 5, long)).toThrow(refusal('bad_request', /longer than the rest of binary_data_size/));
  });
});

describe('tensors as a table', () => {
  const table = (texts: readonly string[], recordBytes = 1000) =>
    new TensorTable([{ name: 'text', kind: 'text', data: texts }], recordBytes);

  test('a text longer than a row may be rejects its row, without being copied', async () => {
    const source = table(['a', 'x'.repeat(2000), 'b']);
    const batch = new LineBatch(source.names);
    await source.next(batch);
    expect([0, 1, 2].map((row) => batch.marks.has(row))).toEqual([false, true, false]);
    expect(batch.columns[0]!.tokens.length).toBeLessThan(20);
  });

  test('a batch has fewer rows where its texts are long', async () => {
    const text = 'x'.repeat(1024 * 1024);
    const source = table(Array(64).fill(text), 2 ** 21);
    const batch = new LineBatch(source.names);
    await source.next(batch);
    expect(batch.rows).toBe(8);
  });
});
