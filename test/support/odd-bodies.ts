// Bodies of requests made to be expensive: what is odd about them is repeated until they have their size.
import { Random } from '../../src/core/random.ts';
import { generatePortfolio } from '../../src/demo/portfolio.ts';
import { asNative, asObjects } from './service.ts';

export type BodyFormat = 'csv' | 'tsv' | 'json' | 'ndjson';
export const BODY_FORMATS: readonly BodyFormat[] = ['csv', 'tsv', 'json', 'ndjson'];

export interface OddBody {
  /** What is odd about it. */
  name: string;
  format: BodyFormat;
  bytes: Buffer;
}

const ROWS = 400;
const CSV = Buffer.concat([...generatePortfolio({ rows: ROWS, seed: 8 })]).toString();
const [HEAD, ...LINES] = CSV.trimEnd().split('\n') as [string, ...string[]];
const OBJECTS = asNative(asObjects(CSV)) as Record<string, unknown>[];
const COLUMNS = HEAD.split(',');
const delimiterOf = (format: BodyFormat): string => (format === 'tsv' ? '\t' : ',');

const joined = (format: BodyFormat, records: readonly string[]): string => {
  if (format === 'ndjson') return records.join('\n');
  if (format === 'json') return `[${records.join(',')}]`;
  return `${HEAD.replaceAll(',', delimiterOf(format))}\n${records.join('\n')}`;
};

/** So many records that they have at least `bytes`. */
function filled(bytes: number, record: (i: number) => string): string[] {
  const records: string[] = [];
  for (let size = 0, i = 0; size < bytes; i++) {
    const next = record(i);
    size += next.length + 1;
    records.push(next);
  }
  return records;
}

const goodRecord = (format: BodyFormat, i: number): string =>
  format === 'json' || format === 'ndjson'
    ? JSON.stringify(OBJECTS[i % ROWS])
    : LINES[i % ROWS]!.replaceAll(',', delimiterOf(format));

/** Valid rows, the measure of all others. */
export const goodBody = (format: BodyFormat, bytes: number): Buffer =>
  Buffer.from(
    joined(
      format,
      filled(bytes, (i) => goodRecord(format, i)),
    ),
  );

/** Cells that were, or might be, read more than once. */
const CELLS: readonly [string, (n: number) => string][] = [
  ['zeros and a letter', (n) => `${'0'.repeat(n)}x`],
  ['zeros', (n) => '0'.repeat(n)],
  ['digits', (n) => '7'.repeat(n)],
  ['digits behind a point', (n) => `0.${'7'.repeat(n)}`],
  ['digits and two points', (n) => `${'7'.repeat(n)}.${'7'.repeat(n)}.`],
  ['a long exponent', (n) => `1e${'9'.repeat(n)}`],
  ['a long exponent of zeros', (n) => `1e-${'0'.repeat(n)}1`],
  ['signs', (n) => '-+'.repeat(n / 2)],
  ['spaces', (n) => `${' '.repeat(n)}x`],
  ['formula', (n) => `=${'1'.repeat(n)}`],
  ['formula that is nearly a number', (n) => `-${'1'.repeat(n)}x`],
  ['letters', (n) => 'é'.repeat(n / 2)],
  ['four-byte characters', (n) => '🂡'.repeat(n / 4)],
  ['NUL', (n) => '\0'.repeat(n)],
  ['delimiters', (n) => ',;|'.repeat(n / 3)],
];

const TEXT_RECORDS: readonly [string, (n: number, d: string) => string][] = [
  ['quotes', (n) => `"${'""'.repeat(n / 2)}"`],
  ['an open quote', (n, d) => `a"${d}"${'b'.repeat(n % 50)}`],
  ['an open quote in every other line', (n, d) => `a"${d}"b\n${'c'.repeat(n % 50)}`],
  ['text behind a quote', (n, d) => `"${'a'.repeat(n % 500)}"b${d}`],
  ['delimiters', (n, d) => d.repeat(n % 3000)],
  ['blank lines', (n) => '\n'.repeat(n)],
  ['carriage returns', (n) => 'a\r'.repeat(n / 2)],
  ['one byte a row', () => '1'],
  ['quoted fields', (_, d) => LINES[0]!.split(',').map((c) => `"${c}"`).join(d)], // biome-ignore format: one line
  ['fields too many', (n, d) => `${goodRecord(d === ',' ? 'csv' : 'tsv', n)}${d}x`],
];

const JSON_RECORDS: readonly [string, (n: number) => string][] = [
  ['nesting', (n) => `{"a":${'['.repeat(n)}${']'.repeat(n)}}`],
  ['nesting left open in a text', (n) => `{"a":"${'[{'.repeat(n / 2)}"}`],
  ['a long key', (n) => `{"${'k'.repeat(n)}":1}`],
  ['a long key of escapes', (n) => `{"${'\\u006b'.repeat(n / 6)}":1}`],
  ['keys', (n) => `{${Array.from({ length: Math.min(1900, n / 8) }, (_, i) => `"k${i}":1`).join()}}`],
  ['keys of digits', (n) => `{${Array.from({ length: Math.min(1900, n / 8) }, (_, i) => `"${i * 65_537}":1`).join()}}`],
  ['keys too many', (n) => `{${Array.from({ length: n / 8 }, (_, i) => `"k${i}":1`).join()}}`],
  ['one key again and again', (n) => `{${'"a":1,'.repeat(n / 6)}"a":1}`],
  ['escapes', (n) => `{"a":"${'\\"'.repeat(n / 2)}"}`],
  ['half a surrogate pair', (n) => `{"a":"${'\\ud800'.repeat(n / 6)}"}`],
  ['white space', (n) => `{${' '.repeat(n)}}`],
  ['an empty object', () => '{}'],
  ['a number', () => '1'],
  ['an array', (n) => `[${'1,'.repeat(n / 2)}1]`],
  ['objects in an object', (n) => `{"a":[${'{},'.repeat(n / 3)}{}]}`],
];

const HEADERS: readonly [string, (n: number, d: string) => string][] = [
  ['a long header', (n) => 'h'.repeat(n)],
  ['a wide header', (n, d) => `h${d}`.repeat(n / 2)],
  ['names nearly right', (n, d) => Array.from({ length: Math.min(1900, n / 20) }, (_, i) => `${COLUMNS[i % COLUMNS.length]}${i}`).join(d)], // biome-ignore format: one line
  ['long names', (n, d) => Array.from({ length: 1900 }, (_, i) => `${'x'.repeat(n / 1900)}${i}`).join(d)],
  ['quotes', (n, d) => `"${'""'.repeat(n / 8)}"${d}`.repeat(4)],
  ['the same name', (n, d) => `${COLUMNS[0]}${d}`.repeat(n / 20)],
];

/** Body number `index` of a seed, of about `bytes`. */
export function oddBody(seed: number, index: number, bytes: number): OddBody {
  const random = new Random();
  random.seed(seed, index);
  const pick = <T>(of: readonly T[]): T => of[Math.floor(random.uniform() * of.length)]!;
  const format = pick(BODY_FORMATS);
  const isJson = format === 'json' || format === 'ndjson';
  const d = delimiterOf(format);
  // From a few bytes to the whole body, each order of magnitude as often.
  const n = Math.floor(2 ** (3 + random.uniform() * (Math.log2(bytes) - 3)));
  const body = (name: string, text: string): OddBody => {
    const all = Buffer.from(text);
    // Every third body is cut into bytes that are no UTF-8 now and then.
    if (random.uniform() < 0.33) for (let at = 200; at < all.length; at += 1 + Math.floor(random.uniform() * 3000)) all[at] = 0xc3; // biome-ignore format: one line
    return { name: `${name} (${n})`, format, bytes: all };
  };
  const kind = random.uniform();
  if (kind < 0.45) {
    const [name, cell] = pick(CELLS);
    const column = pick(COLUMNS);
    const every = pick([1, 1, 2, 3, 50]);
    const odd = (i: number): string => {
      if (!isJson) {
        const cells = LINES[i % ROWS]!.split(',');
        cells[COLUMNS.indexOf(column)] = cell(n).replaceAll(d, ' ');
        return cells.join(d);
      }
      const bare = random.uniform() < 0.5 && /^-?[1-9]\d*(\.\d+)?$|^1e-?\d+$/.test(cell(3));
      const text = JSON.stringify({ ...OBJECTS[i % ROWS], [column]: '@' });
      return text.replace('"@"', () => (bare ? cell(n) : JSON.stringify(cell(n))));
    };
    return body(
      `cell: ${name}`,
      joined(
        format,
        filled(bytes, (i) => (i % every === 0 ? odd(i) : goodRecord(format, i))),
      ),
    );
  }
  if (isJson) {
    const [name, record] = pick(JSON_RECORDS);
    const mixed = random.uniform() < 0.3;
    const of = (i: number) => (mixed && i % 2 === 0 ? goodRecord(format, i) : record(n));
    return body(`record: ${name}`, joined(format, filled(bytes, of)));
  }
  if (kind < 0.8) {
    const [name, record] = pick(TEXT_RECORDS);
    const mixed = random.uniform() < 0.3;
    const of = (i: number) => (mixed && i % 2 === 0 ? goodRecord(format, i) : record(n, d));
    return body(`record: ${name}`, joined(format, filled(bytes, of)));
  }
  const [name, header] = pick(HEADERS);
  return body(`header: ${name}`, `${header(bytes, d)}\n${goodRecord(format, 0)}\n`);
}
