// Compares what Sluice wrote with what the oracle expects, field by field and by name. Differences are texts for people.

import { tableFromIPC } from '@uwdata/flechette';
import { parse } from 'csv-parse/sync';
import { parquetReadObjects } from 'hyparquet';
import { decoderOverride } from '../../src/formats/decode/decoder-override.ts';
import type { Case } from './combinations.ts';
import type { Outcome } from './entries.ts';
import { outputDelimiter } from './entries.ts';
import type { Answer, OracleModel, Passed, Verdict } from './oracle.ts';
import { delimiterOf } from './stored-input.ts';

/** Names and order of the columns of an output, and of the keys of a prediction. */
export interface Names {
  answers: string[];
  interpretation: string[];
}

export function namesOf(c: Case, model: OracleModel): Names {
  const { task, classes = [], scorecard, decisions, columns } = model.manifest;
  const answers =
    task === 'regression'
      ? ['value']
      : [
          'prediction',
          'probability',
          ...(task === 'multiclass' ? classes.map((label) => `probability.${label}`) : []),
          ...(scorecard ? ['points'] : []),
          ...(decisions ? ['decision'] : []),
        ];
  const interpretation =
    c.interpretation === 'none' ? [] : ['base', ...columns.map(({ name }) => `effect.${name}`), 'reasons'];
  return { answers, interpretation };
}

/** Members that a prediction in JSON may have. */
export const MEMBERS = ['row', 'prediction', 'probability', 'probabilities', 'value', 'points', 'decision', 'interpretation', 'error']; // biome-ignore format: one line

/** Names that a passthrough column of this output may not have. */
export function reservedOf(c: Case, model: OracleModel): string[] {
  const keys = MEMBERS;
  if (c.output === 'json' || c.output === 'ndjson') return keys;
  const { answers, interpretation } = namesOf(c, model);
  const columns = ['row', ...answers, 'error_code', 'error_column', 'error_message', ...interpretation];
  // The reference path makes files of columns of lines of JSON.
  return decoderOverride() === 'reference' && c.entry !== 'http' && (c.output === 'parquet' || c.output === 'arrow')
    ? [...columns, ...keys]
    : columns;
}

const FORMULA = /^[=+\-@\t\r]/;
const PLAIN = /^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$/;
/** A cell that a spreadsheet would run is written as text. */
export const neutral = (text: string): string => (FORMULA.test(text) && !PLAIN.test(text) ? `'${text}` : text);

/** What is passed through as the text of a cell; null: nothing. */
export function textOfPassed(passed: Passed | undefined): string | null {
  if (!passed) return null;
  if ('text' in passed) return passed.text;
  if (passed.token === 'null') return null;
  return passed.token.startsWith('"') ? (JSON.parse(passed.token) as string) : passed.token;
}

/** The same as a token of JSON; undefined: the key is not there. */
function tokenOf(passed: Passed | undefined, isText: boolean): string | undefined {
  if (!passed) return isText ? 'null' : undefined;
  return 'text' in passed ? JSON.stringify(passed.text) : passed.token;
}

type Field = string | number | boolean | null;
type Row = Map<string, Field>;

export interface Checked {
  c: Case;
  model: OracleModel;
  expected: Verdict;
  outcome: Outcome;
  /** Effects of applications that were seen before: the same everywhere. */
  effects: Map<string, string>;
}

/** The differences; none: Sluice did what it promises. */
export async function differences(checked: Checked): Promise<string[]> {
  const { c, expected, outcome } = checked;
  if ('refused' in outcome) {
    if (outcome.left.length > 0) return [`refused with ${outcome.refused}, and left ${outcome.left.join(', ')}`];
    if ('refused' in expected && expected.refused.includes(outcome.refused)) return [];
    // An empty body may be refused by its own code instead of answered by nothing.
    if (
      c.entry === 'http' &&
      outcome.refused === 'empty_input' &&
      !('refused' in expected) &&
      expected.rows.length === 0
    )
      return [];
    const wanted = 'refused' in expected ? expected.refused.join(' or ') : 'predictions';
    return [`refused with ${outcome.refused} (${outcome.message.slice(0, 300)}) instead of ${wanted}`];
  }
  if ('refused' in expected) return [`accepted instead of ${expected.refused.join(' or ')}`];
  const found = isJson(c)
    ? await jsonDifferences(checked, outcome.bytes)
    : await tableDifferences(checked, outcome.bytes);
  return [...found, ...rejectsDifferences(checked, outcome)].slice(0, 8);
}

const isJson = ({ output }: Case) => output === 'json' || output === 'ndjson';
const isTextInput = ({ input }: Case) => input === 'csv' || input === 'tsv';

/** Columns that are passed through, in the order of the output. */
const passedNames = ({ expected }: Checked): string[] =>
  'refused' in expected || expected.passthrough === '*' ? [] : expected.passthrough;

async function tableRows(c: Case, bytes: Buffer): Promise<{ names: string[] | null; rows: Row[] }> {
  if (c.output === 'parquet') {
    const file = { byteLength: bytes.length, slice: (from: number, to?: number) => Uint8Array.from(bytes.subarray(from, to)).buffer }; // biome-ignore format: one line
    const rows = await parquetReadObjects({ file });
    return { names: null, rows: rows.map((row) => new Map(Object.entries(row) as [string, Field][])) };
  }
  if (c.output === 'arrow') {
    const table = tableFromIPC(new Uint8Array(bytes));
    const rows = Array.from({ length: table.numRows }, (_, r) => new Map(table.names.map((name) => [name, table.getChild(name).at(r) as Field]))); // biome-ignore format: one line
    return { names: [...table.names], rows };
  }
  const names = { comma: ',', semicolon: ';', pipe: '|' } as Record<string, string>;
  const alike = c.entry === 'library' || c.entry === 'http' ? delimiterOf({ ...c, input: 'csv' }) : names[outputDelimiter(c)]!; // biome-ignore format: one line
  const delimiter = c.output === 'tsv' ? '\t' : alike;
  const [header = [], ...records] = parse(bytes, { delimiter, relax_column_count: true }) as string[][];
  return {
    names: header,
    rows: records.map((fields) => new Map(header.map((name, i) => [name, fields[i] ?? '<missing>']))),
  };
}

/** What a table has for an answer, as text; the empty text: nothing. */
function answerText(answer: Answer, name: string): string | number | null {
  const { score, error, row } = answer;
  if (name === 'row') return row;
  if (name === 'error_code') return error?.code ?? null;
  if (name === 'error_column') return error?.column ?? null;
  if (!score) return null;
  if (name.startsWith('probability.')) return score.probabilities!.get(name.slice('probability.'.length))!;
  return (score as Record<string, string | number | undefined>)[name] ?? null;
}

const isSame = (found: Field | undefined, wanted: string | number | null, isText: boolean): boolean => {
  if (wanted === null) return found === null || (isText && found === '');
  if (typeof wanted === 'number') return isText ? found !== '' && Number(found) === wanted : found === wanted;
  return String(found) === wanted;
};

async function tableDifferences(checked: Checked, bytes: Buffer): Promise<string[]> {
  const { c, model, expected } = checked;
  if ('refused' in expected) return [];
  const { names, rows } = await tableRows(c, bytes);
  const { answers, interpretation } = namesOf(c, model);
  const passed = passedNames(checked);
  const isText = c.output === 'csv' || c.output === 'tsv';
  const header = [...passed, 'row', ...answers, 'error_code', 'error_column', 'error_message', ...interpretation];
  const shown = isText ? header.map(neutral) : header;
  const found: string[] = [];
  if (names && JSON.stringify(names) !== JSON.stringify(shown)) found.push(`columns ${names.join('|')} instead of ${shown.join('|')}`); // biome-ignore format: one line
  if (rows.length !== expected.rows.length) return [...found, `${rows.length} rows instead of ${expected.rows.length}`];
  for (const [i, answer] of expected.rows.entries()) {
    const row = rows[i]!;
    for (const name of passed) {
      const text = textOfPassed(answer.passed.get(name));
      const wanted = isText ? neutral(text ?? '') : (text?.toWellFormed() ?? null);
      const cell = row.get(isText ? neutral(name) : name);
      if (cell !== wanted) found.push(`row ${i + 1}: ${name} is ${JSON.stringify(cell)} instead of ${JSON.stringify(wanted)}`); // biome-ignore format: one line
    }
    for (const name of ['row', ...answers, 'error_code', 'error_column']) {
      const wanted = answerText(answer, name);
      if (!isSame(row.get(name), wanted, isText)) found.push(`row ${i + 1}: ${name} is ${String(row.get(name))} instead of ${wanted}`); // biome-ignore format: one line
    }
    if (interpretation.length > 0) {
      const cells = new Map(interpretation.map((name) => [name, row.get(name) ?? '']));
      found.push(...(await effectDifferences(checked, answer, cellsOfTable(cells))));
    }
  }
  return found;
}

interface Effects {
  base: number | null;
  effects: Map<string, number>;
}

function cellsOfTable(cells: Map<string, Field>): Effects {
  const effects = new Map<string, number>();
  for (const [name, cell] of cells) {
    if (name.startsWith('effect.') && cell !== '' && cell !== null) effects.set(name.slice(7), Number(cell));
  }
  const base = cells.get('base');
  return { base: base === '' || base === null || base === undefined ? null : Number(base), effects };
}

/** The laws of effects: they add up to the prediction, and are the same for the same application everywhere. */
async function effectDifferences(
  { c, model, effects: seen }: Checked,
  answer: Answer,
  found: Effects,
): Promise<string[]> {
  const { score, features, row } = answer;
  const isDue = score !== null && !(c.interpretation === 'below' && !(score.probability! < 0.6));
  if (!isDue) return found.base === null && found.effects.size === 0 ? [] : [`row ${row} has effects that are not due`];
  if (found.base === null) return [`row ${row} has no effects`];
  const columns = model.manifest.columns.map(({ name }) => name);
  const most = c.interpretation === 'top' ? 2 : columns.length;
  if (found.effects.size !== most) return [`row ${row} has ${found.effects.size} effects instead of ${most}`];
  const problems: string[] = [];
  if (most === columns.length) {
    const sum = columns.reduce((total, name) => total + found.effects.get(name)!, found.base);
    const margin = await model.margin(features!);
    if (Math.abs(sum - margin) > 1e-5 * Math.max(1, Math.abs(margin))) problems.push(`row ${row}: base and effects add up to ${sum}, the model says ${margin}`); // biome-ignore format: one line
  }
  const key = `${c.model} ${JSON.stringify(features!.map(String))}`;
  for (const [name, effect] of found.effects) {
    const known = seen.get(`${key} ${name}`);
    if (known === undefined) seen.set(`${key} ${name}`, String(effect));
    else if (known !== String(effect)) problems.push(`row ${row}: the effect of ${name} is ${effect}, and was ${known} elsewhere`); // biome-ignore format: one line
  }
  return problems;
}

interface Prediction {
  row: number;
  error?: { code: string; column?: string };
  interpretation?: { base: number; effects: { column: string; effect: number }[] };
  probabilities?: Record<string, number>;
  [key: string]: unknown;
}

/** Predictions with the tokens of their keys. */
function predictionsOf(c: Case, bytes: Buffer): { value: Prediction; tokens: Map<string, string> }[] {
  const text = bytes.toString('utf8');
  const lines = c.output === 'ndjson' ? text.split('\n').filter((line) => line !== '') : null;
  const objects = lines ?? elements(text);
  return objects.map((object) => ({ value: JSON.parse(object) as Prediction, tokens: tokensOf(object) }));
}

/** The texts of the predictions in an answer of JSON, whose summary has to fit. */
function elements(text: string): string[] {
  const whole = JSON.parse(text) as { predictions: Prediction[]; summary: Record<string, number> };
  const rejected = whole.predictions.filter((p) => p.error).length;
  const { rows, scored } = whole.summary;
  if (rows !== whole.predictions.length || whole.summary.rejected !== rejected || scored !== rows - rejected) {
    throw new Error(`the summary ${JSON.stringify(whole.summary)} is not that of ${whole.predictions.length} predictions, ${rejected} rejected`); // biome-ignore format: one line
  }
  const found: string[] = [];
  let [depth, quoted, from] = [0, false, -1];
  for (let at = text.indexOf('[', text.indexOf('"predictions"')) + 1; depth >= 0; at++) {
    const ch = text[at];
    if (quoted) {
      if (ch === '\\') at++;
      else if (ch === '"') quoted = false;
    } else if (ch === '"') quoted = true;
    else if (ch === '{' || ch === '[') {
      if (depth++ === 0) from = at;
    } else if (ch === '}' || ch === ']') {
      if (--depth === 0) found.push(text.slice(from, at + 1));
    }
  }
  return found;
}

/** Tokens of the members of an object: of nested ones their JSON without blanks. */
function tokensOf(text: string): Map<string, string> {
  const tokens = new Map<string, string>();
  JSON.parse(text, function (this: unknown, key: string, value: unknown, context?: { source?: string }) {
    if (context?.source !== undefined) Object.defineProperty(this as object, `\u0000${key}`, { value: context.source, enumerable: false }); // biome-ignore format: one line
    return value;
  });
  const value = JSON.parse(text, (_key, v: unknown, context?: { source?: string }) =>
    typeof v === 'number' ? { number: context!.source! } : v,
  ) as Record<string, unknown>;
  for (const [key, member] of Object.entries(value)) tokens.set(key, tokenText(member));
  return tokens;
}

const tokenText = (value: unknown): string =>
  typeof value === 'object' && value !== null && 'number' in value && Object.keys(value).length === 1
    ? String(value.number)
    : JSON.stringify(value, (_k, v: unknown) => (typeof v === 'object' && v !== null && 'number' in v ? Number((v as { number: string }).number) : v)); // biome-ignore format: one line

/** A token as it is compared: strings by their value, nested values by theirs. */
const canonical = (token: string): string => (/^["[{]/.test(token) ? JSON.stringify(JSON.parse(token)) : token);

async function jsonDifferences(checked: Checked, bytes: Buffer): Promise<string[]> {
  const { c, expected } = checked;
  if ('refused' in expected) return [];
  let predictions: ReturnType<typeof predictionsOf>;
  try {
    predictions = predictionsOf(c, bytes);
  } catch (error) {
    return [`the answer cannot be read: ${(error as Error).message}`];
  }
  if (predictions.length !== expected.rows.length)
    return [`${predictions.length} rows instead of ${expected.rows.length}`];
  const found: string[] = [];
  for (const [i, answer] of expected.rows.entries()) {
    const { value, tokens } = predictions[i]!;
    const { score, error } = answer;
    const own = score
      ? ['row', ...Object.keys(score).filter((key) => (score as Record<string, unknown>)[key] !== undefined)]
      : ['row', 'error'];
    const passed = new Map<string, string>();
    for (const name of expected.passthrough === '*' ? answer.passed.keys() : expected.passthrough) {
      const token = tokenOf(answer.passed.get(name), isTextInput(c));
      if (token !== undefined) passed.set(name, token);
    }
    const keys = [...tokens.keys()].filter((key) => key !== 'interpretation');
    const wanted = [...passed.keys(), ...own];
    const order = (names: string[]) => (c.passthrough === '*' || names.some((n) => /^\d+$/.test(n)) ? [...names].sort() : [...names.slice(0, passed.size), ...names.slice(passed.size).sort()]); // biome-ignore format: one line
    if (JSON.stringify(order(keys)) !== JSON.stringify(order(wanted))) {
      found.push(`row ${i + 1}: keys ${keys.join('|')} instead of ${wanted.join('|')}`);
      continue;
    }
    for (const [name, token] of passed) {
      if (canonical(tokens.get(name)!) !== canonical(token)) found.push(`row ${i + 1}: ${name} is ${tokens.get(name)} instead of ${token}`); // biome-ignore format: one line
    }
    if (value.row !== answer.row) found.push(`row ${i + 1} is called ${value.row}`);
    if (error && (value.error!.code !== error.code || (value.error!.column ?? null) !== error.column)) {
      found.push(`row ${i + 1}: error ${value.error!.code} of ${value.error!.column} instead of ${error.code} of ${error.column}`); // biome-ignore format: one line
    }
    for (const [key, wantedValue] of Object.entries(score ?? {})) {
      if (key === 'probabilities') {
        const mine = JSON.stringify(Object.entries(value.probabilities ?? {}));
        const theirs = JSON.stringify([...(wantedValue as Map<string, number>)]);
        if (mine !== theirs) found.push(`row ${i + 1}: probabilities ${mine} instead of ${theirs}`);
      } else if (wantedValue !== undefined && String(value[key]) !== String(wantedValue)) {
        found.push(`row ${i + 1}: ${key} is ${String(value[key])} instead of ${String(wantedValue)}`);
      }
    }
    if (c.interpretation !== 'none') {
      const { base = null, effects = [] } = value.interpretation ?? {};
      const named = new Map(effects.map((e) => [e.column, e.effect]));
      const sizes = effects.map((e) => Math.abs(e.effect));
      if (sizes.some((size, k) => k > 0 && size > sizes[k - 1]!)) found.push(`row ${i + 1}: effects are not in order`);
      found.push(...(await effectDifferences(checked, answer, { base, effects: named })));
    }
  }
  return found;
}

/** The rejects file has every rejected row, in order, under its own columns. */
function rejectsDifferences(
  checked: Checked,
  { rejects, exitCode }: { rejects: string | null; exitCode: number | null },
): string[] {
  const { c, expected } = checked;
  if ('refused' in expected || exitCode === null) return [];
  const rejected = expected.rows.filter(({ error }) => error !== null);
  const found: string[] = [];
  const wantedCode = rejected.length > 0 ? 3 : 0;
  if (exitCode !== wantedCode) found.push(`exit code ${exitCode} instead of ${wantedCode}`);
  const isLeft = rejected.length > 0 ? c.rejects || c.entry !== 'pipeline' : c.rejects;
  if ((rejects !== null) !== isLeft) return [...found, `a rejects file is ${rejects === null ? 'missing' : 'left'}`];
  if (rejects === null) return found;
  const passed = c.passthrough === '*' ? [] : c.passthrough;
  const [header, ...lines] = parse(rejects, { relax_column_count: true }) as string[][];
  const names = [
    'input',
    'row',
    'line',
    'byte_offset',
    ...passed.map(neutral),
    'error_code',
    'error_column',
    'error_message',
  ];
  if (JSON.stringify(header) !== JSON.stringify(names))
    return [...found, `rejects file has columns ${header!.join('|')}`];
  if (lines.length !== rejected.length) return [...found, `rejects file has ${lines.length} rows instead of ${rejected.length}`]; // biome-ignore format: one line
  for (const [i, answer] of rejected.entries()) {
    const cells = lines[i]!;
    const wanted = [String(answer.row), ...passed.map((name) => neutral(textOfPassed(answer.passed.get(name)) ?? '')), answer.error!.code, answer.error!.column ?? '']; // biome-ignore format: one line
    const mine = [cells[1], ...cells.slice(4, 4 + passed.length + 2)];
    if (JSON.stringify(mine) !== JSON.stringify(wanted)) found.push(`rejects file, row ${answer.row}: ${mine.join('|')} instead of ${wanted.join('|')}`); // biome-ignore format: one line
  }
  return found;
}
