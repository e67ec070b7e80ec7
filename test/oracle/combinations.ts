// Random combinations of features: a small table with ugly values, how it is stored and declared, and how it is scored and written.

import { COMPRESSIONS, DELIMITER_NAMES, FILE_FORMATS, type FileFormat } from '../../src/core/file-format.ts';
import { DECIMALS, ENCODINGS, THOUSANDS } from '../../src/core/input-declaration.ts';
import fc from '../support/seeded-fast-check.ts';
import type { TypedColumn } from './oracle.ts';

export const ENTRIES = ['command', 'library', 'http', 'pipeline', 'shards'] as const;
export type Entry = (typeof ENTRIES)[number];

/** Columns of each model, in the order of its package. */
export const MODELS = {
  trees: ['amount', 'term', 'banned', 'product', 'region'],
  classes: ['product', 'amount', 'banned'],
  value: ['region', 'amount', 'term'],
  'typed-columns': ['amount', 'banned', 'product', 'purpose'],
} as const;
export type ModelName = keyof typeof MODELS;

export type CellType = TypedColumn['type'];

/** A column of the table: what it is called in the input, the type its values have where the format has types. */
export interface CaseColumn {
  /** Name of the model's column, or of an extra one. */
  name: string;
  type: CellType;
  /** Cells as text; null: nothing. For JSON a cell may be a token. */
  cells: (string | null)[];
}

export interface Case {
  entry: Entry;
  model: ModelName;
  input: FileFormat;
  output: FileFormat;
  delimiter: (typeof DELIMITER_NAMES)[number];
  inputCompression: (typeof COMPRESSIONS)[number];
  outputCompression: (typeof COMPRESSIONS)[number];
  /** In the order of the input. */
  columns: CaseColumn[];
  /** Values of the model's columns have native types in JSON, or are texts. */
  native: boolean;
  declared: {
    header: boolean;
    rename: boolean;
    ignore: 'none' | 'named' | 'rest';
    constant: string | null;
    encoding: (typeof ENCODINGS)[number];
    decimal: (typeof DECIMALS)[number];
    thousands: (typeof THOUSANDS)[number] | null;
    trim: boolean;
    nullValues: boolean;
  };
  passthrough: string[] | '*';
  interpretation: 'none' | 'effects' | 'top' | 'below';
  onInvalid: 'report' | 'fail';
  rejects: boolean;
  allowEmpty: boolean;
  manifest: boolean;
  maxRejects: number | null;
  job: boolean;
  tuning: { workers: number; batchRows: number; blockBytes: number; readBytes: number };
  /** How the text is written. */
  layout: { quoteAll: boolean; ends: 'lf' | 'crlf' | 'mixed'; mark: boolean; blankLines: boolean; finalEnd: boolean };
  /** Rows (from 0) with a field too many or too few, or a line that is no JSON. */
  broken: number[];
}

/** Texts of each model column; what is ugly is as likely as what is plain. */
const POOLS: Record<string, (string | null)[]> = {
  amount: ['100', '-5', '0', '-0', '1500.25', '99.5', '2500', '1e3', '.5', '5.', '+7', '12345678901234567890', '0.1', '', null, 'NA', '-999', '-999.0', '-9.99e2', 'NULL', 'abc', ' 7 ', 'NaN', 'Infinity', '1e400', '3.5e38', '1 000', '1.234', '1,5', '1.234,5', "1'000", '0x10', '９'],
  term: ['12', '24', '36', '48', '6', '120', '36.0', '36.5', '600', '601', '-1', '', null, '012', 'x', '1e2', '-0'],
  banned: ['true', 'false', 'true', 'false', '1', '0', 'True', 'FALSE', '', null, 'yes', ' true', 'NULL', '2'],
  product: ['true', '0230', '230', '0077', 'A7', 'Zürich', 'say "hi"', 'a,b', '', null, 'new', '77', ' 0230', 'zürich', 'x;y|z', 'two\nlines', 'NULL', '\u00a0A7', "'=1"],
  region: ['1', '2', '30', '1', '2', '30', '30 ', '', null, '01', '3', 'x', '1.0', '30.00', '2e0', '-1.0', '36.0', '+1', '1,0', 'true'],
  purpose: ['007', '7', 'car', 'home', '2024-02-29', 'other', 'ünï', '', null, 'two\nlines', '"', '1.50', 'true'],
}; // biome-ignore format: pools
/** Values that every column takes: most cells have one, or hardly a row would be scored. */
const PLAIN: Record<string, string[]> = {
  amount: ['100', '1500.25', '99.5', '2500', '0', '-5'],
  term: ['12', '24', '36', '48', '6', '120', '600'],
  banned: ['true', 'false', '1', '0'],
  product: ['0230', '230', '0077', 'A7', 'Zürich', 'say "hi"', 'a,b'],
  region: ['1', '2', '30'],
  purpose: ['007', '7', 'car', 'home'],
};
/** Cells that are missing values where such are declared, by what they are written as then; a plain value elsewhere. */
const DECLARED_MISSING: Record<string, string> = { '\0word': 'NULL', '\0number': '36.0' };
const EXTRA = ['A-1', '0042', '', null, '=1+1', '+49 30', '-5', '@x', '\tx', 'null', '12345678901234567890', '12345678.1234567891', '1.10', 'two\nlines', 'quo"te', 'semi;colon', 'comma,', 'pi|pe', 'ünï', '€', '“Š”', "'=x", ' lead', 'trail ', 'NULL']; // biome-ignore format: a pool
const EXTRA_NAMES = ['id', 'branch', 'note', 'application id', 'Größe', 'na"me', '=name', 'a;b', 'ID', 'effect', 'points_', 'x.y']; // biome-ignore format: a pool
/** Names of columns of some outputs, and the outcome. */
const COLLIDING = ['row', 'probability', 'error_code', 'value', 'error', 'base', 'reasons', 'decision', 'ok'];

const INTEGERS = ['1', '-7', '9007199254740993', '0', '42', null];
const FLOATS = ['1.5', '-0', '0.1', '1e300', 'NaN', 'Infinity', '-Infinity', '3', null];
const DECIMAL_TEXTS = ['12345678901234567890.50', '-0.05', '0.00', '7.00', null];
const DATES = ['2024-02-29', '1969-12-31', '9999-12-31', '0001-01-01', null];
const BOOLEANS = ['true', 'false', null];
const TYPED: Record<Exclude<CellType, 'text'>, readonly (string | null)[]> = {
  int64: INTEGERS,
  float64: FLOATS,
  decimal: DECIMAL_TEXTS,
  date: DATES,
  boolean: BOOLEANS,
};

const isTable = (format: FileFormat) => format === 'parquet' || format === 'arrow';

const cellsOf = (pool: readonly (string | null)[], rows: number) =>
  fc.array(fc.constantFrom(...pool), { minLength: rows, maxLength: rows });

const NUMBERS = ['100', '0.5', '12', '24', '1', '30', '99.5', 'NaN', '-0', null];
/** Types that fit a column of the model, with their values; the others are refused before a row is read. */
const FITTING: Record<string, Partial<Record<Exclude<CellType, 'text'>, readonly (string | null)[]>>> = {
  amount: { float64: [...NUMBERS, '-999', '1e300', 'Infinity'], int64: ['1', '100', '2500', '-5', '-999', null], decimal: ['100.00', '99.50', '-999.00', '-0.05', null] },
  term: { float64: [...NUMBERS, '601'], int64: ['12', '24', '36', '600', '-1', null], decimal: ['12.00', '36.00', '36.50', null] },
  banned: { boolean: ['true', 'false', null], float64: ['1', '0', '2', 'NaN', null], int64: ['1', '0', null], decimal: ['1.00', '0.00', null] },
  product: {},
  region: { float64: ['1', '2', '30', '3', 'NaN', null], int64: ['1', '2', '30', '3', '36', null], decimal: ['1.00', '2.00', '30.00', '36.00', null] },
  purpose: {},
}; // biome-ignore format: a table

type Fit = 'fitting' | 'any';

/** A column of the model in a typed table: text, or a type that a data frame would have. */
function modelColumn(name: string, rows: number, typed: boolean, fit: Fit): fc.Arbitrary<CaseColumn> {
  const cell = fc.oneof(
    { weight: 8, arbitrary: fc.constantFrom(...PLAIN[name]!) },
    { weight: 2, arbitrary: fc.constantFrom(...POOLS[name]!) },
    { weight: 1, arbitrary: fc.constantFrom(...Object.keys(DECLARED_MISSING)) },
  );
  const text = fc
    .array(cell, { minLength: rows, maxLength: rows })
    .map((cells): CaseColumn => ({ name, type: 'text', cells }));
  if (!typed) return text;
  const types = (fit === 'fitting' ? FITTING[name]! : TYPED) as Record<string, readonly (string | null)[]>;
  const like = Object.entries(types).map(([type, pool]) =>
    cellsOf(pool, rows).map((cells): CaseColumn => ({ name, type: type as CellType, cells })),
  );
  if (like.length === 0) return text;
  return fc.oneof({ weight: 2, arbitrary: text }, { weight: 3, arbitrary: fc.oneof(...like) });
}

function extraColumn(name: string, rows: number, input: FileFormat): fc.Arbitrary<CaseColumn> {
  const text = cellsOf(EXTRA, rows).map((cells): CaseColumn => ({ name, type: 'text', cells }));
  if (!isTable(input)) return text;
  const types = Object.keys(TYPED) as Exclude<CellType, 'text'>[];
  const typed = fc
    .constantFrom(...types)
    .chain((type) => cellsOf(TYPED[type], rows).map((cells): CaseColumn => ({ name, type, cells })));
  return fc.oneof(text, typed);
}

/** Formats that an entry point takes and gives. */
function formatsOf(entry: Entry): fc.Arbitrary<{ input: FileFormat; output: FileFormat }> {
  // The formats with types have the most ways to go wrong.
  const all = fc.oneof(
    { weight: 2, arbitrary: fc.constantFrom(...FILE_FORMATS) },
    { weight: 1, arbitrary: fc.constantFrom<FileFormat>('parquet', 'arrow') },
  );
  const texts = fc.constantFrom<FileFormat>('csv', 'tsv', 'json', 'ndjson');
  switch (entry) {
    case 'command':
    case 'pipeline':
      return fc.record({ input: all, output: all });
    case 'library':
      return fc.record({ input: texts, output: texts });
    case 'http':
      return fc
        .constantFrom<FileFormat>('csv', 'json', 'ndjson', 'arrow')
        .map((format) => ({ input: format, output: format }));
    case 'shards':
      return fc.record({
        input: fc.constantFrom<FileFormat>('csv', 'tsv', 'ndjson', 'parquet'),
        output: fc.constantFrom<FileFormat>('csv', 'tsv', 'ndjson'),
      });
  }
}

const seldom = (share: number) => fc.nat(99).map((n) => n < share);

/** A value in so many of a hundred cases, else null; `freq` of fc.option is how seldom null is. */
export const sometimes = <T>(arbitrary: fc.Arbitrary<T>, share: number): fc.Arbitrary<T | null> =>
  fc.oneof({ weight: 100 - share, arbitrary: fc.constant(null) }, { weight: share, arbitrary });

function declaredFor(entry: Entry, input: FileFormat, model: ModelName): fc.Arbitrary<Case['declared']> {
  const may = entry === 'command' || entry === 'pipeline';
  const delimited = input === 'csv' || input === 'tsv';
  const no = fc.constant(false);
  return fc.record({
    header: may && delimited ? fc.nat(9).map((n) => n > 0) : fc.constant(true),
    rename: may ? seldom(20) : no,
    ignore: may ? fc.constantFrom('none' as const, 'none' as const, 'none' as const, 'named' as const, 'rest' as const) : fc.constant('none' as const), // biome-ignore format: one line
    constant: may ? sometimes(fc.constantFrom(...MODELS[model]), 17) : fc.constant(null),
    encoding: may && !isTable(input) ? fc.oneof({ weight: 5, arbitrary: fc.constant('utf-8' as const) }, { weight: 2, arbitrary: fc.constantFrom(...ENCODINGS) }, { weight: 1, arbitrary: fc.constant('windows-1252' as const) }) : fc.constant('utf-8' as const), // biome-ignore format: one line
    decimal: may ? fc.oneof({ weight: 3, arbitrary: fc.constant('point' as const) }, fc.constantFrom(...DECIMALS)) : fc.constant('point' as const), // biome-ignore format: one line
    thousands: may ? sometimes(fc.constantFrom(...THOUSANDS), 25) : fc.constant(null),
    trim: may ? seldom(25) : no,
    nullValues: may ? seldom(35) : no,
  });
}

function passthroughFor(names: readonly string[], columns: readonly string[]): fc.Arbitrary<string[] | '*'> {
  const some = fc.shuffledSubarray([...names]);
  const all = fc.shuffledSubarray([...names], { minLength: names.length });
  const absent = fc.constant<string[]>([...names, 'absent']);
  const ofModel = fc.constant<string[]>([...names, columns[0]!]);
  return fc.oneof(
    { weight: 4, arbitrary: all },
    { weight: 2, arbitrary: some },
    { weight: 2, arbitrary: fc.constant('*' as const) },
    { weight: names.length === 0 ? 1 : 0, arbitrary: fc.constant<string[]>([]) },
    { weight: 1, arbitrary: fc.oneof({ weight: 1, arbitrary: absent }, { weight: 2, arbitrary: ofModel }) },
  );
}

export interface Reach {
  entries: readonly Entry[];
  models: readonly ModelName[];
}

/** Any combination within `reach`. */
export function combinations({ entries, models }: Reach): fc.Arbitrary<Case> {
  const start = fc.record({
    entry: fc.constantFrom(...entries),
    model: fc.constantFrom(...models),
    // One column that does not fit is enough to refuse a table.
    fit: fc.constantFrom<Fit>('fitting', 'fitting', 'fitting', 'fitting', 'any'),
    rows: fc.oneof({ weight: 8, arbitrary: fc.integer({ min: 1, max: 12 }) }, { weight: 1, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 13, max: 60 }) }), // biome-ignore format: one line
    extra: fc.uniqueArray(fc.oneof({ weight: 12, arbitrary: fc.constantFrom(...EXTRA_NAMES) }, { weight: 1, arbitrary: fc.constantFrom(...COLLIDING) }), { maxLength: 4 }), // biome-ignore format: one line
  });
  return start
    .chain((s) => formatsOf(s.entry).map((formats) => ({ ...s, ...formats })))
    .chain(({ entry, model, rows, extra, fit, input, output }) => {
      const own = MODELS[model];
      const columns = fc
        .tuple(
          fc.tuple(...own.map((name) => modelColumn(name, rows, isTable(input), fit))),
          fc.tuple(...extra.map((name) => extraColumn(name, rows, input))),
        )
        .map(([a, b]) => [...a, ...b])
        .chain((all) => fc.shuffledSubarray(all, { minLength: all.length }));
      return fc.record<Case>({
        entry: fc.constant(entry),
        model: fc.constant(model),
        input: fc.constant(input),
        output: fc.constant(output),
        delimiter: fc.constantFrom(...DELIMITER_NAMES),
        inputCompression:
          entry === 'command' || entry === 'pipeline' ? fc.constantFrom(...COMPRESSIONS) : fc.constant('none'),
        outputCompression:
          entry === 'command' || entry === 'pipeline' ? fc.constantFrom(...COMPRESSIONS) : fc.constant('none'),
        columns,
        native: fc.boolean(),
        declared: declaredFor(entry, input, model),
        passthrough: passthroughFor(extra, own),
        interpretation:
          model === 'trees'
            ? fc.constantFrom('none', 'none', 'none', 'none', 'effects', 'top', 'below')
            : fc.constant('none'),
        onInvalid: fc.oneof({ weight: 9, arbitrary: fc.constant('report' as const) }, { weight: 1, arbitrary: fc.constant('fail' as const) }), // biome-ignore format: one line
        rejects: fc.boolean(),
        allowEmpty: seldom(20),
        manifest: seldom(40),
        maxRejects: sometimes(fc.constantFrom(0, 0.3, 0.9), 12),
        job: seldom(15),
        tuning: fc.record({
          workers: fc.constantFrom(1, 2),
          batchRows: fc.constantFrom(1, 2, 7, 512),
          blockBytes: fc.constantFrom(64, 300, 4096, 524_288),
          readBytes: fc.constantFrom(1, 13, 262_144),
        }),
        layout: fc.record({
          quoteAll: seldom(20),
          ends: fc.constantFrom('lf', 'crlf', 'mixed'),
          mark: seldom(10),
          blankLines: seldom(15),
          finalEnd: fc.nat(4).map((n) => n > 0),
        }),
        broken: fc.uniqueArray(fc.nat(Math.max(0, rows - 1)), { maxLength: rows > 2 ? 3 : 0 }).chain((b) => (b.length === 0 ? fc.constant(b) : seldom(60).map((keep) => (keep ? b : [])))), // biome-ignore format: one line
      });
    })
    .map(consistent);
}

/** The same case without what its entry point or format has no way to say. */
function consistent(c: Case): Case {
  const declared = { ...c.declared };
  if (declared.thousands === declared.decimal || declared.thousands === 'point' && declared.decimal === 'point') declared.thousands = null; // biome-ignore format: one line
  if (declared.ignore === 'rest' && c.passthrough === '*') declared.ignore = 'none';
  const byText = c.entry !== 'library' && c.entry !== 'pipeline';
  const passable = (name: string) => !byText || (!name.includes(',') && name !== '');
  const passthrough = c.passthrough === '*' ? c.passthrough : c.passthrough.filter(passable);
  const isMissing =
    (c.entry === 'library' && c.interpretation !== 'none') || (c.entry === 'http' && c.interpretation === 'below');
  const packs = (format: FileFormat) => format !== 'parquet';
  const given = (name: string, cell: string | null) =>
    cell === null || !(cell in DECLARED_MISSING) ? cell : declared.nullValues ? DECLARED_MISSING[cell]! : PLAIN[name]![0]!; // biome-ignore format: one line
  return {
    ...c,
    columns: c.columns.map((column) => ({ ...column, cells: column.cells.map((cell) => given(column.name, cell)) })),
    declared,
    passthrough,
    interpretation: isMissing ? 'effects' : c.interpretation,
    inputCompression: packs(c.input) ? c.inputCompression : 'none',
    outputCompression: packs(c.output) ? c.outputCompression : 'none',
    onInvalid: c.entry === 'shards' ? 'report' : c.onInvalid,
    maxRejects: c.entry === 'command' || c.entry === 'pipeline' || c.entry === 'shards' ? c.maxRejects : null,
    // An Arrow answer has columns whose names are known before.
    ...(c.entry === 'http' && c.output === 'arrow' && c.passthrough === '*' ? { passthrough: [] } : {}),
  };
}
