// Parquet files of several writers, read page by page: every line is what hyparquet's own reader makes of its row.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { asyncBufferFromFile, type FileMetaData, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';
import { compressors } from 'hyparquet-compressors';
import { expect, test } from 'vitest';
import { ColumnLines } from '../../../src/formats/columns/column-table.ts';
import { openParquet, openRandomAccess, rowGroups } from '../../../src/formats/parquet/parquet-file.ts';

const FIXTURES = path.join(import.meta.dirname, '../columns/fixtures');
const files = readdirSync(FIXTURES).filter((name) => name.endsWith('.parquet'));
/** Files that hyparquet's own reader does not read, or not exactly. */
const OTHERS = /decimals|durations|lz4|nested|twice/;

const linesOf = async (
  name: string,
  groups?: { from: number; to: number },
  forModel: readonly string[] = [],
): Promise<string> => {
  const file = await openRandomAccess(path.join(FIXTURES, name));
  try {
    const chunks: Buffer[] = [];
    const table = await openParquet(file, { groups });
    table.readForModel(new Set(forModel), new Set());
    for await (const chunk of new ColumnLines(table)) chunks.push(Buffer.from(chunk));
    return Buffer.concat(chunks).toString();
  } finally {
    await file.close();
  }
};

/** A moment of a library that has milliseconds and a Date, with the digits of its unit. */
const momentOf = (units: bigint, perMs: bigint): string => {
  const rest = ((units % perMs) + perMs) % perMs;
  const digits = perMs === 1n ? '' : String(rest).padStart(String(perMs).length - 1, '0');
  return `${new Date(Number((units - rest) / perMs)).toISOString().slice(0, -1)}${digits}`;
};
const parsers = {
  timestampFromMilliseconds: (ms: bigint) => momentOf(ms, 1n),
  timestampFromMicroseconds: (micros: bigint) => momentOf(micros, 1_000n),
  timestampFromNanoseconds: (nanos: bigint) => momentOf(nanos, 1_000_000n),
  dateFromDays: (days: number) => new Date(days * 86_400_000).toISOString().slice(0, 10),
};

const raw = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;

/** A value of the library as a value that JSON.stringify writes without losing anything. */
function exact(value: unknown): unknown {
  if (typeof value === 'bigint') return raw(String(value));
  if (typeof value !== 'number') return value ?? null;
  if (!Number.isFinite(value)) return String(value);
  return Object.is(value, -0) ? raw('-0') : value;
}

/** Columns of instants, whose texts end with Z. */
const instantsOf = ({ schema }: FileMetaData): Set<string> =>
  new Set(
    schema
      .filter(({ logical_type: logical, converted_type: converted }) =>
        logical?.type === 'TIMESTAMP' ? logical.isAdjustedToUTC : !logical && converted?.startsWith('TIMESTAMP_'),
      )
      .map(({ name }) => name),
  );

test.each(files.filter((name) => !OTHERS.test(name)))('%s has the lines of the reference', async (name) => {
  const file = await asyncBufferFromFile(path.join(FIXTURES, name));
  const rows = await parquetReadObjects({ file, compressors, parsers });
  expect(rows.length).toBeGreaterThan(3);
  const instants = instantsOf(await parquetMetadataAsync(file));
  const want = rows.map((row) => {
    const cells = Object.entries(row).map(([key, value]) => [
      key,
      instants.has(key) && value ? `${value}Z` : exact(value),
    ]);
    return `${JSON.stringify(Object.fromEntries(cells))}\n`;
  });
  expect((await linesOf(name)).split(/(?<=\n)/)).toEqual(want);
  const groups = (await parquetMetadataAsync(file)).row_groups;
  const stored = await openRandomAccess(path.join(FIXTURES, name));
  expect((await rowGroups(stored)).map((g) => g.rows)).toEqual(groups.map((g) => Number(g.num_rows)));
  await stored.close();
  if (groups.length < 2) return;
  const first = Number(groups[0]!.num_rows);
  expect(await linesOf(name, { from: 1, to: 2 })).toBe(want.slice(first, first + Number(groups[1]!.num_rows)).join(''));
});

test.each(['pyarrow-decimals.parquet', 'pyarrow-decimals-plain.parquet'])(
  '%s: all digits as text, or the nearest double for the model',
  async (name) => {
    const texts = (await linesOf(name))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const textsOf = (key: string) => [...new Set(texts.map((row) => row[key]))].sort();
    expect(textsOf('d9')).toEqual(['-1.1', '0.3', '115.5', null]);
    expect(textsOf('d38')).toEqual(['1.5000', '123456789012345678901234.5678', null]);
    const rows = (await linesOf(name, undefined, ['d9', 'd18', 'd38']))
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const found = (key: string) => [...new Set(rows.map((row) => row[key]))].sort();
    expect(found('d9')).toEqual([-1.1, 0.3, 115.5, null]);
    expect(found('d18')).toEqual([-99999999.99, 0.07, 12.34, null]);
    expect(found('d38')).toEqual([Number('123456789012345678901234.5678'), 1.5, null]);
  },
);

test('pages of LZ4 are those of the same table', async () => {
  const rows = (await linesOf('pyarrow-snappy.parquet'))
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  const want = rows.map(({ text, f64 }) => `${JSON.stringify({ text, f64: exact(f64) })}\n`).join('');
  expect(await linesOf('pyarrow-lz4.parquet')).toBe(want);
});

test.each([
  { name: 'pyarrow-nested.parquet', nested: 'list', want: '{"row":1}\n{"row":2}\n' },
  { name: 'pyarrow-nested-dots.parquet', nested: 'a', want: '{"a.b":1.5}\n{"a.b":2.5}\n' },
])('$name: a nested column is refused by its name, unless it is ignored', async ({ name, nested, want }) => {
  await expect(linesOf(name)).rejects.toThrow(`the column ${nested} is nested`);
  const file = await openRandomAccess(path.join(FIXTURES, name));
  const chunks: Buffer[] = [];
  const table = await openParquet(file, { ignored: (column) => column === nested });
  for await (const chunk of new ColumnLines(table)) chunks.push(Buffer.from(chunk));
  await file.close();
  expect(Buffer.concat(chunks).toString()).toBe(want);
});

test('columns of one name have their own values', async () => {
  const file = await openRandomAccess(path.join(FIXTURES, 'pyarrow-twice.parquet'));
  const chunks: Buffer[] = [];
  const table = await openParquet(file, { ignored: (_, nested) => nested });
  for await (const chunk of new ColumnLines(table)) chunks.push(Buffer.from(chunk));
  await file.close();
  expect(Buffer.concat(chunks).toString()).toBe('{"x":1.5,"x":"a","y":true}\n{"x":2.5,"x":null,"y":false}\n');
});

test.each(['pyarrow-durations.parquet', 'pyarrow-durations-plain.parquet', 'polars-durations.parquet'])(
  '%s: durations, which Parquet stores as integers, are no numbers',
  async (name) => {
    const file = await openRandomAccess(path.join(FIXTURES, name));
    const { names, kinds } = await openParquet(file, {});
    await file.close();
    const kindOf = Object.fromEntries(names.map((column, c) => [column, kinds[c]]));
    const { i, ...others } = kindOf;
    expect([i, new Set(Object.values(others))]).toEqual(['number', new Set(['duration'])]);
    for (const forModel of [[], names]) {
      const rows = (await linesOf(name, undefined, forModel)).trimEnd().split('\n');
      const columnOf = (column: string) => rows.map((row) => JSON.parse(row)[column] ?? null);
      expect(columnOf('i')).toEqual([1500, null, -2000, 0, 7, 1500]);
      expect(columnOf('ms')).toEqual(['PT1.5S', null, '-PT2S', 'PT0S', 'PT0.007S', 'PT1.5S']);
      expect(columnOf('us')).toEqual(['PT0.0015S', null, '-PT0.002S', 'PT0S', 'PT0.000007S', 'PT0.0015S']);
      expect(columnOf('ns')).toEqual(['PT0.0000015S', null, '-PT0.000002S', 'PT0S', 'PT0.000000007S', 'PT0.0000015S']);
      if (names.includes('s')) expect(columnOf('s')).toEqual(['PT1500S', null, '-PT2000S', 'PT0S', 'PT7S', 'PT1500S']);
    }
  },
);

test('a file that was damaged anywhere is read or refused, and nothing else', async () => {
  const whole = readFileSync(path.join(FIXTURES, 'pyarrow-small-pages.parquet'));
  let [read, refused] = [0, 0];
  for (let at = 4; at < whole.length - 8; at += 97) {
    const bytes = Buffer.from(whole);
    bytes[at]! ^= 0x5a;
    const file = {
      name: 'damaged.parquet',
      byteLength: bytes.length,
      read: async (target: Uint8Array, position: number) => {
        target.set(bytes.subarray(position, position + target.length));
      },
    };
    const reading = (async () => {
      for await (const chunk of new ColumnLines(await openParquet(file, {}))) expect(chunk.length).toBeGreaterThan(0);
    })();
    await reading.then(
      () => read++,
      (error: unknown) => {
        expect(error).toMatchObject({ code: expect.stringMatching(/truncated_input|header_mismatch/) });
        refused++;
      },
    );
  }
  expect(read).toBeGreaterThan(10);
  expect(refused).toBeGreaterThan(10);
});
