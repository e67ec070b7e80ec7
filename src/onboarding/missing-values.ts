// Chooses the encoding of missing values: from the encoding file, else from the graph, else a default.
// Predictions, if available, decide among several encodings.

import { ownValue } from '../core/own-keys.ts';
import { numberText } from '../inference/encode/column-reader.ts';
import { encodeRows } from '../inference/encode/encode-rows.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { scoreRows } from '../inference/sandbox/sample-scorer.ts';
import {
  type ColumnRules,
  type Draft,
  type DraftColumn,
  type Expectation,
  type MissingChoice,
  manifestOf,
} from './draft.ts';
import { type MissingRule, ruleFor } from './encoding-file.ts';
import { rowDifference } from './expected.ts';
import { type Findings, plural } from './report-card.ts';
import { booleanWord, MISSING_WORDS, missingIn } from './training-table.ts';

/** Encodings of missing values that training code often uses for numbers. */
const NUMBERS: readonly MissingChoice[] = [
  { as: 'nan' },
  ...[0, -1, -999, -9999, 1].map((value): MissingChoice => ({ as: 'value', value })),
];
const WORDS = ['', 'missing', 'nan', 'None', 'NaN', 'NA', 'unknown', 'Unknown', 'UNKNOWN', 'MISSING', 'null', '<NA>'];

export function draftMissing(column: DraftColumn, { encoding, findings, problems }: ColumnRules): void {
  const rule = ruleFor(encoding.missing, column.spec.name);
  if (rule !== undefined) applyRule(column, rule, problems);
  else if (column.input.type === 'string') draftMissingText(column, findings);
  else draftMissingNumber(column);
}

/** Changes the encoding of missing values, and keeps the texts that mean a missing value. */
function setMissing({ spec }: DraftColumn, { values: _, ...choice }: MissingChoice): void {
  spec.missing = { values: spec.missing!.values!, ...choice };
}

/** Describes the encoding of missing values. */
export const choiceWords = ({ as, value }: MissingChoice): string =>
  as === undefined || as === 'nan' ? 'NaN' : JSON.stringify(value);

/** The encoding of missing values as a rule of an encoding file. */
export const ruleOf = ({ as, value }: MissingChoice): MissingRule =>
  as === 'error' ? 'error' : as === 'value' || as === 'category' ? value! : 'nan';

function applyRule(column: DraftColumn, rule: MissingRule, problems: string[]): void {
  const { codes, name } = column.spec;
  if (rule === 'error') setMissing(column, { as: 'error' });
  else if (rule === 'nan' && column.input.type !== 'string') setMissing(column, { as: 'nan' });
  else if (codes && typeof rule === 'string') {
    // A missing value is replaced by a category, so the model gets the code of this category.
    const code = ownValue(codes, rule) ?? ownValue(codes, numberText(rule));
    if (code !== undefined) setMissing(column, { as: 'value', value: code });
    else problems.push(`column ${name}: --encoding replaces missing values by ${rule}, which has no code`);
  } else setMissing(column, { as: 'value', value: rule });
}

function draftMissingText(column: DraftColumn, findings: Findings): void {
  const { profile, known } = column;
  const gaps = missingIn(profile) > 0;
  const spare = known?.values.filter((v) => !profile.distinct?.has(v)) ?? [];
  const marker = known?.marker;
  const shown = [
    ...(marker === undefined ? [] : [marker]),
    ...spare.filter((v) => MISSING_WORDS.has(v) || WORDS.includes(v)),
  ];
  const other = spare.filter((v) => booleanWord(v) === undefined);
  const words = [...new Set([...shown, ...(gaps ? other : []), ...WORDS])];
  column.choices = words.map((value) => ({ as: 'value', value }));
  // If an encoder fails on unknown categories, training must have passed it a known category for missing values. If
  // exactly one category does not occur in the rows, it is this category.
  const telling = gaps && other.length === 1;
  if (known?.unseen === 'error' && shown.length === 0 && !telling) {
    setMissing(column, { as: 'error' });
    return;
  }
  setMissing(column, column.choices[0]!);
  if (gaps && known) reportMissingText(column, words[0]!, findings);
}

function reportMissingText({ spec, known }: DraftColumn, word: string, findings: Findings): void {
  const becomes = `missing becomes ${JSON.stringify(word)}`;
  if (word === known!.marker) findings.info(`${becomes}, which the model itself replaces.`, spec.name);
  else if (known!.values.includes(word)) findings.info(`${becomes}, a category that the model knows.`, spec.name);
  else findings.assumed(`${becomes}, which the model treats like an unknown category`, spec.name);
}

function draftMissingNumber(column: DraftColumn): void {
  const { type } = column.input;
  const floats = type === 'float32' || type === 'float64';
  column.choices = floats ? [...NUMBERS] : NUMBERS.filter((c) => c.as !== 'nan');
  if (type === 'bool') column.choices = [false, true].map((value) => ({ as: 'value', value }));
  column.open = true;
  setMissing(column, floats ? { as: 'nan' } : { as: 'error' });
}

/**
 * Number of passes over the columns. Columns influence each other, so the second pass uses the choices of the first
 * pass.
 */
const PASSES = 2;
/** Maximum number of rows with a missing value on which choices are compared. */
const TRIED_ROWS = 300;

/** A column with missing values in the tested rows and several possible encodings. */
interface Undecided {
  readonly column: DraftColumn;
  readonly before: MissingChoice;
  /** Tested rows in which the column is missing. */
  readonly gaps: readonly number[];
  readonly choices: readonly MissingChoice[];
}

/**
 * Tries the encodings column by column, and applies an encoding if it reproduces the predictions. All other columns
 * stay unchanged.
 */
export async function resolveMissing(draft: Draft): Promise<void> {
  const { test } = draft;
  if (!test) return;
  const undecided = undecidedColumns(draft.columns, test);
  if (undecided.length === 0) return;
  const all = test.rows.map((_, i) => i);
  if ((await misfit(draft, test, all)) === 0) return;
  for (const { column } of undecided) if (column.spec.missing!.as === 'error') setMissing(column, column.choices[0]!);
  for (let pass = 0; pass < PASSES; pass++)
    for (const u of undecided) await takeBest(u, (rows) => misfit(draft, test, rows));
  for (const { column, before, gaps } of undecided) {
    if ((await misfit(draft, test, gaps)) > 0) column.spec.missing = before;
    else {
      column.open = false;
      const now = column.spec.missing!;
      if (now.as === before.as && now.value === before.value) continue;
      draft.findings.info(
        `missing values become ${now.as === 'nan' ? 'NaN' : JSON.stringify(now.value)}, because this reproduces the given predictions.`,
        column.spec.name,
      );
    }
  }
}

/** Reports the columns that reject missing values because their training encoding is unknown. */
export function reportUnresolved({ columns, findings }: Draft): void {
  for (const { spec, open, profile } of columns) {
    if (spec.missing?.as !== 'error' || !open) continue;
    const gaps = missingIn(profile);
    const text = `the model does not accept missing values, and their replacement in training is unknown: applications with missing values are rejected (set "missing" in --encoding)`;
    if (gaps > 0) findings.warn(`${text}; ${plural(gaps, 'training row')} would be rejected`, spec.name);
    else findings.assumed(text, spec.name);
  }
}

function undecidedColumns(columns: readonly DraftColumn[], test: Expectation): Undecided[] {
  return columns.flatMap((column, i) => {
    const before = column.spec.missing!;
    const field = test.fields[i]!;
    const gaps = test.rows.map((_, r) => r).filter((r) => before.values!.includes(test.rows[r]![field]!));
    if (column.choices.length < 2 || gaps.length === 0) return [];
    return [{ column, before, gaps, choices: [...column.choices, ...typical(column, test, field)] }];
  });
}

async function takeBest(
  { column, gaps, choices }: Undecided,
  misfitOf: (rows: readonly number[]) => Promise<number>,
): Promise<void> {
  const rows = gaps.slice(0, TRIED_ROWS);
  let best = { choice: column.spec.missing!, sum: await misfitOf(rows) };
  for (const choice of choices) {
    if (best.sum === 0) break;
    setMissing(column, choice);
    const sum = await misfitOf(rows);
    if (sum < best.sum) best = { choice, sum };
  }
  setMissing(column, best.choice);
}

/**
 * Difference between the scores of the draft and the predictions for some rows: the sum of the differences above the
 * tolerance, each limited to 1.
 */
async function misfit(draft: Draft, test: Expectation, rows: readonly number[]): Promise<number> {
  const manifest = manifestOf(draft);
  const encoded = encodeRows(
    manifest,
    rows.map((r) => test.rows[r]!),
    test.fields,
  );
  if (encoded.rejected.size === encoded.rows) return rows.length;
  const scores = await scoreRows(draft.probe, manifest, encoded);
  const differenceAt = rowDifference(new Interpreter(manifest), scores, test.expected);
  let sum = 0;
  rows.forEach((r, i) => {
    const d = encoded.rejected.has(i) ? 1 : differenceAt(i, test.rowOf[r]!);
    if (d !== null && !(d <= draft.tolerance)) sum += Number.isNaN(d) ? 1 : Math.min(1, d);
  });
  return sum;
}

/** Values that imputers use: median and mean of a number column, and the most frequent text of any other column. */
function typical({ spec, input, profile }: DraftColumn, test: Expectation, field: number): MissingChoice[] {
  const words = new Set(spec.missing!.values);
  if (input.type === 'bool') return [];
  if (spec.kind !== 'number') {
    const top = [...(profile.distinct ?? [])].sort((a, b) => b[1] - a[1])[0]?.[0];
    return top === undefined || spec.kind !== 'category' || spec.codes ? [] : [{ as: 'value', value: top }];
  }
  const numbers = test.rows.flatMap((r) => (words.has(r[field]!) ? [] : [Number(r[field])])).sort((a, b) => a - b);
  if (numbers.length === 0) return [];
  const middle = numbers.length >> 1;
  const median = numbers.length % 2 ? numbers[middle]! : (numbers[middle - 1]! + numbers[middle]!) / 2;
  const mean = numbers.reduce((a, b) => a + b, 0) / numbers.length;
  return [median, mean].map((value): MissingChoice => ({ as: 'value', value }));
}
