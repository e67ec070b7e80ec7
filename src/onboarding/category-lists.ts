// Assigns the category lists of a LightGBM file, which does not name their columns. A list may belong to a number of the
// model (an ordered pandas category), and a category of the model may have no list (`categorical_feature`).
import type { Booster, BoosterFeature, CategoryList } from '../inference/boosters/booster.ts';
import { numberText } from '../inference/encode/column-reader.ts';
import type { EncodingFile } from './encoding-file.ts';
import { plural, refusal } from './report-card.ts';
import { booleanWord, type ColumnProfile, type TrainingTable, valuesIn } from './training-table.ts';

export interface AssignedList {
  list: CategoryList;
  column: string;
}

export interface ListAssignment {
  assigned: AssignedList[];
  /** Columns of numbers that may have a list as well; the list would give the same numbers to all training values. */
  alsoPossible: string[];
}

/** Precision of feature ranges in the file, because a column may have been float32. */
const RANGE_TOLERANCE = 1e-6;

/** The option that a column has no list. The other options are indexes of lists. */
const NO_LIST = -1;

/** @throws SluiceError registration_refused if no assignment is possible, or assignments differ in their codes */
export function assignLists(
  booster: Booster,
  columns: readonly string[],
  table: TrainingTable,
  given: EncodingFile,
): ListAssignment {
  const lists = booster.categories;
  if (lists.every((l) => l.feature !== null))
    return { assigned: lists.map((list) => ({ list, column: columns[list.feature!]! })), alsoPossible: [] };
  const candidates = new Candidates(booster, columns, table, given);
  const attempts: readonly Strictness[] = [{ pinned: true }, {}, { pinned: true, relaxed: true }];
  const solved = attempts.reduce<Solution | null>(
    (found, strictness) => found ?? solve(columns.length, lists.length, candidates.options(strictness)),
    null,
  );
  // If the user declares as many columns as there are lists, none of the lists is needed.
  const declared = columns.filter((c) => Object.hasOwn(given.codes, c)).length >= lists.length;
  if (declared && !solved?.possible.every((options, at) => candidates.agree(at, options)))
    return { assigned: [], alsoPossible: [] };
  const refuse = (reason: string) =>
    refusal(
      `the model file has ${plural(lists.length, 'list')} of pandas categories, but ${reason}: declare the codes in --encoding, {"codes": {"column": {"category": 0, …}}}`,
    );
  if (!solved) throw refuse('no columns of the training table match them');
  const open = columns.filter((_, at) => solved.possible[at]!.size > 1);
  if (!solved.possible.every((options, at) => candidates.agree(at, options)))
    throw refuse(`several columns match them (${open.join(', ')})`);
  const listed = new Set(solved.lists.map((at) => columns[at]!));
  return {
    assigned: solved.lists.map((at, k) => ({ list: lists[k]!, column: columns[at]! })),
    alsoPossible: open.filter((column) => !listed.has(column) && candidates.isUsed(columns.indexOf(column))),
  };
}

interface Strictness {
  /** Declared codes that are those of a list assign this list. */
  pinned?: boolean;
  /** A column of texts may have values without a code, because the model may have been trained on a part of the table. */
  relaxed?: boolean;
}

/** The cost of an option for a column; Infinity: impossible. */
type Cost = (column: number, option: number) => number;

interface Solution {
  /** The column of each list, in an assignment with the lowest costs. */
  lists: number[];
  /** For each column, the options that occur in any assignment. */
  possible: Set<number>[];
}

/** All assignments of lists to columns that keep the order of both; null: there is none. */
function solve(columns: number, lists: number, cost: Cost): Solution | null {
  const width = lists + 1;
  const sums = () => new Float64Array((columns + 1) * width).fill(Infinity);
  // The lowest cost of the columns before (after) a column, if a number of lists belongs to them.
  const [before, after] = [sums(), sums()];
  before[0] = 0;
  after[columns * width + lists] = 0;
  const at = (column: number, used: number): number => column * width + used;
  for (let c = 0; c < columns; c++)
    for (let k = 0; k <= lists; k++) {
      const sum = before[at(c, k)]!;
      if (sum === Infinity) continue;
      before[at(c + 1, k)] = Math.min(before[at(c + 1, k)]!, sum + cost(c, NO_LIST));
      if (k < lists) before[at(c + 1, k + 1)] = Math.min(before[at(c + 1, k + 1)]!, sum + cost(c, k));
    }
  if (before[at(columns, lists)] === Infinity) return null;
  for (let c = columns - 1; c >= 0; c--)
    for (let k = 0; k <= lists; k++) {
      if (before[at(c, k)] === Infinity) continue;
      const listed = k < lists ? after[at(c + 1, k + 1)]! + cost(c, k) : Infinity;
      after[at(c, k)] = Math.min(after[at(c + 1, k)]! + cost(c, NO_LIST), listed);
    }
  const possible = Array.from({ length: columns }, () => new Set<number>());
  for (let c = 0; c < columns; c++)
    for (let k = 0; k <= lists; k++) {
      if (before[at(c, k)] === Infinity) continue;
      if (after[at(c + 1, k)]! + cost(c, NO_LIST) < Infinity) possible[c]!.add(NO_LIST);
      if (k < lists && after[at(c + 1, k + 1)]! + cost(c, k) < Infinity) possible[c]!.add(k);
    }
  const chosen: number[] = [];
  for (let c = 0; c < columns; c++) {
    const k = chosen.length;
    if (k < lists && after[at(c, k)] === after[at(c + 1, k + 1)]! + cost(c, k)) chosen.push(c);
  }
  return { lists: chosen, possible };
}

/** The numbers that a column would have in the training table. */
interface Encoded {
  has: (code: number) => boolean;
  values: readonly number[];
  min: number;
  max: number;
}

/** Tests which lists a column can have, by the training table and by what the model file has about the column. */
class Candidates {
  readonly #features: readonly BoosterFeature[];
  readonly #lists: readonly { values: readonly string[]; codes: ReadonlyMap<string, number>; key: string }[];
  readonly #columns: readonly string[];
  readonly #profiles: readonly ColumnProfile[];
  /** The distinct values of each column; none if they are too many. */
  readonly #cells: readonly (readonly string[])[];
  readonly #given: EncodingFile;
  readonly #split: Set<number>;

  constructor(
    { features, categories, trees }: Booster,
    columns: readonly string[],
    table: TrainingTable,
    given: EncodingFile,
  ) {
    this.#features = features;
    this.#lists = categories.map(({ values }) => ({
      values: values!,
      codes: new Map(values!.map((v, i) => [v, i])),
      key: JSON.stringify(values),
    }));
    this.#columns = columns;
    this.#profiles = columns.map((c) => table.profiles.get(c)!);
    this.#cells = this.#profiles.map(({ distinct }) => [...(distinct?.keys() ?? [])]);
    this.#given = given;
    this.#split = new Set();
    for (const { feature } of trees) for (const column of feature) this.#split.add(column);
  }

  options(strictness: Strictness): Cost {
    const width = this.#lists.length + 1;
    const costs = new Float64Array(this.#columns.length * width).fill(Number.NaN);
    return (column, option) => {
      const at = column * width + option - NO_LIST;
      if (Number.isNaN(costs[at]!)) {
        // In most models, the columns with a list are those that the model splits by categories.
        const isUsual = (option !== NO_LIST) === this.#features[column]!.categorical;
        costs[at] = !this.#isPossible(column, option, strictness) ? Infinity : isUsual ? 0 : 1;
      }
      return costs[at]!;
    };
  }

  /** Whether all options give the same numbers to the values of the training table. */
  agree(column: number, options: ReadonlySet<number>): boolean {
    if (options.size < 2 || !this.isUsed(column)) return true;
    const keys = new Set([...options].map((k) => (k === NO_LIST ? '' : this.#lists[k]!.key)));
    if (keys.size === 1) return true;
    return this.#cells[column]!.every(
      (cell) => new Set([...options].map((k) => this.#number(column, k, cell))).size === 1,
    );
  }

  /** Whether the codes of the column affect predictions and are not declared. */
  isUsed = (column: number): boolean =>
    this.#split.has(column) && !Object.hasOwn(this.#given.codes, this.#columns[column]!);

  #isPossible(column: number, option: number, { pinned = false, relaxed = false }: Strictness): boolean {
    const name = this.#columns[column]!;
    if (Object.hasOwn(this.#given.codes, name)) {
      const declared = Object.entries(this.#given.codes[name]!);
      const isDeclared = (k: number): boolean =>
        declared.some(([text, code]) => this.#code(k, text) === code) &&
        declared.every(([text, code]) => (this.#code(k, text) ?? code) === code);
      if (!pinned || !this.#lists.some((_, k) => isDeclared(k))) return true;
      return option !== NO_LIST && isDeclared(option);
    }
    const profile = this.#profiles[column]!;
    const { seen } = this.#features[column]!;
    if (option === NO_LIST) {
      if (profile.texts + profile.grouped > 0) return false;
      return (
        !seen || profile.booleans > 0 || !this.#resemblesList(column) || matches(seen, this.#encoded(column, option))
      );
    }
    const cells = this.#cells[column]!;
    const isListed = (cell: string): boolean => this.#code(option, cell) !== undefined;
    const isCovered =
      relaxed && profile.texts > 0 ? 2 * cells.filter(isListed).length >= cells.length : cells.every(isListed);
    if (profile.distinct === null || !isCovered) return false;
    if (!seen) return true;
    const { length } = this.#lists[option]!.values;
    if ('codes' in seen ? seen.codes.some((c) => c >= length) : !(seen.min >= -1 && seen.max < length)) return false;
    return profile.numbers < valuesIn(profile) || matches(seen, this.#encoded(column, option));
  }

  /** Whether a column of numbers has mostly values of some list. In such columns, numbers may be codes or values. */
  #resemblesList(column: number): boolean {
    const cells = this.#cells[column]!;
    return this.#lists.some(
      ({ values }, k) =>
        2 * values.length >= cells.length &&
        2 * cells.filter((cell) => this.#code(k, cell) !== undefined).length >= Math.max(1, cells.length),
    );
  }

  /** The code of a training value in a list. */
  #code(list: number, cell: string): number | undefined {
    const { codes } = this.#lists[list]!;
    const value = booleanWord(cell);
    return (
      codes.get(cell) ??
      codes.get(numberText(cell)) ??
      (value === undefined ? undefined : codes.get(value ? 'True' : 'False'))
    );
  }

  #number(column: number, option: number, cell: string): number | undefined {
    const value = booleanWord(cell);
    const number = option !== NO_LIST ? this.#code(option, cell) : value === undefined ? Number(cell) : Number(value);
    // LightGBM truncates the values of categories.
    return number !== undefined && this.#features[column]!.categorical ? Math.trunc(number) : number;
  }

  #encoded(column: number, option: number): Encoded {
    const values = this.#cells[column]!.flatMap((cell) => this.#number(column, option, cell) ?? []).filter(
      (v) => !Number.isNaN(v),
    );
    const known = new Set(values);
    const min = values.reduce((a, b) => Math.min(a, b), Infinity);
    const max = values.reduce((a, b) => Math.max(a, b), -Infinity);
    return { has: (code) => known.has(code), values, min, max };
  }
}

/**
 * Whether the model can have been trained on these numbers. The table may contain more rows than the training data,
 * such as rows for validation, or fewer rows.
 */
function matches(seen: NonNullable<BoosterFeature['seen']>, encoded: Encoded): boolean {
  if (encoded.values.length === 0) return true;
  if ('codes' in seen) {
    const codes = new Set(seen.codes);
    // The code -1 is a missing value.
    return (
      seen.codes.every((code) => code < 0 || encoded.has(code)) || encoded.values.every((v) => v < 0 || codes.has(v))
    );
  }
  const near = (a: number, b: number): boolean => Math.abs(a - b) <= RANGE_TOLERANCE * Math.max(1, Math.abs(b));
  const within = (a: { min: number; max: number }, b: { min: number; max: number }): boolean =>
    (a.min >= b.min || near(a.min, b.min)) && (a.max <= b.max || near(a.max, b.max));
  return within(seen, encoded) || within(encoded, seen);
}
