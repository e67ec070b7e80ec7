// The byte decoder of JSON objects gives the cells, faults and passthrough of JSON.parse, whatever the bytes are.

import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import { createDecoder } from '../../../src/formats/choose-decoder.ts';
import { JsonDecoder, type JsonLayout } from '../../../src/formats/json/json-decoder.ts';
import { columnReaders } from '../../../src/inference/encode/column-reader.ts';
import { Encoder } from '../../../src/inference/encode/encoder.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import {
  batchFor,
  Differential,
  Draw,
  type Found,
  NUMBERS,
  READERS,
  RECORDS,
  recordsIn,
  Tally,
} from '../../support/decoding.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import fc from '../../support/seeded-fast-check.ts';
import { TIER, times } from '../../support/tiers.ts';
import { toNative } from '../../support/zoo.ts';

const MAX_RECORD = 1_000;
const CAPACITIES = [1, 7, 100, 512];
const LAYOUT: JsonLayout = { passthrough: [], reserved: ['row'], outcome: 'ok', maxColumns: 64 };
const LAYOUTS: JsonLayout[] = [
  LAYOUT,
  { ...LAYOUT, passthrough: ['id', 'größe'], outcome: null },
  { ...LAYOUT, passthrough: '*' },
];
/** Columns that must have a value. */
const REQUIRED = new Set(['small', 'free'].map((name) => READERS.findIndex((r) => r.name === name)));
const NAMES = READERS.map((r) => r.name);

const differential = (layout: JsonLayout) =>
  new Differential(READERS, { format: 'json', layout }, layout.passthrough === '*' ? 1 : layout.passthrough.length);
const lines = () => new DelimitedScanner(-1, MAX_RECORD, -1);

/** A string token; some characters escaped though they need not be. */
function quoted(draw: Draw, text: string, odd: number): string {
  const token = JSON.stringify(text);
  if (!draw.chance(0.1 + odd)) return token;
  const units = [...token.slice(1, -1)];
  const escaped = units.map((u) =>
    u !== '\\' && !/["nrtu0-9a-f]/.test(u) && draw.chance(0.5)
      ? u.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      : u,
  );
  return `"${escaped.join('')}"`;
}

const STRANGE = [
  '[]',
  '{}',
  '{"a":[1,{"b":"}"}]}',
  '"\\ud800"',
  '"\\x"',
  '"\\u12"',
  '"a\tb"',
  'nul',
  'True',
  "'x'",
  '+1',
  '01',
  '1.',
  '-',
  '1e5',
  '1E400',
  '-0',
  '-0.0',
  '1.0',
  '9007199254740993',
  '"\\u0000"',
  '"\\/\\b\\f"',
  '"\\"',
];

function value(draw: Draw, c: number, odd: number): string {
  const text = draw.cell(c, odd);
  if (draw.chance(odd / 3)) return draw.of(STRANGE);
  if (draw.chance(REQUIRED.has(c) ? odd / 5 : 0.1)) return 'null';
  const json = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) || text === 'true' || text === 'false';
  return json && draw.chance(0.7) ? text : quoted(draw, text, odd);
}

/** One object; `odd`: share of odd values, keys and structure. */
function object(draw: Draw, layout: JsonLayout, order: readonly number[], odd: number): string {
  const members = order.map((c): [string, string] => [NAMES[c]!, value(draw, c, odd)]);
  const put = (key: string, token: string) => members.splice(draw.below(members.length + 1), 0, [key, token]);
  if (layout.passthrough === '*' ? draw.chance(0.3) : layout.passthrough.length > 0) {
    if (draw.chance(0.9))
      put(
        'id',
        draw.of(['1', '"A1"', '"A2"', '"é"', '-1e5', 'true', 'null', '"ö\\n"', '1.50', '{"a":1}', '"\\ud83d"', '""']),
      );
    if (draw.chance(0.5)) put('größe', value(draw, 9, odd));
  }
  if (draw.chance(odd / 4)) members.splice(draw.below(members.length), 1);
  if (draw.chance(odd / 4)) put(draw.of([...NAMES, 'ok', 'row', 'other', '', '__proto__']), '1');
  if (draw.chance(odd)) members.sort(() => draw.uniform() - 0.5);
  const space = () => (draw.chance(odd) ? draw.of([' ', '  ', '\t', '\r', '\u00a0', ' \t ']) : '');
  const body = members.map(
    ([k, v]) => `${space()}${quoted(draw, k, odd / 4 - 0.1)}${space()}:${space()}${v}${space()}`,
  );
  if (draw.chance(odd / 8))
    return draw.of(['[]', '1', '"x"', 'null', '{', '{}', '{ }', '{"a"}', `{${body},}`, `{${body}}}`]);
  return `${space()}{${body.join(',')}}${space()}`;
}

const shuffled = (draw: Draw): number[] => {
  const order = NAMES.map((_, c) => c);
  for (let i = order.length - 1; i > 0; i--) {
    const j = draw.below(i + 1);
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
};

/** Many documents of records: with one order of keys, with two, or with an order per object. */
function campaign(compare: (draw: Draw, layout: JsonLayout, texts: string[]) => Found) {
  const tally = new Tally();
  for (let seed = 1; tally.records < RECORDS; seed++) {
    const draw = new Draw(seed);
    const layout = draw.of(LAYOUTS);
    const odd = draw.of([0, 0, 0.001, 0.01, 0.2]);
    const first = shuffled(draw);
    const count = draw.of([1, 20, 300]);
    const other = new Draw(seed + 1e6);
    const orders = [first, ...Array.from({ length: other.of([0, 0, 1, count]) }, () => shuffled(other))];
    const texts = Array.from({ length: count }, () => object(draw, layout, other.of(orders), odd));
    tally.add(compare(draw, layout, texts));
  }
  tally.assertMixed(0.8);
}

test('the same cells and faults as JSON.parse in generated lines', () => {
  campaign((draw, layout, texts) => {
    let bytes: Buffer = Buffer.from(texts.join(draw.of(['\n', '\r\n', '\n\n'])));
    if (draw.chance(0.4)) bytes = draw.mutate(bytes);
    return differential(layout).compare(recordsIn(bytes, lines()), draw.of(CAPACITIES));
  });
});

test('the same in records that lie side by side, as messages do', () => {
  campaign((draw, layout, texts) => {
    const records = texts.map((t): Buffer => (draw.chance(0.1) ? draw.mutate(Buffer.from(t)) : Buffer.from(t)));
    const spans = new Int32Array(records.length * 2);
    let at = 0;
    records.forEach((r, i) => {
      spans[i * 2] = at;
      at += r.length;
      spans[i * 2 + 1] = at;
    });
    const slab = new SharedArrayBuffer(at);
    Buffer.from(slab).set(Buffer.concat(records));
    const block = { slab, spans, faults: new Uint8Array(records.length) };
    return differential(layout).compare(block, draw.of(CAPACITIES));
  });
});

test('characters that are cut between two records are no UTF-8 in either', () => {
  const both = differential({ ...LAYOUT, passthrough: '*' });
  for (const text of ['{}é{}', '{"é', 'é{}', '{}東', '😀😀']) {
    const bytes = Buffer.from(text);
    for (let cut = 0; cut <= bytes.length; cut++) {
      const slab = new SharedArrayBuffer(bytes.length);
      Buffer.from(slab).set(bytes);
      both.compare({ slab, spans: Int32Array.of(0, cut, cut, bytes.length), faults: new Uint8Array(2) }, 2);
    }
  }
});

test('a key that would hide a field of the answer is refused by name; any other is not repeated', () => {
  const faultsOf = (passthrough: JsonLayout['passthrough'], key: string, ignore?: readonly string[] | '*') => {
    const reader = READERS.find((r) => r.name === 'small')!;
    const declared = { names: null, rename: {}, ignore: ignore ?? [], constants: {} };
    const layout: JsonLayout = { passthrough, reserved: ['probability'], outcome: null, maxColumns: 64, declared };
    const bytes = Buffer.from(ignore ? `{"small":1,"${key}":2,"${key}":"a"}` : JSON.stringify({ small: 1, [key]: 2 }));
    const slab = new SharedArrayBuffer(bytes.length);
    Buffer.from(slab).set(bytes);
    const batch = batchFor([reader], 1, passthrough.length);
    new JsonDecoder([reader], layout).decode(
      { slab, spans: Int32Array.of(0, bytes.length), faults: new Uint8Array(1) },
      0,
      1,
      batch,
    );
    return batch.rejections.map(({ code, column }) => [code, column]);
  };
  expect(faultsOf('*', 'probability')).toEqual([['unexpected_column', 'probability']]);
  expect(faultsOf('*', 'other')).toEqual([]);
  expect(faultsOf([], 'probability')).toEqual([['unexpected_column', null]]);
  expect(faultsOf(['probability'], 'probability')).toEqual([]);
  for (const ignore of ['*', ['other']] as const) expect(faultsOf([], 'other', ignore)).toEqual([]);
  expect(faultsOf([], 'small', '*')).toEqual([['duplicate_column', 'small']]);
  expect(faultsOf('*', 'other', [])).toEqual([['duplicate_column', null]]);
});

test('a key that occurs twice, in place of another or besides it', () => {
  const draw = new Draw(1);
  for (const layout of LAYOUTS) {
    const both = differential(layout);
    const plain = NAMES.map((name, c): [string, string] => [name, value(draw, c, 0)]);
    const written = (members: typeof plain) => `{${members.map(([k, v]) => `${JSON.stringify(k)}:${v}`).join(',')}}`;
    const objects = NAMES.flatMap((twice, c) =>
      NAMES.flatMap((_, at) => [
        written(plain),
        written(plain.with(at, [twice, plain[c]![1]])),
        written(plain.toSpliced(at, 0, [twice, plain[c]![1]])),
      ]),
    );
    both.compare(recordsIn(Buffer.from(objects.join('\n')), lines()), 512);
  }
});

test('every odd number as a number and as a string, in every kind of column', () => {
  for (const [c, reader] of READERS.entries()) {
    const layout = { ...LAYOUT };
    const both = new Differential([reader], { format: 'json', layout }, 0);
    const tokens = [
      ...NUMBERS,
      ...NUMBERS.map((n) => JSON.stringify(n)),
      ...STRANGE,
      'true',
      'false',
      'null',
      '1e21',
      '1e22',
    ];
    const text = tokens.map((t) => `{${JSON.stringify(NAMES[c])}:${t}}\n`).join('');
    both.compare(recordsIn(Buffer.from(text), lines()), 512);
  }
});

test('the same cells and faults as JSON.parse in any bytes', () => {
  const readers = [READERS[0]!, READERS[9]!];
  const both = new Differential(readers, { format: 'json', layout: { ...LAYOUT, passthrough: ['id'] } }, 1);
  const part = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.constantFrom('{"amount":1,"note":"x"}', '"amount":', '"note":', '"id":', '1.5', '"a"', ','),
    },
    {
      weight: 3,
      arbitrary: fc.constantFrom(
        '{',
        '}',
        '"',
        '\\',
        ':',
        ' ',
        'null',
        'true',
        'false',
        '[',
        ']',
        '\\u00e9',
        '\\ud83d',
        '\\ude00',
      ),
    },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 3 }) },
  );
  fc.assert(
    fc.property(fc.array(part, { maxLength: 16 }), (parts) => {
      both.compare(recordsIn(Buffer.from(parts.join('')), lines()), 512);
    }),
    { numRuns: times('bytes as JSON', { quick: 2_000, check: 4_000, campaigns: 500_000 }) },
  );
});

test('half a surrogate pair in a passthrough text or key rejects its row, in every decoder', () => {
  const all = new Differential([READERS[0]!], { format: 'json', layout: { ...LAYOUT, passthrough: '*' } }, 1);
  const keys = ['a\\ud83d', '\\ude00', '\\ud83d\\ude00', '\\\\ud83d', '😀'].map((key) => `{"amount":1,"${key}":2}\n`);
  expect(all.compare(recordsIn(Buffer.from(keys.join('')), lines()), 512).rejected).toBe(2);
  const both = new Differential([READERS[0]!], { format: 'json', layout: { ...LAYOUT, passthrough: ['id'] } }, 1);
  const ids = ['\\ud83d', '\\ude00', 'a\\ud83db', '\\ude00\\ud83d', '\\ud83d\\ude00', '\\\\ud83d', '😀', '\\u00e9'];
  const text = ids.map((id) => `{"amount":1,"id":"${id}"}\n`).join('');
  expect(both.compare(recordsIn(Buffer.from(text), lines()), 512).rejected).toBe(4);
});

/** Generated applications with a value in every column, as texts. */
function applications(rows: number): Record<string, string>[] {
  const portfolio = generatePortfolio({ rows, seed: 3, oddness: 'none' });
  const lines = Buffer.concat([...portfolio])
    .toString()
    .trimEnd()
    .split('\n');
  const [header, ...cells] = lines.map((line) => line.split(','));
  return cells.map((row) => Object.fromEntries(row.map((v, c) => [header![c]!, v])));
}

test('a generated portfolio, native values and strings', async () => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const readers = columnReaders(manifest);
  const names = readers.map((r) => r.name);
  const text = applications(2_000).map((row, i) => `${JSON.stringify(i % 2 ? row : toNative(names, row))}\n`);
  const both = new Differential(readers, { format: 'json', layout: LAYOUT }, 0);
  expect(both.compare(recordsIn(Buffer.from(text.join('')), lines()), 512)).toEqual({
    records: 2_000,
    rejected: 0,
    declined: 0,
  });
});

const reversed = (row: object) => Object.fromEntries(Object.entries(row).reverse());
const withSpaces = (row: object) => JSON.stringify(row, null, 1).replaceAll('\n', '').replace('{ ', '{');

test('the kernel reads plain objects, and is made anew for others', async () => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const readers = columnReaders(manifest);
  const kinds = readers.map((r) => r.kind);
  const names = readers.map((r) => r.name);
  const rows = applications(1_500);
  const styles: ((row: Record<string, string>) => string)[] = [
    (row) => JSON.stringify(toNative(names, row)),
    (row) => withSpaces(toNative(names, row)),
    (row) => JSON.stringify(reversed(toNative(names, row))),
    (row) => JSON.stringify(row),
    (row) => ` \t{${JSON.stringify({ id: 'Nr. 7', ...row }).slice(1)} `,
  ];
  const layout: JsonLayout = { ...LAYOUT, passthrough: ['id'] };
  for (const style of styles) {
    const encoder = new Encoder(manifest, kinds, rows.length);
    const decoder = createDecoder(readers, { format: 'json', layout }, 'eager', encoder);
    const batch = batchFor(readers, rows.length, 1);
    // Of the first document only the rows are declined for which the kernel is made; the second has another order of keys.
    for (const each of [style, (row: Record<string, string>) => JSON.stringify({ ...reversed(row), id: 1 }), style]) {
      const block = recordsIn(Buffer.from(rows.map((row) => `${each(row)}\n`).join('')), new DelimitedScanner(-1, 4_000, -1)); // biome-ignore format: one line
      decoder.decode(block, 0, block.faults.length, batch);
      expect(batch.rejections).toEqual([]);
      expect(batch.encoded.reduce((n, e) => n + e, 0)).toBeGreaterThan(rows.length * 0.55);
    }
  }
});

test('after a few objects, a kernel reads keys in any order', async () => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const readers = columnReaders(manifest);
  const names = readers.map((r) => r.name);
  const draw = new Draw(7);
  const anyOrder = (row: object): object =>
    Object.fromEntries(Object.entries(row).map((member) => ({ member, at: draw.uniform() })).sort((a, b) => a.at - b.at).map(({ member }) => member)); // biome-ignore format: one line
  for (const orders of [[anyOrder], [reversed, (row: object) => row]]) {
    const rows = applications(6_000).map((row) => ({ id: 'Nr. 7', ...toNative(names, row) }));
    const text = rows.map((row) => `${JSON.stringify(draw.of(orders)(row))}\n`).join('');
    const block = recordsIn(Buffer.from(text), new DelimitedScanner(-1, 4_000, -1));
    const encoder = new Encoder(manifest, readers.map((r) => r.kind), rows.length); // biome-ignore format: one line
    const decoder = createDecoder(
      readers,
      { format: 'json', layout: { ...LAYOUT, passthrough: ['id'] } },
      'eager',
      encoder,
    );
    const batch = batchFor(readers, rows.length, 1);
    decoder.decode(block, 0, rows.length, batch);
    expect(batch.rejections).toEqual([]);
    expect(batch.passthrough[0]!.slice(0, rows.length).every((text) => text === '"Nr. 7"')).toBe(true);
    expect(batch.encoded.reduce((n, e) => n + e, 0)).toBeGreaterThan(rows.length * 0.85);
  }
});

test.each(TIER === 'quick' ? [65] : [32, 63, 64, 65, 128])('%i keys in any order, with one that is missing, strange or there twice', async (keys) => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const readers = columnReaders(manifest);
  const names = readers.map((r) => r.name);
  const draw = new Draw(keys);
  const others = Array.from({ length: keys - names.length }, (_, i) => `other ${i}`);
  const layout: JsonLayout = { ...LAYOUT, passthrough: others, maxColumns: 200 };
  const both = new Differential(readers, { format: 'json', layout }, others.length, manifest);
  const objects = applications(1_000).map((row, at) => {
    const members = Object.entries({ ...toNative(names, row), ...Object.fromEntries(others.map((name) => [name, at])) });
    const shuffled = members.map((member) => ({ member, by: draw.uniform() })).sort((a, b) => a.by - b.by).map(({ member }) => member); // biome-ignore format: one line
    const one = Math.floor(draw.uniform() * keys);
    const kind = Math.floor(draw.uniform() * 10);
    if (kind === 0) shuffled.splice(one, 1);
    if (kind === 1) shuffled.splice(one, 0, ['strange', 1]);
    if (kind === 2) shuffled.splice(one, draw.chance(0.5) ? 0 : 1, shuffled[(one + 7) % keys]!);
    return `{${shuffled.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}\n`;
  });
  const found = both.compare(recordsIn(Buffer.from(objects.join('')), new DelimitedScanner(-1, 10_000, -1)), 512);
  expect(found.records).toBe(objects.length);
  expect(found.rejected).toBeGreaterThan(50);
  expect(found.rejected).toBeLessThan(objects.length / 2);
}); // biome-ignore format: one line

test.each(['one order', 'any order'])('any byte of an object may be another: keys in %s', async (orders) => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const readers = columnReaders(manifest);
  const [first, second] = applications(200);
  const names = readers.map((r) => r.name);
  const layout: JsonLayout = { ...LAYOUT, passthrough: ['id', 'much'] };
  const plain = Buffer.from(`${JSON.stringify({ id: 'a "quoted"', ...toNative(names, first!), much: -12.5 })}\n`);
  const both = new Differential(readers, { format: 'json', layout }, 2, manifest);
  const object = { id: 'Nr. 7', ...toNative(names, second!), much: -0.125 };
  const bytes = Buffer.from(withSpaces(object).replace('Nr. 7', 'a longer text that has more than sixteen bytes'));
  const changes = [0, 9, 32, 34, 44, 45, 46, 48, 49, 58, 92, 101, 123, 125, 0x80, 0xc3];
  const texts: Buffer[] = [bytes];
  for (let at = 0; at < bytes.length; at++) {
    for (const change of changes) {
      const changed = Buffer.from(bytes);
      changed[at] = change;
      texts.push(changed);
    }
    texts.push(bytes.subarray(0, at), Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + 1)]));
  }
  // Each stands beside sound ones, for which the kernel is made.
  const sound = Buffer.concat([bytes, Buffer.from('\n')]);
  // Objects with another order of keys lead to a kernel for any order.
  const another = Buffer.from(orders === 'one order' ? '' : `${withSpaces(reversed(object))}\n`.repeat(600));
  const lines = texts.flatMap((text, i) => [text, Buffer.from('\n'), ...(i % 40 === 0 ? [plain] : []), ...(i % 2 ? [sound] : [])]); // biome-ignore format: one line
  const found = both.compare(
    recordsIn(Buffer.concat([sound, another, ...lines]), new DelimitedScanner(-1, 4_000, -1)),
    512,
  );
  expect(found.rejected).toBeGreaterThan((found.records - 600) / 10);
});
