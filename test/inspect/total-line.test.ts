// Lines after the last application: totals are removed, applications never, and doubt is reported.
import { expect, test } from 'vitest';
import { findLinesAfter } from '../../src/inspect/total-line.ts';

const ROWS = Array.from({ length: 8 }, (_, i) => [`A${i}`, String(100 * (i + 1)), 'BRANCH', String(i + 1)]);
const TEXT = ROWS.map((row) => `${row.join(';')}\n`).join('');

const after = (end: string, { complete = true, rows = ROWS as readonly (readonly string[])[] } = {}) =>
  findLinesAfter({
    end: Buffer.from(TEXT + end),
    delimiter: ';',
    width: 4,
    rows,
    complete,
    numberIn: (column, text) => (column === 1 && text !== '' ? Number(text) : Number.NaN),
  });

test.each<[what: string, end: string, lines: number, records: number]>([
  ['a word and sums', 'Summe;3600;;\n', 1, 1],
  ['a word in another field', ';3600;TOTAL;\r\n', 1, 1],
  ['a word in Cyrillic', 'ИТОГО;3600;;\n', 1, 1],
  ['fewer fields', 'TRL;8\n', 1, 1],
  ['a sum without a word', ';3600;;\n', 1, 1],
  ['a message after an empty line', '\n(8 rows affected)\n', 1, 1],
  ['empty lines after it', 'Total;3600;;\n\n\n', 3, 1],
  ['a total and a message', 'Total;3600;;\nRecords: 8\n', 2, 2],
  ['no line end', 'Total;3600;;', 1, 1],
])('%s', (_, end, lines, records) => {
  expect(after(end)).toMatchObject({ lines, records, isDoubtful: false });
});

test.each<[what: string, end: string]>([
  ['an application', 'A9;900;BRANCH;9\n'],
  ['nothing', ''],
  ['empty lines', '\n\n'],
  ['a record that was cut off', 'A9;9'],
  ['a word within a name', 'Sumner;900;BRANCH;9\n'],
  ['a broken quote', '"Total;3600;;\n'],
])('%s is not removed', (_, end) => {
  expect(after(end)).toBeNull();
});

test.each<[what: string, end: string]>([
  ['a word in an otherwise complete record', 'Total;900;BRANCH;9\n'],
  ['an unusually empty record without a word', ';7;;\n'],
])('%s is doubtful', (_, end) => {
  expect(after(end)).toMatchObject({ lines: 1, isDoubtful: true, confidence: 'low' });
});

test('without all rows, sums are not compared, but words count', () => {
  expect(after('Total;1;;\n', { complete: false })).toMatchObject({ isDoubtful: false });
  expect(after(';3600;;\n', { complete: false })).toMatchObject({ isDoubtful: true });
});

test('a word that other rows also have is a value', () => {
  const rows = ROWS.map((row) => ['Total', ...row.slice(1)]);
  expect(after('Total;1;BRANCH;1\n', { rows })).toBeNull();
});
