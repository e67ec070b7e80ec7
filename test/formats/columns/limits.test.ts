// Limits of tables of columns: Arrow and Parquet that claim, repeat or nest more than may be held are refused, and long texts reject
// their rows alone.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { type DataType, decimal, dictionary, float64, int8, list, nullType, utf8 } from '@uwdata/flechette';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, test } from 'vitest';
import { readHead } from '../../../src/formats/arrow/arrow-messages.ts';
import { type ArrowOptions, openArrow } from '../../../src/formats/arrow/arrow-table.ts';
import { ColumnLines, ColumnTable } from '../../../src/formats/columns/column-table.ts';
import { type ColumnSource, fitRows, LineBatch, RowMarks } from '../../../src/formats/columns/line-batch.ts';
import { TableBudget, type TableLimits } from '../../../src/formats/columns/table-limits.ts';
import { openParquet } from '../../../src/formats/parquet/parquet-file.ts';
import {
  HeldPages,
  MOST_PAGE_BYTES,
  PageReader,
  plainValues,
  type RandomAccess,
} from '../../../src/formats/parquet/parquet-pages.ts';
import { checkThrift } from '../../../src/formats/parquet/thrift-check.ts';
import {
  type Columns,
  dictionaryMessage,
  END,
  recordMessage,
  schemaMessage,
  textBuffers,
  viewSchema,
} from '../../support/arrow-messages.ts';

const MIB = 1024 * 1024;
const NO_BYTES = new Uint8Array(0);

/** The error of a table that takes more than a limit. */
const beyond = (limit: string) => expect.objectContaining({ code: 'limit_exceeded', extra: expect.objectContaining({ limit }) }); // biome-ignore format: one line
const tooLargeBatch = expect.objectContaining({
  code: 'limit_exceeded',
  message: expect.stringMatching(/^a record batch takes more/),
});
const broken = (why: string) =>
  expect.objectContaining({ code: 'truncated_input', cause: expect.objectContaining({ message: why }) });

async function rowsIn(table: ColumnSource): Promise<number> {
  const batch = new LineBatch(table.names);
  let rows = 0;
  while (await table.next(batch)) rows += batch.rows;
  return rows;
}

/** The rows that are read of a table, and those of them that are marked as too long. */
async function marksIn(table: ColumnSource): Promise<{ rows: number; marked: number[] }> {
  const batch = new LineBatch(table.names);
  const marked: number[] = [];
  let rows = 0;
  for (; await table.next(batch); rows += batch.rows) {
    for (let row = 0; row < batch.rows; row++) if (batch.marks.has(row)) marked.push(rows + row);
  }
  return { rows, marked };
}

describe('Arrow', () => {
  async function* stream(parts: readonly Buffer[]): AsyncGenerator<Uint8Array> {
    yield Buffer.concat([...parts, END]);
  }
  const open = (parts: readonly Buffer[], limits: TableLimits = {}, options: ArrowOptions = {}) =>
    openArrow(stream(parts), { ...options, budget: new TableBudget(limits) });
  const read = async (parts: readonly Buffer[], limits?: TableLimits, options?: ArrowOptions) =>
    rowsIn(await open(parts, limits, options));

  const nulls = (rows: number) => recordMessage({ rows, nodes: [[rows, rows]], buffers: [] });
  const NULLS = schemaMessage({ x: nullType() });
  const numbers = (rows: number) =>
    recordMessage({ rows, nodes: [[rows, 0]], buffers: [NO_BYTES, new Uint8Array(rows * 8)] });
  const packed = (rows: number, claims = rows * 8) =>
    recordMessage({ rows, nodes: [[rows, 0]], buffers: [NO_BYTES, { zstd: new Uint8Array(rows * 8), claims }] });
  const NUMBERS = schemaMessage({ x: float64() });
  const words = (texts: readonly string[]): Columns => ({
    rows: texts.length,
    nodes: [[texts.length, 0]],
    buffers: [NO_BYTES, ...textBuffers(texts)],
  });
  const CODED = schemaMessage({ word: dictionary(utf8(), int8(), false, 0) });
  const codes = (...values: number[]) =>
    recordMessage({ rows: values.length, nodes: [[values.length, 0]], buffers: [NO_BYTES, Buffer.from(values)] });

  test('rows and columns have a largest number', async () => {
    expect(await read([NULLS, nulls(3), nulls(3)], { rows: 6, columns: 1 })).toBe(6);
    await expect(read([NULLS, nulls(3), nulls(3)], { rows: 5 })).rejects.toEqual(beyond('rows'));
    await expect(read([NULLS, nulls(2_000_000_000)], { rows: 5 })).rejects.toEqual(beyond('rows'));
    const two = schemaMessage({ x: nullType(), y: nullType() });
    await expect(open([two], { columns: 1 })).rejects.toEqual(beyond('columns'));
  });

  test('bytes are counted across batches: compressed, uncompressed, and of cells without bytes', async () => {
    expect(await read([NUMBERS, numbers(100), numbers(100)], { expandedBytes: 2000 })).toBe(200);
    await expect(read([NUMBERS, numbers(100), numbers(100)], { expandedBytes: 1500 })).rejects.toEqual(
      beyond('expanded_bytes'),
    );
    expect(await read([NUMBERS, packed(100), packed(100)], { expandedBytes: 2000 })).toBe(200);
    await expect(read([NUMBERS, packed(100), packed(100)], { expandedBytes: 1500 })).rejects.toEqual(
      beyond('expanded_bytes'),
    );
    await expect(read([NULLS, nulls(2000)], { expandedBytes: 1500 })).rejects.toEqual(beyond('expanded_bytes'));
  });

  test('a word counts as often as rows refer to it', async () => {
    const parts = [CODED, dictionaryMessage(0, words(['x'.repeat(1000)])), codes(...Array(50).fill(0))];
    const convert = async (expandedBytes: number) => {
      const budget = new TableBudget({ expandedBytes });
      const table = new ColumnTable(await openArrow(stream(parts), { budget }), budget);
      return (await table.next())!.run.rows;
    };
    expect(await convert(60_000)).toBe(50);
    await expect(convert(40_000)).rejects.toEqual(beyond('expanded_bytes'));
  });

  test('a batch is bounded as sent and as decompressed, and dictionaries together', async () => {
    const within = (batchBytes: number, parts: readonly Buffer[]) => read(parts, {}, { batchBytes });
    expect(await within(8192, [NUMBERS, packed(1000)])).toBe(1000);
    await expect(within(5000, [NUMBERS, packed(1000)])).rejects.toEqual(tooLargeBatch);
    await expect(within(5000, [NUMBERS, numbers(1000)])).rejects.toEqual(tooLargeBatch);
    await expect(within(5000, [NUMBERS, packed(10, 2 ** 30)])).rejects.toEqual(tooLargeBatch);
    const word = (isDelta: boolean) => dictionaryMessage(0, words(['x'.repeat(2000)]), isDelta);
    expect(await within(5000, [CODED, word(false), word(true), codes(0, 1)])).toBe(2);
    await expect(within(5000, [CODED, word(false), word(true), word(true), codes(0)])).rejects.toEqual(tooLargeBatch);
  });

  test('a dictionary has words no more than its bytes can hold', async () => {
    const coded = schemaMessage({ word: dictionary(utf8(), int8(), false, 0) });
    const claims: Columns = { rows: 1_000_000, nodes: [[1_000_000, 0]], buffers: [NO_BYTES, NO_BYTES, NO_BYTES] };
    await expect(read([coded, dictionaryMessage(0, claims), codes(0)])).rejects.toEqual(
      broken('a dictionary has no length'),
    );
  });

  test('buffers outside their message, and more buffers than there are, are refused', async () => {
    const outside = (offset: number, length: number) =>
      recordMessage({
        rows: 1,
        nodes: [[1, 0]],
        buffers: [new Uint8Array(8)],
        regions: [
          [0, 0],
          [offset, length],
        ],
      });
    for (const [offset, length] of [
      [8, 8],
      [-8, 8],
      [0, 2 ** 40],
    ] as const) {
      await expect(read([NUMBERS, outside(offset, length)])).rejects.toEqual(broken('a buffer is outside its message'));
    }
    const views = (variadic: number) =>
      recordMessage({ rows: 1, nodes: [[1, 0]], buffers: [NO_BYTES, new Uint8Array(16)], variadic: [variadic] });
    const schema = viewSchema('text');
    expect(await read([schema, views(0)])).toBe(1);
    for (const count of [3, 1_000_000, -1]) {
      await expect(read([schema, views(count)])).rejects.toEqual(broken('a column has more buffers than its message'));
    }
  });

  test('decimals have a scale that numbers can have, in dictionaries, too', async () => {
    // A scale that occurs nowhere else in the message.
    const SCALE = 33;
    const schemaOf = (type: DataType, scale: number): Buffer => {
      const bytes = Buffer.from(schemaMessage({ amount: type }));
      const places = Array.from({ length: bytes.length / 4 }, (_, i) => i * 4).filter((at) => bytes.readInt32LE(at) === SCALE); // biome-ignore format: one line
      expect(places).toHaveLength(1);
      bytes.writeInt32LE(scale, places[0]!);
      return bytes;
    };
    const amount = decimal(38, SCALE);
    for (const type of [amount, dictionary(amount, int8(), false, 0)]) {
      expect((await open([schemaOf(type, 1000)])).names).toEqual(['amount']);
      for (const scale of [1001, -1001, 2 ** 31 - 1]) {
        await expect(open([schemaOf(type, scale)])).rejects.toMatchObject({
          code: 'header_mismatch',
          cause: { message: 'a decimal has an impossible scale' },
        });
      }
    }
  });

  describe('descriptions of messages', () => {
    const headOf = (message: Buffer): Buffer => Buffer.from(message.subarray(8, 8 + message.readInt32LE(4)));
    const int32At = (head: Buffer, value: number): number => {
      const places = Array.from({ length: head.length / 4 }, (_, i) => i * 4).filter((at) => head.readInt32LE(at) === value); // biome-ignore format: one line
      expect(places).toHaveLength(1);
      return places[0]!;
    };

    test('a list is no longer than its message', () => {
      const head = headOf(recordMessage({ rows: 1, nodes: Array(77).fill([1, 0]), buffers: [] }));
      expect(readHead(head).kind).toBe('batch');
      const at = int32At(head, 77);
      for (const count of [1000, 2 ** 31 - 1]) {
        head.writeInt32LE(count, at);
        expect(() => readHead(head)).toThrow(broken('a list is longer than its message'));
      }
    });

    test('parts of a description do not overlap again and again', () => {
      const COUNT = 203;
      const types = Object.fromEntries(Array.from({ length: COUNT }, (_, i) => [`${i}`, nullType()]));
      const name = 'n'.repeat(10_000);
      const head = headOf(schemaMessage({ ...types, [name]: nullType() }));
      expect(readHead(head).kind).toBe('schema');
      // All columns are the one with the long name.
      const list = int32At(head, COUNT + 1);
      const last = list + 4 * (COUNT + 1);
      const long = last + head.readInt32LE(last);
      for (let at = list + 4; at < last; at += 4) head.writeInt32LE(long - at, at);
      expect(() => readHead(head)).toThrow(broken('the parts of a description overlap'));
    });

    test('columns are not nested without end', () => {
      const nested = (depth: number): DataType => (depth === 0 ? float64() : list(nested(depth - 1)));
      expect(readHead(headOf(schemaMessage({ x: nested(30) }))).kind).toBe('schema');
      expect(() => readHead(headOf(schemaMessage({ x: nested(40) })))).toThrow(broken('a column is nested too deeply'));
    });

    test('a description has a largest size', async () => {
      const prefix = Buffer.alloc(8);
      prefix.writeInt32LE(-1, 0);
      prefix.writeInt32LE(17 * MIB, 4);
      const cut = openArrow(stream([prefix, Buffer.alloc(16)]));
      await expect(cut).rejects.toMatchObject({ message: 'the input is not an Arrow stream' });
    });
  });

  describe('a text longer than a row may be rejects its row', () => {
    const LONG = 'x'.repeat(2000);
    const limits = { recordBytes: 1000 };

    test('in a dictionary, without being copied', async () => {
      const parts = [CODED, dictionaryMessage(0, words(['a', LONG, 'b'])), codes(0, 1, 2, 1)];
      expect(await marksIn(await open(parts, limits))).toEqual({ rows: 4, marked: [1, 3] });
      const table = await open(parts, limits);
      const batch = new LineBatch(table.names);
      await table.next(batch);
      expect(batch.columns[0]!.fragments!.longest).toBeLessThan(100);
      const lines: string[] = [];
      for await (const chunk of new ColumnLines(await open(parts, limits))) lines.push(Buffer.from(chunk).toString());
      expect(lines.join('').replaceAll(/ +/g, ' ')).toBe('{"word":"a"}\n \n{"word":"b"}\n \n');
    });

    test('in a dictionary that is too large to be listed', async () => {
      const large = Array.from({ length: 120 }, () => 'y'.repeat(40_000));
      const parts = [CODED, dictionaryMessage(0, words([...large, 'z'.repeat(60_000)])), codes(0, 120, 1)];
      expect(await marksIn(await open(parts, { recordBytes: 50_000 }))).toEqual({ rows: 3, marked: [1] });
      const table = await open(parts, { recordBytes: 50_000 });
      const batch = new LineBatch(table.names);
      await table.next(batch);
      expect([batch.columns[0]!.kind, batch.columns[0]!.fragments]).toEqual(['tokens', null]);
    });

    test('in a column of texts', async () => {
      const texts = recordMessage(words(['a', LONG, 'b']));
      // Texts in views, of at most 12 bytes, and one elsewhere.
      const view = (length: number, at: number) => {
        const bytes = Buffer.alloc(16);
        bytes.writeInt32LE(length, 0);
        bytes.writeInt32LE(at, 12);
        return bytes;
      };
      const views = recordMessage({
        rows: 3,
        nodes: [[3, 0]],
        buffers: [NO_BYTES, Buffer.concat([view(1, 0), view(2000, 0), view(1, 0)]), Buffer.from(LONG)],
        variadic: [1],
      });
      expect(await marksIn(await open([viewSchema('text'), views], limits))).toEqual({
        rows: 3,
        marked: [1],
      });
      const chunks: string[] = [];
      for await (const chunk of new ColumnLines(await open([schemaMessage({ text: utf8() }), texts], limits)))
        chunks.push(Buffer.from(chunk).toString());
      expect(chunks.join('')).toBe(`{"text":"a"}\n${' '.repeat(1001)}\n{"text":"b"}\n`);
    });
  });
});

test('a batch of one row has a budget for all of its texts', () => {
  const marks = new RowMarks(2);
  marks.begin(1, 1000);
  expect([marks.admits(0, 600), marks.admits(0, 600), marks.has(0)]).toEqual([true, false, true]);
  marks.begin(2, 1000);
  expect([marks.admits(0, 600), marks.admits(0, 600), marks.any]).toEqual([true, true, false]);
  expect([marks.admits(1, 1001), marks.has(0), marks.has(1)]).toEqual([false, false, true]);
});

test('a batch has fewer rows where its texts are long', () => {
  const texts = { textBytes: (rows: number) => rows * MIB };
  expect(fitRows([texts], 2048)).toBe(8);
  expect(fitRows([texts, texts], 2048)).toBe(4);
  expect(fitRows([{ textBytes: () => 2 ** 40 }], 2048)).toBe(1);
});

/** A number without a sign, as Thrift writes it. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 128);
  return [...bytes, rest];
}

describe('Thrift', () => {
  const check = (...bytes: number[]) => checkThrift(Uint8Array.from(bytes), 0);

  test('a list has no more elements than bytes', () => {
    // A list of two numbers, and lists that claim more, with their count in the same byte and behind it.
    check(0x19, 0x25, 2, 4, 0);
    expect(() => check(0x19, 0xe5, 2, 4, 0)).toThrow('a list is longer than its bytes');
    expect(() => check(0x19, 0xf5, ...varint(2 ** 31 - 1), 2, 4, 0)).toThrow('a list is longer than its bytes');
  });

  test('a number has 64 bits at most', () => {
    check(0x16, ...Array(9).fill(0xff), 1, 0);
    expect(() => check(0x16, ...Array(12).fill(0xff), 1, 0)).toThrow('a number has more than 64 bits');
    expect(() => check(0x16, ...Array(100_000).fill(0xff), 1, 0)).toThrow('a number has more than 64 bits');
  });

  test('structs and lists are not nested without end', () => {
    const structs = (depth: number) => [...Array(depth).fill(0x1c), ...Array(depth + 1).fill(0)];
    check(...structs(30));
    expect(() => check(...structs(40))).toThrow('structs are nested too deeply');
    const lists = (depth: number) => [0x19, ...Array(depth).fill(0x19), 0x15, 2, 0];
    check(...lists(30));
    expect(() => check(...lists(40))).toThrow('lists are nested too deeply');
  });

  test('a struct ends within its bytes', () => {
    expect(() => check(0x15)).toThrow('is incomplete');
    expect(() => check(0x18, 100, 1, 0)).toThrow('is incomplete');
  });
});

/** A file in memory. */
const fileOf = (bytes: Uint8Array, byteLength = bytes.length): RandomAccess => ({
  name: 'table.parquet',
  byteLength,
  read: async (target, position) => {
    // Zeros, and the bytes at the end.
    target.fill(0);
    const start = byteLength - bytes.length;
    const from = Math.max(position, start);
    if (from < position + target.length)
      target.set(bytes.subarray(from - start, position + target.length - start), from - position);
  },
});

describe('Parquet', () => {
  const footer = (thrift: readonly number[], length = thrift.length): Buffer => {
    const end = Buffer.from('....PAR1');
    end.writeUInt32LE(length, 0);
    return Buffer.concat([Buffer.from(thrift), end]);
  };

  test('a footer is bounded, and checked before it is decoded', async () => {
    const list = footer([0x29, 0xfc, ...varint(2 ** 31 - 1), 0, 0]);
    await expect(openParquet(fileOf(list), {})).rejects.toThrow('a list is longer than its bytes');
    await expect(openParquet(fileOf(footer([0], 65 * MIB), 100 * MIB), {})).rejects.toMatchObject({
      code: 'limit_exceeded',
      message: expect.stringContaining('its footer has more than'),
    });
  });

  const EACH_TYPE: [name: string, type: number, value: readonly number[]][] = [
    ['byte', 3, [0xff]],
    ['integer of 16 bits', 4, [0xff, 0xff, 3]],
    ['integer of 32 bits', 5, [0xfe, 0xff, 1]],
    ['integer of 64 bits', 6, [0xff, ...varint(2 ** 40)]],
    ['double', 7, Array<number>(8).fill(0xff)],
    ['text', 8, [3, 0xff, 0xff, 0xff]],
    ['list of booleans', 9, [0x21, 1, 2]],
    ['list of doubles', 9, [0x17, ...Array<number>(8).fill(0xff)]],
    ['struct', 12, [0x18, 1, 0xff, 0]],
  ];

  test.each(EACH_TYPE)('a struct ends where it should after: %s', (_, type, value) => {
    for (const id of [[0x10 | type], [type, 7]]) {
      const bytes = Uint8Array.from([0xff, ...id, ...value, 0]);
      // Booleans have no bytes.
      const two = Uint8Array.from([...bytes.subarray(0, -1), 0x11, 0x12, 0]);
      for (const one of [bytes, two]) {
        checkThrift(one, 1);
        for (let end = 1; end < one.length; end++)
          expect(() => checkThrift(one.subarray(0, end), 1)).toThrow(/incomplete|longer than its bytes/);
      }
    }
  });

  const FIXTURE = readFileSync(path.join(import.meta.dirname, 'fixtures', 'pyarrow-small-pages.parquet'));
  const read = async (bytes: Uint8Array, limits: TableLimits) =>
    rowsIn(await openParquet(fileOf(bytes), { budget: new TableBudget(limits) }));

  test('rows, columns and bytes of pages have a largest number', async () => {
    const rows = await read(FIXTURE, {});
    expect(await read(FIXTURE, { rows })).toBe(rows);
    await expect(read(FIXTURE, { rows: rows - 1 })).rejects.toEqual(beyond('rows'));
    await expect(read(FIXTURE, { columns: 1 })).rejects.toEqual(beyond('columns'));
    await expect(read(FIXTURE, { expandedBytes: 1000 })).rejects.toEqual(beyond('expanded_bytes'));
  });

  test.each([false, true])('a text longer than a row may be rejects its row (of a dictionary: %s)', async (coded) => {
    const texts = Array.from({ length: 60 }, (_, i) => (coded ? `word ${i % 3}` : `text ${i}`));
    texts[7] = 'x'.repeat(5000);
    const bytes = parquetWriteBuffer({
      columnData: [{ name: 'text', data: texts, type: 'STRING', encoding: coded ? 'RLE_DICTIONARY' : 'PLAIN' }],
    });
    const table = await openParquet(fileOf(new Uint8Array(bytes)), { budget: new TableBudget({ recordBytes: 1000 }) });
    expect(await marksIn(table)).toEqual({ rows: 60, marked: [7] });
  });

  describe('pages', () => {
    /** The header of a data page. `more`: further fields. */
    const header = (size: number, stored: number, more: readonly number[] = []): number[] =>
      // Its type, its sizes, and the header of a data page: one value in plain encoding.
      [0x15, 0, 0x15, ...varint(2 * size), 0x15, ...varint(2 * stored), 0x2c, 0x15, 2, 0x15, 0, 0x15, 6, 0x15, 6, ...more, 0, 0]; // biome-ignore format: one line
    const readerOf = (bytes: Uint8Array, held = new HeldPages()): PageReader => {
      const reader = new PageReader(fileOf(bytes), {}, 64 * 1024, held);
      reader.begin({ codec: 'UNCOMPRESSED', from: 0, to: bytes.length });
      return reader;
    };
    const pageOf = (size: number, more?: readonly number[]): Uint8Array =>
      Buffer.concat([Buffer.from(header(size, size, more)), Buffer.alloc(size)]);

    test('a page has 64 MiB at most', async () => {
      expect((await readerOf(pageOf(100)).next()).bytes).toHaveLength(100);
      const large = Buffer.from(header(MOST_PAGE_BYTES + 1, 8));
      await expect(readerOf(Buffer.concat([large, Buffer.alloc(8)])).next()).rejects.toMatchObject({
        code: 'limit_exceeded',
        message: `a page takes more than ${MOST_PAGE_BYTES} bytes: write smaller pages`,
      });
    });

    test('pages of all columns have a budget together', async () => {
      const held = new HeldPages();
      const none = { bytes: 0, stored: 0 };
      held.replace(none, { bytes: 128 * MIB - 50, stored: 1 });
      const reader = readerOf(pageOf(100), held);
      await expect(reader.next()).rejects.toMatchObject({ code: 'limit_exceeded' });
      // More, where the file has as much.
      new HeldPages().replace(none, { bytes: 256 * MIB, stored: 16 * MIB });
    });

    test('a header is bounded, and checked before it is decoded', async () => {
      // Statistics with a text.
      const statistics = (bytes: number) => [0x1c, 0x18, ...varint(bytes), ...Array(bytes).fill(97), 0];
      expect((await readerOf(pageOf(100, statistics(5000))).next()).bytes).toHaveLength(100);
      await expect(readerOf(pageOf(100, statistics(MIB))).next()).rejects.toThrow();
      const claims = [0x29, 0xf1, ...varint(100_000)];
      await expect(readerOf(pageOf(100, claims)).next()).rejects.toThrow('a list is longer than its bytes');
    });

    test('a column is inside its file', () => {
      const reader = new PageReader(fileOf(pageOf(10)), {}, 1024, new HeldPages());
      expect(() => reader.begin({ codec: 'GZIP', from: 0, to: 2 ** 40 })).toThrow('a column lies outside the file');
    });
  });

  describe('values as differences', () => {
    const layout = { encoding: 'DELTA_BINARY_PACKED', type: 'INT32', width: 4 };
    const page = (...head: number[]) => Uint8Array.from([...head, ...Array(64).fill(0)]);
    const tooLargePage = expect.objectContaining({ code: 'limit_exceeded' });
    const valuesOf = (bytes: Uint8Array, count: number, of: typeof layout, held = new HeldPages()) => {
      const reader = new PageReader(fileOf(bytes), {}, 1024, held);
      return plainValues(bytes, 0, count, of, (more) => reader.reserve(more));
    };

    test('blocks have a size that their parts divide', () => {
      expect(valuesOf(page(128, 1, 4, 1, 2), 1, layout)).toHaveLength(4);
      // Values of a block, its parts, values and the first one. Blocks of no size would be read without end.
      for (const [values, parts] of [
        [127, 4],
        [128, 0],
        [2 ** 21, 4],
        [0, 4],
        [0, 0],
      ] as const) {
        const bytes = page(...varint(values), parts, 1, 2);
        expect(() => valuesOf(bytes, 1, layout), `${values}`).toThrow('a block of values has an impossible size');
      }
      expect(() => valuesOf(page(...Array(20).fill(0xff)), 1, layout)).toThrow(
        'a block of values has an impossible size',
      );
    });

    test('values that take no bytes in the page have a largest number', () => {
      expect(() => valuesOf(page(128, 1, 4, 1, 2), 2 ** 24 + 1, layout)).toThrow(tooLargePage);
      const wide = { ...layout, type: 'INT64', width: 8 };
      expect(() => valuesOf(page(128, 1, 4, 1, 2), 2 ** 23 + 1, wide)).toThrow(tooLargePage);
    });

    test('texts with lengths of their own have a page at most', () => {
      const bytes = page(128, 1, 4, 1, ...varint(2 * (MOST_PAGE_BYTES + 1)));
      const texts = { encoding: 'DELTA_LENGTH_BYTE_ARRAY', type: 'BYTE_ARRAY', width: 0 };
      expect(() => valuesOf(bytes, 1, texts)).toThrow(tooLargePage);
    });

    test('of all columns they are counted together, with dictionaries', async () => {
      const held = new HeldPages();
      const values = 2 ** 23;
      for (let i = 0; i < 4; i++)
        expect(valuesOf(page(...varint(2 ** 20), 4, 1, 2), values, layout, held)).toHaveLength(values * 4);
      expect(() => valuesOf(page(...varint(2 ** 20), 4, 1, 2), values, layout, held)).toThrow(tooLargePage);
    });
  });
});
