// Odd cells of plain rows (unseen categories, long numbers, long texts): same cells, errors and counts as the reference.
import { expect, test } from 'vitest';
import { newBatch, newColumns } from '../../../src/core/batch.ts';
import type { TextRules } from '../../../src/core/input-declaration.ts';
import { createDecoder, type DecoderInput } from '../../../src/formats/choose-decoder.ts';
import { VALID } from '../../../src/formats/decode/cells.ts';
import { rejectEmptyRows } from '../../../src/formats/decode/decoder.ts';
import { readByKernel } from '../../../src/formats/decode/kernel-rows.ts';
import { RowKernel, type RowSyntax } from '../../../src/formats/decode/row-kernel.ts';
import { delimitedRows } from '../../../src/formats/delimited/row-program.ts';
import { jsonRows } from '../../../src/formats/json/json-row-program.ts';
import { type ColumnReader, columnReaders } from '../../../src/inference/encode/column-reader.ts';
import { Encoder } from '../../../src/inference/encode/encoder.ts';
import { DelimitedScanner } from '../../../src/io/source/delimited-scanner.ts';
import type { ColumnSpec, Manifest } from '../../../src/model/package/manifest.ts';
import { Differential, Draw, recordsIn, Tally } from '../../support/decoding.ts';
import { localNumber, padded, RULES } from '../../support/local-texts.ts';
import { times } from '../../support/tiers.ts';

const DOCUMENTS = times('odd cells', { quick: 60, check: 80, campaigns: 20_000 });
const MAX_RECORD = 4_000;
const LONG = 'EMPLOYER-OF-THE-STATE-AND-OF-ITS-COMMUNES';

/** Categories of all lengths around that of a vector, with words that have a common beginning or end. */
const WORDS: readonly (readonly string[])[] = [
  ['A', 'B', '0230', '001', 'Я'],
  ['ONLINE', 'BRANCH', 'q"q', 'q""q', 'a,b'],
  ['EXACTLY-15-LONG', 'EXACTLY-15-LONk', 'Zürich'],
  ['EXACTLY-SIXTEEN-', 'EXACTLY-SIXTEEN+', 'ПЕНСИОНЕР'],
  [LONG, `${LONG}!`, `${LONG.slice(0, 16)}x`, `x${LONG.slice(-16)}`, `${LONG.slice(0, 16)}-${LONG.slice(-16)}`],
];
const UNSEEN = ['value', 'missing', 'error'] as const;
const MISSING: readonly NonNullable<ColumnSpec['missing']>[] = [
  { values: [''] },
  { values: ['', 'NA', 'no "word"'], as: 'value', value: 0.5 },
  { values: ['', '-999', '1e3', '12345678901234567890'] },
  { values: [''], as: 'error' },
  { values: ['', '-999', 'NA'], as: 'error' },
];

/** A model with float32 inputs, which kernels write, and with the same columns as other types. */
function manifestOf(draw: Draw): Manifest {
  const categories = WORDS.map((words, i): ColumnSpec => {
    const unseen = draw.of(UNSEEN);
    const codes = Object.fromEntries(words.map((word, code) => [word, code * 1.5]));
    const rest = { ...(unseen === 'value' ? { unseen_value: -1 } : {}), missing: MISSING[draw.of([0, 0, 0, 1, 3])]! };
    return { name: `c${i}`, kind: 'category', codes, unseen, ...rest } as ColumnSpec;
  });
  const numbers = Array.from({ length: 4 }, (_, i): ColumnSpec => {
    const range = draw.chance(0.3) ? { range: [-1e6, 1e18] as [number, number] } : {};
    return { name: `n${i}`, kind: 'number', missing: MISSING[draw.of([0, 0, 1, 2, 3, 4])]!, ...range };
  });
  const columns = [...categories, ...numbers, { name: 'b', kind: 'boolean' } as ColumnSpec];
  const floats = columns.filter(({ name }) => !['c1', 'n1'].includes(name)).map(({ name }) => name);
  const inputs = [
    { name: 'matrix', type: 'float32', columns: floats },
    { name: 'c1', type: 'string', column: 'c1' },
    { name: 'n1', type: 'float64', column: 'n1' },
    { name: 'again', type: 'float32', columns: ['n0', 'c0'] },
  ];
  return { columns, inputs } as unknown as Manifest;
}

const digitsOf = (draw: Draw, n: number): string => Array.from({ length: n }, () => draw.below(10)).join('');

function oddNumber(draw: Draw): string {
  const digits = digitsOf(draw, draw.of([1, 15, 16, 17, 19, 20, 25]));
  const at = draw.below(digits.length + 1);
  const point = draw.chance(0.6) ? `${digits.slice(0, at)}.${digits.slice(at)}` : digits;
  const exponent = draw.chance(0.3) ? draw.of(['e3', 'E-2', 'e+0', 'e25', 'e400', 'e', 'e-400']) : '';
  const whole = draw.of(['9007199254740993', '-9007199254740993', '0.1e1', '1_0', '٣', 'NaN', '-999.0', '1e3']);
  return draw.chance(0.2) ? whole : draw.of(['', '', '', '-', '+', '--']) + point + exponent;
}

function oddWord(draw: Draw, words: readonly string[]): string {
  const word = draw.of(words);
  switch (draw.below(9)) {
    case 0:
      return draw.of(['UNKNOWN', 'x', 'НЕИЗВЕСТНО', '東京', '😀', '\ufeff', 'a\0b', ' ', '\\', 'a\\u0041', 'tab\t']);
    case 1:
      return draw.chance(0.5) ? word.toLowerCase() : word.toUpperCase();
    case 2:
      return String(Number(word) || 7);
    case 3:
      return draw.of(['say "no"', '"', '""', 'a,b;c', `"${word}"`, `${word}""`, '","', 'q"q"']);
    case 4:
      return draw.of(['x', 'ж', ',', '"', 'a ']).repeat(draw.of([8, 100, 500]));
    case 5:
      return `${word}${draw.of(['x', ' ', '\0', 'ж'])}`;
    case 6: {
      const at = draw.below(word.length);
      return `${word.slice(0, at)}${draw.of(['', 'X', '"'])}${word.slice(at + 1)}`;
    }
    case 7:
      return draw.of(WORDS.flat());
    default:
      return oddNumber(draw);
  }
}

/** Texts of one row, of which `odd` are odd. */
function textsOf(draw: Draw, { columns }: Manifest, odd: number, rules: TextRules | null): string[] {
  const texts = columns.map(({ kind }, c) => {
    if (kind === 'category') return draw.of(WORDS[c]!);
    if (kind === 'boolean') return draw.of(['true', 'false']);
    return String(draw.below(1e6) / 100);
  });
  for (let i = 0; i < odd; i++) {
    const c = draw.below(columns.length);
    const { kind } = columns[c]!;
    const text = draw.chance(0.1) ? draw.of(['', 'NA', '-999', 'no "word"']) : null;
    texts[c] = text ?? (kind === 'number' ? oddNumber(draw) : oddWord(draw, WORDS[c] ?? ['true', 'yes', 'J']));
  }
  if (!rules) return texts;
  return texts.map((text, c) => padded(draw, columns[c]!.kind === 'number' ? localNumber(draw, text, rules) : text, rules)); // biome-ignore format: one line
}

/** Odd cells per row of a document: usually few, so that a row with one has plain neighbours. */
const oddIn = (draw: Draw, most: number): number => (draw.chance(0.4) ? draw.below(most + 1) : 0);

const oneLine = (text: string): string => text.replaceAll(/[\r\n]/g, ' ');

test('delimited text: generated odd cells', () => {
  const tally = new Tally();
  for (let seed = 1; seed <= DOCUMENTS; seed++) {
    const draw = new Draw(seed);
    const manifest = manifestOf(draw);
    const rules = draw.chance(0.25) ? draw.of(RULES) : null;
    const delimiter = draw.of([',', ';', '\t']);
    const quotes = draw.of([0, 0.03, 1]);
    const fields = manifest.columns.length + 1;
    // The first field is only passed through; so is one of the columns, with its odd cells.
    const columns = manifest.columns.map((_, c) => c + 1);
    const layout = {
      delimiter,
      fields,
      columns,
      passthrough: draw.of([[], [0], [1 + draw.below(fields - 1)], [3, 0]]),
    };
    const most = draw.of([1, 3, 6]);
    const quoted = (text: string) =>
      text.startsWith('"') || text.includes(delimiter) || draw.chance(quotes)
        ? `"${text.replaceAll('"', '""')}"`
        : text;
    const line = () => {
      const texts = textsOf(draw, manifest, oddIn(draw, most), rules).map(oneLine);
      return [`id${draw.below(1e9)}`, ...texts].map(quoted).join(delimiter);
    };
    let bytes: Buffer = Buffer.from(Array.from({ length: draw.of([3, 60, 400]) }, line).join(draw.of(['\n', '\r\n'])));
    if (draw.chance(0.3)) bytes = draw.mutate(bytes);
    const readers = columnReaders(manifest, rules);
    const input: DecoderInput = { format: 'delimited', layout, ...(rules ? { texts: rules } : {}) };
    const both = new Differential(readers, input, layout.passthrough.length, manifest);
    const scanner = new DelimitedScanner(delimiter.charCodeAt(0), MAX_RECORD);
    tally.add(both.compare(recordsIn(bytes, scanner), draw.of([1, 7, 100, 512])));
  }
  expect(tally.rejected).toBeGreaterThan(tally.records / 50);
  expect(tally.rejected).toBeLessThan(tally.records / 2);
});

test('JSON: generated odd cells', () => {
  const tally = new Tally();
  for (let seed = 1; seed <= DOCUMENTS; seed++) {
    const draw = new Draw(seed);
    const manifest = manifestOf(draw);
    const rules = draw.chance(0.25) ? draw.of(RULES) : null;
    const passthrough: '*' | string[] = draw.of(['*' as const, [], ['id']]);
    const most = draw.of([1, 3, 6]);
    const escaped = draw.of([0, 0.1]);
    const strings = draw.chance(0.2);
    const token = (text: string, kind: ColumnSpec['kind']): string => {
      const bare = kind === 'number' ? !strings : draw.chance(0.02);
      if (bare && (/^[-+]?[\d.]/.test(text) || draw.chance(0.02))) return text === '' ? 'null' : text;
      const json = JSON.stringify(text);
      return draw.chance(escaped) ? json.replace(/[a-zж]/gi, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`) : json; // biome-ignore format: one line
    };
    const line = () => {
      const texts = textsOf(draw, manifest, oddIn(draw, most), rules);
      const members = texts.map((text, c) => {
        const { name, kind } = manifest.columns[c]!;
        const broken = draw.chance(0.003)
          ? draw.of(['[]', '{}', '[1', '"\\ud800"', '"a', '"\\"', 'nul', '01', '-'])
          : null;
        return `"${name}":${broken ?? token(text, kind)}`;
      });
      return `{${[...(passthrough === '*' || passthrough.length > 0 ? ['"id":7'] : []), ...members].join(',')}}`;
    };
    let bytes: Buffer = Buffer.from(Array.from({ length: draw.of([3, 60, 400]) }, line).join('\n'));
    if (draw.chance(0.3)) bytes = draw.mutate(bytes);
    const layout = { passthrough, reserved: ['row'], outcome: 'ok', maxColumns: 64 };
    const input: DecoderInput = { format: 'json', layout, ...(rules ? { texts: rules } : {}) };
    const echoes = passthrough === '*' ? 1 : passthrough.length;
    const both = new Differential(columnReaders(manifest, rules), input, echoes, manifest);
    const scanner = new DelimitedScanner(-1, MAX_RECORD, -1);
    tally.add(both.compare(recordsIn(bytes, scanner), draw.of([1, 7, 100, 512])));
  }
  expect(tally.rejected).toBeGreaterThan(tally.records / 50);
  expect(tally.rejected).toBeLessThan(tally.records / 2);
});

const MODEL = {
  columns: [
    { name: 'n', kind: 'number' },
    { name: 'c', kind: 'category', codes: { A: 1, B: 2 }, unseen: 'value', unseen_value: -1 },
    { name: 'd', kind: 'category', codes: { A: 1, [LONG]: 2 }, unseen: 'missing' },
    { name: 'e', kind: 'category', codes: { A: 1, B: 2 } },
    { name: 'm', kind: 'number' },
    { name: 'o', kind: 'number' },
  ],
  inputs: [{ name: 'x', type: 'float32', columns: ['n', 'c', 'd', 'e', 'm', 'o'] }],
} as unknown as Manifest;
const NAMES = MODEL.columns.map(({ name }) => name);
const PLAIN = ['1', 'A', LONG, 'B', '2.5', '0'];
const TWENTY = '12345678901234567890';

const FORMATS = ['delimited', 'json'] as const;
const scannerOf = (format: (typeof FORMATS)[number]): DelimitedScanner =>
  format === 'json' ? new DelimitedScanner(-1, MAX_RECORD, -1) : new DelimitedScanner(44, MAX_RECORD);

const jsonLine = (texts: readonly string[]): string =>
  `{${texts.map((text, c) => `"${NAMES[c]}":${/^\d/.test(text) ? text : JSON.stringify(text)}`).join(',')}}`;

type SyntaxOf = (readers: readonly ColumnReader[]) => RowSyntax;

/** Whether a kernel reads each row, before any other decoder. */
function readBy(syntaxOf: SyntaxOf, format: (typeof FORMATS)[number], rows: readonly string[]): boolean[] {
  const readers = columnReaders(MODEL);
  const syntax = syntaxOf(readers);
  const columns = NAMES.map((_, c) => c);
  const layout = { fields: NAMES.length, columns, passthrough: [] };
  const kernel = RowKernel.open({ readers, layout, syntax, capacity: 512, direct: null })!;
  const kinds = readers.map(({ kind }) => kind);
  const batch = newBatch(newColumns(kinds, 512), 512);
  const block = recordsIn(Buffer.from(rows.join('\n')), scannerOf(format));
  const run = readByKernel(kernel, readers, { block, from: 0, to: rows.length, batch, first: 0 }, () => {})!;
  const read = Array.from(run.states, (state) => state === VALID);
  expect(run.declined).toBe(read.filter((isRead) => !isRead).length);
  // The decoder that reads a declined row adds its unseen cells.
  for (const { unseenRows } of batch.columns) expect(unseenRows.filter((row) => !read[row])).toEqual([]);
  return read;
}

/** Changed cells of PLAIN, and whether the kernel reads such a row. */
const CASES: readonly (readonly [changes: Record<string, string>, isRead: boolean])[] = [
  [{}, true],
  [{ c: 'unknown' }, true],
  [{ d: 'x'.repeat(500) }, true],
  [{ n: TWENTY, c: 'Я', d: `${LONG}!` }, true],
  [{ n: '1e5' }, true],
  [{ n: TWENTY, c: 'Я', d: 'a', m: TWENTY }, true],
  // Invalid cells.
  [{ n: 'word' }, false],
  [{ c: 'unknown', n: '1e400' }, false],
  [{ c: 'unknown', m: '1e400' }, false],
  [{ e: 'unknown' }, false],
];
const rowWith = (changes: Record<string, string>): string[] => NAMES.map((name, c) => changes[name] ?? PLAIN[c]!);
const ROWS = CASES.map(([changes]) => rowWith(changes));

test('a kernel reads rows with odd cells, and declines rows with an invalid one', () => {
  const wanted = CASES.map(([, isRead]) => isRead);
  const delimited = ROWS.map((row) => row.join(','));
  expect(readBy(() => delimitedRows(',', false), 'delimited', delimited)).toEqual(wanted);
  expect(readBy(() => delimitedRows(',', true), 'delimited', delimited)).toEqual(wanted);
  const quoted = ROWS.map((row) => row.map((text) => `"${text}"`).join(','));
  expect(readBy(() => delimitedRows(',', true), 'delimited', quoted)).toEqual(wanted);
  const members = NAMES.map((name) => ({ key: Buffer.from(JSON.stringify(name)), isText: false }));
  expect(readBy(() => jsonRows(members, new Set(), false), 'json', ROWS.map(jsonLine))).toEqual(wanted);
  // With numbers in strings and words that are numbers.
  const mixed: SyntaxOf = (readers) => jsonRows(members, new Set(readers), false);
  const strings = ROWS.map((row) => `{${row.map((text, c) => `"${NAMES[c]}":"${text}"`).join(',')}}`);
  expect(readBy(mixed, 'json', [...ROWS.map(jsonLine), ...strings])).toEqual([...wanted, ...wanted]);
});

test.each(FORMATS)('a row whose only cells are odd words for missing values is empty: %s', (format) => {
  const words = ['', 'N/A', '"-"', '-'];
  const columns = ['a', 'b'].map((name) => ({ name, kind: 'number', missing: { values: words } }));
  const inputs = [{ name: 'x', type: 'float32', columns: ['a', 'b'] }];
  const manifest = { columns, inputs } as unknown as Manifest;
  const rules: TextRules = { decimal: 'point', thousands: null, trim: true, nullValues: [] };
  const plain = '12345678901234567890';
  const rows =
    format === 'json'
      ? ['"N\\/A"', '"\\"-\\""', 'null', '" - "', `"${plain}"`, plain].map((cell) => `{"a":${cell},"b":null}`)
      : ['N/A', '"""-"""', '', ' - ', ` ${plain} `, plain].map((cell) => `${cell},`);
  const input: DecoderInput =
    format === 'json'
      ? { format, layout: { passthrough: [], reserved: [], outcome: null, maxColumns: 64 } }
      : { format, layout: { delimiter: ',', fields: 2, columns: [0, 1], passthrough: [] } };
  const block = recordsIn(
    Buffer.from(Array.from({ length: 300 }, (_, i) => rows[i % rows.length]).join('\n')),
    scannerOf(format),
  );
  for (const texts of [null, rules]) {
    const readers = columnReaders(manifest, texts);
    const rejected = (['reference', 'eager', 'quoting'] as const).map((choice) => {
      const batch = newBatch(newColumns(['number', 'number'], 512), 512);
      const encoder = new Encoder(manifest, ['number', 'number'], 512);
      const decoder = createDecoder(readers, texts ? { ...input, texts } : input, choice, encoder);
      decoder.decode(block, 0, 300, batch);
      rejectEmptyRows(batch);
      return batch.rejections.map(({ index, code }) => [index, code]);
    });
    expect(rejected[0]!.filter(([, code]) => code === 'empty_row').length).toBeGreaterThanOrEqual(150);
    expect(rejected[1]).toEqual(rejected[0]);
    expect(rejected[2]).toEqual(rejected[0]);
  }
});

test('a kernel reads odd cells with escaped quotes, and declines those whose text is not closed', () => {
  const row = (text: string): string => rowWith({ c: text }).join(',');
  const rows = ['"a ""b"", c"', '""""', '"""a"', '"a"""', '"a""', '"a"b"', '"a"" b'].map(row);
  const wanted = [true, true, true, true, false, false, false];
  expect(readBy(() => delimitedRows(',', true), 'delimited', rows)).toEqual(wanted);
});

test.each(FORMATS)('odd cells at every position of a slab, in blocks cut after every row: %s', (format) => {
  const numbers = ROWS.flatMap((row) =>
    ['7'.repeat(17), `1${'0'.repeat(30)}`].map((last) => [...row.slice(0, 5), last]),
  );
  const lines = [...ROWS, ...numbers].map((row) => (format === 'json' ? jsonLine(row) : row.join(',')));
  const columns = NAMES.map((_, c) => c);
  const input: DecoderInput =
    format === 'json'
      ? { format, layout: { passthrough: [], reserved: [], outcome: null, maxColumns: 64 } }
      : { format, layout: { delimiter: ',', fields: NAMES.length, columns, passthrough: [] } };
  const both = new Differential(columnReaders(MODEL), input, 0, MODEL);
  for (let offset = 0; offset <= 33; offset++) {
    // A first record of another length moves all others.
    const { slab, spans, faults } = recordsIn(
      Buffer.from(['x'.repeat(offset), ...lines].join('\n')),
      scannerOf(format),
    );
    both.compare({ slab, spans, faults }, 512);
    const cut = 1 + (offset % (faults.length - 1));
    both.compare({ slab, spans: spans.slice(0, cut * 2), faults: faults.slice(0, cut) }, 512);
    both.compare({ slab, spans: spans.slice(cut * 2), faults: faults.slice(cut) }, 512);
  }
});
