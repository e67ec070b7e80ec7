// Files for a column with many categories: CSV files next to model.yaml, named by `codes_file` or `values_file`. A file
// has one category per line, so that it is fast to read and easy to compare.
import { setImmediate as turn } from 'node:timers/promises';
import { SluiceError } from '../../core/errors.ts';
import type { ColumnSpec, Manifest } from './manifest.ts';

/** If a column has more categories than this, they are written to a separate file. */
const MANY = 1_000;
const FOLDER = 'categories';
const LINES_A_TURN = 10_000;
const PIECE = 64 * 1024;
/** Maximum length in characters of a line that contains quotes. */
const MOST_LINE = 1024 * 1024;
/** A category, its code, and a third field. A line that has a third field is invalid. */
const MOST_FIELDS = 3;
const CODE = /^-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

type Files = Pick<ColumnSpec, 'codes_file' | 'values_file'>;

/** The category files of a column. */
export const categoryFilesOf = (spec: Files): string[] =>
  [spec.codes_file, spec.values_file].filter((name) => name !== undefined);

/**
 * Moves long lists of categories out of a manifest. Returns the manifest for model.yaml, and the files as a map from
 * path in the package to content.
 */
export function withCategoryFiles(manifest: Manifest): { manifest: Manifest; files: ReadonlyMap<string, string> } {
  const files = new Map<string, string>();
  const columns = manifest.columns.map((spec): ColumnSpec => {
    const { codes, values, codes_file, values_file, ...rest } = spec;
    const named = codes_file ?? values_file;
    const count = codes ? Object.keys(codes).length : (values?.length ?? 0);
    if (count === 0 || (count <= MANY && named === undefined)) return spec;
    const name = named ?? freeName(spec.name, files);
    files.set(name, codes ? codesAsCsv(codes) : valuesAsCsv(values!));
    return { ...rest, [codes ? 'codes_file' : 'values_file']: name };
  });
  return { manifest: { ...manifest, columns }, files };
}

/** A unique file name for a column, such as `categories/employer.csv`, which is valid in every file system. */
function freeName(column: string, taken: ReadonlyMap<string, string>): string {
  const plain = column.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 100);
  const names = (n: number) => `${FOLDER}/${plain}${n === 1 ? '' : `-${n}`}.csv`;
  let n = 1;
  // Compared in lower case, so that names are also unique on case-insensitive file systems.
  const lower = new Set([...taken.keys()].map((name) => name.toLowerCase()));
  while (lower.has(names(n).toLowerCase())) n++;
  return names(n);
}

const cell = (text: string): string => (/[",\r\n]|^$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const digits = (code: number): string => (Object.is(code, -0) ? '-0' : String(code));
const codesAsCsv = (codes: Readonly<Record<string, number>>): string =>
  `value,code\n${Object.entries(codes).map(([value, code]) => `${cell(value)},${digits(code)}\n`).join('')}`; // biome-ignore format: one line
const valuesAsCsv = (values: readonly string[]): string => `value\n${values.map((v) => `${cell(v)}\n`).join('')}`;

/** The categories of a column, and the index of each. */
export interface Categories {
  readonly values: readonly string[];
  readonly index: ReadonlyMap<string, number>;
  /** The codes that training used; null if the model reads the text. */
  readonly codes: readonly number[] | null;
}

/**
 * Cache. Categories from a file are cached by column. Other categories are cached by the object or array in the
 * manifest, because a column that is being drafted can get new ones.
 */
const listed = new WeakMap<object, Categories>();

/** The categories of a column in order; null if the column lists none. Computed once per list. */
export function categoriesOf(spec: ColumnSpec): Categories | null {
  const ofFile = listed.get(spec);
  if (ofFile) return ofFile;
  const source = spec.codes ?? spec.values;
  if (!source) return null;
  const before = listed.get(source);
  if (before) return before;
  const values = spec.codes ? Object.keys(spec.codes) : spec.values!;
  const codes = spec.codes ? Object.values(spec.codes) : null;
  const found = { values, codes, index: new Map(values.map((value, i) => [value, i])) };
  listed.set(source, found);
  return found;
}

/**
 * Adds the categories from a file to a column. `codes` is created on first access, because creating an object with a
 * million keys takes seconds.
 */
function withCategories(spec: ColumnSpec, categories: Categories): ColumnSpec {
  const { values, codes } = categories;
  if (!codes) return listedAs({ ...spec, values: [...values] }, categories);
  const own = { ...spec };
  Object.defineProperty(own, 'codes', {
    configurable: true,
    enumerable: true,
    get() {
      const value = Object.fromEntries(values.map((word, i) => [word, codes[i]!]));
      Object.defineProperty(own, 'codes', { value, enumerable: true });
      return value;
    },
  });
  return listedAs(own, categories);
}

/** Replaces the codes of a column. `codes` are in the order of the categories. */
export const recoded = (spec: ColumnSpec, codes: readonly number[]): ColumnSpec =>
  withCategories(spec, { ...categoriesOf(spec)!, codes });

function listedAs(spec: ColumnSpec, categories: Categories): ColumnSpec {
  listed.set(spec, categories);
  return spec;
}

/**
 * Reads category files into `codes` and `values`. The manifest also keeps the file names. `read`: returns the bytes of
 * a package file.
 * @throws SluiceError model_invalid: an invalid line or a duplicate category
 */
export async function readCategoryFiles(
  manifest: Manifest,
  read: (name: string) => Promise<Buffer>,
): Promise<Manifest> {
  const columns: ColumnSpec[] = [];
  for (const spec of manifest.columns) {
    const [name] = categoryFilesOf(spec);
    if (name === undefined) columns.push(spec);
    else columns.push(withCategories(spec, await categoriesIn(name, await read(name), spec.codes_file !== undefined)));
  }
  return { ...manifest, columns };
}

/** Removes the categories that are in separate files from a manifest. The result is the content of model.yaml. */
export const withoutCategories = (manifest: Manifest): Manifest => ({
  ...manifest,
  columns: manifest.columns.map((spec) => {
    if (categoryFilesOf(spec).length === 0) return spec;
    const { codes: _, values: __, ...rest } = Object.getOwnPropertyDescriptors(spec);
    return Object.defineProperties({}, rest) as ColumnSpec;
  }),
});

async function categoriesIn(name: string, bytes: Buffer, coded: boolean): Promise<Categories> {
  const wrong = (line: number, what: string) => new SluiceError('model_invalid', `${name}:${line}: ${what}`);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new SluiceError('model_invalid', `${name}: bytes that are not UTF-8`, { cause });
  }
  const header = coded ? 'value,code' : 'value';
  const values: string[] = [];
  const codes: number[] = [];
  const index = new Map<string, number>();
  let line = 0;
  /** Returns false if the first line is not a header. */
  const accept = ([value, code, more]: string[]): boolean => {
    line++;
    if (line === 1) return [value, ...(code === undefined ? [] : [code])].join() === header;
    if (more !== undefined || (code !== undefined) !== coded) throw wrong(line, coded ? 'a category and its code expected' : 'one category expected'); // biome-ignore format: one line
    if (index.size !== index.set(value!, line - 2).size - 1) throw wrong(line, 'a duplicate category');
    values.push(value!);
    if (!coded) return true;
    if (!CODE.test(code!) || !Number.isFinite(Number(code))) throw wrong(line, 'the code is not a number');
    codes.push(Number(code));
    return true;
  };
  // From time to time, yields to the event loop, so that a service stays responsive.
  if (/["\r]/.test(text)) {
    for await (const fields of quotedLines(name, text)) if (!accept(fields)) break;
  } else {
    for (const fields of plainLines(text)) {
      if (!accept(fields)) break;
      if (line % LINES_A_TURN === 0) await turn();
    }
  }
  if (line < 2) throw wrong(1, `the first line must be ${header}, followed by at least one category`);
  return { values, index, codes: coded ? codes : null };
}

/**
 * Without quotes, every comma separates fields and every line feed ends a line. For a million lines, this takes a fifth
 * of the time of csv-parse.
 */
function* plainLines(text: string): Generator<string[]> {
  for (let from = 0; from < text.length; ) {
    const at = text.indexOf('\n', from);
    const end = at < 0 ? text.length : at;
    if (end > from) yield text.slice(from, end).split(',', MOST_FIELDS);
    from = end + 1;
  }
}

function* piecesOf(text: string): Generator<string> {
  for (let from = 0; from < text.length; from += PIECE) yield text.slice(from, from + PIECE);
}

async function* quotedLines(name: string, text: string): AsyncGenerator<string[]> {
  const [{ parse }, { Readable }] = await Promise.all([import('csv-parse'), import('node:stream')]);
  const form = {
    relax_column_count: true,
    skip_empty_lines: true,
    record_delimiter: ['\r\n', '\n', '\r'],
    max_record_size: MOST_LINE,
  };
  try {
    yield* Readable.from(piecesOf(text)).pipe(parse(form)) as AsyncIterable<string[]>;
  } catch (cause) {
    throw new SluiceError('model_invalid', `${name}: ${(cause as Error).message}`, { cause });
  }
}
