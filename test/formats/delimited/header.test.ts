// A header row that does not fit: what is said of it, and that no cell of it is told that does not look like a column.

import { expect, test } from 'vitest';
import { SluiceError, terminalText } from '../../../src/core/errors.ts';
import { type FitOptions, fitHeader, splitHeader } from '../../../src/formats/delimited/header.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import fc from '../../support/seeded-fast-check.ts';

const COLUMNS = ['amount', 'age', 'purpose', 'monthly_income', 'zip'];
const MANIFEST = { columns: COLUMNS.map((name) => ({ name })), outcome: 'ok' } as unknown as Manifest;
const OPTIONS: FitOptions = { manifest: MANIFEST, delimiter: ',', passthrough: [], maxColumns: 2000 };

function faultOf(row: string | Uint8Array, options: Partial<FitOptions> = {}): SluiceError {
  try {
    fitHeader(Buffer.from(row), { ...OPTIONS, ...options });
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error('the header fits');
}

const NONE = 'row 1 is not a header: 0 of 5 columns found; the file looks like';
const utf16 = Buffer.from(COLUMNS.join(','), 'utf16le');

test.each<[what: string, row: string | Uint8Array, code: string, message: string, options?: Partial<FitOptions>]>([
  ['no header', '1200,44,car,3100,80331', 'header_mismatch', `${NONE} data without a header row`],
  ['words only', 'Jane Doe,car', 'header_mismatch', `${NONE} a table with other columns or without a header row`],
  ['one word', 'Jane Doe', 'header_mismatch', `${NONE} a table with another delimiter, or not a table`],
  ['NDJSON', '{"amount":1,"age":2}', 'header_mismatch', `${NONE} NDJSON: use format ndjson`],
  ['JSON', '[{"amount":1}', 'header_mismatch', `${NONE} JSON: use format json`],
  ['another delimiter', COLUMNS.join(';'), 'wrong_delimiter', 'the header row is delimited by semicolon, not by comma'],
  [
    'a delimiter at the end',
    `${COLUMNS.join(',')},`,
    'header_mismatch',
    'the header row ends with a delimiter: its last column has no name',
  ],
  ['a gap', `,${COLUMNS.join(',')}`, 'header_mismatch', 'column 1 of the header has no name'],
  [
    'upper case',
    'AMOUNT,Age,purpose,Monthly Income,zip',
    'header_mismatch',
    'column amount is missing (did you mean AMOUNT?); column age is missing (did you mean Age?); ' +
      'column monthly_income is missing (did you mean Monthly Income?); ' +
      [1, 2, 4].map((i) => `column ${i} of the header is not a model column`).join('; '),
  ],
  [
    'a slip',
    'amount,age,purpos,monthly_income,zip',
    'header_mismatch',
    'column purpose is missing (did you mean purpos?); ' + 'column 3 of the header is not a model column',
  ],
  ['the outcome', `${COLUMNS.join(',')},ok`, 'header_mismatch', 'column ok is the outcome the model predicts'],
  ['a column twice', `${COLUMNS.join(',')},age`, 'header_mismatch', 'column age occurs twice'],
  [
    'another twice',
    `${COLUMNS.join(',')},Jane,Jane`,
    'header_mismatch',
    'column 7 of the header has the name of another',
    { passthrough: '*' },
  ],
  [
    'no such passthrough',
    COLUMNS.join(','),
    'header_mismatch',
    'passthrough column 2 is not in the header',
    { passthrough: ['age', 'Jane Doe'] },
  ],
  [
    'columns too many',
    'a,'.repeat(2000),
    'limit_exceeded',
    'the header row has 2001 columns, more than the limit of 2000 (max_columns)',
  ],
  [
    'gzip',
    Buffer.from([0x1f, 0x8b, 8, 0]),
    'foreign_content',
    'the input is compressed with gzip: name it .gz, or set compression',
  ],
  [
    'zstd',
    Buffer.from([0x28, 0xb5, 0x2f, 0xfd]),
    'foreign_content',
    'the input is compressed with zstd: name it .zst, or set compression',
  ],
  ['a workbook', 'PK\x03\x04\x14\0', 'foreign_content', 'the input is a ZIP archive or an Excel workbook (.xlsx)'],
  ['UTF-16, marked', Buffer.concat([Buffer.from([0xff, 0xfe]), utf16]), 'invalid_encoding', 'the input is UTF-16 text'],
  [
    'UTF-16',
    utf16,
    'invalid_encoding',
    'the input is UTF-16 text: declare encoding: utf-16le, or save it as CSV in UTF-8',
  ],
  [
    'UTF-32',
    Buffer.from([...'amount'].flatMap((c) => [c.charCodeAt(0), 0, 0, 0])),
    'invalid_encoding',
    'the input is UTF-32',
  ],
  ['Parquet', 'PAR1\x15\x04\x15', 'foreign_content', 'the input is a Parquet file: name it .parquet'],
  ['a web page', '<!DOCTYPE html>', 'foreign_content', 'the input is an HTML or XML page: check whether a download'],
  ['Latin-1', Buffer.from('amount,prénom', 'latin1'), 'invalid_encoding', 'the header row is not valid UTF-8'],
])('%s', (_, row, code, message, options) => {
  const fault = faultOf(row, options);
  expect([fault.code, fault.message.slice(0, message.length)]).toEqual([code, message]);
});

test('twenty faults are told in words, a hundred listed, however many there are', () => {
  const fault = faultOf(['amount', ...Array.from({ length: 1500 }, (_, i) => `Jane ${i}`)].join(','));
  expect(fault.message).toMatch(/; and 1484 more$/);
  expect(fault.message.length).toBeLessThan(2500);
  expect(fault.details).toHaveLength(100);
});

test('a cell that is not a model column and not like one is told nowhere', () => {
  const cell = fc
    .string({ minLength: 6, maxLength: 40 })
    .map((text) => `Jane-Doe-${text.replaceAll(/["\r\n,]/g, '_')}`);
  fc.assert(
    fc.property(fc.array(cell, { minLength: 1, maxLength: 8 }), fc.subarray(COLUMNS), (cells, columns) => {
      const row = [...columns, ...cells].join(',');
      for (const passthrough of [[], ['Jane-Doe-id']]) {
        const { message, details, extra } = faultOf(row, { passthrough });
        expect(JSON.stringify([message, details, extra])).not.toMatch(/Jane/);
      }
    }),
  );
});

test('a terminal shows extra columns and missing passthrough columns by name, and no response does', () => {
  const shown = (row: string, passthrough: string[] = []) => {
    const fault = faultOf(row, { passthrough });
    expect(JSON.stringify([fault.message, fault.details, fault.extra])).not.toMatch(/colour|FARBE/);
    return fault.details.map(terminalText);
  };
  const all = COLUMNS.join(',');
  expect(shown(`${all},colour,FARBE`)).toEqual([
    'column colour is not a model column',
    'column FARBE is not a model column',
  ]);
  expect(shown(`${all},colour,colour`)[0]).toBe('column colour has the name of another');
  expect(shown(all, ['FARBE'])).toEqual(['passthrough column FARBE is not in the header']);
  // Fewer columns of the model may be the values of a row.
  expect(shown(`${COLUMNS.slice(0, 2).join(',')},colour`).at(-1)).toBe('column 3 of the header is not a model column');
  for (const name of ['\x1b[2J', '80331', 'x'.repeat(65)]) {
    expect(shown(`${all},${name}`)).toEqual(['column 6 of the header is not a model column']);
  }
  expect(shown(all, ['\x1b[2J'])).toEqual(['passthrough column 1 is not in the header']);
});

test('a first line of a MiB is answered in the time its bytes take', () => {
  const began = process.cpuUsage();
  for (const row of ['x'.repeat(1 << 20), 'a,b;'.repeat(1 << 18), `amount${','.repeat(1999)}${'y'.repeat(1 << 20)}`]) {
    expect(faultOf(row)).toBeInstanceOf(SluiceError);
  }
  const { user, system } = process.cpuUsage(began);
  // Seconds, where comparing every cell with every column took thirteen.
  expect((user + system) / 1e6).toBeLessThan(4);
});

test('columns beyond the limit are counted, not compared', () => {
  expect(faultOf('a,'.repeat(500_000)).code).toBe('limit_exceeded');
});

test.each(['', 'a', 'a,b', ',', 'a,"b,c"', ' a ,b', '"a""b",c', 'é,🂡'])(
  '%j is split as csv-parse does it',
  (header) => {
    const quoted = header.includes('"') ? header : header && `"${header.replaceAll(',', '","')}"`;
    expect(splitHeader(Buffer.from(header), ',')).toEqual(splitHeader(Buffer.from(quoted), ','));
  },
);
