// Arrow streams and files of several writers: their lines are those of the same table in Parquet.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { columnFromArray, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette';
import { expect, test } from 'vitest';
import { openArrow } from '../../../src/formats/arrow/arrow-table.ts';
import { ColumnLines } from '../../../src/formats/columns/column-table.ts';
import { openParquet, openRandomAccess } from '../../../src/formats/parquet/parquet-file.ts';

const FIXTURES = path.join(import.meta.dirname, '../columns/fixtures');

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const read = async (lines: ColumnLines): Promise<string> => {
  const chunks: Buffer[] = [];
  for await (const chunk of lines) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString();
};
const arrowLines = async (bytes: Uint8Array, size = 999, ignored?: (name: string) => boolean) =>
  read(new ColumnLines(await openArrow(pieces(bytes, size), ignored ? { ignored } : {})));
const fixture = (name: string): Buffer => readFileSync(path.join(FIXTURES, name));
const parquetLines = async (name: string): Promise<string> => {
  const file = await openRandomAccess(path.join(FIXTURES, name));
  return read(new ColumnLines(await openParquet(file, {}))).finally(() => file.close());
};
const rowsOf = (text: string): Record<string, unknown>[] => text.split('\n').filter(Boolean).map((l) => JSON.parse(l)); // biome-ignore format: one line

test.each(['pyarrow.arrows', 'pyarrow-lz4.arrow', 'pyarrow-zstd.arrows'])(
  '%s is the table of Parquet',
  async (name) => {
    const want = await parquetLines('pyarrow-snappy.parquet');
    expect(await arrowLines(fixture(name))).toBe(want);
    for (const size of [1, 7, 100_000]) expect(await arrowLines(fixture(name), size), `${size}`).toBe(want);
  },
);

test.each(['polars.arrows', 'polars.arrow', 'pandas.feather'])('%s is it, too', async (name) => {
  const want = rowsOf(await parquetLines('pyarrow-snappy.parquet')).map(({ category: _, ...row }) => row);
  expect(rowsOf(await arrowLines(fixture(name)))).toEqual(want);
});

test('decimals are the texts of the same table in Parquet', async () => {
  expect(await arrowLines(fixture('pyarrow-decimals.arrows'))).toBe(await parquetLines('pyarrow-decimals.parquet'));
});

test('decimals of hundreds are whole numbers', async () => {
  const columns = ['d32', 'd64', 'd128', 'd256', 'coded'];
  const rows = ['1200', '-500', null, '0'].map((value) => Object.fromEntries(columns.map((name) => [name, value])));
  expect(rowsOf(await arrowLines(fixture('pyarrow-hundreds.arrows')))).toEqual(rows);
});

test('a type that cannot be read is not taken for a damaged stream', async () => {
  const error = await arrowLines(fixture('polars-int128.arrows')).catch((e: unknown) => e);
  expect(error).toMatchObject({ code: 'header_mismatch', message: expect.stringContaining('128-bit integer') });
});

test('dictionaries that come after their record batches, as polars writes them to files', async () => {
  const words = ['b', null, 'a', 'b'];
  const want = words.map((word, i) => ({ word, of: word, row: i + 1 }));
  const bytes = fixture('polars-categories.arrow');
  for (const size of [1, 7, 100_000]) expect(rowsOf(await arrowLines(bytes, size)), `${size}`).toEqual(want);
  // Columns that are not read need no dictionary.
  const rows = await arrowLines(bytes, 999, (name) => name !== 'row');
  expect(rowsOf(rows)).toEqual(want.map(({ row }) => ({ row })));
});

test('a table without rows has no lines', async () => {
  expect(await arrowLines(fixture('pyarrow-empty.arrows'))).toBe('');
});

test('words of a dictionary that grows, and of one that is replaced', async () => {
  const words = async (name: string) => rowsOf(await arrowLines(fixture(name))).map(({ word }) => word);
  expect(await words('pyarrow-deltas.arrows')).toEqual(['a', 'b', 'a', 'b', 'c']);
  expect(await words('pyarrow-replaced.arrows')).toEqual(['a', 'b', 'a', 'b', 'c', 'x', 'y']);
});

test('plain texts are the same lines whether they are few and become words of a dictionary, or many', async () => {
  const odd = ['', 'ONLINE', 'q"q', 'two\nlines', 'Zürich', '東京😀', '\u0000', 'a', 'aa', null];
  const columns: Record<string, (row: number) => string | null> = {
    few: (row) => odd[(row * 7) % odd.length]!,
    // A new one now and then, in every batch.
    growing: (row) => `word ${Math.floor(row / 10)}`,
    'all "different"': (row) => `key ${row * 977}`,
    late: (row) => (row < 5000 ? 'same' : `later ${row}`),
    long: (row) => (row === 3000 ? 'x'.repeat(70_000) : (odd[row % 3] ?? null)),
  };
  const rows = Array.from({ length: 9000 }, (_, row) =>
    Object.fromEntries(Object.entries(columns).map(([name, of]) => [name, of(row)])),
  );
  const table = tableFromColumns(
    Object.keys(columns).map((name) => [
      name,
      columnFromArray(
        rows.map((row) => row[name]),
        utf8(),
      ),
    ]) as never,
  );
  const lines = await arrowLines(tableToIPC(table, { format: 'stream' })!, 100_000);
  expect(lines === rows.map((row) => `${JSON.stringify(row)}\n`).join('')).toBe(true);
});

test('a nested column is refused by its name, unless nobody looks at it', async () => {
  const bytes = fixture('pyarrow-nested.arrows');
  await expect(arrowLines(bytes)).rejects.toMatchObject({ code: 'header_mismatch', message: /column 2 \(list\) is nested/ }); // biome-ignore format: one line
  expect(await arrowLines(bytes, 999, (name) => name === 'list')).toBe('{"row":1}\n{"row":2}\n');
});

test.each(['pyarrow.arrows', 'pyarrow-lz4.arrow', 'pyarrow-zstd.arrows', 'pyarrow-deltas.arrows'])(
  '%s is refused where its batches, unpacked, or its dictionaries are larger than may be held',
  async (name) => {
    const bytes = fixture(name);
    const within = async (batchBytes: number) =>
      read(new ColumnLines(await openArrow(pieces(bytes, 999), { batchBytes })));
    expect(await within(1_000_000)).toBe(await arrowLines(bytes));
    await expect(within(20)).rejects.toMatchObject({ code: 'limit_exceeded' });
    // Larger than what is sent, smaller than what it becomes.
    if (name.includes('zstd')) await expect(within(2_500)).rejects.toMatchObject({ code: 'limit_exceeded' });
  },
);

test('a stream that is cut inside a message is refused, wherever', async () => {
  const whole = fixture('pyarrow.arrows');
  for (let end = 1; end < whole.length - 8; end += 411) {
    const rows = arrowLines(whole.subarray(0, end));
    await rows.then(
      // Between two messages nobody can tell: a stream may end without saying so.
      (text) => expect(rowsOf(text).length).toBeLessThan(60),
      (error: unknown) => expect(error).toMatchObject({ code: 'truncated_input' }),
    );
  }
});

test('rows are never lost: a file without its footer, and data after the end, are refused', async () => {
  const refused = { code: 'truncated_input' };
  for (const name of readdirSync(FIXTURES).filter((n) => /\.(arrow|arrows|feather)$/.test(n))) {
    const whole = fixture(name);
    if ((await arrowLines(whole).catch(() => null)) === null) continue;
    for (const size of [7, 1 << 20]) {
      await expect(arrowLines(Buffer.concat([whole, whole]), size), `${name} twice`).rejects.toMatchObject(refused);
      await expect(arrowLines(Buffer.concat([whole, Buffer.from('x')]), size)).rejects.toMatchObject(refused);
      if (name.endsWith('.arrows')) {
        expect(await arrowLines(Buffer.concat([whole, Buffer.alloc(8)]), size)).toBe(await arrowLines(whole));
        continue;
      }
      // Every place at which a record batch may begin: between two messages the decoder cannot see the cut.
      for (let end = 16; end < whole.length && size > 7; end += 8) {
        await expect(arrowLines(whole.subarray(0, end), size), `${name} cut at ${end}`).rejects.toMatchObject(refused);
      }
      await expect(arrowLines(whole.subarray(0, -1), size)).rejects.toMatchObject(refused);
    }
  }
});

test('a stream that was damaged anywhere is read or refused, and nothing else', async () => {
  for (const name of readdirSync(FIXTURES).filter((n) => /lz4\.arrow$|polars\.arrows$/.test(n))) {
    const whole = fixture(name);
    for (let at = 8; at < whole.length; at += 1201) {
      const bytes = Buffer.from(whole);
      bytes[at]! ^= 0x5a;
      await arrowLines(bytes, 1 << 20).catch((error: unknown) =>
        expect(error).toMatchObject({ code: expect.stringMatching(/truncated_input|header_mismatch/) }),
      );
    }
  }
});
