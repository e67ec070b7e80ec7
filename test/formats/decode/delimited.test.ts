// The byte decoder of delimited records gives the cells, faults and passthrough of csv-parse, whatever the bytes are.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { generatePortfolio } from '../../../src/demo/portfolio.ts';
import type { DelimitedLayout } from '../../../src/formats/delimited/csv-parse-decoder.ts';
import { splitHeader } from '../../../src/formats/delimited/header.ts';
import { columnReaders } from '../../../src/inference/encode/column-reader.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import { loadPackage } from '../../../src/model/package/load-package.ts';
import type { Manifest } from '../../../src/model/package/manifest.ts';
import { Differential, Draw, MANIFEST, READERS, RECORDS, recordsIn, Tally } from '../../support/decoding.ts';
import { CREDIT_DEFAULT } from '../../support/score.ts';
import fc from '../../support/seeded-fast-check.ts';

const DELIMITERS = [',', ';', '\t', '|'];
const MAX_RECORD = 400;
const CAPACITIES = [1, 7, 100, 512];

/** Columns of the model in another order than in the file, with two passthrough columns between them. */
const layoutOf = (delimiter: string, draw: Draw): DelimitedLayout => {
  const fields = READERS.length + 3;
  const places = Array.from({ length: fields }, (_, i) => i);
  for (let i = fields - 1; i > 0; i--) {
    const j = draw.below(i + 1);
    [places[i], places[j]] = [places[j]!, places[i]!];
  }
  return { delimiter, fields, columns: places.slice(0, READERS.length), passthrough: places.slice(READERS.length, -1) };
};

const differential = (layout: DelimitedLayout) =>
  new Differential(READERS, { format: 'delimited', layout }, layout.passthrough.length, MANIFEST);

/** One record; `odd`: share of odd cells and of broken structure. */
function line(draw: Draw, layout: DelimitedLayout, odd: number): string {
  const cells = Array.from({ length: layout.fields }, (_, field) => {
    const c = layout.columns.indexOf(field);
    const text = draw.cell(c < 0 ? draw.below(READERS.length) : c, odd);
    const special = text.includes(layout.delimiter) || /^"|[\r\n]/.test(text);
    if (draw.chance(special ? 1 - odd / 2 : 0.1)) return `"${text.replaceAll('"', '""')}"`;
    return draw.chance(odd / 10) ? `"${text}` : text;
  });
  if (draw.chance(odd / 5)) cells.pop();
  if (draw.chance(odd / 5)) cells.push(draw.of(['', 'more', '""']));
  if (draw.chance(odd / 10)) return draw.of(['', '""', layout.delimiter, '"', 'a"b', `"a"b${layout.delimiter}`]);
  return cells.join(layout.delimiter);
}

function documentOf(draw: Draw, layout: DelimitedLayout, records: number, odd: number): string {
  const ends = draw.of([['\n'], ['\r\n'], ['\r'], ['\n', '\r\n', '\r', '\n\n', '\r\n\r']]);
  let text = '';
  for (let i = 0; i < records; i++) text += line(draw, layout, odd) + draw.of(ends);
  return draw.chance(0.3) ? text.replace(/[\r\n]+$/, '') : text;
}

test('the same cells and faults as csv-parse in generated documents of every dialect', () => {
  const tally = new Tally();
  for (let seed = 1; tally.records < RECORDS; seed++) {
    const draw = new Draw(seed);
    const layout = layoutOf(draw.of(DELIMITERS), draw);
    const odd = draw.of([0, 0.002, 0.02, 0.3]);
    let bytes: Buffer = Buffer.from(documentOf(draw, layout, draw.of([1, 20, 300]), odd));
    if (draw.chance(0.4)) bytes = draw.mutate(bytes);
    const block = recordsIn(bytes, new DelimitedScanner(layout.delimiter.charCodeAt(0), MAX_RECORD));
    tally.add(differential(layout).compare(block, draw.of(CAPACITIES)));
  }
  tally.assertMixed(0.5);
});

test('the same cells and faults as csv-parse in any bytes', () => {
  const layout: DelimitedLayout = { delimiter: ',', fields: 2, columns: [0, 1], passthrough: [1] };
  const readers = [READERS[0]!, READERS[9]!];
  const both = new Differential(readers, { format: 'delimited', layout }, 1);
  const byte = fc.constantFrom(...Buffer.from(',,,\n\r""1-+.eé東\0 x'));
  fc.assert(
    fc.property(fc.array(byte, { maxLength: 40 }), (bytes) => {
      both.compare(recordsIn(Buffer.from(bytes), new DelimitedScanner(44, 24)), 512);
    }),
    { numRuns: 5_000 },
  );
});

test.each([
  ['all columns', READERS],
  ['a column of texts', [READERS[9]!]],
])('a character that is cut between two records side by side is no UTF-8 in either: %s', (_, readers) => {
  const layout: DelimitedLayout = { delimiter: ',', fields: 1, columns: readers.map(() => 0), passthrough: [0] };
  const both = new Differential(readers, { format: 'delimited', layout }, 1);
  for (const text of ['né', 'éa', '東', 'a😀']) {
    const bytes = Buffer.from(text);
    const slab = new SharedArrayBuffer(bytes.length);
    Buffer.from(slab).set(bytes);
    for (let cut = 1; cut < bytes.length; cut++) {
      both.compare({ slab, spans: Int32Array.of(0, cut, cut, bytes.length), faults: new Uint8Array(2) }, 2);
    }
  }
});

test('words of any length that differ in a byte anywhere, and numbers with something else for missing ones', () => {
  const draw = new Draw(11);
  const letters = (n: number): string => Array.from({ length: n }, () => draw.of([...'abcdefgh'])).join('');
  const changed = (word: string): string => {
    const at = draw.below(word.length);
    return `${word.slice(0, at)}${draw.of(['X', '', 'XY', '\0'])}${word.slice(at + 1)}`;
  };
  for (const longest of [8, 15, 16, 17, 32, 33, 70]) {
    const some = Array.from({ length: 40 }, () => letters(1 + draw.below(longest)));
    const known = [...new Set([...some, letters(longest), ...some.map(changed)])].filter((w) => w !== '');
    const missing = ['', '-999', letters(longest), '1.5e3'];
    const manifest = {
      columns: [
        { name: 'n', kind: 'number', missing: { values: missing, as: 'value', value: 7.25 } },
        {
          name: 'first',
          kind: 'category',
          codes: Object.fromEntries(known.map((w, i) => [w, i * 1.5])),
          unseen: 'missing',
        },
        { name: 'm', kind: 'number', range: [-100, 5000.5] },
        { name: 'last', kind: 'category', codes: Object.fromEntries(known.map((w, i) => [w, -i])), unseen: 'error' },
      ],
      inputs: [{ name: 'x', type: 'float32', columns: ['last', 'n', 'first', 'm'] }],
    } as unknown as Manifest;
    const number = () => draw.of([...missing, String(draw.below(1e6) / 100), draw.number(), changed('12345.6789')]);
    const word = () => (draw.chance(0.9) ? draw.of(known) : changed(draw.of(known)));
    const rows = Array.from({ length: 3_000 }, () =>
      [number(), word(), String(draw.below(6_000) - 200), word()].join(','),
    );
    const layout: DelimitedLayout = { delimiter: ',', fields: 4, columns: [0, 1, 2, 3], passthrough: [] };
    const both = new Differential(columnReaders(manifest), { format: 'delimited', layout }, 0, manifest);
    const found = both.compare(recordsIn(Buffer.from(rows.join('\n')), new DelimitedScanner(44, 4096)), 512);
    expect(found.rejected).toBeLessThan(found.records / 2);
  }
});

test('what follows a field that is as long as the longest word is not taken for it', () => {
  const word = ',bcdefghijklmnop';
  const manifest = {
    columns: [
      { name: 'a', kind: 'category', codes: { [word]: 1, x: 2 }, unseen: 'missing' },
      { name: 'b', kind: 'text' },
    ],
    inputs: [
      { name: 'a', type: 'float32', column: 'a' },
      { name: 'b', type: 'string', column: 'b' },
    ],
  } as unknown as Manifest;
  const layout: DelimitedLayout = { delimiter: ',', fields: 2, columns: [0, 1], passthrough: [] };
  const both = new Differential(columnReaders(manifest), { format: 'delimited', layout }, 0, manifest);
  const text = [`ABCDEFGHIJKLMNOP${word}`, `x,y`, `"${word}",y`].join('\n');
  both.compare(recordsIn(Buffer.from(text), new DelimitedScanner(44, 4096)), 512);
});

test.each([
  ['clean', {}],
  ['dirty', { faults: 400 }],
])('a generated portfolio, %s', async (_, faults) => {
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const text = Buffer.concat([...generatePortfolio({ rows: 4_000, seed: 3, ids: true, ...faults })]);
  const begin = text.indexOf(10) + 1;
  const names = splitHeader(text.subarray(0, begin - 1), ',');
  const layout: DelimitedLayout = {
    delimiter: ',',
    fields: names.length,
    columns: manifest.columns.map((c) => names.indexOf(c.name)),
    passthrough: [0],
  };
  const both = new Differential(columnReaders(manifest), { format: 'delimited', layout }, 1, manifest);
  both.compare(recordsIn(text.subarray(begin), new DelimitedScanner(44, 1 << 20)), 512);
});

test.each(['train.csv', 'clean.csv', 'dirty.csv', 'background.csv'])('the zoo, %s', async (file) => {
  const bytes = readFileSync(path.resolve('test/zoo/data', file));
  const { manifest } = await loadPackage(CREDIT_DEFAULT);
  const begin = bytes.indexOf(10) + 1;
  const names = splitHeader(bytes.subarray(0, begin - 1), ',');
  const readers = columnReaders(manifest).filter((r) => names.includes(r.name));
  expect(readers.length).toBeGreaterThan(15);
  const layout: DelimitedLayout = {
    delimiter: ',',
    fields: names.length,
    columns: readers.map((r) => names.indexOf(r.name)),
    passthrough: names.map((_, i) => i),
  };
  const both = new Differential(readers, { format: 'delimited', layout }, names.length);
  const found = both.compare(recordsIn(bytes.subarray(begin), new DelimitedScanner(44, 1 << 20)), 64);
  expect(found.records).toBeGreaterThan(90);
});
