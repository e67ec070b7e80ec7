// Drafts the columns: assigns them to graph inputs, and determines how their values are read and encoded (kinds, texts, codes).
import { ownValue } from '../core/own-keys.ts';
import { DEFAULT_FALSE, DEFAULT_TRUE, numberText } from '../inference/encode/column-reader.ts';
import type { SessionInput } from '../inference/evaluate/session.ts';
import { categoryKey, type KnownCategories, knownCategories } from '../inference/onnx/labels.ts';
import type { ColumnSpec, InputSpec } from '../model/package/manifest.ts';
import {
  type ColumnRules,
  type Draft,
  type DraftColumn,
  type RegisterOptions,
  SCORED_ROWS,
  type Sources,
  UNKNOWN_OUTPUTS,
} from './draft.ts';
import { type EncodingFile, NO_ENCODING, ruleFor } from './encoding-file.ts';
import { draftMissing } from './missing-values.ts';
import { type Findings, plural, refusal } from './report-card.ts';
import {
  areNumbers,
  booleanWord,
  type ColumnProfile,
  type TrainingTable,
  valuesIn,
  withCategories,
} from './training-table.ts';

// The code below assigns training columns to inputs of the graph.

const INPUT_TYPES = new Set(['float32', 'float64', 'int64', 'int32', 'bool', 'string']);

/**
 * The outcome column; null: there is none.
 * @throws SluiceError registration_refused if the table lacks the named column
 */
function outcomeOf({ options, table, findings }: Sources): string | null {
  if (options.outcome !== undefined) {
    if (table.header.includes(options.outcome)) return options.outcome;
    throw refusal(`the training table has no outcome column ${options.outcome} (it has ${table.header.join(', ')})`);
  }
  if (!table.header.includes('ok')) {
    findings.info('The training table has no outcome column ok; --outcome names another.');
    return null;
  }
  findings.info('Outcome column: ok.');
  return 'ok';
}

/** Checks that the table has all columns that the encoding file names. @throws SluiceError registration_refused */
function checkNames(encoding: EncodingFile, header: readonly string[]): void {
  for (const part of ['codes', 'missing', 'unseen', 'booleans'] as const) {
    const unknown = Object.keys(encoding[part]).filter((c) => c !== '*' && !header.includes(c));
    if (unknown.length > 0) {
      throw refusal(
        `--encoding names ${unknown.join(', ')} in ${part}, which the training table does not have (it has ${header.join(', ')})`,
      );
    }
  }
}

/** Columns of the training table that may be the columns of a model input. */
interface Offer {
  readonly table: TrainingTable;
  readonly encoding: EncodingFile;
  readonly outcome: string | null;
  /** All columns of the table except outcome, index and ignored columns. */
  readonly candidates: readonly string[];
  /** Whether the graph has a single input, which may then be a matrix of all columns. */
  readonly sole: boolean;
  readonly findings: Findings;
}

/**
 * Assigns the columns of the training table to the inputs of the graph.
 * @throws SluiceError registration_refused if the assignment is ambiguous
 */
function assignColumns(sources: Sources, outcome: string | null): InputSpec[] {
  const { options, table, probe, findings } = sources;
  const encoding = options.encoding ?? NO_ENCODING;
  const ignore = checkedIgnore(options, table);
  const named = new Set([...(encoding.order ?? []), ...Object.values(encoding.inputs ?? {}).flat()]);
  const index = table.header.filter((h) => isIndex(h, table) && !named.has(h));
  for (const h of index)
    findings.info(
      `The column ${h === '' ? 'without a name' : h} numbers the rows, as pandas writes its index; it is left out.`,
    );
  const taken = new Set([outcome, ...ignore, ...index]);
  const candidates = table.header.filter((h) => !taken.has(h));
  const { inputs } = probe.opened;
  const offer: Offer = { table, encoding, outcome, candidates, sole: inputs.length === 1, findings };
  const assigned = inputs.map((input) => assignInput(input, offer));
  const used = new Set(assigned.flatMap((i) => i.columns ?? [i.column!]));
  if (outcome !== null && used.has(outcome)) {
    throw refusal(`the model takes the outcome column ${outcome} as an input`);
  }
  const unused = candidates.filter((c) => !used.has(c));
  if (unused.length > 0)
    findings.info(
      `The model does not use ${unused.join(', ')}; to score files with these columns, ignore them (--ignore) or pass them through.`,
    );
  return assigned;
}

function checkedIgnore({ ignore = [] }: RegisterOptions, table: TrainingTable): readonly string[] {
  const unknown = ignore.find((name) => name !== '' && !table.header.includes(name));
  if (unknown === undefined) return ignore;
  throw refusal(
    `--ignore names ${unknown}, which the training table does not have (it has ${table.header.join(', ')})`,
  );
}

/**
 * Chooses the columns of an input: the columns that the encoding file names for it, else all columns if the input is
 * the only matrix, else the column with the name of the input.
 */
function assignInput(input: SessionInput, offer: Offer): InputSpec {
  const { encoding, candidates } = offer;
  const base = { name: input.name, type: input.type as InputSpec['type'] };
  if (!INPUT_TYPES.has(input.type)) throw refusal(`input ${input.name} is ${input.type}`);
  const named = ownValue(encoding.inputs, input.name);
  // A matrix of one column has no choice of columns, even if its name is that of no column.
  const isMatrix = input.width !== 1 || encoding.order !== undefined || candidates.length === 1;
  const columns = named ?? (offer.sole && isMatrix ? (encoding.order ?? candidates) : null);
  if (columns) {
    checkMatrix(input, columns, offer);
    if (!named && !encoding.order) {
      offer.findings.assumed(
        `Input ${input.name} is one matrix of ${columns.length} columns without names; they are taken in the order of the training table.`,
      );
    }
    return columns.length === 1 && input.width === 1
      ? { ...base, column: columns[0]! }
      : { ...base, columns: [...columns] };
  }
  const column =
    candidates.find((c) => c === input.name) ?? candidates.find((c) => simplified(c) === simplified(input.name));
  if (column === undefined) {
    throw refusal(
      `the model has an input ${input.name}, but no training column has this name: list the columns of the input in --encoding, {"inputs": {"${input.name}": ["…"]}}`,
    );
  }
  return { ...base, column };
}

function checkMatrix(input: SessionInput, columns: readonly string[], offer: Offer): void {
  const unknown = columns.filter((c) => !offer.table.header.includes(c));
  if (unknown.length > 0) throw refusal(`the training table has no column ${unknown.join(', ')}`);
  if (input.width === null || input.width === columns.length) return;
  throw refusal(
    `input ${input.name} takes ${plural(input.width, 'column')}, but the training table has ${columns.length} (${columns.join(', ')}): ${mismatch(columns, input.width, offer)}`,
  );
}

/** Advice if the number of columns in the table differs from the width of the matrix. */
function mismatch(columns: readonly string[], width: number, { table, encoding, outcome }: Offer): string {
  if (columns.every((c) => /^[+-]?(\d+(\.\d*)?|\.\d+)?$|^(true|false)$/i.test(c)))
    return 'the first line looks like data, but must contain the column names';
  if (columns.length < width) {
    return 'columns are missing: the table must have every column the model was trained on. If categories were one-hot encoded in Python, export the encoder together with the model as a pipeline';
  }
  const nameOutcome = outcome === null ? 'specify the outcome column with --outcome, ' : '';
  const texts = columns.filter((c) => table.profiles.get(c)!.texts > 0 && !Object.hasOwn(encoding.codes, c));
  const hint =
    texts.length > 0 ? ` (${texts.join(', ')} hold${texts.length === 1 ? 's' : ''} texts without codes)` : '';
  return `${nameOutcome}exclude unused columns with --ignore${hint}, or list the used columns in order in --encoding`;
}

/** Whether the column is the row index that to_csv of pandas writes. */
function isIndex(name: string, table: TrainingTable): boolean {
  const p = table.profiles.get(name);
  return p !== undefined && /^$|^Unnamed: 0$/.test(name) && p.wholeNumbers === table.rows;
}

/** Normalizes a name, because exporters replace all characters except letters and digits in input names. */
const simplified = (name: string): string => name.replace(/[^A-Za-z0-9]+/g, '_').toLowerCase();

// The functions below draft columns of texts: categories with codes, texts that the model reads directly, and booleans
// in any spelling.

type Codes = Readonly<Record<string, number>>;

const SPELLINGS_OF_NAN = ['nan', 'NaN', 'NAN', 'Nan', 'nAN'];

/** Drafts a category column whose categories are encoded as the numbers that were used in training. */
function draftCodes(column: DraftColumn, codes: Codes, { encoding, findings }: ColumnRules): void {
  const { spec, profile } = column;
  const plain = encoding.textCategories?.has(spec.name) ? codes : numberCodes(codes, profile);
  spec.kind = 'category';
  spec.codes = areNumbers(Object.keys(plain)) ? plain : { ...codes, ...respelled(codes, profile) };
  column.profile = withCategories(profile, Object.keys(spec.codes));
  checkCodes(spec, column.profile, findings);
  const rule = ruleFor(encoding.unseen, spec.name);
  if (rule === undefined) {
    spec.unseen = 'error';
    findings.assumed('unseen categories are rejected: --encoding declares no number for them (unseen)', spec.name);
  } else if (rule === 'missing' || rule === 'error') spec.unseen = rule;
  else {
    spec.unseen = 'value';
    // A category may be called nan: the package takes its name for the category.
    spec.unseen_value = rule === 'nan' ? SPELLINGS_OF_NAN.find((t) => !Object.hasOwn(codes, t))! : rule;
  }
  if (spec.unseen !== 'error' && Object.keys(spec.codes).every((text) => /^[1-9]\d*(\.0)?$|^0$/.test(text))) {
    findings.warn(
      'has whole numbers as categories, and other values are scored as unseen categories. In a file with leading zeros (0101 instead of 101) every value would be unseen: read the column as text before training, or reject unseen values (unseen: error)',
      spec.name,
    );
  }
}

/** Drafts a column of an input that accepts texts. */
function draftText(column: DraftColumn, { encoding, findings }: ColumnRules): void {
  const { spec, profile, known } = column;
  const { name } = spec;
  const values = valuesIn(profile);
  if (values > 0 && profile.booleans === values) {
    draftBoolean(column);
    const pair = ruleFor(encoding.booleans, name);
    [spec.false_as, spec.true_as] = pair ?? [spelling(column, false) ?? 'False', spelling(column, true) ?? 'True'];
    findings.info(`is true or false and reaches the model as ${spec.true_as} and ${spec.false_as}.`, name);
    return;
  }
  spec.kind = 'category';
  if (known?.unseen === 'error') {
    spec.values = [...known.values].filter((v) => v !== '');
    spec.unseen = 'error';
    column.profile = withCategories(profile, spec.values);
    findings.info(
      `has ${spec.values.length} categories; training rejected all other values, so applications with other values are rejected.`,
      name,
    );
  } else if (known && known.values.length > 0) reportKnown(known, column, findings);
  else if (profile.distinct) {
    findings.info(
      `has ${profile.distinct.size} categories in the training table; the model gets the text itself.`,
      name,
    );
  } else spec.kind = 'text';
}

/** Drafts a boolean column: it accepts the usual spellings and the spellings in the table. */
function draftBoolean({ spec, profile }: DraftColumn): void {
  const seen = [...(profile.distinct?.keys() ?? [])];
  spec.kind = 'boolean';
  spec.true_values = [...new Set([...DEFAULT_TRUE, ...seen.filter((v) => booleanWord(v) === true)])];
  spec.false_values = [...new Set([...DEFAULT_FALSE, ...seen.filter((v) => booleanWord(v) === false)])];
}

/** Whether the codes belong to texts. A program may have converted booleans to the texts True and False. */
const hasTexts = (codes: Codes, { textCategories }: EncodingFile, { spec }: DraftColumn): boolean =>
  textCategories?.has(spec.name) === true && !Object.keys(codes).every((text) => text === 'True' || text === 'False');

/** The codes of false and true; null: the codes are not codes of a boolean. */
function flagCodes(codes: Codes): [number, number] | null {
  const of = (b: boolean) => Object.entries(codes).filter(([k]) => booleanWord(k) === b);
  const [no, yes] = [of(false), of(true)];
  if (no.length !== 1 || yes.length !== 1 || Object.keys(codes).length !== 2) return null;
  return [no[0]![1], yes[0]![1]];
}

/**
 * The spelling of a boolean in the model, else its spelling in the table. They can differ: pandas reads true in a CSV
 * file and passes True to the model.
 */
const spelling = ({ known, profile }: DraftColumn, value: boolean): string | undefined =>
  known?.values.find((v) => booleanWord(v) === value) ??
  [...(profile.distinct?.keys() ?? [])].find((v) => booleanWord(v) === value);

function reportKnown(known: KnownCategories, { spec, profile }: DraftColumn, findings: Findings): void {
  const unknown = [...(profile.distinct?.keys() ?? [])].filter((v) => !known.values.includes(v));
  if (unknown.length > 0 && unknown.length === profile.distinct?.size) {
    findings.warn(
      `the model knows none of the ${unknown.length} values in the training table: the model was trained with another encoding`,
      spec.name,
    );
  }
  findings.info(
    `has ${known.values.length} categories that the model knows; the model ignores other values.`,
    spec.name,
  );
}

/**
 * The codes of numbers by their plain texts. A spelling such as 10.0 counts as a number only if the codes or the table
 * also have the plain text, because it may be a text.
 */
function numberCodes(codes: Codes, { distinct }: ColumnProfile): Codes {
  const plain = new Map<string, number>();
  for (const [text, code] of Object.entries(codes)) {
    const key = numberText(text);
    const isSpelling = /\d\.0$|\de/.test(text) && (Object.hasOwn(codes, key) || distinct?.has(key) === true);
    if (!(text === key || isSpelling) || (plain.get(key) ?? code) !== code) return codes;
    plain.set(key, code);
  }
  return Object.fromEntries(plain);
}

/**
 * Additional codes for integers that pandas spells as 10.0 in a column with missing values, either in this table or in
 * training. Leading zeros are part of a category, so 230 and 0230 are different.
 */
function respelled(codes: Codes, profile: ColumnProfile): Record<string, number> {
  const whole = (text: string): string => (/^-?\d+\.0$/.test(text) ? text.slice(0, -2) : text);
  const byText = new Map(Object.entries(codes).map(([k, c]) => [whole(k), c]));
  return Object.fromEntries(
    [...(profile.distinct?.keys() ?? [])].flatMap((cell) => {
      if (Object.hasOwn(codes, cell) || !/^-?\d+(\.0)?$/.test(cell)) return [];
      const code = byText.get(whole(cell));
      return code === undefined ? [] : [[cell, code] as const];
    }),
  );
}

function checkCodes({ name, codes = {} }: ColumnSpec, profile: ColumnProfile, findings: Findings): void {
  const unmapped = [...(profile.distinct?.keys() ?? [])].filter((v) => !Object.hasOwn(codes, v));
  if (unmapped.length > 0) {
    findings.warn(
      `${plural(unmapped.length, 'training value')} has no code; in applications, such values count as unseen`,
      name,
    );
  }
  const unsafe = Object.values(codes).filter((c) => Math.fround(c) !== c).length;
  if (unsafe > 0) findings.warn(`${plural(unsafe, 'code')} cannot be represented exactly as float32`, name);
}

const DEFAULT_TOLERANCE = 1e-6;

/**
 * Assigns the columns to the inputs and drafts each column.
 * @throws SluiceError registration_refused, which lists every problem
 */
export function draftColumns(sources: Sources): Draft {
  const { options, table, model, findings } = sources;
  const encoding = options.encoding ?? NO_ENCODING;
  checkNames(encoding, table.header);
  const outcome = outcomeOf(sources);
  const inputs = assignColumns(sources, outcome);
  const known = knownCategories(model.graph);
  const rules: ColumnRules = { encoding, findings, problems: [] };
  const columns = inputs.flatMap((input) =>
    (input.columns ?? [input.column!]).map((name, at): DraftColumn => {
      const column: DraftColumn = {
        spec: { name, kind: 'number' },
        input,
        profile: table.profiles.get(name)!,
        known: known.get(categoryKey(input.name, at)),
        choices: [],
        open: false,
      };
      draftColumn(column, rules);
      draftMissing(column, rules);
      return column;
    }),
  );
  if (rules.problems.length > 0) throw refusal(rules.problems.join('\n'));
  // Exactness is not reported for boosters, because the libraries themselves compare numbers as float32.
  if (model.format === 'onnx') reportExactness(columns, findings);
  columns.sort((a, b) => table.header.indexOf(a.spec.name) - table.header.indexOf(b.spec.name));
  return {
    ...sources,
    outcome,
    inputs,
    columns,
    fields: columns.map((c) => table.header.indexOf(c.spec.name)),
    sample: table.sample.slice(0, SCORED_ROWS),
    tolerance: options.tolerance ?? DEFAULT_TOLERANCE,
    outputs: UNKNOWN_OUTPUTS,
    test: null,
  };
}

/** Determines the kind of a column by its codes, else by the type of its input, else by the profile of its values. */
function draftColumn(column: DraftColumn, rules: ColumnRules): void {
  const { spec, input, profile } = column;
  const { findings } = rules;
  const codes = ownValue(rules.encoding.codes, spec.name);
  spec.missing = { values: missingWords(column, codes) };
  reportMissingWords(column, findings);
  const values = valuesIn(profile);
  const allBooleans = values > 0 && profile.booleans === values;
  const flags = codes && allBooleans && !hasTexts(codes, rules.encoding, column) ? flagCodes(codes) : null;
  if (flags) {
    draftBoolean(column);
    [spec.false_as, spec.true_as] = flags;
    findings.info(`true becomes ${flags[1]} and false ${flags[0]}.`, spec.name);
  } else if (codes) draftCodes(column, codes, rules);
  else if (input.type === 'string') draftText(column, rules);
  else if (allBooleans) {
    draftBoolean(column);
    const pair = ruleFor(rules.encoding.booleans, spec.name);
    if (pair) [spec.false_as, spec.true_as] = [pair[0], pair[1]];
    else findings.info(`true becomes 1 and false 0.`, spec.name);
  } else draftNumber(column, rules);
  if (isWhole(input) && spec.kind === 'number' && profile.wholeNumbers < profile.numbers) {
    rules.problems.push(
      `column ${spec.name}: the model takes whole numbers, but ${profile.numbers - profile.wholeNumbers} values are not whole numbers`,
    );
  }
}

const isWhole = (input: InputSpec): boolean => input.type === 'int64' || input.type === 'int32';

/** Drafts a number column. If it has values that are not plain numbers, adds a problem. */
function draftNumber({ spec, input, profile }: DraftColumn, { findings, problems }: ColumnRules): void {
  const { name } = spec;
  const values = valuesIn(profile);
  if (values > 0 && profile.numbers === values) {
    if (input.type === 'bool') spec.kind = 'boolean';
    else if ([...(profile.distinct?.keys() ?? ['2'])].every((text) => /^[01](\.0*)?$/.test(text))) {
      findings.assumed(
        'has only 0 and 1 and is read as a number: true and false are rejected (--encoding, booleans; in Python booleans=[…])',
        name,
      );
    }
    if (profile.leadingZeros > 0 && profile.wholeNumbers === values) {
      findings.warn(
        `looks like an id (${plural(profile.leadingZeros, 'value')} with leading zeros) and is fed as a number: 007 and 7 are the same to the model`,
        name,
      );
    }
  } else if (profile.grouped > 0 && profile.booleans + profile.texts === 0) {
    problems.push(
      `column ${name}: ${plural(profile.grouped, 'value')} with spaces or separators inside, or decimal commas; write plain decimal numbers`,
    );
  } else if (values === 0) {
    findings.warn('is empty in the training table, so its values cannot be checked', name);
  } else {
    const some = profile.distinct ? `${profile.distinct.size} categories` : 'many texts';
    problems.push(
      `column ${name} holds ${some}, but the model takes ${input.type}: declare the numbers that training used for them in --encoding codes.json, with {"${name}": {"category": number, …}}`,
    );
  }
}

/**
 * The texts that mean a missing value: the empty text, and common texts for missing values that occur in the table. A
 * text is omitted if the codes or the model have it as a category.
 */
function missingWords({ profile, known }: DraftColumn, codes: Readonly<Record<string, number>> | undefined): string[] {
  const isCategory = (word: string): boolean =>
    (codes !== undefined && Object.hasOwn(codes, word)) || known?.values.includes(word) === true;
  return ['', ...[...profile.missing.keys()].filter((w) => w !== '' && !isCategory(w))];
}

function reportMissingWords({ spec }: DraftColumn, findings: Findings): void {
  const words = spec.missing!.values!.slice(1).map((w) => JSON.stringify(w));
  if (words.length > 0) findings.info(`${words.join(', ')} counts as missing besides the empty text.`, spec.name);
}

/** Warns about integers that float32 cannot represent exactly, because the model may have been trained in float64. */
function reportExactness(columns: readonly DraftColumn[], findings: Findings): void {
  const floats = columns.filter((c) => c.spec.kind === 'number' && c.input.type === 'float32');
  for (const { profile } of floats) {
    if (profile.inexactWhole === 0) continue;
    findings.warn(
      `${plural(profile.inexactWhole, 'whole number')} beyond 16,777,216 cannot be represented exactly as float32: neighbouring numbers become equal`,
      profile.name,
    );
  }
  const inexact = floats.filter((c) => c.profile.inexact > c.profile.inexactWhole).map((c) => c.spec.name);
  if (inexact.length > 0) {
    findings.info(
      `Values of ${inexact.join(', ')} change in the 8th digit when they are converted to float32, the input type of the model. A model trained on float64 can then take another branch near a threshold.`,
    );
  }
}
