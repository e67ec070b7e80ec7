// Finds the rules for reading the texts of a file: spaces around values, texts for missing values, and the notation of numbers.

import { type NumberNotation, withoutBlanks } from '../core/input-declaration.ts';
import { ownValue } from '../core/own-keys.ts';
import {
  type ColumnReader,
  isMissingWord,
  isPartOfNotation,
  LOCAL_NOTATIONS,
  numberIn,
  PLAIN_NOTATION,
} from '../inference/encode/column-reader.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { BY_DECLARATION, type Guess } from './inspection.ts';
import { trainingFit } from './training-fit.ts';

/** The texts of a model column. The reader was created without declarations. */
export interface ColumnTexts {
  reader: ColumnReader;
  texts: readonly string[];
}

/** A possible notation of the numbers, and an example of a number in it. */
export interface Reading {
  notation: NumberNotation;
  meaning: string;
}

export interface MissingWord {
  text: string;
  count: number;
  columns: string[];
}

export interface FoundTextRules {
  trim: boolean;
  missingWords: MissingWord[];
  /** Words that may mean a missing value, but may also be values of a text column. */
  doubtfulWords: MissingWord[];
  /** Words for missing values that cannot be declared, because they are a known category of another column. */
  takenWords: MissingWord[];
  /** Numbers outside the range of the training data that occur so often that they may mean a missing value. */
  sentinels: MissingWord[];
  notation: Guess<NumberNotation>;
  /** Possible notations, if the file does not decide between them; empty: `notation` is certain. */
  readings: Reading[];
}

/**
 * Minimum fraction of texts with surrounding spaces for a text column to be padded. Below it, the spaces belong to the
 * values.
 */
const PADDED = 0.5;
/** Minimum fraction of the values of a column for a number outside the range of the training data to be a sentinel. */
const SENTINEL_SHARE = 0.005;
const FEWEST_SENTINELS = 2;
/** Matches numbers that programs write instead of missing values. */
const SENTINELS = /^-?9{3,10}(?:\.0{1,4})?$/;
/** Words that mean a missing value in any column. */
const CLEAR_WORDS = new Set(['null', '(null)', '\\n', 'n/a', '#n/a', '<na>', 'nan']);
/** Minimum fraction of texts that must be numbers in some notation for a column to show the notation of the file. */
const LOOKS_NUMERIC = 0.95;
/** Maximum number of columns that a reason names. */
const MOST_NAMED = 3;
/**
 * Minimum difference for one notation to be better: in the fraction of values within the range of the training data,
 * and (`CLEARLY_NEARER`) in the PSI.
 */
const CLEARLY_INSIDE = 0.5;
const CLEARLY_NEARER = 1;

/** Declared text rules; undefined: the rule must be found. */
export interface KnownTexts {
  decimal?: NumberNotation['decimal'] | undefined;
  thousands?: NumberNotation['thousands'] | undefined;
  trim?: boolean | undefined;
  null_values?: readonly string[] | undefined;
}

/** The texts of an input column that is not assigned to a model column. */
export interface SpareTexts {
  name: string;
  texts: readonly string[];
}

/**
 * Finds the text rules of a file. `columns`: the matched columns. `spare`: all other columns, which show the notation
 * of numbers too.
 */
export function findTextRules(
  columns: readonly ColumnTexts[],
  spare: readonly SpareTexts[],
  manifest: Manifest,
  known: KnownTexts,
): FoundTextRules {
  const trim = known.trim === true || columns.some(needsTrim);
  const declaredWords = new Set(known.null_values);
  const read = columns.map(({ reader, texts }) => ({
    reader,
    texts: (trim ? texts.map(withoutBlanks) : texts).filter((text) => !declaredWords.has(text)),
  }));
  const words = findMissingWords(read);
  const silent = new Set([...words.missingWords, ...words.doubtfulWords, ...words.takenWords].map(({ text }) => text));
  const numbers = read.flatMap(({ reader, texts }) => {
    if (reader.kind !== 'number') return [];
    return [{ reader, texts: texts.filter((text) => !reader.missingTexts.has(text) && !silent.has(text)) }];
  });
  const notation = findNotation(numbers, spare, manifest, known);
  return { trim, ...words, sentinels: findSentinels(numbers, manifest), ...notation };
}

function needsTrim({ reader, texts }: ColumnTexts): boolean {
  const padded = texts.filter((text) => withoutBlanks(text) !== text);
  if (reader.kind === 'text') {
    const plain = new Set(texts);
    return (
      padded.length > 0 &&
      (padded.length >= PADDED * texts.length || padded.some((text) => plain.has(withoutBlanks(text))))
    );
  }
  return padded.some((text) => !reader.codes.has(text));
}

/** Whether the column accepts the text as a value. */
function isValue({ kind, codes }: ColumnReader, text: string): boolean {
  if (kind === 'number') return !Number.isNaN(numberIn(text, PLAIN_NOTATION));
  return kind !== 'text' && codes.has(text);
}

type FoundWords = Pick<FoundTextRules, 'missingWords' | 'doubtfulWords' | 'takenWords'>;

function findMissingWords(columns: readonly ColumnTexts[]): FoundWords {
  const found = new Map<string, MissingWord & { clear: boolean }>();
  for (const { reader, texts } of columns) {
    for (const text of texts) {
      if (!isMissingWord(text) || reader.missingTexts.has(text) || isValue(reader, text)) continue;
      const word = found.get(text) ?? { text, count: 0, columns: [], clear: CLEAR_WORDS.has(text.toLowerCase()) };
      word.count++;
      if (!word.columns.includes(reader.name)) word.columns.push(reader.name);
      if (reader.kind !== 'text') word.clear = true;
      found.set(text, word);
    }
  }
  const isTaken = (text: string) =>
    columns.some(({ reader }) => reader.codes.has(text) && !reader.missingTexts.has(text));
  const all = [...found.values()].map(({ clear, ...word }) => ({ word, clear, taken: isTaken(word.text) }));
  const of = (test: (entry: (typeof all)[number]) => boolean) => all.filter(test).map(({ word }) => word);
  return {
    missingWords: of(({ clear, taken }) => clear && !taken),
    doubtfulWords: of(({ clear, taken }) => !clear && !taken),
    takenWords: of(({ taken }) => taken),
  };
}

function findSentinels(columns: readonly ColumnTexts[], manifest: Manifest): MissingWord[] {
  const found = new Map<string, MissingWord>();
  for (const { reader, texts } of columns) {
    const counts = Map.groupBy(
      texts.filter((text) => SENTINELS.test(text)),
      (text) => text,
    );
    for (const [text, { length: count }] of counts) {
      if (count < Math.max(FEWEST_SENTINELS, SENTINEL_SHARE * texts.length)) continue;
      const value = numberIn(text, PLAIN_NOTATION);
      const { min, max } = ownValue(manifest.baseline?.columns, reader.name) ?? {};
      // If the package does not describe the training data, only negative numbers are treated as sentinels.
      const isOutside = min !== undefined && max !== undefined ? value < min || value > max : value < 0;
      if (!isOutside) continue;
      const word = found.get(text) ?? { text, count: 0, columns: [] };
      word.count += count;
      word.columns.push(reader.name);
      found.set(text, word);
    }
  }
  return [...found.values()];
}

const isReadable = (text: string, notation: NumberNotation): boolean => !Number.isNaN(numberIn(text, notation));
/** Whether the number starts with a zero. Its separator is then a decimal separator: 0.123 is a fraction. */
const startsWithZero = (text: string): boolean => /^[+-]?0\d{0,2}[.,'\u2019 \u00a0\u202f]\d/.test(text);

type FoundNotation = Pick<FoundTextRules, 'notation' | 'readings'>;

const NOTATIONS = [PLAIN_NOTATION, ...LOCAL_NOTATIONS];
/** Whether a text has only digits, so that it is the same number in every notation and does not show the notation. */
const isUnmarked = (text: string): boolean => /^[+-]?\d*$/.test(text);

/** The columns whose texts are mostly numbers. Only these numbers are returned as texts. */
export function numericColumns(columns: readonly SpareTexts[]): SpareTexts[] {
  return columns.flatMap(({ name, texts: all }) => {
    const texts = all.map(withoutBlanks).filter((text) => text !== '' && !isMissingWord(text));
    const numbers = texts.filter((text) => NOTATIONS.some((notation) => isReadable(text, notation)));
    return numbers.length > 0 && numbers.length >= LOOKS_NUMERIC * texts.length ? [{ name, texts: numbers }] : [];
  });
}

function findNotation(
  columns: readonly ColumnTexts[],
  spare: readonly SpareTexts[],
  manifest: Manifest,
  { decimal, thousands }: KnownTexts,
): FoundNotation {
  const notations = NOTATIONS.filter(
    (notation) =>
      (decimal === undefined || notation.decimal === decimal) &&
      (thousands === undefined || notation.thousands === thousands),
  );
  if (notations.length === 1) {
    return { notation: { value: notations[0]!, confidence: 'high', reason: BY_DECLARATION }, readings: [] };
  }
  const known = columns.flatMap(({ texts }) => texts);
  const judge = (texts: readonly string[]) => notationOf(texts, notations, columns, manifest);
  if (!known.every(isUnmarked)) return judge(known);
  const marked = numericColumns(spare).filter(({ texts }) => !texts.every(isUnmarked));
  if (marked.length === 0 && known.length > 0) return judge(known);
  const missing =
    columns.length === 0
      ? 'no number column of the model is known yet'
      : known.length === 0
        ? 'the known number columns have no values'
        : 'the known number columns have whole numbers without separators';
  if (marked.length === 0) {
    return { notation: { value: notations[0]!, confidence: 'low', reason: `${missing}: not checked` }, readings: [] };
  }
  const { notation, readings } = judge([...known, ...marked.flatMap(({ texts }) => texts)]);
  const names = marked.slice(0, MOST_NAMED).map(({ name }) => name);
  const { value, confidence, reason } = notation;
  const appearance = readings.length > 0 ? `are ambiguous: ${reason}` : `look like ${notationText(value)}`;
  return {
    notation: {
      value,
      confidence: confidence === 'high' ? 'medium' : confidence,
      reason: `${missing}; columns such as ${names.join(', ')} ${appearance}`,
    },
    readings,
  };
}

export const notationText = ({ decimal, thousands }: NumberNotation): string =>
  `decimal ${decimal}, ${thousands === null ? 'no thousands separator' : `thousands ${thousands}`}`;

function notationOf(
  texts: readonly string[],
  notations: readonly NumberNotation[],
  columns: readonly ColumnTexts[],
  manifest: Manifest,
): FoundNotation {
  const distinct = [...new Set(texts)];
  const counts = notations.map((notation) => ({
    notation,
    read: distinct.filter((text) => isReadable(text, notation)),
  }));
  const most = Math.max(...counts.map(({ read }) => read.length));
  const best = counts.filter(({ read }) => read.length === most);
  const candidates = best.filter(({ notation, read }) => !best.some((other) => isSimpler(other, { notation, read })));
  const plausible = candidates.filter(
    ({ notation, read }) =>
      notation.thousands === null || !read.some((text) => isGrouped(text, notation) && startsWithZero(text)),
  );
  const left = plausible.length > 0 ? plausible : candidates;
  const share = most / distinct.length;
  const [first] = left;
  if (left.length === 1) return { notation: decided(first!.notation, share), readings: [] };
  return judged(
    left.map(({ notation }) => notation),
    columns,
    distinct,
    manifest,
  );
}

function decided(notation: NumberNotation, share: number): Guess<NumberNotation> {
  const reason =
    share === 1
      ? 'it reads all numbers'
      : `it reads ${(100 * share).toFixed(1)} % of the different texts in number columns`;
  return { value: notation, confidence: share === 1 ? 'high' : share > 0.9 ? 'medium' : 'low', reason };
}

interface Candidate {
  notation: NumberNotation;
  read: readonly string[];
}

/** Whether notation `a` reads all texts of `b` as the same numbers, and needs fewer declarations. */
const isSimpler = (a: Candidate, b: Candidate): boolean =>
  isPartOfNotation(a.notation, b.notation) &&
  b.read.every((text) => numberIn(text, a.notation) === numberIn(text, b.notation));

const isGrouped = (text: string, { decimal }: NumberNotation): boolean =>
  Number.isNaN(numberIn(text, { decimal, thousands: null }));

/** Chooses between possible notations by the training data, if one of them fits clearly better. */
function judged(
  notations: readonly NumberNotation[],
  columns: readonly ColumnTexts[],
  distinct: readonly string[],
  manifest: Manifest,
): FoundNotation {
  const differs = (text: string) => new Set(notations.map((notation) => numberIn(text, notation))).size > 1;
  const example = distinct.find(differs)!;
  const affected = columns.flatMap(({ reader, texts }) => {
    const different = texts.filter(differs);
    return different.length === 0 ? [] : [{ reader, texts, different }];
  });
  const scored = notations
    .map((notation) => ({ notation, ...fitOf(notation, affected, manifest) }))
    .toSorted((a, b) => (b.inside ?? 0) - (a.inside ?? 0) || (a.psi ?? 0) - (b.psi ?? 0));
  const [best, second] = [scored[0]!, scored[1]!];
  const isInside = best.inside !== null && second.inside !== null && best.inside - second.inside >= CLEARLY_INSIDE;
  const isNearer =
    best.psi !== null && second.psi !== null && second.psi - best.psi >= CLEARLY_NEARER && best.psi < CLEARLY_NEARER;
  const meaningOf = (notation: NumberNotation) => `${example} means ${numberIn(example, notation)}`;
  if (isInside || isNearer) {
    const reason = `${meaningOf(best.notation)}: only then do the numbers fit the training data`;
    return { notation: { value: best.notation, confidence: 'medium', reason }, readings: [] };
  }
  const reason = `${scored.map(({ notation }) => meaningOf(notation)).join(', or ')}: neither the file nor the training data decides`;
  return {
    notation: { value: best.notation, confidence: 'low', reason },
    readings: scored.map(({ notation }) => ({ notation, meaning: meaningOf(notation) })),
  };
}

function fitOf(
  notation: NumberNotation,
  columns: readonly { reader: ColumnReader; texts: readonly string[]; different: readonly string[] }[],
  manifest: Manifest,
): { inside: number | null; psi: number | null } {
  const numbers = (texts: readonly string[]) =>
    texts.map((text) => numberIn(text, notation)).filter((n) => !Number.isNaN(n));
  const insides: number[] = [];
  const distances: number[] = [];
  for (const { reader, texts, different } of columns) {
    // Only ambiguous values are checked against the range of the training data. The distribution is computed from all
    // values.
    const { inside } = trainingFit(manifest, reader, numbers(different));
    const { psi } = trainingFit(manifest, reader, numbers(texts));
    if (inside !== null) insides.push(inside);
    if (psi !== null) distances.push(psi);
  }
  return { inside: mean(insides), psi: mean(distances) };
}

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length;
