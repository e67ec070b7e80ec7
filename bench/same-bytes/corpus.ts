// Inputs of every kind a file of applications comes in, and of every kind it should not come in: the same bytes for both sides.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { Random } from '../../src/core/random.ts';
import { type GenerateOptions, generatePortfolio } from '../../src/demo/portfolio.ts';

const ROWS = 400;
/** Enough for several blocks and for the kernels that only large streams get. */
const LARGE_ROWS = 30_000;

const portfolio = (options: Partial<GenerateOptions> = {}): string =>
  Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 7, ...options })]).toString('latin1');
const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1');

/** Lines and cells of a portfolio in which nothing is quoted. */
const table = (options: Partial<GenerateOptions> = {}): string[][] =>
  portfolio({ oddness: 'none', ...options })
    .trimEnd()
    .split('\n')
    .map((line) => line.split(','));
const csv = (rows: readonly (readonly string[])[], delimiter = ',', end = '\n'): string =>
  rows.map((cells) => cells.join(delimiter) + end).join('');

/** Each row with one cell put in the place of its own. */
function withCells(column: string, cells: readonly string[]): string {
  const [head, ...rows] = table() as [string[], ...string[][]];
  const at = head.indexOf(column);
  return csv([head, ...cells.map((cell, i) => rows[i]!.with(at, cell))]);
}

function emptied(): string {
  const random = new Random();
  const [head, ...rows] = table() as [string[], ...string[][]];
  return csv([
    head,
    ...rows.map((cells, i) => {
      random.seed(3, i);
      return cells.map((cell) => (random.chance(0.3) ? '' : cell));
    }),
  ]);
}

/** Further columns behind those of the model. */
function withColumns(names: readonly string[], cell: (row: number, column: number) => string, rows = ROWS): string {
  const [head, ...body] = table({ rows }) as [string[], ...string[][]];
  return csv([[...head, ...names], ...body.map((cells, r) => [...cells, ...names.map((_, c) => cell(r, c))])]);
}

const ODD_NUMBERS =
  '1e3,+5,.5,1.,0x10,Infinity,-Infinity,NaN,nan,-0,1e400,-1e-400, 5,5 ,123456789012345678901234567890,1_000,1e,--1,0.1e+2,00012,٣,1.7976931348623157e308,4.9e-324,3.4028235677973366e38,16777217'.split(
    ',',
  );
const ODD_BOOLEANS = 'true,TRUE,True,1,0,yes,no,T,F,t,false,FALSE, true,2,null,da'.split(',');
const NOTES = [
  'straße',
  '婚',
  '🙂',
  '=1+1',
  '+cmd',
  '@x',
  '-1',
  '"two\nlines"',
  '"a ""quoted"" word"',
  "'",
  'é\u0301',
  '\ttab',
  '',
];

function delimited(): Record<string, string | Buffer> {
  const plain = table();
  const text = csv(plain);
  const [head, first] = text.split('\n') as [string, string];
  const lines = text.split('\n');
  const broken = [
    ...lines.slice(0, 20),
    `"never closed,${first}`,
    ...lines.slice(20, 40),
    `"abc"def${first}`,
    `${first},more`,
    first.slice(0, first.lastIndexOf(',')),
    `\0${first}`,
    `\xff\xfe${first}`,
    ',',
    '""',
    ...lines.slice(40),
  ];
  return {
    'plain.csv': text,
    'dirty.csv': portfolio(),
    'faults.csv': portfolio({ faults: 40 }),
    'ids.csv': portfolio({ ids: true }),
    'outcome.csv': portfolio({ outcome: true }),
    'tabs.tsv': portfolio({ delimiter: '\t', faults: 5 }),
    'semicolon.csv': csv(plain, ';'),
    'pipes.csv': csv(plain, '|'),
    'quoted.csv': csv(plain.map((cells) => cells.map((cell) => `"${cell}"`))),
    'crlf.csv': csv(plain, ',', '\r\n'),
    'cr.csv': csv(plain, ',', '\r'),
    'mixed-ends.csv': lines.map((line, i) => line + ['\n', '\r\n', '\r', '\n\n'][i % 4]!).join(''),
    'bom.csv': Buffer.from(`\ufeff${text}`),
    'bom-only.csv': Buffer.from('\ufeff'),
    'no-last-end.csv': text.trimEnd(),
    'empty-cells.csv': emptied(),
    'broken.csv': latin1(broken.join('\n')),
    'header-only.csv': `${head}\n`,
    'header-without-end.csv': head,
    'empty.csv': '',
    'blank-lines-only.csv': '\n\n\n',
    'one.csv': `${head}\n${first}\n`,
    'other-order.csv': csv(plain.map((cells) => cells.toReversed())),
    'wide.csv': withColumns(
      Array.from({ length: 300 }, (_, c) => `extra_${c}`),
      (r, c) => `${r * c}`,
      60,
    ),
    'notes.csv': Buffer.from(withColumns(['note'], (r) => NOTES[r % NOTES.length]!)),
    'long.csv': withColumns(['text'], (r) => 'x'.repeat(r % 7 === 3 ? 300_000 : r === 11 ? 1_100_000 : 3), 20),
    'numbers.csv': Buffer.from(withCells('amount', ODD_NUMBERS)),
    'booleans.csv': withCells('banned', ODD_BOOLEANS),
    'words.csv': Buffer.from(
      withCells('source_type', ['ONLINE', 'online', ' ONLINE', 'ONLINE ', '"ONLINE"', 'X'.repeat(40), '婚', '"a,b"']),
    ),
    'missing-column.csv': csv(plain.map((cells) => cells.slice(1))),
    'column-twice.csv': csv(plain.map((cells) => [...cells, cells[0]!])),
    'extra-column.csv': withColumns(['extra'], (r) => String(r)),
    'wrong-names.csv': 'a,b\n1,2\n',
    'only-commas.csv': ',,,\n,,,\n',
    'binary.csv': Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 197) & 255)),
    'no-ending': csv(plain, '\t'),
    'text.txt': csv(plain, '\t'),
    'large.csv': portfolio({ rows: LARGE_ROWS, faults: 100 }),
    'large-clean.csv': portfolio({ rows: LARGE_ROWS, oddness: 'none' }),
  };
}

type Application = Record<string, unknown>;

/** Applications as JSON: strings as in CSV, or values of their types. */
export function applications(native: boolean, rows = ROWS): Application[] {
  const [head, ...body] = table({ rows }) as [string[], ...string[][]];
  const value = (cell: string): unknown =>
    cell === ''
      ? null
      : cell === 'true' || cell === 'false'
        ? cell === 'true'
        : Number.isNaN(Number(cell))
          ? cell
          : Number(cell);
  const words = new Set(['credit_product_id', 'verificator_id', 'partner_id']);
  return body.map((cells) =>
    Object.fromEntries(head.map((name, c) => [name, native && !words.has(name) ? value(cells[c]!) : cells[c]!])),
  );
}

/** Lines that are no applications, or only nearly. */
export function brokenLines(): string[] {
  const [one] = applications(true, 1) as [Application];
  const text = JSON.stringify(one);
  const with_ = (change: Application): string => JSON.stringify({ ...one, ...change });
  return [
    text,
    '{"amount":',
    'hello',
    '[1,2]',
    'null',
    '42',
    '"text"',
    '{}',
    with_({ amount: { x: 1 } }),
    with_({ amount: [1] }),
    with_({ amount: '12 000' }),
    with_({ amount: true }),
    with_({ banned: 'maybe' }),
    with_({ banned: 1 }),
    with_({ source_type: 5 }),
    with_({ source_type: null }),
    with_({ extra: 1 }),
    with_({ extra: { deep: [[1, { a: '\u2028' }]] } }),
    with_({ ok: true }),
    text.replace('{', '{"amount":1,'),
    text.replace('"amount":', '"\\u0061mount":'),
    text.replaceAll(':', ' : ').replaceAll(',', ' ,\t'),
    JSON.stringify({ amount: 1 }),
    `${text} trailing`,
    text.slice(0, -1),
    text.replace(/"amount":[^,]*/, '"amount":1e400'),
    text.replace(/"amount":[^,]*/, '"amount":-0.0'),
    text.replace(/"amount":[^,]*/, '"amount":01'),
    text.replace(/"source_type":"[^"]*"/, '"source_type":"\\ud800"'),
    text,
  ];
}

function json(): Record<string, string | Buffer> {
  const [native, strings] = [applications(true), applications(false)];
  const lines = (list: readonly unknown[], end = '\n') => list.map((a) => JSON.stringify(a) + end).join('');
  const withIds = native.map((a, i) => ({ id: i, ...a, note: NOTES[i % NOTES.length] }));
  const large = applications(true, LARGE_ROWS);
  return {
    'native.json': JSON.stringify(native),
    'strings.json': JSON.stringify(strings),
    'pretty.json': JSON.stringify(native, null, 2),
    'ids.json': JSON.stringify(withIds),
    'broken.json': `[${brokenLines()
      .filter((line) => isJson(line))
      .join(',\n')}]`,
    'cut.json': JSON.stringify(native).slice(0, -200),
    'empty-array.json': '[]',
    'object.json': JSON.stringify(native[0]),
    'empty.json': '',
    'not-json.json': 'amount,term\n1,2\n',
    'bom.json': `\ufeff${JSON.stringify(native)}`,
    'native.ndjson': lines(native),
    'strings.ndjson': lines(strings),
    'ids.ndjson': lines(withIds),
    'crlf.ndjson': lines(native, '\r\n\r\n'),
    'broken.ndjson': brokenLines().join('\n'),
    'empty.ndjson': '',
    'one.jsonl': JSON.stringify(native[0]),
    'large.ndjson': lines(large),
    'large.json': JSON.stringify(large),
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function parquet(rows: readonly Application[]): Buffer {
  const names = Object.keys(rows[0]!);
  const columnData = names.map((name) => ({
    name,
    data: rows.map((row) => row[name] ?? null),
    nullable: true,
  }));
  return Buffer.from(
    parquetWriteBuffer({ columnData: columnData as Parameters<typeof parquetWriteBuffer>[0]['columnData'] }),
  );
}

/** Writes the inputs into `folder`; gives their names. */
export function writeCorpus(folder: string): string[] {
  mkdirSync(folder);
  const files: Record<string, string | Buffer> = { ...delimited(), ...json() };
  const bytes = (name: string): Buffer => Buffer.from(files[name]!);
  for (const name of ['plain.csv', 'faults.csv', 'native.ndjson', 'native.json', 'large.csv', 'tabs.tsv']) {
    files[`${name}.gz`] = gzipSync(bytes(name));
    files[`${name}.zst`] = zstdCompressSync(bytes(name));
  }
  files['cut.csv.gz'] = gzipSync(bytes('plain.csv')).subarray(0, 3000);
  files['cut.csv.zst'] = zstdCompressSync(bytes('plain.csv')).subarray(0, 3000);
  files['members.csv.gz'] = Buffer.concat([
    gzipSync(bytes('plain.csv').subarray(0, 9000)),
    gzipSync(bytes('plain.csv').subarray(9000)),
  ]);
  files['not-packed.csv.gz'] = bytes('plain.csv');
  files['native.parquet'] = parquet(applications(true));
  files['strings.parquet'] = parquet(applications(false));
  files['large.parquet'] = parquet(applications(true, 5000));
  files['cut.parquet'] = (files['native.parquet'] as Buffer).subarray(0, 5000);
  files['not.parquet'] = 'amount,term\n';
  for (const [name, content] of Object.entries(files)) {
    // Texts of a portfolio are bytes, a letter each.
    writeFileSync(
      path.join(folder, name),
      typeof content === 'string' && !name.includes('json') ? latin1(content) : content,
    );
  }
  return Object.keys(files);
}

export const read = (folder: string, name: string): Buffer => readFileSync(path.join(folder, name));
