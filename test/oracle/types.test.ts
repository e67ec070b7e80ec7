// A value is the same whatever carries it: every type of Arrow, Parquet, Avro, Protobuf, JSON and CSV as every kind of column, and passed
// through to every format.
import { afterAll, expect, test } from 'vitest';
import { TIER } from '../support/tiers.ts';
import { CARRIERS } from './types/carriers.ts';
import { Crossing } from './types/crossing.ts';
import { CELLS, jsonOf, TOKENS } from './types/texts.ts';

const crossing = new Crossing();
afterAll(() => crossing.close());

/** Columns that have half of the carriers in the check; others have fewer, and all have each of them in a campaign. */
const MAIN = ['number', 'boolean', 'word', 'code', 'text'];
const FEW = { quick: 8, check: 2, campaigns: 1 }[TIER];
const oneIn = (main: number, other: number) => (column: string) =>
  TIER === 'campaigns' ? 1 : FEW * (MAIN.includes(column) ? main : other);

test('the carriers are many, of every format', () => {
  const counts = Object.groupBy(CARRIERS, ({ format }) => format);
  expect(Object.entries(counts).filter(([, some]) => some.length > 25).map(([format]) => format).sort()).toEqual(['arrow', 'avro', 'parquet', 'protobuf']); // biome-ignore format: one line
});

/** Kinds of values as the Python client calls them; it has no names for the others, and refuses them. */
const CALLED = ['number', 'decimal', 'boolean', 'text', 'null', 'date', 'timestamp'];

test('the Python client sees the same kinds of values in a frame, so that it refuses the same columns', () => {
  const frames = CARRIERS.filter((carrier) => carrier.client !== undefined);
  expect(frames.length).toBeGreaterThan(50);
  for (const { name, kind, client } of frames) {
    // Decimals of Python are sent as texts, and periods are no dates to the client.
    const known = name.endsWith('object of decimals') ? 'decimal' : name.endsWith('period') ? 'other' : kind;
    expect(client, name).toEqual([CALLED.includes(known) ? known : 'other']);
  }
});

test('each carrier as each column of the model', async () => {
  expect(await crossing.carriers('plain', oneIn(1, 6))).toEqual([]);
});

test('each carrier with declarations about texts, which do not apply to its numbers', async () => {
  expect(await crossing.carriers('declared', oneIn(4, 8))).toEqual([]);
});

test('each carrier where the model accepts numbers as categories and texts', async () => {
  expect(await crossing.carriers('numbers accepted', oneIn(8, 8))).toEqual([]);
});

test('each carrier that is passed through', async () => {
  expect(await crossing.passedThrough(FEW)).toEqual([]);
});

const WAYS = ['plain', 'declared', 'numbers accepted'] as const;

test.each(['csv', 'tsv'] as const)('cells of %s', async (format) => {
  const mark = format === 'csv' ? ',' : '\t';
  const rows = CELLS.map(({ t }, row) => `"${t.replaceAll('"', '""')}"${mark}${row}\n`);
  expect(await crossing.texts(format, CELLS, () => `x${mark}row\n${rows.join('')}`, WAYS)).toEqual([]);
});

test.each(['json', 'ndjson'] as const)('tokens of %s', async (format) => {
  const rows = TOKENS.map(([token], row) => `{"x": ${token}, "row": ${row}}`);
  const write = () => (format === 'json' ? `[${rows.join(',')}]` : rows.join('\n'));
  expect(await crossing.texts(format, TOKENS.map(([, value]) => value), write, WAYS)).toEqual([]); // biome-ignore format: one line
  const texts = CELLS.map(({ t }, row) => jsonOf(t, row));
  const asText = () => (format === 'json' ? `[${texts.join(',')}]` : texts.join('\n'));
  expect(await crossing.texts(format, CELLS, asText, WAYS)).toEqual([]);
});
