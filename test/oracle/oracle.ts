// A second implementation of what Sluice promises, as plain as it can be: rows in, fields out by name. It shares nothing with `src`.
//
// Text is parsed by csv-parse and JSON.parse, models are run by ONNX Runtime one application at a time, model.yaml is read here. Where
// Sluice and this file disagree one of them is wrong, and a person has to say which.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import YAML from 'yaml';

// ---------------------------------------------------------------- what goes in and comes out

/** How the input is read beyond its format; names as in a pipeline file. */
export interface Declared {
  names?: string[];
  rename?: Record<string, string>;
  ignore?: string[] | '*';
  constants?: Record<string, string>;
  encoding?: string;
  decimal?: 'point' | 'comma';
  thousands?: 'point' | 'comma' | 'space' | 'apostrophe';
  trim?: boolean;
  null_values?: string[];
}

/** A column of a typed table: what its values are, and the values; null: none. Text of `decimal` has all digits. */
export interface TypedColumn {
  name: string;
  type: 'text' | 'float64' | 'int64' | 'boolean' | 'date' | 'decimal';
  values: (string | number | bigint | boolean | null)[];
}

export type Input =
  | { format: 'delimited'; bytes: Buffer; delimiter: string }
  | { format: 'json' | 'ndjson'; bytes: Buffer }
  | { format: 'table'; columns: TypedColumn[] };

export interface Question {
  model: OracleModel;
  input: Input;
  declared: Declared;
  passthrough: string[] | '*';
  /** The first invalid row ends the run. */
  failOnInvalid: boolean;
  /** An input all of whose rows are rejected is in order. */
  allowEmpty: boolean;
  /** Columns of the output that a passthrough column may not be called like. */
  reserved: readonly string[];
  /** When the output needs the names of its columns: in a file of columns before anything is read. */
  names: 'at once' | 'by the input' | 'by the row';
  /** An application that has the outcome ends the request, as it does over HTTP. */
  refusesOutcome: boolean;
  /** Share of rejected rows above which nothing is published. */
  maxRejects?: number;
}

/** A value that is passed through: a token of JSON as it stood, the text of a cell, or nothing. */
export type Passed = { token: string } | { text: string } | null;

export interface Answer {
  row: number;
  passed: Map<string, Passed>;
  error: { code: string; column: string | null } | null;
  /** null where the row is rejected. */
  score: Score | null;
  /** The application as the model gets it; null where the row is rejected. */
  features: Features | null;
}

export interface Score {
  prediction?: string;
  probability?: number;
  probabilities?: Map<string, number>;
  value?: number;
  points?: number;
  decision?: string;
}

/** Either the codes one of which ends the run before anything is published, or the rows. */
export type Verdict = { refused: readonly string[] } | { passthrough: string[] | '*'; rows: Answer[] };

type Features = (number | string)[];

// ---------------------------------------------------------------- the model

export interface Column {
  name: string;
  kind: 'number' | 'boolean' | 'category' | 'text';
  missing?: { values?: string[]; as?: string; value?: number | string };
  codes?: Record<string, number>;
  values?: string[];
  unseen?: 'error' | 'missing' | 'value';
  unseen_value?: number;
  range?: [number, number];
  true_values?: string[];
  false_values?: string[];
  /** The type of the model's input; default: float32, as the models of the combinations have. */
  input?: 'float32' | 'float64' | 'int64' | 'string';
}

interface Manifest {
  task: 'binary' | 'multiclass' | 'regression';
  outcome: string;
  classes?: (string | number)[];
  positive_class?: string | number;
  columns: Column[];
  numbers?: 'accept';
  inputs: { name: string; type: string; columns?: string[]; column?: string }[];
  onnx: { file: string; probabilities?: string; value?: string };
  scorecard?: { base_points: number; base_odds: number; points_to_double_odds: number };
  decisions?: { name: string; min_probability: number }[];
}

export class OracleModel {
  readonly manifest: Manifest;
  readonly #session: InferenceSession;
  readonly #known = new Map<string, Float32Array>();

  private constructor(manifest: Manifest, session: InferenceSession) {
    this.manifest = manifest;
    this.#session = session;
  }

  static async open(folder: string): Promise<OracleModel> {
    const manifest = YAML.parse(readFileSync(path.join(folder, 'model.yaml'), 'utf8')) as Manifest;
    const options = { intraOpNumThreads: 1, interOpNumThreads: 1 };
    return new OracleModel(manifest, await InferenceSession.create(path.join(folder, manifest.onnx.file), options));
  }

  /** What the model says of one application; equal applications are asked for once. */
  async #outputs(features: Features): Promise<Float32Array> {
    const key = features.map((f) => (Object.is(f, -0) ? '-0' : String(f))).join('\u0000');
    const known = this.#known.get(key);
    if (known) return known;
    const at = (name: string) => features[this.manifest.columns.findIndex((c) => c.name === name)]!;
    const feeds = Object.fromEntries(
      this.manifest.inputs.map(({ name, type, columns, column }) => {
        const cells = (columns ?? [column!]).map(at);
        const data = type === 'string' ? (cells as string[]) : Float32Array.from(cells as number[]);
        return [name, new Tensor(type === 'string' ? 'string' : 'float32', data as never, [1, cells.length])];
      }),
    );
    const output = this.manifest.onnx.probabilities ?? this.manifest.onnx.value!;
    const result = Float32Array.from((await this.#session.run(feeds, [output]))[output]!.data as Float32Array);
    if (this.#known.size > 50_000) this.#known.clear();
    this.#known.set(key, result);
    return result;
  }

  async score(features: Features): Promise<Score> {
    const { task, classes = [], positive_class, scorecard, decisions } = this.manifest;
    const values = [...(await this.#outputs(features))];
    if (task === 'regression') return { value: decimalOf(values[0]!) };
    if (task === 'multiclass') {
      const top = values.indexOf(Math.max(...values));
      const probabilities = new Map(classes.map((c, i) => [String(c), decimalOf(values[i]!)]));
      return { prediction: String(classes[top]), probability: decimalOf(values[top]!), probabilities };
    }
    const p = values[classes.indexOf(positive_class!)]!;
    const score: Score = { prediction: String(p > 0.5), probability: decimalOf(p) };
    if (scorecard) {
      const { base_points, base_odds, points_to_double_odds } = scorecard;
      const odds = Math.min(1 - 1e-9, Math.max(1e-9, p)) / (1 - Math.min(1 - 1e-9, Math.max(1e-9, p)));
      score.points = Math.round(base_points + (points_to_double_odds * Math.log(odds / base_odds)) / Math.LN2);
    }
    if (decisions) {
      const reached = decisions.filter((d) => decimalOf(p) >= d.min_probability);
      score.decision = reached.sort((a, b) => b.min_probability - a.min_probability)[0]?.name ?? '';
    }
    return score;
  }

  /** Margin of the model in its additive space, for the laws of effects. */
  async margin(features: Features): Promise<number> {
    const values = await this.#outputs(features);
    if (this.manifest.task === 'regression') return values[0]!;
    const p = values[this.manifest.classes!.indexOf(this.manifest.positive_class!)]!;
    return Math.log(p / (1 - p));
  }
}

/** A 32-bit score is reported as its shortest decimal. */
function decimalOf(value: number): number {
  for (let digits = 1; ; digits++) {
    const decimal = Number(value.toPrecision(digits));
    if (Math.fround(decimal) === value || digits === 9) return decimal + 0;
  }
}

// ---------------------------------------------------------------- cells

export class Fault {
  readonly code: string;
  constructor(code: string) {
    this.code = code;
  }
}
export const MISSING = Symbol('missing');
/** An unseen category that the model gets as a missing value. The row has a value. */
export const UNSEEN = Symbol('unseen');
/** What a cell without a fault is read as. */
type Value = number | string | typeof MISSING | typeof UNSEEN;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;
const BLANKS = /^[ \t\u00a0]+|[ \t\u00a0]+$/g;
const isNumberText = (text: string) => Number.isFinite(Number(text)) && String(Number(text)) === text;

const trueWords = ({ true_values = ['true', 'True', 'TRUE', '1'] }: Column) => true_values;
const falseWords = ({ false_values = ['false', 'False', 'FALSE', '0'] }: Column) => false_values;

export function knownValues(column: Column): string[] {
  if (column.kind === 'boolean') return [...trueWords(column), ...falseWords(column)];
  return column.kind === 'category' ? (column.values ?? Object.keys(column.codes ?? {})) : [];
}

export const takesNumbers = (column: Column, manifest: Pick<Manifest, 'numbers'>) =>
  column.kind === 'number' ||
  column.kind === 'boolean' ||
  manifest.numbers === 'accept' ||
  (knownValues(column).length > 0 && knownValues(column).every(isNumberText));

export const takesBooleans = (column: Column) =>
  column.kind === 'boolean' ||
  (column.kind === 'category' && knownValues(column).every((v) => v === 'true' || v === 'false'));

/** The number as the declaration writes it, with a point and without marks between thousands; null: not a JWT with an `exp`. */
function plainNumber(text: string, { decimal = 'point', thousands }: Declared): string | null {
  if (decimal === 'point' && thousands === undefined) return NUMBER.test(text) ? text : null;
  const mark = { point: '[.]', comma: ',', space: '[ \u00a0\u202f]', apostrophe: "['\u2019]" };
  const whole = thousands === undefined ? '\\d*' : `(?:\\d{1,3}(?:${mark[thousands]}\\d{3})+|\\d*)`;
  const found = new RegExp(`^([+-]?)(${whole})(?:${mark[decimal]}(\\d*))?([eE][+-]?\\d+)?$`).exec(text);
  if (!found) return null;
  const plain = `${found[1]}${found[2]!.replace(/\D/g, '')}${found[3] === undefined ? '' : `.${found[3]}`}${found[4] ?? ''}`;
  return NUMBER.test(plain) ? plain : null;
}

export type Cell = Value | Fault;

/** The text that JavaScript writes for a number that JSON allows; null for other texts, and for whole numbers beyond 2^53. */
function otherSpelling(text: string, declared: Declared): string | null {
  const plain = declared.decimal === undefined && declared.thousands === undefined ? text : plainNumber(text, declared);
  if (plain === null) return null;
  try {
    const value: unknown = JSON.parse(plain);
    if (typeof value !== 'number' || plain.trim() !== plain) return null;
    return Number.isInteger(value) && !Number.isSafeInteger(value) ? null : String(value);
  } catch {
    return null;
  }
}

/** Whether a text for missing values, of the package or of the input, is this number. */
export function meansMissing(value: number, column: Column, declared: Declared): boolean {
  const texts = [
    ...(column.missing?.values ?? []).map((text) => plainNumber(text, {})),
    ...(declared.null_values ?? []).map((text) => plainNumber(text, declared)),
  ];
  return texts.some((text) => text !== null && Number(text) === value);
}

export function readText(text: string, column: Column, manifest: Pick<Manifest, 'numbers'>, declared: Declared): Cell {
  const known = knownValues(column);
  const missing = [...(column.missing?.values ?? ['']), ...(declared.null_values ?? [])];
  const respells = (column.kind === 'category' || column.kind === 'boolean') && takesNumbers(column, manifest);
  if (respells) {
    const plain = [
      ...(column.missing?.values ?? []).map((word) => otherSpelling(word, {})),
      ...(declared.null_values ?? []).map((word) => otherSpelling(word, declared)),
    ];
    missing.push(...plain.filter((word) => word !== null));
  }
  /** The same number as a word of the column. */
  const number = respells ? otherSpelling(text, declared) : null;
  const isOther = number !== null && number !== text && (known.includes(number) || missing.includes(number));
  if (missing.includes(text)) return readMissing(column);
  if (declared.trim && !known.includes(text)) {
    const trimmed = text.replace(BLANKS, '');
    if (trimmed !== text) return readText(trimmed, column, manifest, declared);
  }
  switch (column.kind) {
    case 'number': {
      const plain = plainNumber(text, declared);
      if (plain === null) return new Fault('bad_number');
      return meansMissing(Number(plain), column, declared) ? readMissing(column) : readNumber(Number(plain), column);
    }
    case 'boolean':
      if (known.includes(text)) return trueWords(column).includes(text) ? 1 : 0;
      return isOther ? readText(number, column, manifest, declared) : new Fault('bad_boolean');
    case 'category':
      if (known.includes(text)) return column.codes ? column.codes[text]! : text;
      if (text.includes('\0')) return new Fault('invalid_character');
      if (isOther) return readText(number, column, manifest, declared);
      if (column.unseen === 'missing')
        return readMissing(column) instanceof Fault ? new Fault('missing_value') : UNSEEN;
      return column.unseen === 'value' ? column.unseen_value! : new Fault('unseen_category');
    case 'text':
      return text.includes('\0') ? new Fault('invalid_character') : text;
  }
}

export function readNumber(value: number, { range, input = 'float32' }: Column): Cell {
  if (!Number.isFinite(input === 'float32' ? Math.fround(value) : value)) return new Fault('number_out_of_range');
  if (input === 'int64' && Math.abs(value) > Number.MAX_SAFE_INTEGER) return new Fault('number_out_of_range');
  if (range && !(value >= range[0] && value <= range[1])) return new Fault('number_out_of_range');
  return input === 'int64' && !Number.isInteger(value) ? new Fault('bad_number') : value;
}

export const readMissing = (column: Column): Cell =>
  column.missing?.as === 'error' ? new Fault('missing_value') : MISSING;

/** A value of JSON or of a typed table. */
function readNative(value: unknown, column: Column, manifest: Manifest, declared: Declared): Cell {
  if (value === null) return readMissing(column);
  if (typeof value === 'string') return readText(value, column, manifest, declared);
  if (typeof value === 'number') {
    if (column.kind === 'number') {
      return meansMissing(value, column, declared) ? readMissing(column) : readNumber(value, column);
    }
    if (!takesNumbers(column, manifest)) return new Fault('bad_type');
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) return new Fault('bad_type');
    return readText(String(value), column, manifest, declared);
  }
  if (typeof value === 'boolean') {
    if (!takesBooleans(column)) return new Fault('bad_type');
    return column.kind === 'boolean' ? Number(value) : readText(String(value), column, manifest, declared);
  }
  return new Fault('bad_type');
}

/** What the model gets of a cell. */
export function featureOf(cell: Value, column: Column): number | string {
  if (cell !== MISSING && cell !== UNSEEN) return cell;
  if (column.kind === 'text' || column.values) return column.missing?.value ?? '';
  return column.missing?.as === 'value' || column.missing?.as === 'category'
    ? Number(column.missing.value)
    : Number.NaN;
}

// ---------------------------------------------------------------- records

/** One application: a reader of its columns, what is passed through, or why it cannot be read at all. */
interface Application {
  fault?: { code: string; column: string | null };
  passed: Map<string, Passed>;
  cell(column: Column): Cell;
}

const NOTHING = new Map<string, Passed>();
const unreadable = (code: string, column: string | null = null, passed = NOTHING): Application => ({
  fault: { code, column },
  passed,
  cell: () => new Fault(code),
});

interface Names {
  /** What a name of the input means; null: it is ignored. */
  meaning(name: string): string | null;
  inInput(column: string): string;
}

function namesOf({ rename = {}, ignore = [] }: Declared, used: ReadonlySet<string>): Names {
  const meant = new Map(Object.entries(rename).map(([name, there]) => [there, name]));
  return {
    inInput: (column) => rename[column] ?? column,
    meaning: (name) => {
      if (ignore !== '*' && ignore.includes(name)) return null;
      const column = meant.get(name) ?? name;
      return ignore === '*' && !used.has(column) ? null : column;
    },
  };
}

export function decoded(bytes: Buffer, encoding = 'utf-8'): string {
  if (encoding === 'latin1') return bytes.toString('latin1');
  // The name utf-16 wants a mark that says which half comes first.
  const label = encoding !== 'utf-16' ? encoding : bytes[0] === 0xfe ? 'utf-16be' : 'utf-16le';
  return new TextDecoder(label, { fatal: true }).decode(bytes);
}

/** Applications, and the columns that are passed through; `*`: those that each of them has. */
interface Read {
  applications: Application[];
  passthrough: string[] | '*';
}

function delimitedApplications(q: Question, input: Input & { format: 'delimited' }): Verdict | Read {
  const { declared, model } = q;
  const text = decoded(input.bytes, declared.encoding);
  const records = parse(text, {
    delimiter: input.delimiter,
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    relax_quotes: true,
    skip_empty_lines: true,
    bom: true,
  }) as string[][];
  const header = declared.names ?? records.shift();
  if (!header) return { refused: ['empty_input', 'header_mismatch'] };
  const columns = model.manifest.columns.map((c) => c.name);
  const used = new Set([...columns, ...(q.passthrough === '*' ? [] : q.passthrough)]);
  const names = namesOf(declared, used);
  const there = header.map((cell) => names.meaning(declared.trim ? cell.replace(BLANKS, '') : cell));
  const given = there.filter((name) => name !== null);
  const wanted = columns.filter((name) => !(name in (declared.constants ?? {})));
  const outcome = model.manifest.outcome;
  const passthrough =
    q.passthrough === '*' ? given.filter((name) => !columns.includes(name) && name !== outcome) : q.passthrough;
  const isBad =
    new Set(given).size < given.length ||
    wanted.some((name) => !given.includes(name)) ||
    passthrough.some((name) => !given.includes(name) || name === '') ||
    given.some((name) => !wanted.includes(name) && !passthrough.includes(name)) ||
    passthrough.some((name) => q.reserved.includes(name));
  if (isBad) return { refused: ['header_mismatch', 'wrong_delimiter'] };
  const applications = records.map((fields): Application => {
    const passed = new Map(
      passthrough.map((name): [string, Passed] => {
        const cell = fields[there.indexOf(name)];
        return [name, cell === undefined ? null : { text: cell }];
      }),
    );
    if (fields.length !== header.length) return unreadable('column_count', null, passed);
    return {
      passed,
      cell: (column) => readText(fields[there.indexOf(column.name)]!, column, model.manifest, declared),
    };
  });
  return { applications, passthrough };
}

const isSpace = (c: string) => ' \t\r\n'.includes(c);

/** The members of an object as they stand in its text; JSON.parse loses digits, and keys that are there twice. */
function membersOf(text: string): { key: string; token: string }[] {
  const members: { key: string; token: string }[] = [];
  let at = text.indexOf('{') + 1;
  const skip = () => {
    while (isSpace(text[at]!) || text[at] === ',' || text[at] === ':') at++;
  };
  const token = (): string => {
    const from = at;
    let depth = 0;
    for (let quoted = false; ; at++) {
      const c = text[at]!;
      if (quoted) {
        if (c === '\\') at++;
        else if (c === '"') quoted = false;
        if (quoted || depth > 0) continue;
        at++;
        return text.slice(from, at);
      }
      if (c === '"') quoted = true;
      else if (c === '{' || c === '[') depth++;
      else if (depth === 0 && (c === ',' || c === '}' || isSpace(c))) return text.slice(from, at);
      else if (c === '}' || c === ']') {
        if (--depth > 0) continue;
        at++;
        return text.slice(from, at);
      }
    }
  };
  for (skip(); text[at] !== '}'; skip()) {
    const key = JSON.parse(token()) as string;
    skip();
    members.push({ key, token: token() });
  }
  return members;
}

function jsonApplications(q: Question, texts: readonly string[]): Read {
  const { manifest } = q.model;
  const columns = manifest.columns.map((c) => c.name);
  const used = new Set([...columns, ...(q.passthrough === '*' ? [] : q.passthrough)]);
  const names = namesOf(q.declared, used);
  const applications = texts.map((text): Application => {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return unreadable('malformed_json');
    }
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return unreadable('not_an_object');
    const members = membersOf(text);
    const tokens = new Map(members.map(({ key, token }) => [key, token]));
    const passed = new Map<string, Passed>();
    let fault: Application['fault'];
    const seen = new Set<string>();
    for (const { key } of members) {
      const meant = names.meaning(key);
      const isModel = columns.some((name) => names.inInput(name) === key && !(name in (q.declared.constants ?? {})));
      if (!isModel && meant === null) continue;
      if (seen.has(key)) fault ??= { code: 'duplicate_column', column: isModel ? meant : null };
      seen.add(key);
      if (isModel || meant === null) continue;
      if (meant in (q.declared.constants ?? {})) fault ??= { code: 'unexpected_column', column: meant };
      else if (meant === manifest.outcome) fault ??= { code: 'outcome_present', column: meant };
      else if (q.passthrough === '*') {
        if (q.reserved.includes(meant)) fault ??= { code: 'unexpected_column', column: meant };
      } else if (!q.passthrough.includes(meant)) fault ??= { code: 'unexpected_column', column: null };
    }
    if (q.passthrough !== '*') {
      for (const name of q.passthrough) {
        const token = tokens.get(names.inInput(name));
        if (token !== undefined) passed.set(name, { token });
      }
    } else if (!fault || q.names === 'by the input') {
      for (const { key, token } of members) {
        const meant = names.meaning(key);
        if (meant !== null && !columns.includes(meant)) passed.set(meant, { token });
      }
    }
    const object = value as Record<string, unknown>;
    return {
      ...(fault ? { fault } : {}),
      passed,
      cell: (column) => {
        const key = names.inInput(column.name);
        if (!Object.hasOwn(object, key)) return new Fault('missing_column');
        return readNative(object[key], column, manifest, q.declared);
      },
    };
  });
  return { applications, passthrough: q.passthrough };
}

/** A value of a table as a token of JSON that loses nothing. */
export function tokenOf({ type }: TypedColumn, value: TypedColumn['values'][number]): string {
  if (value === null) return 'null';
  if (type === 'text' || type === 'date' || type === 'decimal') return JSON.stringify(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return `"${value}"`;
  return Object.is(value, -0) ? '-0' : String(value);
}

function tableApplications(q: Question, columns: readonly TypedColumn[]): Verdict | Read {
  const { manifest } = q.model;
  const names = manifest.columns.map((c) => c.name);
  const used = new Set([...names, ...(q.passthrough === '*' ? [] : q.passthrough)]);
  const meant = namesOf(q.declared, used);
  const wrong = manifest.columns.some((column) => {
    if (column.name in (q.declared.constants ?? {})) return false;
    const found = columns.find((c) => c.name === meant.inInput(column.name));
    if (!found || found.type === 'text') return false;
    if (found.type === 'date') return true;
    return found.type === 'boolean' ? !takesBooleans(column) : !takesNumbers(column, manifest);
  });
  const isThere = (name: string) => columns.some((c) => c.name === meant.inInput(name));
  const constants = q.declared.constants ?? {};
  const wanted = [...names.filter((name) => !(name in constants)), ...(q.passthrough === '*' ? [] : q.passthrough)];
  const given = columns.map((c) => meant.meaning(c.name)).filter((name) => name !== null);
  const isOther = (name: string) =>
    name in constants || !(names.includes(name) || q.passthrough === '*' || q.passthrough.includes(name));
  const refused = [
    ...(wrong ? ['bad_type'] : []),
    ...(manifest.outcome !== undefined && given.includes(manifest.outcome) ? ['outcome_present'] : []),
    ...(wanted.some((name) => !isThere(name)) || given.some(isOther) ? ['header_mismatch'] : []),
  ];
  if (refused.length > 0) return { refused };
  const rows = columns[0]?.values.length ?? 0;
  // A column of the model that is passed through, too, is what the model reads: NaN is missing, a decimal of a category a number.
  const tokenIn = (column: TypedColumn, value: TypedColumn['values'][number]): string => {
    const own = manifest.columns.find((c) => meant.inInput(c.name) === column.name);
    if (own && value !== null && Number.isNaN(value)) return 'null';
    if (own && own.kind !== 'number' && column.type === 'decimal' && value !== null) return String(Number(value));
    return tokenOf(column, value);
  };
  const texts = Array.from({ length: rows }, (_, r) => {
    const members = columns.map((column) => `${JSON.stringify(column.name)}:${tokenIn(column, column.values[r]!)}`);
    return `{${members.join(',')}}`;
  });
  const { applications } = jsonApplications(q, texts);
  // In a column of floating-point numbers NaN is a missing value; numbers and decimals are the nearest doubles.
  const typed = applications.map((application, r) => ({
    ...application,
    cell: (column: Column) => {
      const found = columns.find((c) => c.name === meant.inInput(column.name));
      const value = found?.values[r];
      if (!found || value === null || value === undefined) return application.cell(column);
      if (found.type === 'float64' && Number.isNaN(value)) return readMissing(column);
      const isNumeric = found.type === 'decimal' || found.type === 'int64' || found.type === 'float64';
      if (isNumeric && Number.isFinite(Number(value))) return readNative(Number(value), column, manifest, q.declared);
      return application.cell(column);
    },
  }));
  const beside = columns
    .map((column) => meant.meaning(column.name))
    .filter((name): name is string => name !== null && name !== manifest.outcome && !names.includes(name));
  return {
    applications: typed,
    passthrough: q.passthrough === '*' && q.names === 'by the input' ? beside : q.passthrough,
  };
}

/** The records of a JSON array as texts, in order; null: not a JWT with an `exp`. */
function elementsOf(text: string): string[] | null {
  try {
    const value: unknown = JSON.parse(text);
    if (!Array.isArray(value)) return [text];
  } catch {
    return null;
  }
  // An array reads as the members of an object whose keys are the places of its elements.
  const inner = text.trim().slice(1, -1);
  if (inner.trim() === '') return [];
  const elements: string[] = [];
  let [from, depth, quoted] = [0, 0, false];
  for (let at = 0; at <= inner.length; at++) {
    const c = inner[at];
    if (c === undefined || (c === ',' && depth === 0 && !quoted)) {
      elements.push(inner.slice(from, at).trim());
      from = at + 1;
    } else if (quoted) {
      if (c === '\\') at++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === '{' || c === '[') depth++;
    else if (c === '}' || c === ']') depth--;
  }
  return elements;
}

function applicationsOf(q: Question): Verdict | Read {
  const { input } = q;
  switch (input.format) {
    case 'delimited':
      return delimitedApplications(q, input);
    case 'table':
      return tableApplications(q, input.columns);
    case 'ndjson': {
      const lines = decoded(input.bytes, q.declared.encoding)
        .replace(/^\ufeff/, '')
        .split(/\r\n|\n|\r/);
      return jsonApplications(
        q,
        lines.filter((line) => line.trim() !== ''),
      );
    }
    case 'json': {
      const elements = elementsOf(decoded(input.bytes, q.declared.encoding));
      return elements === null ? { refused: ['malformed_json', 'truncated_input'] } : jsonApplications(q, elements);
    }
  }
}

// ---------------------------------------------------------------- answers

function hasOtherColumns({ model, passthrough }: Question, columns: readonly TypedColumn[]): boolean {
  const own = model.manifest.columns.map(({ name }) => name);
  const given = columns.map(({ name }) => name);
  const isOther = (name: string) => !own.includes(name) && passthrough !== '*' && !passthrough.includes(name);
  return (
    own.some((name) => !given.includes(name)) || given.some(isOther) || given.includes(model.manifest.outcome ?? '')
  );
}

export async function answer(q: Question): Promise<Verdict> {
  const isKnown = q.names === 'by the input' && (q.input.format === 'delimited' || q.input.format === 'table');
  if (q.passthrough === '*' && q.names !== 'by the row' && !isKnown) return { refused: ['usage'] };
  if (q.passthrough !== '*' && q.passthrough.some((name) => q.reserved.includes(name))) {
    // Which of several faults is found first is not promised.
    const outcome = q.input.format === 'table' ? ['outcome_present'] : [];
    return { refused: ['header_mismatch', 'bad_type', 'wrong_delimiter', ...outcome] };
  }
  if (q.refusesOutcome && q.input.format === 'table' && hasOtherColumns(q, q.input.columns)) {
    // A request of a typed format is refused as a whole; a job is read as a file is.
    return { refused: ['header_mismatch', 'outcome_present', 'nothing_scored', 'bad_type', 'invalid_row'] };
  }
  const read = applicationsOf(q);
  if (!('applications' in read)) return read;
  if (read.passthrough !== '*' && read.passthrough.some((name) => q.reserved.includes(name))) {
    return { refused: ['header_mismatch'] };
  }
  const rows: Answer[] = [];
  for (const [i, application] of read.applications.entries()) rows.push(await answerOf(q, application, i + 1));
  const rejected = rows.filter(({ error }) => error !== null);
  if (q.refusesOutcome && rows.some(({ error }) => error?.code === 'outcome_present')) {
    return { refused: ['outcome_present', ...(q.failOnInvalid ? ['invalid_row'] : [])] };
  }
  if (q.failOnInvalid && rejected.length > 0) return { refused: ['invalid_row'] };
  if (rows.length > 0 && rejected.length === rows.length && !q.allowEmpty) return { refused: ['nothing_scored'] };
  if (q.maxRejects !== undefined && rejected.length / Math.max(1, rows.length) > q.maxRejects) {
    return { refused: ['gate_stopped'] };
  }
  return { passthrough: read.passthrough, rows };
}

async function answerOf(q: Question, application: Application, row: number): Promise<Answer> {
  const { manifest } = q.model;
  const { passed, fault } = application;
  const rejected = (code: string, column: string | null): Answer => ({
    row,
    passed,
    error: { code, column },
    score: null,
    features: null,
  });
  if (fault) return rejected(fault.code, fault.column);
  const constants = q.declared.constants ?? {};
  const cells: Value[] = [];
  let isEmpty = true;
  for (const column of manifest.columns) {
    const constant = constants[column.name];
    const cell = constant === undefined ? application.cell(column) : readText(constant, column, manifest, q.declared);
    if (cell instanceof Fault) return rejected(cell.code, column.name);
    if (constant === undefined && cell !== MISSING && cell !== '') isEmpty = false;
    cells.push(cell);
  }
  if (isEmpty) return rejected('empty_row', null);
  const features = manifest.columns.map((column, i) => featureOf(cells[i]!, column));
  return { row, passed, error: null, score: await q.model.score(features), features };
}
