// Which training column feeds which input of the graph, and how its values are to be read: kinds, words, codes.
import { SluiceError } from '../core/errors.ts';
import { DEFAULT_FALSE, DEFAULT_TRUE } from '../inference/encode/column-reader.ts';
import type { SessionInput } from '../inference/evaluate/session.ts';
import type { KnownCategories } from '../inference/onnx/servable.ts';
import type { ColumnSpec, InputSpec } from '../model/package/manifest.ts';
import { type EncodingFile, ruleFor } from './encoding-file.ts';
import { type Findings, plural } from './findings.ts';
import { booleanWord, type ColumnProfile, MISSING_WORDS, missingIn, type TrainingTable, valuesIn } from './table.ts';

/** What a missing value may become; the first that fits is taken. */
export type MissingChoice = NonNullable<ColumnSpec['missing']>;

export interface DraftColumn {
  spec: ColumnSpec;
  input: InputSpec;
  profile: ColumnProfile;
  /** Other things the training code may have made of missing values; tried when predictions are given. */
  choices: MissingChoice[];
  /** true: nobody said and nothing shows what missing becomes. */
  open: boolean;
}

export interface ColumnOptions {
  outcome: string | null;
  ignore: readonly string[];
  encoding: EncodingFile;
}

const INPUT_TYPES = new Set(['float32', 'float64', 'int64', 'int32', 'bool', 'string']);

/**
 * Assigns the columns of the training table to the inputs of the graph.
 * @throws SluiceError registration_refused when that cannot be known
 */
export function assignColumns(
  inputs: readonly SessionInput[],
  table: TrainingTable,
  options: ColumnOptions,
  findings: Findings,
): InputSpec[] {
  for (const name of options.ignore) {
    if (table.header.includes(name) || name === '') continue;
    throw refuse(`--ignore names ${name}, which the training table does not have (it has ${table.header.join(', ')})`);
  }
  const named = new Set([...(options.encoding.order ?? []), ...Object.values(options.encoding.inputs ?? {}).flat()]);
  const index = table.header.filter((h) => isIndex(h, table) && !named.has(h));
  for (const h of index)
    findings.info(
      `The column ${h === '' ? 'without a name' : h} numbers the rows, as pandas writes its index; it is left out.`,
    );
  const taken = new Set([options.outcome, ...options.ignore, ...index]);
  const candidates = table.header.filter((h) => !taken.has(h));
  const assigned = inputs.map((input): InputSpec => {
    const base = { name: input.name, type: input.type as InputSpec['type'] };
    if (!INPUT_TYPES.has(input.type)) throw refuse(`input ${input.name} is ${input.type}`);
    const named = options.encoding.inputs?.[input.name];
    const columns = named ?? (inputs.length === 1 && input.width !== 1 ? (options.encoding.order ?? candidates) : null);
    if (columns) {
      const unknown = columns.filter((c) => !table.header.includes(c));
      if (unknown.length > 0) throw refuse(`the training table has no column ${unknown.join(', ')}`);
      if (input.width !== null && input.width !== columns.length) {
        throw refuse(
          `input ${input.name} takes ${plural(input.width, 'column')}, the table offers ${columns.length} (${columns.join(', ')}): ${mismatch(columns, input.width, table, options)}`,
        );
      }
      if (!named && !options.encoding.order) {
        findings.assumed(
          `Input ${input.name} is one matrix of ${columns.length} columns without names; they are taken in the order of the training table.`,
        );
      }
      return columns.length === 1 && input.width === 1
        ? { ...base, column: columns[0]! }
        : { ...base, columns: [...columns] };
    }
    const column = candidates.find((c) => c === input.name) ?? candidates.find((c) => plain(c) === plain(input.name));
    if (column === undefined) {
      throw refuse(
        `no training column is called ${input.name}, as an input of the model is: say which columns feed it in --encoding, {"inputs": {"${input.name}": ["…"]}}`,
      );
    }
    return { ...base, column };
  });
  const used = new Set(assigned.flatMap((i) => i.columns ?? [i.column!]));
  if (options.outcome !== null && used.has(options.outcome)) {
    throw refuse(`the model takes the outcome column ${options.outcome} as an input`);
  }
  const unused = candidates.filter((c) => !used.has(c));
  if (unused.length > 0) findings.info(`The model does not use ${unused.join(', ')}; applications are sent without.`);
  return assigned;
}

/** The index that pandas' to_csv writes as a column of its own. */
function isIndex(name: string, table: TrainingTable): boolean {
  const p = table.profiles.get(name);
  return p !== undefined && /^$|^Unnamed: 0$/.test(name) && p.wholeNumbers === table.rows;
}

/** What to do about a table with another number of columns than the matrix. */
function mismatch(columns: readonly string[], width: number, table: TrainingTable, options: ColumnOptions): string {
  if (columns.every((c) => /^[+-]?(\d+\.?\d*|\.\d+)?$|^(true|false)$/i.test(c)))
    return 'the first line looks like data, but it has to hold the names of the columns';
  if (columns.length < width) {
    return 'columns are missing: the table must have every column the model was trained on. If categories were one-hot encoded in Python, export the encoder together with the model as a pipeline';
  }
  const outcome = options.outcome === null ? 'name the outcome among them with --outcome, ' : '';
  const texts = columns.filter((c) => {
    const p = table.profiles.get(c)!;
    return p.texts > 0 && !Object.hasOwn(options.encoding.codes, c);
  });
  const hint =
    texts.length > 0 ? ` (${texts.join(', ')} hold${texts.length === 1 ? 's' : ''} texts without codes)` : '';
  return `${outcome}name those the model does not use with --ignore${hint}, or give their order in --encoding`;
}

const plain = (name: string): string => name.replace(/[^A-Za-z0-9]+/g, '_').toLowerCase();
const refuse = (text: string): SluiceError => new SluiceError('registration_refused', text);

/** How one column is read and what it becomes. Problems are added to `problems`, all of them at once. */
export function draftColumn(
  name: string,
  input: InputSpec,
  profile: ColumnProfile,
  known: KnownCategories | undefined,
  encoding: EncodingFile,
  findings: Findings,
  problems: string[],
): DraftColumn {
  const codes = Object.hasOwn(encoding.codes, name) ? encoding.codes[name]! : undefined;
  const words = ['', ...[...profile.missing.keys()].filter((w) => w !== '' && !meansSomething(w, codes, known))];
  const asTexts = input.type === 'string';
  const spec: ColumnSpec = { name, kind: 'number', missing: { values: words } };
  const values = valuesIn(profile);
  if (words.length > 1) {
    findings.info(
      `${words
        .slice(1)
        .map((w) => JSON.stringify(w))
        .join(', ')} counts as missing besides the empty text.`,
      name,
    );
  }
  const flags = codes && values > 0 && profile.booleans === values ? flagCodes(codes) : null;
  if (flags) {
    spec.kind = 'boolean';
    booleanWords(spec, profile);
    [spec.false_as, spec.true_as] = flags;
    findings.info(`true becomes ${flags[1]} and false ${flags[0]}.`, name);
  } else if (codes) {
    spec.kind = 'category';
    spec.codes = { ...codes, ...respelled(codes, profile) };
    checkCodes(name, spec.codes, profile, findings);
    applyUnseen(spec, encoding, findings);
  } else if (asTexts) {
    draftText(spec, profile, known, encoding, findings);
  } else if (values > 0 && profile.booleans === values) {
    spec.kind = 'boolean';
    booleanWords(spec, profile);
    const pair = ruleFor(encoding.booleans, name);
    if (pair) [spec.false_as, spec.true_as] = [pair[0], pair[1]];
    else findings.info(`true becomes 1 and false 0.`, name);
  } else if (values > 0 && profile.numbers === values) {
    if (input.type === 'bool') spec.kind = 'boolean';
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
    findings.warn('is empty in the training table: nothing can be said about its values', name);
  } else {
    const some = profile.distinct ? `${profile.distinct.size} categories` : 'many texts';
    problems.push(
      `column ${name} holds ${some}, but the model takes ${input.type}: give the numbers they were trained as, --encoding codes.json with {"${name}": {"category": number, …}}`,
    );
  }
  if (
    (input.type === 'int64' || input.type === 'int32') &&
    spec.kind === 'number' &&
    profile.wholeNumbers < profile.numbers
  ) {
    problems.push(
      `column ${name}: the model takes whole numbers, ${profile.numbers - profile.wholeNumbers} are not whole`,
    );
  }
  const draft = { spec, input, profile, choices: [] as MissingChoice[], open: false };
  draftMissing(draft, known, encoding, findings, problems);
  return draft;
}

function meansSomething(
  word: string,
  codes: Record<string, number> | undefined,
  known: KnownCategories | undefined,
): boolean {
  return (codes !== undefined && Object.hasOwn(codes, word)) || known?.values.includes(word) === true;
}

function draftText(
  spec: ColumnSpec,
  profile: ColumnProfile,
  known: KnownCategories | undefined,
  encoding: EncodingFile,
  findings: Findings,
): void {
  const { name } = spec;
  const values = valuesIn(profile);
  const pair = ruleFor(encoding.booleans, name);
  if (values > 0 && profile.booleans === values) {
    // The words of the table need not be those the encoder learnt: pandas writes True where CSV says true.
    const both = [false, true].map((b) => known?.values.filter((v) => booleanWord(v) === b) ?? []);
    spec.kind = 'boolean';
    booleanWords(spec, profile);
    const seen = [false, true].map((b) => [...(profile.distinct?.keys() ?? [])].find((v) => booleanWord(v) === b));
    spec.false_as = pair ? pair[0] : (both[0]![0] ?? seen[0] ?? 'False');
    spec.true_as = pair ? pair[1] : (both[1]![0] ?? seen[1] ?? 'True');
    findings.info(`is true or false and reaches the model as ${spec.true_as} and ${spec.false_as}.`, name);
    return;
  }
  spec.kind = 'category';
  if (known?.unseen === 'error') {
    spec.values = [...known.values].filter((v) => v !== '');
    spec.unseen = 'error';
    findings.info(
      `has ${spec.values.length} categories; training refused others, so such applications are rejected.`,
      name,
    );
    return;
  }
  if (known && known.values.length > 0) {
    const unknown = [...(profile.distinct?.keys() ?? [])].filter((v) => !known.values.includes(v));
    if (unknown.length > 0 && unknown.length === profile.distinct?.size) {
      findings.warn(
        `none of its ${unknown.length} training values is one the model knows: another encoding was used`,
        name,
      );
    }
    findings.info(`has ${known.values.length} categories the model knows; it ignores others.`, name);
  } else if (profile.distinct) {
    findings.info(
      `has ${profile.distinct.size} categories in the training table; the model gets the text itself.`,
      name,
    );
  } else spec.kind = 'text';
}

function booleanWords(spec: ColumnSpec, profile: ColumnProfile): void {
  const seen = [...(profile.distinct?.keys() ?? [])];
  spec.true_values = [...new Set([...DEFAULT_TRUE, ...seen.filter((v) => booleanWord(v) === true)])];
  spec.false_values = [...new Set([...DEFAULT_FALSE, ...seen.filter((v) => booleanWord(v) === false)])];
}

/** What false and true become, if the codes are those of booleans. */
function flagCodes(codes: Record<string, number>): [number, number] | null {
  const of = (b: boolean) => Object.entries(codes).filter(([k]) => booleanWord(k) === b);
  const [no, yes] = [of(false), of(true)];
  if (no.length !== 1 || yes.length !== 1 || Object.keys(codes).length !== 2) return null;
  return [no[0]![1], yes[0]![1]];
}

/** Codes of whole numbers that the table spells another way: 10.0 for 10, as pandas does where a column has gaps. */
function respelled(codes: Record<string, number>, profile: ColumnProfile): Record<string, number> {
  const byNumber = new Map(Object.entries(codes).map(([k, c]) => [k.trim() === '' ? Number.NaN : Number(k), c]));
  return Object.fromEntries(
    [...(profile.distinct?.keys() ?? [])].flatMap((cell) => {
      if (Object.hasOwn(codes, cell) || !/^-?[1-9]?\d*(\.0*)?$/.test(cell)) return [];
      const code = byNumber.get(Number(cell));
      return code === undefined ? [] : [[cell, code] as const];
    }),
  );
}

/** Columns the encoding speaks of and the table does not have. @throws SluiceError registration_refused */
export function checkNames(encoding: EncodingFile, header: readonly string[]): void {
  for (const part of ['codes', 'missing', 'unseen', 'booleans'] as const) {
    const unknown = Object.keys(encoding[part]).filter((c) => c !== '*' && !header.includes(c));
    if (unknown.length > 0) {
      throw refuse(
        `--encoding names ${unknown.join(', ')} in ${part}, which the training table does not have (it has ${header.join(', ')})`,
      );
    }
  }
}

function checkCodes(name: string, codes: Record<string, number>, profile: ColumnProfile, findings: Findings): void {
  const unmapped = [...(profile.distinct?.keys() ?? [])].filter((v) => !Object.hasOwn(codes, v));
  if (unmapped.length > 0) {
    findings.warn(`${plural(unmapped.length, 'training value')} has no code; applications with them are unseen`, name);
  }
  const unsafe = Object.values(codes).filter((c) => Math.fround(c) !== c).length;
  if (unsafe > 0) findings.warn(`${plural(unsafe, 'code')} cannot be held by float32`, name);
}

function applyUnseen(spec: ColumnSpec, encoding: EncodingFile, findings: Findings): void {
  const rule = ruleFor(encoding.unseen, spec.name);
  if (rule === undefined) {
    spec.unseen = 'error';
    findings.assumed('unseen categories are rejected: --encoding says no number for them (unseen)', spec.name);
  } else if (rule === 'missing' || rule === 'error') spec.unseen = rule;
  else {
    spec.unseen = 'value';
    spec.unseen_value = rule === 'nan' ? 'nan' : rule;
  }
}

/** Amounts beyond what float32 holds are no error, but whoever trained in float64 should know. */
export function tellExactness(drafts: readonly DraftColumn[], findings: Findings): void {
  const floats = drafts.filter((d) => d.spec.kind === 'number' && d.input.type === 'float32');
  for (const { profile } of floats) {
    if (profile.inexactWhole === 0) continue;
    findings.warn(
      `${plural(profile.inexactWhole, 'whole number')} beyond 16,777,216 cannot be held by float32: neighbours become the same number`,
      profile.name,
    );
  }
  const inexact = floats.filter((d) => d.profile.inexact > d.profile.inexactWhole).map((d) => d.spec.name);
  if (inexact.length > 0) {
    findings.info(
      `Values of ${inexact.join(', ')} change in the 8th digit as float32, which is what the model takes: a model trained on float64 can take another branch near a threshold.`,
    );
  }
}

const NUMBERS: MissingChoice[] = [
  { as: 'nan' },
  ...[0, -1, -999, -9999, 1].map((value): MissingChoice => ({ as: 'value', value })),
];
const WORDS = ['', 'missing', 'nan', 'None', 'NaN', 'NA', 'unknown', 'Unknown', 'UNKNOWN', 'MISSING', 'null', '<NA>'];

function draftMissing(
  draft: DraftColumn,
  known: KnownCategories | undefined,
  encoding: EncodingFile,
  findings: Findings,
  problems: string[],
): void {
  const { spec, input, profile } = draft;
  const { values } = spec.missing!;
  const set = (choice: MissingChoice) => {
    spec.missing = { values: values!, ...choice };
  };
  const rule = ruleFor(encoding.missing, spec.name);
  const gone = missingIn(profile);
  if (rule !== undefined) {
    if (rule === 'error') set({ as: 'error' });
    else if (rule === 'nan' && input.type !== 'string') set({ as: 'nan' });
    else if (spec.codes && typeof rule === 'string') {
      // A category in place of a missing value: what reaches the model is its code.
      if (Object.hasOwn(spec.codes, rule)) set({ as: 'value', value: spec.codes[rule]! });
      else problems.push(`column ${spec.name}: --encoding says missing becomes ${rule}, which has no code`);
    } else set({ as: 'value', value: rule });
    return;
  }
  if (input.type === 'string') {
    const spare = known?.values.filter((v) => !profile.distinct?.has(v)) ?? [];
    const marker = known?.marker;
    const extra = [
      ...(marker === undefined ? [] : [marker]),
      ...spare.filter((v) => MISSING_WORDS.has(v) || WORDS.includes(v)),
    ];
    const other = spare.filter((v) => booleanWord(v) === undefined);
    const words = [...new Set([...extra, ...(gone > 0 ? other : []), ...WORDS])];
    draft.choices = words.map((value) => ({ as: 'value', value }));
    // An encoder that fails on what it does not know was given something for missing values: the one word no row has.
    const [only] = gone > 0 && other.length === 1 ? other : [];
    if (known?.unseen === 'error' && extra.length === 0 && only === undefined) {
      set({ as: 'error' });
      return;
    }
    set(draft.choices[0]!);
    if (gone > 0 && known) {
      const word = words[0]!;
      if (word === marker)
        findings.info(`missing becomes ${JSON.stringify(word)}, which the model itself replaces.`, spec.name);
      else if (known.values.includes(word))
        findings.info(
          `missing becomes ${JSON.stringify(word)}, which the model knows and the table does not hold.`,
          spec.name,
        );
      else
        findings.assumed(
          `missing becomes ${JSON.stringify(word)}, which the model treats like an unknown category`,
          spec.name,
        );
    }
    return;
  }
  const floats = input.type === 'float32' || input.type === 'float64';
  draft.choices = floats ? [...NUMBERS] : NUMBERS.filter((c) => c.as !== 'nan');
  if (input.type === 'bool')
    draft.choices = [
      { as: 'value', value: false },
      { as: 'value', value: true },
    ];
  draft.open = true;
  set(floats ? { as: 'nan' } : { as: 'error' });
}
