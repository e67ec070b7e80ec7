// A column of more categories than are looked up by their bytes: the fast readers still give the cells and faults of the references.
import { expect, test } from 'vitest';
import type { DecoderInput } from '../../../src/formats/choose-decoder.ts';
import { ColumnReader } from '../../../src/inference/encode/column-reader.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import type { ColumnSpec, Manifest } from '../../../src/model/package/manifest.ts';
import { Differential, Draw, NUMBERS, recordsIn } from '../../support/decoding.ts';
import { RULES } from '../../support/local-texts.ts';

const WORDS = [
  '0230',
  '230',
  '1',
  '1.0',
  '1e3',
  '-0',
  'true',
  'NA',
  ' ',
  ' a',
  'a ',
  'Zürich',
  '\ufffd',
  '"q"',
  'x'.repeat(40),
];
const WIDTHS = [4, 9, 17, 40];
/** Words that are alike at both ends, and of one length: what a hash of the ends alone would put in one place. */
const ALIKE = Array.from(
  { length: 6_000 },
  (_, i) => `EMPLOYER-${String(i).padStart(WIDTHS[i % 4]!, '0')}-OF-THE-STATE`,
);
const SPECS: readonly ColumnSpec[] = [
  { name: 'employer', kind: 'category', codes: codes([...WORDS, ...ALIKE]), unseen: 'value', unseen_value: -1 },
  { name: 'branch', kind: 'category', codes: codes(ALIKE), unseen: 'error', missing: { values: ['', 'NA', '7'] } },
];
const INPUTS = [{ name: 'x', type: 'float32' as const, columns: ['employer', 'branch'] }];
const MANIFEST = { columns: SPECS, inputs: INPUTS } as unknown as Manifest;

function codes(words: readonly string[]): Record<string, number> {
  return Object.fromEntries(words.map((word, i) => [word, i * 2]));
}

const cell = (draw: Draw): string => {
  const text = draw.chance(0.7) ? draw.of(ALIKE) : draw.of([...WORDS, ...NUMBERS, '']);
  if (draw.chance(0.1)) return ` ${text}\t`;
  return draw.chance(0.05) ? `${text.slice(0, 20)}x${text.slice(21)}` : text;
};

test.each(['delimited', 'json'] as const)('%s', (format) => {
  let [records, rejected] = [0, 0];
  for (let seed = 1; seed <= 8; seed++) {
    const draw = new Draw(seed);
    const rules = seed <= 2 ? null : draw.of(RULES);
    const readers = SPECS.map((spec) => new ColumnReader(spec, INPUTS, rules));
    const texts = rules ? { texts: rules } : {};
    const layout = { passthrough: [], reserved: ['row'], outcome: 'ok', maxColumns: 64 };
    const input: DecoderInput =
      format === 'json'
        ? { format, layout, ...texts }
        : { format, layout: { delimiter: ',', fields: 2, columns: [0, 1], passthrough: [] }, ...texts };
    const quoted = (text: string) =>
      /[",\r\n]/.test(text) || draw.chance(0.05) ? `"${text.replaceAll('"', '""')}"` : text;
    const token = (text: string) => (/^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) ? text : JSON.stringify(text));
    const line = () =>
      format === 'json'
        ? `{"employer":${token(cell(draw))},"branch":${token(cell(draw))}}`
        : `${quoted(cell(draw))},${quoted(cell(draw))}`;
    let bytes: Buffer = Buffer.from(Array.from({ length: 600 }, line).join('\n'));
    if (draw.chance(0.5)) bytes = draw.mutate(bytes);
    const scanner = format === 'json' ? new DelimitedScanner(-1, 1_000, -1) : new DelimitedScanner(44, 600);
    const found = new Differential(readers, input, 0, MANIFEST).compare(recordsIn(bytes, scanner), draw.of([7, 512]));
    records += found.records;
    rejected += found.rejected;
  }
  expect(rejected).toBeGreaterThan(records / 20);
  expect(rejected).toBeLessThan(records / 2);
});
