// The `--encoding` file: describes how Python encoded the columns for the model, which neither the ONNX file nor the table shows.

import { readFile } from 'node:fs/promises';
import { SluiceError } from '../core/errors.ts';
import { setOwn } from '../core/own-keys.ts';

/** The encoding of a missing value; `error`: missing values are rejected. */
export type MissingRule = number | string | boolean | 'nan' | 'error';
type UnseenRule = number | string | 'missing' | 'error';

/**
 * The contents of the file. In `missing`, `unseen` and `booleans`, the key '*' applies to every column that is not
 * named.
 */
export interface EncodingFile {
  /** Order of the columns in a single matrix input. */
  order?: readonly string[];
  /** The classes in the order of the scores, if the model file names none. */
  classes?: readonly (string | number)[];
  /** The columns of each input, if there are several matrices, or if inputs and columns have different names. */
  inputs?: Readonly<Record<string, readonly string[]>>;
  /** The number of each category, by column. */
  codes: Readonly<Record<string, Readonly<Record<string, number>>>>;
  missing: Readonly<Record<string, MissingRule>>;
  unseen: Readonly<Record<string, UnseenRule>>;
  /** The values for false and true, by column. */
  booleans: Readonly<Record<string, readonly [false_: number | string | boolean, true_: number | string | boolean]>>;
  /** Columns whose categories are texts according to the model file. */
  textCategories?: ReadonlySet<string>;
}

export const NO_ENCODING: EncodingFile = { codes: {}, missing: {}, unseen: {}, booleans: {} };

const PARTS = ['order', 'classes', 'inputs', 'codes', 'missing', 'unseen', 'booleans'];

type Json = Record<string, unknown>;

/**
 * Accepts `{order, classes, inputs, codes, missing, unseen, booleans}`, or just the code maps (`{column: {category: number}}`),
 * or a list of features (`{features: [{column, kind, codes, missing, unseen, true, false}]}`, `{inputs: [{name, column,
 * …}]}`).
 * @throws SluiceError usage
 */
export async function readEncoding(file: string): Promise<EncodingFile> {
  let value: unknown;
  try {
    value = JSON.parse(withoutNaN(await readFile(file, 'utf8')));
  } catch (cause) {
    throw new SluiceError('usage', `--encoding ${file}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  if (!isMap(value)) throw bad(file, 'an object is expected');
  if (Array.isArray(value.features) || Array.isArray(value.inputs)) return fromFeatures(file, value);
  const parts = Object.keys(value).filter((k) => PARTS.includes(k));
  const flat = parts.length === 0;
  const unknown = Object.keys(value).filter((k) => !PARTS.includes(k));
  if (!flat && unknown.length > 0)
    throw bad(file, `unknown key ${unknown[0]}: use ${PARTS.join(', ')} (codes contains the code maps of columns)`);
  const raw: Json = flat ? { codes: value } : value;
  const missing = mapOf(file, 'missing', raw.missing ?? {}, (v, at) => scalar(file, at, v));
  return {
    ...(raw.order === undefined ? {} : { order: texts(file, 'order', raw.order) }),
    ...(raw.classes === undefined ? {} : { classes: classLabels(file, raw.classes) }),
    ...(raw.inputs === undefined
      ? {}
      : {
          inputs: mapOf(file, 'inputs', raw.inputs, (v, at) => (typeof v === 'string' ? [v] : texts(file, at, v))),
        }),
    codes: codesOf(file, raw.codes ?? {}, missing),
    missing,
    unseen: mapOf(file, 'unseen', raw.unseen ?? {}, (v, at) => scalar(file, at, v) as UnseenRule),
    booleans: mapOf(file, 'booleans', raw.booleans ?? {}, (v, at) => {
      if (!Array.isArray(v) || v.length !== 2) throw bad(file, `${at} must be [false, true]`);
      return [scalar(file, at, v[0]), scalar(file, at, v[1])] as const;
    }),
  };
}

/** The rule for a column, else the rule for '*'; undefined: there is none. */
export function ruleFor<R>(rules: Readonly<Record<string, R>>, column: string): R | undefined {
  if (Object.hasOwn(rules, column)) return rules[column];
  return Object.hasOwn(rules, '*') ? rules['*'] : undefined;
}

function fromFeatures(file: string, value: Json): EncodingFile {
  const list = (value.features ?? value.inputs) as unknown[];
  const codes: Record<string, Record<string, number>> = {};
  const missing: Record<string, MissingRule> = {};
  const unseen: Record<string, UnseenRule> = {};
  const booleans: Record<string, readonly [number | string | boolean, number | string | boolean]> = {};
  const order: string[] = [];
  const inputs: Record<string, string[]> = {};
  for (const f of list) {
    if (!isMap(f) || typeof f.column !== 'string') throw bad(file, 'every feature needs its column');
    const { column } = f;
    order.push(column);
    if (typeof f.name === 'string' && !value.features) setOwn(inputs, f.name, [column]);
    if (f.codes !== undefined && f.codes !== null)
      setOwn(codes, column, codesOf(file, { [column]: f.codes }, missing)[column]!);
    if (f.missing !== undefined) setOwn(missing, column, scalar(file, `${column}.missing`, f.missing));
    if (f.unseen !== undefined) setOwn(unseen, column, scalar(file, `${column}.unseen`, f.unseen) as UnseenRule);
    if (f.true !== undefined && f.false !== undefined) {
      setOwn(booleans, column, [scalar(file, `${column}.false`, f.false), scalar(file, `${column}.true`, f.true)]);
    }
  }
  if (!value.features) return { inputs, codes, missing, unseen, booleans };
  return typeof value.input === 'string'
    ? { inputs: { [value.input]: order }, codes, missing, unseen, booleans }
    : { order, codes, missing, unseen, booleans };
}

const bad = (file: string, what: string): SluiceError => new SluiceError('usage', `--encoding ${file}: ${what}`);
const isMap = (v: unknown): v is Json => typeof v === 'object' && v !== null && !Array.isArray(v);

function texts(file: string, at: string, v: unknown): string[] {
  if (Array.isArray(v) && v.every((x) => typeof x === 'string')) return v;
  throw bad(file, `${at} must be a list of column names`);
}

function classLabels(file: string, v: unknown): (string | number)[] {
  const isLabel = (x: unknown): x is string | number => typeof x === 'string' || Number.isSafeInteger(x);
  if (Array.isArray(v) && v.length > 1 && v.every(isLabel) && new Set(v.map(String)).size === v.length) return v;
  throw bad(file, 'classes must be a list of different texts or whole numbers');
}

function mapOf<R>(file: string, at: string, v: unknown, read: (v: unknown, at: string) => R): Record<string, R> {
  if (!isMap(v)) throw bad(file, `${at} must be an object`);
  return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, read(x, `${at}.${k}`)]));
}

/** The empty text, which is the cell itself, and the texts into which pandas converts a missing value. */
export const WORDS_OF_CONVERSION: readonly string[] = ['', 'nan', 'NaN', '<NA>'];

/** Keys that Python uses for a missing value in a map of categories. */
const MISSING_KEYS = new Set(['', 'nan', 'NaN', 'None', 'null', '<NA>']);

/**
 * Reads the code maps. The code of a missing value is moved to `missing`, unless the file has a rule for missing values
 * of the column.
 */
function codesOf(
  file: string,
  v: unknown,
  missing: Record<string, MissingRule>,
): Record<string, Record<string, number>> {
  return mapOf(file, 'codes', v, (map, at) => {
    const { codes, missingCode } = codeMap(file, at, map);
    const column = at.slice('codes.'.length);
    if (missingCode !== undefined && !Object.hasOwn(missing, column)) setOwn(missing, column, missingCode);
    return codes;
  });
}

function codeMap(file: string, at: string, v: unknown): { codes: Record<string, number>; missingCode?: MissingRule } {
  // The categories of a list have the codes 0, 1, 2, … in order; null has no code. Numbers and booleans are spelled as
  // in pandas.
  if (Array.isArray(v)) {
    const spelled = v.map((x) => (typeof x === 'boolean' ? (x ? 'True' : 'False') : x));
    if (!spelled.every((x) => x === null || typeof x === 'string' || typeof x === 'number'))
      throw bad(file, `${at} must be a list of categories`);
    const codes = Object.fromEntries(spelled.flatMap((x, i) => (x === null ? [] : [[String(x), i]])));
    const word = WORDS_OF_CONVERSION.find((w) => spelled.includes(w));
    return word === undefined ? { codes } : { codes, missingCode: codes[word]! };
  }
  if (!isMap(v)) throw bad(file, `${at} must map categories to numbers`);
  const entries = Object.entries(v);
  const code = (x: unknown): number | null =>
    typeof x === 'number' || (typeof x === 'string' && x.trim() !== '' && Number.isFinite(Number(x)))
      ? Number(x)
      : null;
  const inverted = isInverted(file, at, entries, code);
  const codes: Record<string, number> = {};
  let missingCode: MissingRule | undefined;
  for (const [key, x] of inverted ? entries.map(([k, c]) => [c as string, Number(k)] as const) : entries) {
    const n = code(x);
    if (MISSING_KEYS.has(key) && (n !== null || x === null)) missingCode = n ?? 'nan';
    else if (n !== null && Number.isFinite(n)) setOwn(codes, key, n);
    else throw bad(file, `${at}.${key} must be a number`);
  }
  return missingCode === undefined ? { codes } : { codes, missingCode };
}

/**
 * Whether the map is dict(enumerate(categories)), which maps codes to categories. `code`: reads a code, null if it is
 * none.
 * @throws SluiceError usage if the map can be read in both directions, with different results
 */
function isInverted(
  file: string,
  at: string,
  entries: readonly (readonly [string, unknown])[],
  code: (x: unknown) => number | null,
): boolean {
  if (entries.length === 0 || !entries.every(([k, x]) => /^\d+$/.test(k) && typeof x === 'string')) return false;
  // No code is written with leading zeros.
  const isCategory = ([, x]: readonly [string, unknown]): boolean => code(x) === null || /^-?0\d/.test(x as string);
  const isEnumerated = entries.every(([k], i) => k === String(i));
  if (isEnumerated ? entries.some(isCategory) : entries.every(isCategory)) return true;
  if (isEnumerated && entries.some(([k, x]) => code(entries[code(x)!]?.[1]) !== Number(k)))
    throw bad(
      file,
      `${at} maps codes to categories or categories to codes: write the categories as a list in the order of their codes, or the codes as numbers`,
    );
  return false;
}

/** Replaces NaN by null. json.dumps of Python writes NaN, but JSON does not allow it. */
function withoutNaN(text: string): string {
  let inString = false;
  return text.replace(/\\.|"|\bNaN\b/gs, (token) => {
    if (token === '"') inString = !inString;
    return token === 'NaN' && !inString ? 'null' : token;
  });
}

function scalar(file: string, at: string, v: unknown): MissingRule {
  if (v === null) return 'nan';
  if (typeof v === 'string') return /^nan$/i.test(v) ? 'nan' : v;
  if (typeof v === 'number' || typeof v === 'boolean') return v;
  throw bad(file, `${at} must be a number, a text, a boolean or null`);
}
