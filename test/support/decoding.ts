// Two decoders over the same records: every column kind with its odd words, and a comparison cell by cell.
import { expect } from 'vitest';
import { type ColumnBatch, newBatch, newColumns, UNSEEN } from '../../src/core/batch.ts';
import type { TextRules } from '../../src/core/input-declaration.ts';
import { Random } from '../../src/core/random.ts';
import { createDecoder, type DecoderChoice, type DecoderInput } from '../../src/formats/choose-decoder.ts';
import { ColumnsDecoder } from '../../src/formats/columns/columns-decoder.ts';
import { ConstantColumns } from '../../src/formats/decode/constant-columns.ts';
import type { Decoder, RecordSlice } from '../../src/formats/decode/decoder.ts';
import { DelimitedDecoder } from '../../src/formats/delimited/delimited-decoder.ts';
import { JsonBytesDecoder } from '../../src/formats/json/json-bytes-decoder.ts';
import { ColumnReader } from '../../src/inference/encode/column-reader.ts';
import { type EncodedInput, Encoder } from '../../src/inference/encode/encoder.ts';
import { RecordList, type RecordScanner } from '../../src/io/source/record-scanner.ts';
import type { ColumnSpec, InputSpec, Manifest } from '../../src/model/package/manifest.ts';
import { times } from './tiers.ts';

/** Records that both are held against each other with. */
export const RECORDS = times('differential', { quick: 3_000, check: 3_000, campaigns: 1_000_000 });

/** One column of every sort a package can hold, and the type of the input it is for. */
const COLUMNS: readonly (readonly [spec: ColumnSpec, type: InputSpec['type']])[] = [
  [{ name: 'amount', kind: 'number' }, 'float32'],
  [{ name: 'ratio', kind: 'number', missing: { values: ['', 'NA', '-999', '1e3'] } }, 'float64'],
  [{ name: 'count', kind: 'number', missing: { values: ['', 'null'], as: 'value', value: 0 } }, 'int64'],
  [{ name: 'small', kind: 'number', range: [-100, 100], missing: { as: 'error' } }, 'int32'],
  [{ name: 'flag', kind: 'boolean', missing: { values: ['', 'NA'] } }, 'float32'],
  [{ name: 'näme', kind: 'boolean', true_values: ['J', '+', '1.0'], false_values: ['N', '-', '"'] }, 'float32'],
  [
    {
      name: 'city',
      kind: 'category',
      codes: { Zürich: 3, 東京: 1, 'a,b;c': 7, 'q"q': 0, 'two\nlines': 9, '😀': 2 },
    },
    'float32',
  ],
  [
    {
      name: 'a"b',
      kind: 'category',
      values: ['x', 'y', 'NA', ' x'],
      missing: { values: ['NA'] },
      unseen: 'missing',
    },
    'string',
  ],
  [
    {
      name: 'level',
      kind: 'category',
      codes: { 1: 1, 2: 2, '-7': 3, '1.0': 4, '-0': 7, '12345678901234567890': 8, true: 5, 1e21: 6 },
      unseen: 'value',
      unseen_value: -1,
    },
    'float32',
  ],
  [{ name: 'note', kind: 'text' }, 'string'],
  [{ name: 'free', kind: 'category', missing: { values: ['', '0'], as: 'error' } }, 'string'],
];

/** A reader a column; `rules`: what is declared of the input. */
export const readersBy = (rules: TextRules | null): ColumnReader[] =>
  COLUMNS.map(([spec, type]) => new ColumnReader(spec, [{ name: spec.name, type, column: spec.name }], rules));

export const READERS: readonly ColumnReader[] = readersBy(null);

const FLOATS = COLUMNS.flatMap(([{ name }, type]) => (type === 'float32' ? [name] : []));

/** A model that takes them: a matrix of what is float32, some of it once more, and an input each for the rest. */
export const MANIFEST = {
  columns: COLUMNS.map(([spec]) => spec),
  inputs: [
    { name: 'matrix', type: 'float32', columns: FLOATS },
    ...COLUMNS.filter(([, type]) => type !== 'float32').map(([{ name }, type]) => ({ name, type, column: name })),
    { name: 'again', type: 'float32', columns: [FLOATS.at(-1), FLOATS[0]] },
  ],
} as Manifest;

export const NUMBERS = [
  ...['0', '-0', '+0', '1', '+1', '-1', '12.5', '.5', '5.', '.', '-.5', '+.', '', ' 1', '1 ', '1_000', '1,5', '0x1F'],
  ...['1e3', '1E3', '1e+3', '1e-3', '1e', 'e3', '1e+', '1e400', '-1e400', '1e-400', '0.1e-320', '4.9e-324', '2.4e-324'],
  ...[
    '123456789012345678',
    '12345678901234567890',
    '9007199254740993',
    '9007199254740992',
    '9007199254740991',
    '900719925474099267',
  ],
  ...['0.1', '0.30000000000000004', '1.7976931348623157e308', '1.7976931348623159e308', '3.4028235677973366e38'],
  ...[
    '3.4028235677973365e38',
    '00012',
    '0.0000000000000000000000001',
    '10000000000000000000000',
    '1e22',
    '1e23',
    '8.5e22',
  ],
  ...[
    '99',
    '100',
    '100.5',
    '101',
    '-100',
    '-101',
    '2147483647',
    '2147483648',
    'NaN',
    'Infinity',
    '-Infinity',
    '1n',
    '٣',
  ],
  ...[
    '-999',
    '-999.0',
    'NA',
    'null',
    '1.0',
    '--1',
    '+-1',
    '1e5.',
    '1.2.3',
    '12345678901234567890123',
    '0.1234567890123456789',
  ],
];
const WORDS = [
  ...[
    'true',
    'false',
    'True',
    'FALSE',
    '1',
    '0',
    'J',
    'N',
    '+',
    '-',
    '"',
    'tru',
    'truee',
    'NA',
    '',
    'x',
    'y',
    ' x',
    'X',
  ],
  ...['Zürich', 'Zurich', '東京', '東', 'a,b;c', 'q"q', 'two\nlines', 'two\r\nlines', '😀', 'é', '\u00e9', 'e\u0301'],
  ...['1.0', '2', '-7', '1e21', '\0', 'a\0b', '\ufeff', ' ', '\t', '|', ';', "'", '\\', 'constructor', '__proto__'],
];
/** Values that a sound row has, a column. */
const GOOD: readonly (readonly string[])[] = [
  ['17800', '0.5', '1e5', '123.456', ''],
  ['0.1', '-999', 'NA', '12345.678901234567', '1e-7'],
  ['5', '-3', '9007199254740991', 'null', ''],
  ['1', '-100', '100', '0'],
  ['true', 'false', 'NA', '0', ''],
  ['J', 'N', '+', '"', ''],
  ['Zürich', '東京', 'q"q', '😀', 'two\nlines', 'a,b;c', ''],
  ['x', 'y', 'NA', 'unknown'],
  ['1', '2', '-7', 'other', 'true', ''],
  ['', 'a note', 'ö', 'with "quotes"', 'with, comma'],
  ['anything', '1', '😀'],
];

/** Draws from a seeded sequence. */
export class Draw extends Random {
  constructor(seed: number) {
    super();
    this.seed(seed, 1);
  }
  below(n: number): number {
    return Math.floor(this.uniform() * n);
  }
  of<T>(values: readonly T[]): T {
    return values[this.below(values.length)]!;
  }
  /** A number as text: digits, point and exponent anywhere. */
  number(): string {
    const digits = (n: number) => Array.from({ length: this.below(n + 1) }, () => this.below(10)).join('');
    const sign = this.of(['', '', '', '-', '+']);
    const text = `${sign}${digits(this.of([3, 10, 20]))}${this.of(['', '.', '.'])}${digits(this.of([2, 9, 19]))}`;
    return this.chance(0.7) ? text : `${text}${this.of(['e', 'E'])}${this.of(['', '-', '+'])}${digits(3)}`;
  }
  /** What column `c` of READERS holds: usually sound, `odd` of the time anything. */
  cell(c: number, odd: number): string {
    if (!this.chance(odd)) return this.of(GOOD[c]!);
    return this.below(3) === 0 ? this.number() : this.of(this.chance(0.5) ? NUMBERS : WORDS);
  }
  /** A few bytes changed, put in or taken out. */
  mutate(bytes: Buffer): Buffer {
    let out = bytes;
    for (let n = 1 + this.below(6); n > 0; n--) {
      const at = this.below(out.length);
      const byte = this.of([this.below(256), 34, 44, 92, 10, 13, 0, 0x80, 0xc3, 0xe6, 0xf0, 0xff, 123, 125, 58, 48]);
      const how = this.below(3);
      out = Buffer.concat([
        out.subarray(0, at),
        Buffer.from(how === 2 ? [] : [byte]),
        out.subarray(how === 1 ? at : at + 1),
      ]);
    }
    return out;
  }
}

/** All records of `bytes` in one slab. */
export function recordsIn(bytes: Uint8Array, scanner: RecordScanner): RecordSlice {
  const slab = new SharedArrayBuffer(bytes.length + 16);
  const view = Buffer.from(slab);
  view.set(bytes);
  const records = new RecordList();
  scanner.scan(view, bytes.length, true, records);
  return {
    slab,
    spans: records.spans.slice(0, records.count * 2),
    faults: records.faults.slice(0, records.count),
  };
}

export const batchFor = (readers: readonly ColumnReader[], capacity: number, passthrough: number): ColumnBatch =>
  newBatch(
    newColumns(
      readers.map((r) => r.kind),
      capacity,
    ),
    capacity,
    passthrough,
  );

export interface Found {
  records: number;
  rejected: number;
  /** Left to the reference by the fast decoder. */
  declined: number;
}

/** Records of many comparisons; neither sound nor rejected, neither read nor declined records may be missing. */
export class Tally implements Found {
  records = 0;
  rejected = 0;
  declined = 0;

  add(found: Found): void {
    this.records += found.records;
    this.rejected += found.rejected;
    this.declined += found.declined;
  }

  /** `declined`: most of the records that may be left to the reference. */
  assertMixed(declined: number): void {
    const share = { rejected: this.rejected / this.records, declined: this.declined / this.records };
    // Of few records one is enough.
    const least = Math.min(0.0005, 1 / this.records);
    const within = (v: number, most: number) => v >= least && v < most;
    expect([within(share.rejected, 0.8), within(share.declined, declined)], JSON.stringify(share)).toEqual([
      true,
      true,
    ]);
  }
}

/** The decoders over the same records, `capacity` at a time; the first difference fails the test. */
export class Differential {
  readonly #readers: readonly ColumnReader[];
  readonly #fast: Decoder;
  /** What of it counts the records it declines. */
  readonly #counting: DelimitedDecoder | JsonBytesDecoder;
  readonly #eager: Decoder;
  readonly #quoting: Decoder | null;
  readonly #reference: Decoder;
  readonly #passthrough: number;
  readonly #manifest: Manifest | null;
  readonly #input: DecoderInput;

  /** `manifest`: of the model that the columns are for, so that decoders write numbers where it takes them. */
  constructor(
    readers: readonly ColumnReader[],
    input: DecoderInput,
    passthrough: number,
    manifest: Manifest | null = null,
  ) {
    this.#manifest = manifest;
    this.#input = input;
    this.#readers = readers;
    this.#fast = createDecoder(readers, input, 'fast');
    const inner = this.#fast instanceof ConstantColumns ? this.#fast.inner : this.#fast;
    const fast = inner instanceof ColumnsDecoder ? inner.records : inner;
    if (!(fast instanceof DelimitedDecoder || fast instanceof JsonBytesDecoder)) throw new Error('no fast decoder');
    this.#counting = fast;
    this.#eager = createDecoder(readers, input, 'eager');
    this.#quoting = input.format === 'json' ? null : createDecoder(readers, input, 'quoting');
    this.#reference = createDecoder(readers, input, 'reference');
    this.#passthrough = passthrough;
  }

  /** As `compare`, of what the model gets where the decoder writes it. */
  #compareEncoded(block: RecordSlice, capacity: number, choice: DecoderChoice): void {
    const kinds = this.#readers.map((r) => r.kind);
    const own = new Encoder(this.#manifest!, kinds, capacity);
    const other = new Encoder(this.#manifest!, kinds, capacity);
    const direct = createDecoder(this.#readers, this.#input, choice, own);
    const a = batchFor(this.#readers, capacity, this.#passthrough);
    const b = batchFor(this.#readers, capacity, this.#passthrough);
    for (let from = 0; from < block.faults.length; from += capacity) {
      const to = Math.min(block.faults.length, from + capacity);
      direct.decode(block, from, to, a);
      this.#reference.decode(block, from, to, b);
      expect(differenceOf(a, b), 'direct').toBeNull();
      if (b.rejections.length === b.rows) continue;
      own.encode(a);
      other.encode(b);
      for (const [i, { name, data }] of own.inputs.entries()) {
        const expected = other.inputs[i]!.data;
        const at = firstDifference(data, expected);
        expect(at, `entry ${at} of ${name} is ${data[at]}, not ${expected[at]}`).toBe(-1);
      }
    }
  }

  compare(block: RecordSlice, capacity: number): Found {
    // Quotes are no choice in JSON.
    for (const choice of this.#input.format === 'json' ? (['eager'] as const) : (['eager', 'quoting'] as const)) {
      if (this.#manifest) this.#compareEncoded(block, capacity, choice);
    }
    const before = Buffer.from(block.slab).toString('latin1');
    const a = batchFor(this.#readers, capacity, this.#passthrough);
    const b = batchFor(this.#readers, capacity, this.#passthrough);
    const count = block.faults.length;
    let rejected = 0;
    const { declined } = this.#counting;
    for (let from = 0; from < count; from += capacity) {
      const to = Math.min(count, from + capacity);
      this.#reference.decode(block, from, to, b);
      for (const [decoder, name] of [
        [this.#fast, 'fast'],
        [this.#eager, 'eager'],
        [this.#quoting, 'quoting'],
      ] as const) {
        if (decoder === null) continue;
        decoder.decode(block, from, to, a);
        const difference = differenceOf(a, b);
        const at = (from + (difference?.row ?? 0)) * 2;
        const record = () => Buffer.from(block.slab).toString('latin1', block.spans[at], block.spans[at + 1]);
        expect(difference?.what ?? null, difference ? `${name} in ${JSON.stringify(record())}` : name).toBeNull();
      }
      rejected += b.rejections.length;
    }
    const after = Buffer.from(block.slab).toString('latin1');
    expect(after === before, 'no decoder wrote into the slab').toBe(true);
    return { records: count, rejected, declined: this.#counting.declined - declined };
  }
}

/** The first entry of which not all bits are the same; -1 if there is none. */
function firstDifference(a: EncodedInput['data'], b: EncodedInput['data']): number {
  if (Array.isArray(a) || Array.isArray(b)) return (a as string[]).findIndex((text, i) => text !== b[i]);
  const [x, y] = [new Uint8Array(a.buffer), new Uint8Array(b.buffer)];
  return Math.floor(x.findIndex((byte, i) => byte !== y[i]) / a.BYTES_PER_ELEMENT);
}

/** Where two batches differ, or null; cells of rejected rows are undefined, those of encoded rows are elsewhere. */
/** What the first batch has otherwise than the second; null: nothing. */
export function differenceOf(a: ColumnBatch, b: ColumnBatch): { row: number; what: string } | null {
  const show = (v: unknown) => (Object.is(v, -0) ? '-0' : JSON.stringify(v));
  for (let r = 0; r < b.rows; r++) {
    const fault = (x: ColumnBatch) => x.rejections.find((e) => e.index === r) ?? null;
    if (a.rejected[r] !== b.rejected[r] || show(fault(a)) !== show(fault(b))) {
      return { row: r, what: `rejected ${show(fault(a))} instead of ${show(fault(b))}` };
    }
    for (let p = 0; p < b.passthrough.length; p++) {
      const [x, y] = [a.passthrough[p]![r], b.passthrough[p]![r]];
      if (x !== y) return { row: r, what: `passthrough ${p}: ${show(x)} instead of ${show(y)}` };
    }
    if (b.rejected[r] === 1 || a.encoded[r] === 1) continue;
    for (let c = 0; c < b.columns.length; c++) {
      const [x, y] = [cellOf(a, c, r), cellOf(b, c, r)];
      if (!Object.is(x, y)) return { row: r, what: `column ${c}: ${show(x)} instead of ${show(y)}` };
    }
  }
  if (a.rows !== b.rows || show(a.rejections) !== show(b.rejections))
    return { row: 0, what: 'rejections out of order' };
  for (let c = 0; c < b.columns.length; c++) {
    const [x, y] = [show(unseenOf(a, c)), show(unseenOf(b, c))];
    if (x !== y) return { row: 0, what: `unseen rows of column ${c}: ${x} instead of ${y}` };
  }
  return null;
}

/** Valid rows with an unseen category in column `c`. They are counted once for each occurrence, in any order. */
const unseenOf = ({ columns, rejected }: ColumnBatch, c: number): number[] =>
  columns[c]!.unseenRows.filter((row) => rejected[row] !== 1).sort((a, b) => a - b);

function cellOf(batch: ColumnBatch, c: number, r: number): unknown {
  const column = batch.columns[c]!;
  if (column.kind === 'number') return column.numbers[r];
  if (column.kind === 'text') return column.texts[r];
  return column.codes[r] === UNSEEN ? `unseen ${column.texts[r]}` : column.codes[r];
}
