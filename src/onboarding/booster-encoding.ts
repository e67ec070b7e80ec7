// Reads the encoding (order of columns, codes, missing values) from the model file of a training library.
// For other models, `--encoding` must state it.
import { setOwn } from '../core/own-keys.ts';
import type { Booster, BoosterFeature, CategoryList } from '../inference/boosters/booster.ts';
import { catBoostHash } from '../inference/boosters/city-hash.ts';
import { assignLists } from './category-lists.ts';
import { type EncodingFile, type MissingRule, NO_ENCODING, ruleFor, WORDS_OF_CONVERSION } from './encoding-file.ts';
import { type Findings, plural, refusal } from './report-card.ts';
import { booleanWord, type ColumnProfile, missingIn, type TrainingTable } from './training-table.ts';

/** Normalizes a name, because exporters replace spaces and punctuation in names. */
const simplified = (name: string): string => name.replace(/[^\p{L}\p{N}]+/gu, '_').toLowerCase();

/**
 * The encoding of a booster: the statements of the user, completed from the model file. A statement of the user has
 * priority.
 * `isCompared`: whether predictions of the library decide about missing values.
 * @throws SluiceError registration_refused if the table lacks columns of the model, categories cannot be assigned to
 * columns, or the replacement of missing values is unknown
 */
export function boosterEncoding(
  booster: Booster,
  table: TrainingTable,
  given: EncodingFile = NO_ENCODING,
  findings: Findings,
  isCompared = false,
): EncodingFile {
  const columns = columnsOf(booster, table, given);
  if (columns === null) return given;
  const encoding = {
    ...given,
    order: columns,
    codes: { ...given.codes },
    missing: { ...given.missing },
    unseen: { ...given.unseen },
    textCategories: new Set<string>(),
  };
  if (!given.order && !given.inputs) findings.info(`The order of ${columns.length} columns is that of the model file.`);
  const { assigned, alsoPossible } = assignLists(booster, columns, table, given);
  if (alsoPossible.length > 0)
    findings.info(
      `${alsoPossible.join(', ')} ${alsoPossible.length === 1 ? 'is read as a number' : 'are read as numbers'}. Declare the categories of ordered pandas columns in --encoding (codes).`,
    );
  for (const { list, column } of assigned) {
    if (Object.hasOwn(given.codes, column)) continue;
    checkPrecision(booster, list, column);
    const { codes, areTexts } =
      list.values === null
        ? hashedCodes(list, column, table, findings)
        : { codes: codesOfTexts(list.values), areTexts: list.areTexts };
    setOwn(encoding.codes, column, codes);
    if (areTexts) encoding.textCategories.add(column);
    const count = list.values?.length ?? table.profiles.get(column)?.distinct?.size ?? 0;
    findings.info(`has ${count} categories with the codes of the model file.`, column);
    const stated = (rules: Readonly<Record<string, unknown>>) =>
      Object.hasOwn(rules, column) || Object.hasOwn(rules, '*');
    if (!stated(given.missing)) setOwn(encoding.missing, column, missingRule(booster, list, column, table, findings));
    const missing = ruleFor(encoding.missing, column);
    if (!stated(given.unseen)) setOwn(encoding.unseen, column, unseenRule(booster, column, missing, findings));
  }
  booster.features.forEach((feature, i) => {
    const column = columns[i]!;
    if (feature.missingUnknown && !isCompared) checkReplacement(feature, column, encoding, table);
    if (!feature.missingRefused || Object.hasOwn(given.missing, column) || Object.hasOwn(given.missing, '*')) return;
    if (missingIn(table.profiles.get(column)!) > 0)
      throw refusal(
        `column ${column} has missing values in the training table, but the model was trained without missing values, and ${booster.library} rejects them. Use the table that the model was trained on, or declare the replacement in --encoding (missing)`,
      );
    setOwn(encoding.missing, column, 'error');
  });
  return encoding;
}

/**
 * Refuses a column of numbers with missing values, if the model was trained without them: the program replaced them, or
 * left out these rows.
 * @throws SluiceError registration_refused
 */
function checkReplacement(
  { seen }: BoosterFeature,
  column: string,
  { codes, missing }: EncodingFile,
  table: TrainingTable,
): void {
  const profile = table.profiles.get(column)!;
  if (ruleFor(missing, column) !== undefined || Object.hasOwn(codes, column) || missingIn(profile) === 0) return;
  // The range in the file includes the replacement.
  const { min, max } = seen !== undefined && 'min' in seen ? seen : { min: 0, max: 0 };
  const likely = [min, max].find((end) => end < profile.min || end > profile.max) ?? 0;
  const declare = (rule: number | string): string => JSON.stringify({ missing: { [column]: rule } });
  throw refusal(
    `column ${column} has missing values in the training table, but the model was trained without missing values. Declare their replacement in --encoding, such as ${declare(likely)}, or ${declare('nan')} if training left out these rows; --expected also shows it`,
  );
}

/**
 * The training column of each feature; null: the file has no names, so the columns are assigned in the same way as for
 * other models.
 */
function columnsOf(booster: Booster, table: TrainingTable, given: EncodingFile): string[] | null {
  const stated = given.order ?? Object.values(given.inputs ?? {})[0];
  if (stated) return stated.length === booster.features.length ? [...stated] : null;
  if (booster.features.some((f) => f.name === null)) {
    const isCoded = booster.categories.some((list) => (list.values?.length ?? list.codeOfHash!.size) > 0);
    if (!isCoded || Object.keys(given.codes).length > 0) return null;
    throw refusal(
      `the ${booster.library} model has categories, but its file does not name all columns: list the columns of the table in the order of the model in --encoding, {"order": ["…"]}`,
    );
  }
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

/** XGBoost files are read as float64, and scoring does not match the spellings of a float beyond 2^53. */
function checkPrecision({ library }: Booster, { values, areTexts }: CategoryList, column: string): void {
  if (values === null || areTexts) return;
  const large = values.filter((v) => Number.isInteger(Number(v)) && !Number.isSafeInteger(Number(v)));
  if (large.length === 0 || (library === 'LightGBM' && large.every((v) => /^-?\d+$/.test(v)))) return;
  throw refusal(
    `the column ${column} has numbers beyond 2^53 as categories, which cannot be read exactly: train with texts, or declare the codes in --encoding, {"codes": {${JSON.stringify(column)}: {"category": 0, …}}}`,
  );
}

type Codes = Record<string, number>;

const codesOfTexts = (values: readonly string[]): Codes => Object.fromEntries(values.map((v, i) => [v, i]));

/** The code of categories that no tree tests. */
const UNTESTED = -1;

/** The text of a category for CatBoost, if the training program passed texts, booleans or whole numbers to it. */
type Spelling = (cell: string) => string;

const AS_TEXT: Spelling = (cell) => cell;
const booleansAs =
  (no: string, yes: string): Spelling =>
  (cell) => {
    const value = booleanWord(cell);
    return value === undefined ? cell : value ? yes : no;
  };
const asInteger: Spelling = (cell) =>
  /^-?\d+\.0+$/.test(cell) && Number.isSafeInteger(Number(cell)) ? String(Number(cell)) : cell;

/** CatBoost hashes a boolean like the number 1 or 0; a program may also have converted it to text. */
const SPELLINGS: readonly { spelling: Spelling; key: Spelling }[] = [
  AS_TEXT,
  booleansAs('False', 'True'),
  booleansAs('0', '1'),
].flatMap((spelling) => [
  { spelling, key: AS_TEXT },
  // The code of a number belongs to its plain text, which scoring uses for all of its spellings.
  { spelling: (cell: string) => asInteger(spelling(cell)), key: asInteger },
]);

/** Texts that Python code often passes to CatBoost for a missing category. */
const WORDS_FOR_MISSING = ['nan', 'NaN', 'None', '', 'NA', 'missing', 'unknown', '<NA>', 'null'];

/**
 * The codes of the categories in the training table. CatBoost identifies a category by a hash of its text, so the
 * spelling of a whole column is the one with the most hashes that the model tests.
 * @throws SluiceError registration_refused if no category of the table is tested, or several spellings are possible
 */
function hashedCodes(
  list: CategoryList,
  column: string,
  table: TrainingTable,
  findings: Findings,
): { codes: Codes; areTexts: boolean } {
  const tested = list.codeOfHash!;
  const profile = table.profiles.get(column)!;
  const cells = [...(profile.distinct?.keys() ?? [])];
  const found = SPELLINGS.map(({ spelling, key }) => {
    const codes = cells.map((cell) => tested.get(catBoostHash(spelling(cell))) ?? UNTESTED);
    return { spelling, key, codes, covered: new Set(codes.filter((code) => code !== UNTESTED)).size };
  });
  const most = Math.max(...found.map((f) => f.covered));
  const [best, ...others] = found.filter((f) => f.covered === most);
  const words = testedWords(list, profile);
  const other = new Set([...missingCategories(list), ...words].map(catBoostHash));
  const needed = [...tested.keys()].filter((hash) => !other.has(hash)).length;
  const declare = `or declare the codes in --encoding, {"codes": {${JSON.stringify(column)}: {"category": 0, …}}} (docs/exporting.md)`;
  if (most === 0 && tested.size > 0 && !(needed < tested.size && missingIn(profile) > 0))
    throw refusal(
      `the CatBoost model tests ${plural(tested.size, 'value')} of the column ${column}, but no value of the training table matches${profile.distinct === null ? ', because the column has too many values to compare' : ''}. Use the table that the model was trained on, with the categories as CatBoost received them, ${declare}`,
    );
  if (others.some((other) => other.codes.some((code, i) => code !== best!.codes[i]))) {
    if (best!.spelling !== AS_TEXT || most < needed)
      throw refusal(
        `the categories of the column ${column} match the hashes of the CatBoost model as texts and as booleans or numbers. Convert the column to text before training, ${declare}`,
      );
    findings.assumed(
      'the model received the texts of the training table; booleans or numbers would also match',
      column,
    );
  }
  if (most < needed)
    findings.warn(
      `the model tests ${plural(needed - most, 'value')} that the training table does not contain; in applications, such values count as unseen. Use the table that the model was trained on`,
      column,
    );
  return {
    codes: Object.fromEntries([
      ...cells.map((cell, i) => [best!.key(cell), best!.codes[i]!]),
      ...words.map((word) => [word, tested.get(catBoostHash(word))!]),
    ]),
    areTexts: best!.spelling === AS_TEXT,
  };
}

/** The usual texts for missing categories that the model tests. */
const missingCategories = ({ codeOfHash }: CategoryList): string[] =>
  WORDS_FOR_MISSING.filter((word) => codeOfHash!.has(catBoostHash(word)));

/**
 * Texts of the table that usually mean a missing value, but are categories: the model tests them, and `missingRule`
 * gives missing values another code.
 */
function testedWords(list: CategoryList, { missing }: ColumnProfile): string[] {
  const [forMissing] = missingCategories(list);
  return [...missing.keys()].filter(
    (word) => word !== '' && word !== forMissing && list.codeOfHash!.has(catBoostHash(word)),
  );
}

/** The rule for unseen categories: the same as in the library. LightGBM treats them like NaN. */
function unseenRule(
  { library }: Booster,
  column: string,
  missing: MissingRule | undefined,
  findings: Findings,
): number | 'missing' | 'error' | 'nan' {
  if (library === 'CatBoost') return UNTESTED;
  if (library === 'LightGBM') return missing === 'nan' ? 'missing' : 'nan';
  findings.info('unseen categories are rejected, as XGBoost rejects them.', column);
  return 'error';
}

function missingRule(
  { library }: Booster,
  list: CategoryList,
  column: string,
  table: TrainingTable,
  findings: Findings,
): number | 'nan' {
  const profile = table.profiles.get(column)!;
  const categories = list.values === null ? testedWords(list, profile) : [];
  const words =
    list.values === null
      ? missingCategories(list).filter((w) => !categories.includes(w))
      : listedForMissing(list.values, list.areTexts, profile);
  const [word, ...others] = words;
  if (library !== 'CatBoost' && word === undefined) return 'nan';
  if ([...profile.missing.keys()].some((text) => !categories.includes(text))) {
    const knows = library === 'CatBoost' ? 'tests' : 'lists';
    if (words.length === 1)
      findings.info(`missing becomes the category ${JSON.stringify(word)}, which the model ${knows}.`, column);
    else
      findings.assumed(
        word !== undefined
          ? `missing becomes the category ${JSON.stringify(word)}; the model also ${knows} ${others
              .map((w) => JSON.stringify(w))
              .join(', ')}`
          : 'missing becomes a category that no tree tests',
        column,
      );
  }
  if (word === undefined) return UNTESTED;
  return list.values === null ? list.codeOfHash!.get(catBoostHash(word))! : list.values.indexOf(word);
}

/**
 * The categories of a list that training passed for missing values. Another word than those of `astype(str)` can also be
 * an ordinary category, so the table must have missing values, and no such text.
 */
function listedForMissing(values: readonly string[], areTexts: boolean, profile: ColumnProfile): string[] {
  if (!areTexts) return [];
  const isOrdinary = (word: string): boolean =>
    missingIn(profile) === 0 || profile.missing.has(word) || profile.distinct?.has(word) !== false;
  const possible = new Set([...WORDS_OF_CONVERSION, ...WORDS_FOR_MISSING]);
  return [...possible].filter((w) => values.includes(w) && (WORDS_OF_CONVERSION.includes(w) || !isOrdinary(w)));
}
