// A total line that was scored as an application: a warning after the run, and none on ordinary data.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { EncodingName } from '../../src/core/input-declaration.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { scoredTotal } from '../../src/inspect/scored-total-line.ts';
import { scratch, sluiceHere } from '../support/cli.ts';
import { encoded } from '../support/encodings.ts';

const COMMA = { decimal: 'comma', thousands: 'point' } as const;
const HEAD = 'ID;KREDIT;ZWECK;LAUFZEIT;EINKOMMEN';
const ROWS = Array.from({ length: 9 }, (_, i) => `A${i};1.000,50;Auto;${12 + i};2.500,00`);
const table = (...last: string[]) => `${[HEAD, ...ROWS, ...last].join('\n')}\n`;

async function verdict(text: string | Uint8Array, more: Partial<Parameters<typeof scoredTotal>[0]> = {}) {
  const name = path.join(scratch(), 'in.csv');
  writeFileSync(name, text);
  const usual = { delimiter: ';', encoding: 'utf-8' as EncodingName, notation: COMMA, skipLines: 0, hasHeader: true };
  return scoredTotal({ name, ...usual, ...more });
}

const WORD = 'it begins with a word for a total';
const SUM = (field: number) => `its field ${field} is the sum of the column`;

test.each<[what: string, last: string, why: string | null]>([
  ['a word and empty fields', 'SUMME;;;;22.500,00', WORD],
  ['a word with a mark', '** Gesamt:;;;;', WORD],
  ['a sigma', 'Σ;;;;22.500,00', WORD],
  ['a word behind empty fields', ';;Total;;', WORD],
  ['a word in quotes', '"Total";;;;', WORD],
  ['a number of records', '9 Zeilen;;;;', WORD],
  ['fewer fields', 'TRAILER;9', WORD],
  ['a word and a sum, no empty field', 'Total;9.004,50;-;144;22.500,00', SUM(2)],
  ['sums without a word', ';9.004,50;;144;', SUM(2)],
  ['an application', 'A9;1.000,50;Auto;21;2.500,00', null],
  ['an application with missing values', 'A9;;;21;', null],
  ['an application whose numbers are large', ';9.004,51;;;', null],
  ['a purpose that contains the word', 'A9;1.000,50;Total renovation;21;', null],
  ['a name that begins with the word', 'Sumner;1.000,50;Auto;21;2.500,00', null],
  ['a word, but an ordinary row', 'Total;1.000,50;Auto;21;2.500,00', null],
])('%s', async (_, last, why) => {
  expect(await verdict(table(last))).toBe(why);
  expect(await verdict(`${table(last).trimEnd()}\n\r\n\n`)).toBe(why);
});

test('a value that other rows have, rows with many gaps, and few rows are ordinary', async () => {
  expect(await verdict(table('Total;;;;', 'Total;;;;'))).toBeNull();
  const sparse = ROWS.map((row) => row.replace(/;Auto;.*/, ';;;'));
  expect(await verdict(`${[HEAD, ...sparse, 'A9;;;;'].join('\n')}\n`)).toBeNull();
  expect(await verdict(`${HEAD}\n${ROWS[0]}\nTotal;;;;\n`)).toBeNull();
  expect(await verdict('')).toBeNull();
  expect(await verdict(HEAD)).toBeNull();
});

test('encodings, skipped lines, a missing header and long files', async () => {
  const russian = table('Итого;;;;');
  expect(await verdict(encoded(russian, 'windows-1251'), { encoding: 'windows-1251' })).toBe(WORD);
  expect(await verdict(`Bank\n\n${table(';9.004,50;;144;')}`, { skipLines: 2 })).toBe(SUM(2));
  const bare = table(';9.004,50;;144;').slice(HEAD.length + 1);
  expect(await verdict(bare, { hasHeader: false })).toBe(SUM(2));
  const long = ROWS.join('\n').concat('\n').repeat(20_000);
  expect(long.length).toBeGreaterThan(4 * 1024 * 1024);
  expect(await verdict(`${HEAD}\n${long}SUMME;;;;1\n`)).toBe(WORD);
  expect(await verdict(`${HEAD}\n${long};;;;1\n`)).toBeNull();
  expect(await verdict(encoded(table('SUMME;;;;'), 'utf-16'), { encoding: 'utf-16' })).toBeNull();
});

test.each(['light', 'real', 'heavy', 'cyrillic'] as const)('no false alarm on portfolios: %s', async (oddness) => {
  const lines = Buffer.concat([...generatePortfolio({ rows: 400, seed: 3, oddness, faults: 20, ids: true })])
    .toString('latin1')
    .split('\n');
  const found: string[] = [];
  for (let rows = 2; rows < lines.length; rows++) {
    const text = Buffer.from(lines.slice(0, rows + 1).join('\n'), 'latin1');
    const point = { decimal: 'point', thousands: null } as const;
    const why = await verdict(text, { delimiter: ',', notation: point });
    if (why !== null) found.push(`${rows}: ${why}`);
  }
  expect(found).toEqual([]);
});

test('score and run warn, and a declared trailer or a clean file does not', async () => {
  const folder = scratch();
  const csv = Buffer.concat([...generatePortfolio({ rows: 30, seed: 3, oddness: 'none', ids: true })]).toString();
  const put = (name: string, text: string) => writeFileSync(path.join(folder, name), text);
  const total = `TOTAL,30${','.repeat(22)}\n`;
  put('in.csv', csv + total);
  put('clean.csv', csv);
  const score = (file: string) =>
    sluiceHere(['score', file, '-m', 'credit-default', '-o', 'out.csv', '--ignore', 'application_id', '--quiet'], {
      cwd: folder,
    });
  expect(await score('in.csv')).toMatchObject({
    code: 0,
    stderr:
      'sluice: the last line of in.csv was read as an application, but looks like a total line: it begins with a word for a total; if it is one, declare its first field (--trailer, or trailer in a pipeline) or remove it\n',
  });
  expect(await score('clean.csv')).toMatchObject({ code: 0, stderr: '' });
  const declared = await sluiceHere(
    ['score', 'in.csv', '-m', 'credit-default', '-o', 'declared.csv', '--ignore', 'application_id', '--quiet', '--trailer', 'TOTAL'], // biome-ignore format: one line
    { cwd: folder },
  );
  expect(declared).toMatchObject({ code: 0, stderr: '' });
  await score('clean.csv');
  expect(readFileSync(path.join(folder, 'declared.csv'))).toEqual(readFileSync(path.join(folder, 'out.csv')));
  const run = async (source: string) => {
    put(
      'p.yaml',
      `model: credit-default\nsource: { type: file, path: in.csv${source}, columns: { ignore: [application_id] } }\nsink: { type: file, path: p.csv }\n`,
    );
    const { code, stderr } = await sluiceHere(['run', 'p.yaml', '--log-format', 'json'], { cwd: folder });
    expect(code).toBe(0);
    return stderr.split('\n').filter((line) => line.includes('"total_line_scored"')).length;
  };
  expect(await run('')).toBe(1);
  expect(await run(', trailer: { marker: TOTAL, rows_field: 2 }')).toBe(0);
  expect(await run(', trailer: { marker: TOTAL }')).toBe(0);
});
