// Reads the training table in one pass. The result is a profile of every column and a seeded random sample of rows.
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { parse } from 'csv-parse';
import { SluiceError } from '../core/errors.ts';
import { Random } from '../core/random.ts';
import { isNumberText, numberText } from '../inference/encode/column-reader.ts';

/** Maximum number of distinct values that are counted per column. A column with more values is not categorical. */
const MAX_DISTINCT = 5000;
/** The seed of the sample, which is fixed so that the sample of a table is reproducible. */
const SAMPLE_SEED = 9_171;
/** Number of rows in the sample. */
const SAMPLE_ROWS = 20_000;

/** Texts that mean a missing value: the list of pandas, and a few more. */
export const MISSING_WORDS = new Set([
  '', 'NA', 'N/A', 'n/a', 'NaN', 'nan', '-nan', '-NaN', 'NULL', 'null', 'None', 'none', '<NA>', '#N/A', '#NA', '?', '-', '.',
]); // biome-ignore format: the list reads better packed

const TRUE_WORDS = ['true', 'True', 'TRUE', 'yes', 'Yes', 'YES', 'y', 'Y', 't', 'T'];
const FALSE_WORDS = ['false', 'False', 'FALSE', 'no', 'No', 'NO', 'n', 'N', 'f', 'F'];
const BOOLEAN_WORDS = new Map([
  ...TRUE_WORDS.map((w): [string, boolean] => [w, true]),
  ...FALSE_WORDS.map((w): [string, boolean] => [w, false]),
]);

/** Matches plain numbers in the notation that ColumnReader accepts. */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const GROUPED = /^[+-]?\d{1,3}(?:[ ,.'\u00a0\u202f]\d{3}){1,8}(?:[.,]\d{1,20})?$|^[+-]?\d+,\d+$/;

export interface ColumnProfile {
  readonly name: string;
  /** Texts for missing values in the column, with their counts. */
  missing: Map<string, number>;
  /** Number of cells with a plain decimal number. */
  numbers: number;
  wholeNumbers: number;
  /** Number of integers with a leading zero, such as 007, which are IDs. */
  leadingZeros: number;
  /** Number of cells that look like numbers with separators or spaces; such cells are never interpreted as numbers. */
  grouped: number;
  booleans: number;
  /** Number of all other cells. */
  texts: number;
  /** Whether any text contains invalid UTF-8. */
  invalidUtf8: boolean;
  min: number;
  max: number;
  /** Number of values that float32 cannot represent exactly. */
  inexact: number;
  /** Number of such values that are integers. Two of them may become equal as float32. */
  inexactWhole: number;
  /** Maximum number of distinct values to count. */
  readonly most: number;
  /** The count of each value, without texts that mean a missing value; null: there are too many values. */
  distinct: Map<string, number> | null;
}

export interface TrainingTable {
  readonly file: string;
  readonly header: readonly string[];
  readonly rows: number;
  /** SHA-256 of the file. */
  readonly sha256: string;
  readonly profiles: ReadonlyMap<string, ColumnProfile>;
  /** Sampled rows in file order; `row` counts from 0. */
  readonly sample: readonly { row: number; fields: readonly string[] }[];
}

/**
 * Reads a delimited file with a header row. `coded`: number of coded categories of a column. At least this number of
 * its values is counted.
 * @throws SluiceError input_not_found | training_data_invalid
 */
export async function readTrainingTable(
  file: string,
  delimiter?: string,
  coded: (column: string) => number = () => 0,
): Promise<TrainingTable> {
  const random = new Random();
  random.seed(SAMPLE_SEED, 0);
  const profiles: ColumnProfile[] = [];
  const sample: { row: number; fields: readonly string[] }[] = [];
  let header: string[] = [];
  let rows = 0;
  const parser = parse({
    delimiter: delimiter ?? (await guessDelimiter(file)),
    bom: true,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: false,
    skip_empty_lines: true,
  });
  const input = createReadStream(file);
  input.on('error', (error) => parser.destroy(error));
  const hash = createHash('sha256');
  input.on('data', (chunk) => hash.update(chunk));
  input.pipe(parser);
  try {
    for await (const record of parser as AsyncIterable<string[]>) {
      if (header.length === 0) {
        header = record;
        if (header.some((h) => h.includes('\ufffd'))) throw notUtf8(file, 'its header');
        const twice = header.find((h, i) => header.indexOf(h) !== i);
        if (twice !== undefined)
          throw new SluiceError('training_data_invalid', `${file}: column ${twice} occurs twice`);
        profiles.push(...header.map((name) => newProfile(name, coded(name))));
        continue;
      }
      for (let j = 0; j < record.length; j++) addCell(profiles[j]!, record[j]!);
      // Reservoir sampling: every row has the same probability of being in the sample.
      if (sample.length < SAMPLE_ROWS) sample.push({ row: rows, fields: record });
      else {
        const k = Math.floor(random.uniform() * (rows + 1));
        if (k < SAMPLE_ROWS) sample[k] = { row: rows, fields: record };
      }
      rows++;
    }
    const invalidUtf8 = profiles.find((p) => p.invalidUtf8);
    if (invalidUtf8) throw notUtf8(file, `column ${invalidUtf8.name}`);
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new SluiceError('training_data_invalid', `${file}: ${reason}`, { cause });
  }
  if (rows === 0) throw new SluiceError('training_data_invalid', `${file} has no rows`);
  sample.sort((a, b) => a.row - b.row);
  return {
    file,
    header,
    rows,
    sha256: hash.digest('hex'),
    profiles: new Map(profiles.map((p) => [p.name, p])),
    sample,
  };
}

const notUtf8 = (file: string, where: string): SluiceError =>
  new SluiceError(
    'training_data_invalid',
    `${file}: ${where} contains bytes that are not UTF-8: write the table again with to_csv(encoding="utf-8")`,
  );

/** First bytes of common files that are not delimited text. */
const FORMATS: readonly (readonly [string, string])[] = [
  ['\x1f\x8b', 'compressed with gzip: decompress it first'],
  ['\x28\xb5\x2f\xfd', 'compressed with zstd: decompress it first'],
  ['PK', 'a zip archive or an Excel workbook: save the table as CSV'],
  ['PAR1', 'a Parquet file: write the table with to_csv'],
  ['ARROW1', 'an Arrow file: write the table with to_csv'],
  ['\x80', 'a pickle: write the table with to_csv'],
  ['[{', 'JSON: write the table with to_csv'],
  ['{', 'JSON: write the table with to_csv'],
];

const newProfile = (name: string, coded: number): ColumnProfile => ({
  name,
  most: Math.max(MAX_DISTINCT, 2 * coded),
  missing: new Map(),
  numbers: 0,
  wholeNumbers: 0,
  leadingZeros: 0,
  grouped: 0,
  booleans: 0,
  texts: 0,
  invalidUtf8: false,
  min: Infinity,
  max: -Infinity,
  inexact: 0,
  inexactWhole: 0,
  distinct: new Map(),
});

function addCell(p: ColumnProfile, cell: string): void {
  if (MISSING_WORDS.has(cell)) {
    p.missing.set(cell, (p.missing.get(cell) ?? 0) + 1);
    return;
  }
  if (p.distinct) {
    p.distinct.set(cell, (p.distinct.get(cell) ?? 0) + 1);
    if (p.distinct.size > p.most) p.distinct = null;
  }
  if (NUMBER.test(cell)) {
    const n = Number(cell);
    p.numbers++;
    if (Number.isInteger(n)) p.wholeNumbers++;
    if (/^0\d/.test(cell)) p.leadingZeros++;
    if (n < p.min) p.min = n;
    if (n > p.max) p.max = n;
    if (Math.fround(n) !== n) {
      p.inexact++;
      if (Number.isInteger(n)) p.inexactWhole++;
    }
  } else if (cell !== cell.trim() || GROUPED.test(cell)) p.grouped++;
  else if (BOOLEAN_WORDS.has(cell)) p.booleans++;
  else {
    p.texts++;
    if (cell.includes('\ufffd')) p.invalidUtf8 = true;
  }
}

/** Number of cells with a value. */
export const valuesIn = (p: ColumnProfile): number => p.numbers + p.grouped + p.booleans + p.texts;
/** Number of cells with a text that means a missing value. */
export const missingIn = (p: ColumnProfile): number => [...p.missing.values()].reduce((a, b) => a + b, 0);
/** The value of a boolean word; undefined: the text is not a boolean word. */
export const booleanWord = (word: string): boolean | undefined => BOOLEAN_WORDS.get(word);

/** Whether all categories are plain texts of numbers. Another spelling of such a number is then the same category. */
export const areNumbers = (categories: readonly string[]): boolean =>
  categories.length > 0 && categories.every(isNumberText);

/** The profile of a column with these categories: if all are numbers, the spellings of a number are one value. */
export function withCategories(profile: ColumnProfile, categories: readonly string[]): ColumnProfile {
  if (profile.distinct === null || !areNumbers(categories)) return profile;
  const distinct = new Map<string, number>();
  for (const [cell, count] of profile.distinct)
    distinct.set(numberText(cell), (distinct.get(numberText(cell)) ?? 0) + count);
  return { ...profile, distinct };
}

/** The delimiter that splits the first line into the most fields. */
async function guessDelimiter(file: string): Promise<string> {
  let handle: Awaited<ReturnType<typeof open>>;
  try {
    handle = await open(file);
  } catch (cause) {
    throw new SluiceError('input_not_found', `${file} cannot be opened`, { cause });
  }
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(1 << 16), 0, 1 << 16, 0);
    const head = buffer.toString('latin1', 0, 16);
    const format = FORMATS.find(([magic]) => head.startsWith(magic));
    if (format) throw new SluiceError('training_data_invalid', `${file} is ${format[1]}`);
    const line = buffer.toString('utf8', 0, bytesRead).split(/\r?\n|\r/, 1)[0]!;
    const parts = (d: string) => line.split(d).length;
    return [',', '\t', ';', '|'].reduce((best, d) => (parts(d) > parts(best) ? d : best));
  } finally {
    await handle.close();
  }
}
