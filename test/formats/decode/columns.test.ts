// Cells that are read from columns are those that JSON.parse finds in the lines of the columns, fault by fault.
import { bool, columnFromArray, type DataType, dictionary, float32, float64, int64, tableFromColumns, tableToIPC, utf8 } from '@uwdata/flechette'; // biome-ignore format: one line
import { expect, test } from 'vitest';
import { SlabPool } from '../../../src/core/slabs.ts';
import { openArrow } from '../../../src/formats/arrow/arrow-table.ts';
import { createDecoder } from '../../../src/formats/choose-decoder.ts';
import { ColumnLines, ColumnTable } from '../../../src/formats/columns/column-table.ts';
import { asText } from '../../../src/formats/columns/column-text.ts';
import type { RecordSlice } from '../../../src/formats/decode/decoder.ts';
import type { JsonLayout } from '../../../src/formats/json/json-decoder.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import { tableBlocks } from '../../../src/io/source/table-blocks.ts';
import { batchFor, Draw, differenceOf, NUMBERS, READERS, readersBy, recordsIn } from '../../support/decoding.ts';
import { times } from '../../support/tiers.ts';

const TABLES = times('column tables', { quick: 12, check: 25, campaigns: 400 });
const RULES = { decimal: 'comma', thousands: 'point', trim: true, nullValues: ['7', '-', 'ONLINE'] } as const;
const WORDS = ['', 'x', ' x', 'y ', 'J', 'N', '+', 'true', 'false', 'Zürich', '東京', '😀', 'q"q', 'two\nlines', 'NA', '1.0', '-', 'nul\0', ...NUMBERS]; // biome-ignore format: one line

/** How a column is held: its type and a value of it. */
const KINDS: readonly [type: () => DataType, of: (random: Draw) => unknown][] = [
  [float64, (r) => [0, -0, 7, 1, -999, 1e3, 100.5, 1e300, Number.NaN, Infinity, 12.34, -101, 2 ** 53][r.below(13)]],
  [float32, (r) => Math.fround(r.uniform() * 200 - 100)],
  [int64, (r) => [0n, 1n, -7n, 2n ** 53n + 1n, 12n, -(2n ** 60n)][r.below(6)]],
  [int64, (r) => BigInt(r.below(5))],
  [bool, (r) => r.below(2) === 1],
  [utf8, (r) => WORDS[r.below(WORDS.length)]],
  // More than is taken for a dictionary.
  [utf8, (r) => (r.below(9) === 0 ? WORDS[r.below(WORDS.length)] : String(r.uniform()).repeat(60))],
  [() => dictionary(utf8()), (r) => WORDS[r.below(WORDS.length)]],
  [() => dictionary(utf8()), (r) => ['x', 'y', 'true', '1'][r.below(4)]],
];

/** The same rows as a block of columns, and as lines. */
async function blocksOf(
  random: Draw,
  names: readonly string[],
  rows: number,
): Promise<{ table: RecordSlice; lines: RecordSlice }> {
  const columns = names.map((name) => {
    const [type, of] = KINDS[random.below(KINDS.length)]!;
    const nulls = random.below(3) === 0 ? 0 : 0.2;
    const values = Array.from({ length: rows }, () => (random.uniform() < nulls ? null : of(random)));
    return [name, columnFromArray(values, type())] as [string, ReturnType<typeof columnFromArray>];
  });
  const bytes = tableToIPC(tableFromColumns(columns as never), { format: 'stream' })!;
  const opened = () =>
    openArrow(
      (async function* () {
        yield bytes;
      })(),
    );
  const text: Buffer[] = [];
  for await (const chunk of new ColumnLines(await opened())) text.push(Buffer.from(chunk));
  const records = recordsIn(Buffer.concat(text), new DelimitedScanner(-1, 2000, -1));
  expect(records.faults).toHaveLength(rows);
  const table = tableBlocks(new ColumnTable(await opened()), {
    slabs: new SlabPool(1, 1024 * 1024),
    maxRecordBytes: 2000,
  });
  const { value: block, done } = await table.next();
  if (done) throw new Error('there is no block');
  expect(block.faults).toEqual(records.faults);
  const [asked, read] = [textsOf(asText(block)), textsOf(records)];
  // Of a line that is too long only its beginning is kept.
  for (let i = 0; i < rows; i++) if (records.faults[i] === 0) expect(asked[i]).toBe(read[i]);
  // Records that the cutter or a worker has found out.
  for (let i = 0; i < rows; i++) if (random.below(40) === 0) records.faults[i] = 1 + random.below(4);
  return { lines: records, table: { ...block, faults: records.faults } };
}

const textsOf = ({ slab, spans }: RecordSlice): string[] =>
  Array.from({ length: spans.length / 2 }, (_, i) =>
    Buffer.from(new Uint8Array(slab as ArrayBuffer).slice(spans[i * 2], spans[i * 2 + 1])).toString(),
  );

const BASE: JsonLayout = { passthrough: [], reserved: ['row'], outcome: 'ok', maxColumns: 64 };
const NAMES = READERS.map(({ name }) => name);
const CASES: readonly [what: string, names: readonly string[], layout: JsonLayout][] = [
  ['the columns of the model', NAMES, BASE],
  ['in another order, with others to echo', ['id', ...NAMES.toReversed(), 'größe'], { ...BASE, passthrough: ['id', 'größe', 'absent'] }], // biome-ignore format: one line
  ['everything is echoed, and there is nothing', NAMES, { ...BASE, passthrough: '*' }],
  ['everything is echoed', ['id', ...NAMES], { ...BASE, passthrough: '*' }],
  ['one is missing', NAMES.slice(1), BASE],
  ['one too many', [...NAMES, 'other'], BASE],
  ['the outcome is there', [...NAMES, 'ok'], BASE],
  ['others are ignored, one is renamed', ['betrag', ...NAMES.slice(1), 'other'], { ...BASE, declared: { names: null, rename: { [NAMES[0]!]: 'betrag' }, ignore: ['other'], constants: {} } }], // biome-ignore format: one line
];

test.each(CASES)('%s', async (_, names, layout) => {
  const random = new Draw(names.length + JSON.stringify(layout).length);
  let [records, rejected] = [0, 0];
  const decoders = [null, RULES].map((rules) => {
    const readers = rules ? readersBy(rules) : READERS;
    const input = { format: 'json', layout, ...(rules ? { texts: rules } : {}) } as const;
    return {
      readers,
      fast: createDecoder(readers, input, 'fast'),
      reference: createDecoder(readers, input, 'reference'),
    };
  });
  for (let i = 0; i < TABLES; i++) {
    // A decoder keeps memory and lists of words from one table to the next.
    const { readers, fast, reference } = decoders[random.below(4) === 0 ? 1 : 0]!;
    const rows = 1 + random.below(40);
    const { table, lines } = await blocksOf(random, names, rows);
    const capacity = [1, 7, 100][random.below(3)]!;
    const passthrough = layout.passthrough === '*' ? 1 : layout.passthrough.length;
    const [a, b] = [batchFor(readers, capacity, passthrough), batchFor(readers, capacity, passthrough)];
    for (let from = 0; from < rows; from += capacity) {
      const to = Math.min(rows, from + capacity);
      fast.decode(table, from, to, a);
      reference.decode(lines, from, to, b);
      expect(differenceOf(a, b), `table ${i}`).toBeNull();
      records += to - from;
      rejected += b.rejections.length;
    }
  }
  expect(records).toBeGreaterThan(TABLES);
  expect(rejected).toBeGreaterThan(0);
});
