// The `--encoding` file: what Python did to the columns before the model saw them, which no ONNX file and no table shows.
import { readFile } from 'node:fs/promises';
import { SluiceError } from '../core/errors.ts';

/** A number, or what is done without one. */
export type MissingRule = number | string | boolean | 'nan' | 'error';
export type UnseenRule = number | string | 'missing' | 'error';

/** '*' in place of a column means every column that is not named. */
export interface EncodingFile {
  /** Columns of the one matrix input, in its order. */
  order?: readonly string[];
  /** Input → its columns, where there are several matrices or inputs have other names than columns. */
  inputs?: Readonly<Record<string, readonly string[]>>;
  /** Column → category → number. */
  codes: Readonly<Record<string, Readonly<Record<string, number>>>>;
  missing: Readonly<Record<string, MissingRule>>;
  unseen: Readonly<Record<string, UnseenRule>>;
  /** Column → what false and true became. */
  booleans: Readonly<Record<string, readonly [false_: number | string | boolean, true_: number | string | boolean]>>;
}

export const NO_ENCODING: EncodingFile = { codes: {}, missing: {}, unseen: {}, booleans: {} };

const PARTS = ['order', 'inputs', 'codes', 'missing', 'unseen', 'booleans'];

type Json = Record<string, unknown>;

/**
 * Takes `{order, inputs, codes, missing, unseen, booleans}`, or the code maps alone (`{column: {category: number}}`), or a
 * list of features (`{features: [{column, kind, codes, missing, unseen, true, false}]}`, `{inputs: [{name, column, …}]}`).
 * @throws SluiceError usage
 */
export async function readEncoding(file: string): Promise<EncodingFile> {
  let value: unknown;
  try {
    value = JSON.parse(await readFile(file, 'utf8'));
  } catch (cause) {
    throw new SluiceError('usage', `--encoding ${file}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  if (!isMap(value)) throw bad(file, 'an object is expected');
  if (Array.isArray(value.features) || Array.isArray(value.inputs)) return fromFeatures(file, value);
  const parts = Object.keys(value).filter((k) => PARTS.includes(k));
  const flat = parts.length === 0;
  const unknown = Object.keys(value).filter((k) => !PARTS.includes(k));
  if (!flat && unknown.length > 0) throw bad(file, `${unknown[0]} is none of ${PARTS.join(', ')}`);
  const raw = flat ? { codes: value } : value;
  return {
    ...(raw.order === undefined ? {} : { order: texts(file, 'order', raw.order) }),
    ...(raw.inputs === undefined
      ? {}
      : {
          inputs: mapOf(file, 'inputs', raw.inputs, (v, at) => (typeof v === 'string' ? [v] : texts(file, at, v))),
        }),
    codes: mapOf(file, 'codes', raw.codes ?? {}, (v, at) => codeMap(file, at, v)),
    missing: mapOf(file, 'missing', raw.missing ?? {}, (v, at) => scalar(file, at, v)),
    unseen: mapOf(file, 'unseen', raw.unseen ?? {}, (v, at) => scalar(file, at, v) as UnseenRule),
    booleans: mapOf(file, 'booleans', raw.booleans ?? {}, (v, at) => {
      if (!Array.isArray(v) || v.length !== 2) throw bad(file, `${at} must be [false, true]`);
      return [scalar(file, at, v[0]), scalar(file, at, v[1])] as const;
    }),
  };
}

/** The rule for a column: its own, else that of '*'. */
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
    if (typeof f.name === 'string' && !value.features) inputs[f.name] = [column];
    if (isMap(f.codes)) codes[column] = codeMap(file, column, f.codes);
    if (f.missing !== undefined) missing[column] = scalar(file, `${column}.missing`, f.missing);
    if (f.unseen !== undefined) unseen[column] = scalar(file, `${column}.unseen`, f.unseen) as UnseenRule;
    if (f.true !== undefined && f.false !== undefined) {
      booleans[column] = [scalar(file, `${column}.false`, f.false), scalar(file, `${column}.true`, f.true)];
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

function mapOf<R>(file: string, at: string, v: unknown, read: (v: unknown, at: string) => R): Record<string, R> {
  if (!isMap(v)) throw bad(file, `${at} must be an object`);
  return Object.fromEntries(Object.entries(v).map(([k, x]) => [k, read(x, `${at}.${k}`)]));
}

function codeMap(file: string, at: string, v: unknown): Record<string, number> {
  // A list means the codes 0, 1, 2, …
  if (Array.isArray(v) && v.every((x) => typeof x === 'string')) return Object.fromEntries(v.map((x, i) => [x, i]));
  return mapOf(file, at, v, (x, inner) => {
    if (typeof x !== 'number' || !Number.isFinite(x)) throw bad(file, `${inner} must be a number`);
    return x;
  });
}

function scalar(file: string, at: string, v: unknown): MissingRule {
  if (v === null) return 'nan';
  if (typeof v === 'string') return /^nan$/i.test(v) ? 'nan' : v;
  if (typeof v === 'number' || typeof v === 'boolean') return v;
  throw bad(file, `${at} must be a number, a text, a boolean or null`);
}
