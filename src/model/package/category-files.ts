// Many categories of a column are in a CSV next to model.yaml, as `codes_file` or `values_file`: one line each, fast to
// read, easy to compare.
import { setImmediate as turn } from 'node:timers/promises';
import { SluiceError } from '../../core/errors.ts';
import type { ColumnSpec, Manifest } from './manifest.ts';

/** More categories than this are written to a file of their own. */
const MANY = 1_000;
const FOLDER = 'categories';
const LINES_A_TURN = 10_000;
const PIECE = 64 * 1024;
/** Of a line, in quotes: characters. */
const MOST_LINE = 1024 * 1024;
/** A category, its code, and a field that must not exist. */
const MOST_FIELDS = 3;
const CODE = /^-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?$/i;

type Files = Pick<ColumnSpec, 'codes_file' | 'values_file'>;

/** The files that a column names. */
export const categoryFilesOf = (spec: Files): string[] =>
  [spec.codes_file, spec.values_file].filter((name) => name !== undefined);

/** The manifest in the form of model.yaml, and the files with the rest: path inside the package → content. */
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

/** `categories/employer.csv`: valid in every file system, and unique. */
function freeName(column: string, taken: ReadonlyMap<string, string>): string {
  const plain = column.replace(/[^A-Za-z0-9_-]/g, '_').slice(0, 100);
  const names = (n: number) => `${FOLDER}/${plain}${n === 1 ? '' : `-${n}`}.csv`;
  let n = 1;
  // Where case does not count two columns must not meet either.
  const lower = new Set([...taken.keys()].map((name) => name.toLowerCase()));
  while (lower.has(names(n).toLowerCase())) n++;
  return names(n);
}

const cell = (text: string): string => (/[",\r\n]|^$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const digits = (code: number): string => (Object.is(code, -0) ? '-0' : String(code));
const codesAsCsv = (codes: Readonly<Record<string, number>>): string =>
  `value,code\n${Object.entries(codes).map(([value, code]) => `${cell(value)},${digits(code)}\n`).join('')}`; // biome-ignore format: one line
const valuesAsCsv = (values: readonly string[]): string => `value\n${values.map((v) => `${cell(v)}\n`).join('')}`;

/** The categories of a column: what the index of one means. */
export interface Categories {
  readonly values: readonly string[];
  readonly index: ReadonlyMap<string, number>;
  /** What each is trained as; null: the model takes the text itself. */
  readonly codes: readonly number[] | null;
}

/** By the column where a file listed them, else by the object or array that does: a column being drafted gets other ones. */
const listed = new WeakMap<object, Categories>();

/** The categories of a column, in their order; null: it lists none. Found once for each list. */
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

/** The column with what its file says. An object of a million keys takes seconds to make: `codes` becomes one when it is asked for. */
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

/** The column with other codes, in the order of its categories. */
export const recoded = (spec: ColumnSpec, codes: readonly number[]): ColumnSpec =>
  withCategories(spec, { ...categoriesOf(spec)!, codes });

function listedAs(spec: ColumnSpec, categories: Categories): ColumnSpec {
  listed.set(spec, categories);
  return spec;
}

/**
 * The manifest with what the files say in `codes` and `values`; the names of the files stay in it. `read`: the bytes of a file of the
 * package.
 * @throws SluiceError model_invalid: a line that is none, a category that is there twice
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

/** The manifest without the content of separate files, as in model.yaml. */
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
  /** false: it is the first, and no header. */
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
  // Between some of the lines other work of a service gets its turn.
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

/** Without quotes each comma divides and each line feed ends a line: a million lines take a fifth of csv-parse's time. */
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
