// The main job, end to end through real workers: the same bytes whatever the cuts, the numbers Python gets, faults counted.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import type { ErrorCode } from '../../src/core/errors.ts';
import { generatePortfolio, type PlantedFault } from '../../src/demo/portfolio.ts';
import { CREDIT_COLUMNS, CREDIT_DEFAULT, scoreText } from '../support/score.ts';
import { checkTest } from '../support/tiers.ts';

const REFERENCE = path.resolve('test/fixtures/reference');
const rowsOf = (text: string) => parse(text, { columns: true }) as Record<string, string>[];

function portfolio(rows: number, faults: number, seed = 3): { bytes: Buffer; planted: PlantedFault[] } {
  const planted: PlantedFault[] = [];
  const bytes = Buffer.concat([...generatePortfolio({ rows, seed, faults, ids: true }, (f) => planted.push(f))]);
  return { bytes, planted };
}

describe.each([
  ['one float matrix', CREDIT_DEFAULT, 'expected-credit-default.csv'],
  ['one input a column', CREDIT_COLUMNS, 'expected-credit-columns.csv'],
])('%s', (_name, folder, expectedFile) => {
  test('predictions are those of Python onnxruntime on 2,000 rows, to 1e-6', async () => {
    const expected = rowsOf(readFileSync(path.join(REFERENCE, expectedFile), 'utf8'));
    const { result, output } = await scoreText(readFileSync(path.join(REFERENCE, 'applications.csv')), { folder });
    const got = rowsOf(output);
    expect(result).toMatchObject({ rows: 2000, scored: 2000, rejected: 0 });
    const worst = Math.max(...expected.map((e, i) => Math.abs(Number(e.probability) - Number(got[i]!.probability))));
    expect(worst).toBeLessThan(1e-6);
    // Shortest decimals that are read back to the same float32: what is printed loses nothing.
    const same = expected.filter((e, i) => Math.fround(Number(got[i]!.probability)) === Number(e.probability));
    expect(same.length).toBeGreaterThan(1990);
  });

  test('predictions are those of the library that trained the model, on the self-test rows', async () => {
    const expected = rowsOf(readFileSync(path.join(folder, 'selftest-expected.csv'), 'utf8'));
    const { output } = await scoreText(readFileSync(path.join(folder, 'selftest.csv')), { folder });
    rowsOf(output).forEach((row, i) => {
      expect(Math.abs(Number(row.probability) - Number(expected[i]!.probability))).toBeLessThan(1e-6);
    });
  });

  checkTest('the same bytes for every read size, worker count, block and batch size', async () => {
    const { bytes } = portfolio(700, 9);
    const reference = await scoreText(bytes, { folder, passthrough: '*', chunk: 65_536 });
    const setups = [
      { chunk: 1, workers: 2, blockBytes: 4096, batchRows: 64 },
      { chunk: 7, workers: 1, blockBytes: 1000, batchRows: 1 },
      { chunk: 64, workers: 4, blockBytes: 700, batchRows: 3 },
      { chunk: 65_536, workers: 4, blockBytes: 9000, batchRows: 17 },
      { chunk: 65_536, workers: 2, blockBytes: 1 << 20, batchRows: 4096 },
    ];
    for (const setup of setups) {
      const got = await scoreText(bytes, { folder, passthrough: '*', ...setup });
      expect(got.output).toBe(reference.output);
      expect(got.rejects).toBe(reference.rejects);
    }
  });
});

checkTest('a row has the same prediction alone as among others', async () => {
  const { bytes } = portfolio(40, 0, 11);
  const [header, ...lines] = bytes.toString().trimEnd().split('\n');
  const all = rowsOf((await scoreText(bytes, { passthrough: '*' })).output);
  for (let i = 0; i < 10; i++) {
    const one = rowsOf((await scoreText(`${header}\n${lines[i]}\n`, { passthrough: '*' })).output);
    expect(one).toEqual([{ ...all[i], row: '1' }]);
  }
});

test('planted faults are exactly the rejected rows, each with its line, and the others are scored', async () => {
  const { bytes, planted } = portfolio(20_000, 10);
  const { result, output, rejects } = await scoreText(bytes, { workers: 2, passthrough: ['application_id'] });
  expect(result).toMatchObject({ rows: 20_000, scored: 19_990, rejected: 10 });
  const listed = rowsOf(rejects);
  expect(listed.map((r) => [Number(r.row), Number(r.line), r.error_code, r.error_column || undefined])).toEqual(
    planted.map((f) => [f.row, f.line, f.code, f.column]),
  );
  const lines = bytes.toString('latin1').split('\n');
  for (const r of listed) {
    const at = Number(r.byte_offset);
    const line = lines[Number(r.line) - 1]!;
    expect(bytes.toString('latin1', at, at + line.length)).toBe(line);
  }
  const answers = rowsOf(output);
  expect(answers).toHaveLength(20_000);
  expect(answers.map((a) => a.row)).toEqual(answers.map((_, i) => String(i + 1)));
  expect(answers.filter((a) => a.probability !== '')).toHaveLength(19_990);
});

test('one unclosed quote in the middle of a file costs one row', async () => {
  const { bytes } = portfolio(3000, 0);
  const lines = bytes.toString().split('\n');
  const fields = lines[1500]!.split(',');
  fields[6] = '"EMPLOYEE';
  lines[1500] = fields.join(',');
  const { result, rejects } = await scoreText(lines.join('\n'), { passthrough: ['application_id'], blockBytes: 5000 });
  const want: Partial<Record<ErrorCode, number>> = { malformed_record: 1 };
  expect(result.rejectedByCode).toEqual(want);
  expect(rowsOf(rejects)[0]!.line).toBe('1501');
});

describe('formats', () => {
  const input = portfolio(12, 2, 5).bytes;

  test('JSON is one document with its summary last', async () => {
    const { output } = await scoreText(input, {
      passthrough: ['application_id'],
      output: { format: 'json', delimiter: ',' },
      blockBytes: 400,
      workers: 2,
    });
    const answer = JSON.parse(output);
    expect(Object.keys(answer)).toEqual(['modelId', 'modelVersion', 'predictions', 'summary']);
    expect(answer).toMatchObject({
      modelId: 'credit-default',
      modelVersion: '1',
      summary: { rows: 12, scored: 10, rejected: 2 },
    });
    expect(answer.predictions).toHaveLength(12);
    expect(answer.predictions[0]).toEqual({
      application_id: 'A00000001',
      row: 1,
      prediction: expect.any(Boolean),
      probability: expect.any(Number),
      points: expect.any(Number),
      decision: expect.stringMatching(/approve|review|decline/),
    });
    const bad = answer.predictions.filter((p: { error?: unknown }) => p.error);
    expect(bad.map((b: { error: { code: string } }) => b.error.code)).toEqual(['column_count', 'bad_number']);
  });

  test('NDJSON, CSV and TSV say the same', async () => {
    const csv = rowsOf((await scoreText(input, { passthrough: '*' })).output);
    const tsv = await scoreText(input, { passthrough: '*', output: { format: 'tsv', delimiter: '\t' } });
    expect(parse(tsv.output, { columns: true, delimiter: '\t' })).toEqual(csv);
    const nd = await scoreText(input, {
      passthrough: '*',
      output: { format: 'ndjson', delimiter: ',' },
      blockBytes: 500,
    });
    const objects = nd.output
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(objects.map((o) => String(o.probability ?? ''))).toEqual(csv.map((r) => r.probability));
  });

  test('the same rows with other delimiters and line ends give the same answer', async () => {
    const want = (await scoreText(input, { passthrough: '*' })).output;
    const sound = portfolio(12, 0, 5).bytes.toString();
    const plain = (await scoreText(sound, { passthrough: '*' })).output;
    for (const delimiter of ['\t', ';', '|']) {
      const text = sound.replaceAll(',', delimiter);
      expect((await scoreText(text, { passthrough: '*', delimiter })).output).toBe(plain);
    }
    const eols = ['\r\n', '\r', '\n'];
    const mixed = `\ufeff${input
      .toString('latin1')
      .trimEnd()
      .split('\n')
      .map((l, i) => l + eols[i % 3])
      .join('')
      .trimEnd()}`;
    expect((await scoreText(Buffer.from(mixed), { passthrough: '*' })).output).toBe(want);
  });

  test('a header alone gives an empty answer', async () => {
    const header = input.toString().split('\n')[0]!;
    const { result, output } = await scoreText(header, { passthrough: ['application_id'] });
    expect(result).toMatchObject({ rows: 0, scored: 0, rejected: 0 });
    expect(output).toBe(
      'application_id,row,prediction,probability,points,decision,error_code,error_column,error_message\n',
    );
  });
});

describe('headers that do not fit', () => {
  const text = portfolio(3, 0).bytes.toString();
  const refused = (input: string, setup: Parameters<typeof scoreText>[1] = {}) =>
    scoreText(input, { passthrough: ['application_id'], ...setup }).then(
      () => 'scored',
      (error: { code: string; message: string }) => `${error.code}: ${error.message}`,
    );

  test.each([
    ['another delimiter', text.replaceAll(',', ';'), /^wrong_delimiter: .*semicolon/],
    [
      'a missing column',
      text.replace('income,', 'incom,'),
      /^header_mismatch: column income is missing \(did you mean incom\?\)/,
    ],
    ['a column twice', text.replace('term,', 'amount,'), /^header_mismatch: .*amount occurs twice/],
    [
      'an extra column',
      text.replace('banned', 'banned,colour'),
      /^header_mismatch: column 25 of the header is not a model column/,
    ],
    ['the outcome', text.replace('banned', 'banned,ok'), /^header_mismatch: column ok is the outcome/],
    ['nothing at all', '', /^empty_input/],
    ['an unclosed quote', `"${text}`, /^header_mismatch/],
  ])('%s', async (_name, input, want) => {
    expect(await refused(input)).toMatch(want);
  });

  test('names are exact: __proto__ and constructor are just unknown columns', async () => {
    expect(await refused(text.replace('banned', 'banned,__proto__,constructor'))).toMatch(/column 25 .*column 26 /);
  });
});

test('a passthrough cell that a spreadsheet would run is neutralised', async () => {
  const lines = portfolio(4, 0).bytes.toString().trimEnd().split('\n');
  const ids = ['=cmd()', '+1', '@SUM(A1)', '-x'];
  const input = [lines[0], ...ids.map((id, i) => lines[i + 1]!.replace(/^[^,]*/, id))].join('\n');
  const { output } = await scoreText(input, { passthrough: ['application_id'] });
  expect(rowsOf(output).map((r) => r.application_id)).toEqual(["'=cmd()", '+1', "'@SUM(A1)", "'-x"]);
});
