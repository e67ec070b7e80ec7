// Reads the encoding (order of columns, codes, missing values) from the model file of a training library.
// For other models, `--encoding` must state it.
import type { Booster, CategoryList } from '../inference/boosters/booster.ts';
import { catBoostHash } from '../inference/boosters/city-hash.ts';
import { type EncodingFile, NO_ENCODING } from './encoding-file.ts';
import { type Findings, plural, refusal } from './report-card.ts';
import { booleanWord, missingIn, type TrainingTable } from './training-table.ts';

/** Normalizes a name, because exporters replace spaces and punctuation in names. */
const simplified = (name: string): string => name.replace(/[^\p{L}\p{N}]+/gu, '_').toLowerCase();

/**
 * The encoding of a booster: the statements of the user, completed from the model file. A statement of the user has
 * priority.
 * @throws SluiceError registration_refused if the table lacks columns of the model, or categories cannot be assigned to
 * columns
 */
export function boosterEncoding(
  booster: Booster,
  table: TrainingTable,
  given: EncodingFile = NO_ENCODING,
  findings: Findings,
): EncodingFile {
  const columns = columnsOf(booster, table, given);
  if (columns === null) return given;
  const encoding = {
    ...given,
    order: columns,
    codes: { ...given.codes },
    missing: { ...given.missing },
    unseen: { ...given.unseen },
  };
  if (!given.order && !given.inputs) findings.info(`The order of ${columns.length} columns is that of the model file.`);
  for (const { list, column } of assigned(booster, columns, table, given)) {
    if (Object.hasOwn(given.codes, column)) continue;
    encoding.codes[column] = list.values === null ? hashedCodes(list, column, table) : codesOfTexts(list.values);
    const count = list.values?.length ?? table.profiles.get(column)?.distinct?.size ?? 0;
    findings.info(`has ${count} categories with the codes of the model file.`, column);
    const stated = (rules: Readonly<Record<string, unknown>>) =>
      Object.hasOwn(rules, column) || Object.hasOwn(rules, '*');
    if (!stated(given.unseen)) encoding.unseen[column] = unseenRule(booster, column, findings);
    if (!stated(given.missing)) encoding.missing[column] = missingRule(booster, list, column, table, findings);
  }
  booster.features.forEach((feature, i) => {
    const column = columns[i]!;
    if (!feature.missingRefused || Object.hasOwn(given.missing, column) || Object.hasOwn(given.missing, '*')) return;
    if (missingIn(table.profiles.get(column)!) > 0)
      throw refusal(
        `column ${column} has missing values in the training table, but the model was trained without missing values, and ${booster.library} rejects them. Use the table that the model was trained on, or declare the replacement in --encoding (missing)`,
      );
    encoding.missing[column] = 'error';
  });
  return encoding;
}

/**
 * The training column of each feature; null: the file has no names, so the columns are assigned in the same way as for
 * other models.
 */
function columnsOf(booster: Booster, table: TrainingTable, given: EncodingFile): string[] | null {
  const stated = given.order ?? Object.values(given.inputs ?? {})[0];
  if (stated) return stated.length === booster.features.length ? [...stated] : null;
  if (booster.features.some((f) => f.name === null)) return null;
  const bySimplified = Map.groupBy(table.header, simplified);
  const lacking: string[] = [];
  const columns = booster.features.map(({ name }) => {
    if (table.header.includes(name!)) return name!;
    const similar = bySimplified.get(simplified(name!)) ?? [];
    if (similar.length === 1) return similar[0]!;
    lacking.push(name!);
    return '';
  });
  if (lacking.length > 0)
    throw refusal(
      `the ${booster.library} model was trained on columns that the training table does not have: ${lacking.join(', ')} (it has ${table.header.join(', ')}). List the columns of the table in the order of the model in --encoding, {"order": ["…"]}`,
    );
  const twice = columns.find((c, i) => columns.indexOf(c) !== i);
  if (twice !== undefined)
    throw refusal(
      `two features of the model correspond to the column ${twice}: list the columns in --encoding, {"order": ["…"]}`,
    );
  return columns;
}

interface Assigned {
  list: CategoryList;
  column: string;
}

/** The column of each category list. @throws SluiceError registration_refused if there are several possibilities */
function assigned(booster: Booster, columns: readonly string[], table: TrainingTable, given: EncodingFile): Assigned[] {
  const lists = booster.categories;
  if (lists.every((l) => l.feature !== null)) return lists.map((list) => ({ list, column: columns[list.feature!]! }));
  // The lists have the order of their columns, but the file does not identify the columns.
  const fits = (list: CategoryList, at: number): boolean => {
    const profile = table.profiles.get(columns[at]!)!;
    const known = new Set(list.values);
    const seen = [...(profile.distinct?.keys() ?? [])];
    return profile.distinct !== null && seen.length > 0 && seen.every((v) => known.has(v) || booleanIn(known, v));
  };
  const solutions: number[][] = [];
  const place = (chosen: readonly number[], from: number): void => {
    if (solutions.length > 1) return;
    if (chosen.length === lists.length) {
      // A solution must give a list to each column that the model splits by categories.
      if (booster.features.every((f, i) => !f.categorical || chosen.includes(i))) solutions.push([...chosen]);
      return;
    }
    for (let at = from; at <= columns.length - (lists.length - chosen.length); at++)
      if (fits(lists[chosen.length]!, at)) place([...chosen, at], at + 1);
  };
  place([], 0);
  const [only, other] = solutions;
  if (only && !other) return lists.map((list, i) => ({ list, column: columns[only[i]!]! }));
  if (lists.some((_, i) => !Object.hasOwn(given.codes, columns[i] ?? '')) && Object.keys(given.codes).length > 0)
    return [];
  throw refusal(
    `the model file has ${plural(lists.length, 'list')} of pandas categories, but ${other ? 'several columns match them' : 'no columns of the training table match them'}: declare the codes in --encoding, {"codes": {"column": {"category": 0, …}}}`,
  );
}

const booleanIn = (known: ReadonlySet<string>, text: string): boolean => {
  const value = booleanWord(text);
  return value !== undefined && known.has(value ? 'True' : 'False');
};

const codesOfTexts = (values: readonly string[]): Record<string, number> =>
  Object.fromEntries(values.map((v, i) => [v, i]));

/** The code of categories that no tree tests. */
const UNTESTED = -1;

/** CatBoost identifies categories by a hash of the text that Python passed to it. */
function hashedCodes({ codeOfHash }: CategoryList, column: string, table: TrainingTable): Record<string, number> {
  const spelled = (text: string): string[] => {
    const value = booleanWord(text);
    const number = Number(text);
    return [
      text,
      ...(value === undefined ? [] : [value ? 'True' : 'False']),
      ...(text.trim() !== '' && Number.isSafeInteger(number) && /^-?\d+\.0+$/.test(text) ? [String(number)] : []),
    ];
  };
  const codeOf = (text: string): number => {
    for (const t of spelled(text)) {
      const code = codeOfHash!.get(catBoostHash(t));
      if (code !== undefined) return code;
    }
    return UNTESTED;
  };
  return Object.fromEntries(
    [...(table.profiles.get(column)?.distinct?.keys() ?? [])].map((text) => [text, codeOf(text)]),
  );
}

/** The rule for unseen categories: the same as in the library. */
function unseenRule({ library }: Booster, column: string, findings: Findings): number | 'missing' | 'error' {
  if (library === 'CatBoost') return UNTESTED;
  if (library === 'LightGBM') return 'missing';
  findings.info('unseen categories are rejected, as XGBoost rejects them.', column);
  return 'error';
}

/** Texts that Python code often passes to CatBoost for a missing category. */
const WORDS_FOR_MISSING = ['nan', 'NaN', 'None', '', 'NA', 'missing', 'unknown', '<NA>', 'null'];

function missingRule(
  { library }: Booster,
  list: CategoryList,
  column: string,
  table: TrainingTable,
  findings: Findings,
): number | 'nan' {
  if (library !== 'CatBoost') return 'nan';
  const tested = WORDS_FOR_MISSING.filter((w) => list.codeOfHash!.has(catBoostHash(w)));
  if (missingIn(table.profiles.get(column)!) > 0) {
    if (tested.length === 1)
      findings.info(`missing becomes the category ${JSON.stringify(tested[0])}, which the model tests.`, column);
    else
      findings.assumed(
        tested.length > 1
          ? `missing becomes the category ${JSON.stringify(tested[0])}; the model also tests ${tested
              .slice(1)
              .map((w) => JSON.stringify(w))
              .join(', ')}`
          : 'missing becomes a category that no tree tests',
        column,
      );
  }
  return tested.length > 0 ? list.codeOfHash!.get(catBoostHash(tested[0]!))! : UNTESTED;
}
