// Files as other systems export them, all made from the same applications.
import { readFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { encoded } from '../support/encodings.ts';
import type { Applications, Kind } from './applications.ts';

export interface ThirdPartyFile {
  /** What the file shows. */
  what: string;
  name: string;
  bytes: (of: Applications) => Buffer;
}

const names = ({ columns }: Applications) => columns.map(({ name }) => name);
const csvCell = (text: string, delimiter: string) =>
  text.includes(delimiter) || /["\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
const lines = (rows: readonly (readonly string[])[], delimiter: string, end = '\n') =>
  rows.map((row) => row.map((cell) => csvCell(cell, delimiter)).join(delimiter) + end).join('');

/** Changes the cells of number columns. */
const withNumbers = ({ columns, rows }: Applications, change: (text: string) => string) =>
  rows.map((row) => row.map((cell, i) => (columns[i]!.kind === 'number' && cell !== '' ? change(cell) : cell)));

const grouped = (text: string, mark: string, decimal: string) => {
  const [whole = '', fraction] = text.split('.');
  const digits = whole.replace(/\B(?=(?:\d{3})+$)/g, mark);
  return fraction === undefined ? digits : `${digits}${decimal}${fraction}`;
};
const comma = (text: string) => text.replace('.', ',');

const pascal = (name: string) => name.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
const camel = (name: string) => name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
const spaced = (name: string) => name.replaceAll('_', ' ').toUpperCase();

const missingAs = (rows: readonly (readonly string[])[], words: readonly string[]) =>
  rows.map((row, r) => row.map((cell, i) => (cell === '' ? words[(r + i) % words.length]! : cell)));

const sumOf = (rows: readonly (readonly string[])[], i: number) =>
  rows.reduce((sum, row) => sum + Math.round(100 * Number(row[i] || 0)), 0) / 100;

/** A row with the sums of the number columns. */
function totalOf({ columns, rows }: Applications, word: string, write: (text: string) => string): string[] {
  return columns.map(({ kind }, i) => (kind === 'number' ? write(sumOf(rows, i).toFixed(2)) : i === 1 ? word : ''));
}

export const THIRD_PARTY_FILES: readonly ThirdPartyFile[] = [
  {
    what: "a bank's CSV: preamble, semicolons, decimal commas, thousands, windows-1252, an identifier, a total line",
    name: 'bank.csv',
    bytes: (of) => {
      const write = (text: string) => grouped(text, '.', ',');
      const rows = withNumbers(of, write).map((row, i) => [`A${1000 + i}`, 'München', ...row]);
      const total = ['SUMME', '', ...totalOf(of, '', write)];
      const head = ['ANTRAGSNR', 'FILIALE', ...names(of)];
      const preamble = 'Kreditanträge;Export für Prüfung\r\nErstellt am;24.11.2026\r\n\r\n';
      return encoded(preamble + lines([head, ...rows, total], ';', '\r\n'), 'windows-1252');
    },
  },
  {
    what: "Excel's CSV: byte order mark, sep=, decimal commas, booleans in capitals",
    name: 'excel.csv',
    bytes: (of) => {
      const rows = withNumbers(of, comma).map((row) =>
        row.map((cell) => (/^(?:true|false)$/.test(cell) ? cell.toUpperCase() : cell)),
      );
      return Buffer.from(`\ufeffsep=;\r\n${lines([names(of), ...rows], ';', '\r\n')}`);
    },
  },
  {
    what: 'windows-1251 with Cyrillic text in another column',
    name: 'анкеты.txt',
    bytes: (of) => {
      const rows = of.rows.map((row, i) => [...row, ['Москва', 'Тверь', 'Ёлкино'][i % 3]!]);
      return encoded(lines([[...names(of), 'Город'], ...rows], ';'), 'windows-1251');
    },
  },
  {
    what: 'UTF-16 with a byte order mark and tabs, as Excel saves Unicode text',
    name: 'unicode text.txt',
    bytes: (of) => encoded(lines([names(of), ...withNumbers(of, comma)], '\t', '\r\n'), 'utf-16'),
  },
  {
    what: 'no header row, pipes',
    name: 'headless.dat',
    bytes: (of) => Buffer.from(lines(of.rows, '|')),
  },
  {
    what: 'column names in another style, in another order, with extra and duplicate columns',
    name: 'styled.csv',
    bytes: (of) => {
      const order = of.columns.map((_, i) => i).reverse();
      const pick = (row: readonly string[]) => order.map((i) => row[i]!);
      const head = ['Comment', ...pick(names(of)).map(pascal), 'Comment', ''];
      const rows = of.rows.map((row, i) => [i % 2 ? 'a, b' : 'said "no"', ...pick(row), 'x', '']);
      return Buffer.from(lines([head, ...rows], ','));
    },
  },
  {
    what: 'fixed width: spaces around names and values, words for missing values',
    name: 'padded.csv',
    bytes: (of) => {
      const rows = missingAs(of.rows, ['NA', '\\N', '-']).map((row) => row.map((cell) => ` ${cell.padEnd(14)}`));
      return Buffer.from(lines([names(of).map((name) => `${name}  `), ...rows], ','));
    },
  },
  {
    what: 'compressed, thousands separated by apostrophes, a total line with a word only',
    name: 'swiss.csv.gz',
    bytes: (of) => {
      const rows = withNumbers(of, (text) => grouped(text, "'", '.'));
      const total = totalOf(of, 'Total', (text) => grouped(text, "'", '.'));
      return gzipSync(lines([names(of).map(spaced), ...rows, total], ';'));
    },
  },
  {
    what: 'JSON lines with numbers and nulls, and names in camelCase',
    name: 'export.log',
    bytes: (of) =>
      Buffer.from(
        of.rows
          .map((row, r) =>
            JSON.stringify({
              _id: r,
              ...Object.fromEntries(
                row.map((cell, i) => [camel(of.columns[i]!.name), jsonValue(cell, of.columns[i]!.kind)]),
              ),
            }),
          )
          .join('\n'),
      ),
  },
  {
    what: 'Parquet that pandas wrote: doubles, nullable booleans, an index column',
    name: 'frame.parquet',
    // Made by export_frames.py of the same applications.
    bytes: () => readFileSync('test/inspect/pandas.parquet'),
  },
  {
    what: 'every field quoted, a prefix on every name, thousands separated by commas, compressed without an ending',
    name: 'quoted.csv',
    bytes: (of) => {
      const head = names(of).map((name) => `app.${name}`);
      const rows = withNumbers(of, (text) => grouped(text, ',', '.'));
      const all = [head, ...rows].map((row) => `${row.map((cell) => `"${cell.replaceAll('"', '""')}"`).join(',')}\r\n`);
      return gzipSync(all.join(''));
    },
  },
  {
    what: 'a query tool: pipes, NULL, lower and upper case, a message with the number of rows',
    name: 'query.out',
    bytes: (of) => {
      const head = names(of).map((name, i) => (i % 2 ? name.toUpperCase() : name));
      const rows = missingAs(of.rows, ['NULL']);
      return Buffer.from(`${lines([head, ...rows], '|')}\n(${of.rows.length} rows affected)\n`);
    },
  },
];

/** More files, whose headers do not have the fields of their rows. */
export const UNFIT_HEADERS: readonly ThirdPartyFile[] = [
  {
    what: 'rows that end with a delimiter, unlike the header',
    name: 'ends.csv',
    bytes: (of) => Buffer.from(lines([names(of), ...of.rows.map((row) => [...row, ''])], ';')),
  },
  {
    what: 'a header that ends with a delimiter, unlike the rows',
    name: 'header.csv',
    bytes: (of) => Buffer.from(`Export\n\n${lines([[...names(of), ''], ...of.rows], ';')}`),
  },
  {
    what: 'row names without a name for their column, as R writes them',
    name: 'table.txt',
    bytes: (of) => Buffer.from(lines([names(of), ...of.rows.map((row, i) => [String(i + 1), ...row])], '\t')),
  },
  {
    what: 'a line below the header, spaces around values, a number of rows, as psql prints them',
    name: 'psql.txt',
    bytes: (of) => {
      const wide = (row: readonly string[]) => row.map((cell) => ` ${cell.padEnd(20)} `);
      const ruler = of.columns.map(() => '-'.repeat(22)).join('+');
      const [head = '', ...rows] = lines([names(of), ...of.rows].map(wide), '|')
        .trimEnd()
        .split('\n');
      return Buffer.from(`${[head, ruler, ...rows].join('\n')}\n(${rows.length} rows)\n\n`);
    },
  },
  {
    what: 'a duplicate column after empty lines, and a header of several lines',
    name: 'wrapped.csv',
    bytes: (of) => {
      const head = [...names(of), 'Remarks\nof the branch', names(of)[0]!];
      return Buffer.from(`\n\n${lines([head, ...of.rows.map((row) => [...row, 'x', row[0]!])], ',')}`);
    },
  },
];

function jsonValue(cell: string, kind: Kind): unknown {
  if (cell === '') return null;
  if (kind === 'number') return Number(cell);
  return kind === 'boolean' ? cell === 'true' : cell;
}
