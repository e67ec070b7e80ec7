// Where an input is declared, the fast readers still give the cells and faults of the references, whatever the texts are.
import { expect, test } from 'vitest';
import { type ColumnData, MISSING } from '../../../src/core/batch.ts';
import type { DeclaredColumns, TextRules } from '../../../src/core/input-declaration.ts';
import type { DecoderInput } from '../../../src/formats/choose-decoder.ts';
import { ColumnReader } from '../../../src/inference/encode/column-reader.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import type { ColumnSpec } from '../../../src/model/package/manifest.ts';
import { Differential, Draw, MANIFEST, NUMBERS, readersBy, recordsIn, Tally } from '../../support/decoding.ts';
import { localNumber, nothing, padded, RULES } from '../../support/local-texts.ts';
import { times } from '../../support/tiers.ts';

const RECORDS = times('differential', { quick: 2_000, check: 2_500, campaigns: 500_000 });
const MAX_RECORD = 600;
const CAPACITIES = [1, 7, 100, 512];

/** What column `c` holds under the rules. */
function cell(draw: Draw, c: number, rules: TextRules, odd: number): string {
  const text = draw.chance(0.05) ? nothing(draw, rules, '') : localNumber(draw, draw.cell(c, odd), rules);
  const changed = draw.chance(odd) ? localNumber(draw, draw.of(NUMBERS), draw.of(RULES)) : text;
  return padded(draw, changed, draw.chance(odd) ? draw.of(RULES) : rules);
}

/** Some columns of the model the same in all rows. */
const CONSTANTS: readonly Record<string, string>[] = [{}, { amount: '1', city: 'Zürich' }, { ratio: '', note: 'n' }];

const constantsOf = (constants: Record<string, string> | DeclaredColumns['constants']) =>
  Object.keys(constants).length > 0 ? { constants } : {};

test('delimited text', () => {
  const tally = new Tally();
  for (let seed = 1; tally.records < RECORDS; seed++) {
    const draw = new Draw(seed);
    const rules = draw.of(RULES);
    const readers = readersBy(rules);
    const constants = draw.of(CONSTANTS);
    const given = readers.flatMap(({ name }, c) => (Object.hasOwn(constants, name) ? [] : [c]));
    const delimiter = draw.of([',', ';', '\t']);
    const odd = draw.of([0, 0.002, 0.02, 0.3]);
    const layout = {
      delimiter,
      fields: given.length + 1,
      columns: given.map((_, i) => i),
      passthrough: [given.length],
    };
    const input: DecoderInput = { format: 'delimited', layout, texts: rules, ...constantsOf(constants) };
    const line = () =>
      [...given.map((c) => cell(draw, c, rules, odd)), draw.of(['', ' id ', '1.5', 'ä'])]
        .map((text) =>
          text.includes(delimiter) || /^"|[\r\n]/.test(text) || draw.chance(0.05)
            ? `"${text.replaceAll('"', '""')}"`
            : text,
        )
        .join(delimiter);
    let bytes: Buffer = Buffer.from(Array.from({ length: draw.of([1, 20, 300]) }, line).join('\n'));
    if (draw.chance(0.3)) bytes = draw.mutate(bytes);
    const block = recordsIn(bytes, new DelimitedScanner(delimiter.charCodeAt(0), MAX_RECORD));
    tally.add(new Differential(readers, input, 1, MANIFEST).compare(block, draw.of(CAPACITIES)));
  }
  tally.assertMixed(0.5);
});

const COLUMNS: readonly DeclaredColumns[] = [
  { names: null, rename: {}, ignore: [], constants: {} },
  { names: null, rename: { amount: 'BETRAG', id: 'NR', näme: 'a"b', 'a"b': 'c' }, ignore: ['X', 'ok'], constants: {} },
  { names: null, rename: { city: 'Ort' }, ignore: '*', constants: { amount: '1', note: '' } },
];

test('lines of JSON, with keys that are called otherwise, ignored or declared', () => {
  const tally = new Tally();
  for (let seed = 1; tally.records < RECORDS; seed++) {
    const draw = new Draw(seed);
    const rules = draw.of(RULES);
    const declared = draw.of(COLUMNS);
    const readers = readersBy(rules);
    const odd = draw.of([0, 0, 0.002, 0.02, 0.3]);
    const passthrough = draw.of<readonly string[] | '*'>([['id'], '*', []]);
    const layout = { passthrough, reserved: ['row'], outcome: 'ok', maxColumns: 64, declared };
    const input: DecoderInput = { format: 'json', layout, texts: rules, ...constantsOf(declared.constants) };
    const called = (name: string) => declared.rename[name] ?? name;
    const object = () => {
      const members = readers.flatMap(({ name }, c): [string, string][] => {
        if (Object.hasOwn(declared.constants, name) && !draw.chance(odd / 10)) return [];
        const text = cell(draw, c, rules, odd);
        const plain = /^-?(0|[1-9]\d*)(\.\d+)?$/.test(text) && draw.chance(0.5);
        return [[draw.chance(odd / 10) ? name : called(name), plain ? text : JSON.stringify(text)]];
      });
      if (draw.chance(0.7)) members.push([called('id'), draw.of(['1', '" x "', 'null'])]);
      if (draw.chance(0.3)) members.push([draw.of(['X', 'ok', 'row', 'Y']), draw.of(['1', '"x"', '{"a":1}'])]);
      if (draw.chance(0.1)) members.push(['X', '2'], ['X', '"y"']);
      return `{${members.map(([key, token]) => `${JSON.stringify(key)}:${token}`).join(',')}}`;
    };
    let bytes: Buffer = Buffer.from(Array.from({ length: draw.of([1, 20, 300]) }, object).join('\n'));
    if (draw.chance(0.3)) bytes = draw.mutate(bytes);
    const block = recordsIn(bytes, new DelimitedScanner(-1, 1_000, -1));
    const texts = passthrough === '*' ? 1 : passthrough.length;
    tally.add(new Differential(readers, input, texts, MANIFEST).compare(block, draw.of(CAPACITIES)));
  }
  tally.assertMixed(0.9);
});

const PLAIN: TextRules = { decimal: 'point', thousands: null, trim: false, nullValues: [] };
const newCell = (): ColumnData => ({
  kind: 'number',
  numbers: new Float64Array(1),
  codes: new Int32Array(1),
  texts: [null],
  unseenRows: [],
});

function read(spec: ColumnSpec, rules: TextRules | null, value: unknown): unknown {
  const reader = new ColumnReader(spec, [{ name: 'x', type: 'float64', column: spec.name }], rules);
  const out = newCell();
  const fault = reader.readNative(value, out, 0);
  if (fault) return fault.message;
  return reader.kind === 'number' ? out.numbers[0] : reader.kind === 'text' ? out.texts[0] : out.codes[0];
}

test('a number in a notation is the plain one, and a plain one reads in any', () => {
  for (const [seed, rules] of RULES.entries()) {
    const draw = new Draw(seed);
    const own = { ...rules, nullValues: [] };
    for (let i = 0; i < 300; i++) {
      const text = draw.chance(0.5) ? draw.of(NUMBERS) : draw.number();
      const plain = read({ name: 'n', kind: 'number', missing: { values: [] } }, PLAIN, text.trim());
      if (typeof plain !== 'number') continue;
      expect(read({ name: 'n', kind: 'number', missing: { values: [] } }, own, localNumber(draw, text.trim(), own))).toBe(plain); // biome-ignore format: one line
    }
  }
});

const NUMBER: ColumnSpec = { name: 'n', kind: 'number' };
const WORD: ColumnSpec = { name: 'c', kind: 'category', codes: { A: 0, ' B': 1, B: 2 } };
const FLAG: ColumnSpec = { name: 'b', kind: 'boolean' };
const NOTE: ColumnSpec = { name: 't', kind: 'text' };
const not = (what: string, declare = '') =>
  `${what}${declare === '' ? '' : ` (if it is meant so, declare ${declare})`}`;
const BAD = 'not a plain decimal number';
const COMMA: TextRules = { ...PLAIN, decimal: 'comma' };
const GERMAN: TextRules = { ...COMMA, thousands: 'point' };

test.each<[ColumnSpec, TextRules | null, unknown, unknown]>([
  // A text that only a declaration makes one: the fault names it.
  [NUMBER, null, '1.234,56', not(BAD, 'decimal: comma with thousands: point')],
  [NUMBER, null, '0,5', not(BAD, 'decimal: comma')],
  [NUMBER, null, '1,234', not(BAD, 'thousands: comma, or decimal: comma')],
  [NUMBER, null, '1,234.5', not(BAD, 'thousands: comma')],
  [NUMBER, null, "1'234", not(BAD, 'thousands: apostrophe')],
  [NUMBER, null, ' 12 ', not(BAD, 'trim')],
  [NUMBER, null, ' 1,5', not(BAD, 'trim and decimal: comma')],
  [NUMBER, null, 'NULL', not(BAD, 'null_values')],
  [NUMBER, null, 'Jane Doe', BAD],
  [NUMBER, null, `${' '.repeat(100)}1`, BAD],
  [WORD, null, 'A ', not('not a known category of the model', 'trim')],
  [WORD, null, 'n/a', not('not a known category of the model', 'null_values')],
  [FLAG, null, ' true', not('neither true nor false', 'trim')],
  [FLAG, null, '-', not('neither true nor false', 'null_values')],
  // What was declared is not mixed with what was not.
  [NUMBER, COMMA, '1.5', BAD],
  [NUMBER, COMMA, '1.234,5', not(BAD, 'decimal: comma with thousands: point')],
  [NUMBER, GERMAN, '1.23', BAD],
  [NUMBER, GERMAN, '1234.567', BAD],
  [NUMBER, GERMAN, '.123', BAD],
  [NUMBER, GERMAN, '1..234', BAD],
  [NUMBER, GERMAN, '1.234', 1234],
  [NUMBER, GERMAN, '-1.234.567,5e-1', -123456.75],
  [NUMBER, GERMAN, 1.234, 1.234],
  [NUMBER, { ...PLAIN, thousands: 'space' }, '1\u00a0234\u202f567', 1234567],
  [NUMBER, { ...PLAIN, thousands: 'apostrophe' }, '1\u2019234.5', 1234.5],
  // Words for nothing, also as numbers of JSON; blanks only where no word is known with them.
  [NUMBER, { ...PLAIN, nullValues: ['-999'] }, -999, Number.NaN],
  [NUMBER, { ...PLAIN, nullValues: ['-999'] }, '-999', Number.NaN],
  [NUMBER, { ...PLAIN, nullValues: ['-'], trim: true }, ' - ', Number.NaN],
  [WORD, { ...PLAIN, nullValues: ['A'] }, 'A', MISSING],
  [WORD, { ...PLAIN, trim: true }, ' B', 1],
  [WORD, { ...PLAIN, trim: true }, '\u00a0B\t', 2],
  [WORD, { ...PLAIN, trim: true }, '  ', MISSING],
  [NOTE, { ...PLAIN, trim: true }, ' a b ', 'a b'],
  [NOTE, PLAIN, ' a b ', ' a b '],
])('%j under %j: %j is %j', (spec, rules, value, want) => {
  expect(read(spec, rules, value)).toEqual(want);
});
