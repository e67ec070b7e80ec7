// What a missing value becomes at first: as the encoding says, else as the graph shows, else a default that stays open.
import type { ColumnRules, DraftColumn, MissingChoice } from './draft.ts';
import { type MissingRule, ruleFor } from './encoding-file.ts';
import type { Findings } from './findings.ts';
import { booleanWord, MISSING_WORDS, missingIn } from './training-table.ts';

/** Numbers that training code is known to put in place of missing values. */
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

/** Replaces what missing becomes and keeps the words that mean it. */
export function setMissing({ spec }: DraftColumn, { values: _, ...choice }: MissingChoice): void {
  spec.missing = { values: spec.missing!.values!, ...choice };
}

/** What missing becomes, in words. */
export const choiceWords = ({ as, value }: MissingChoice): string =>
  as === undefined || as === 'nan' ? 'NaN' : JSON.stringify(value);

/** The same as `missing` of an encoding file says it. */
export const ruleOf = ({ as, value }: MissingChoice): MissingRule =>
  as === 'error' ? 'error' : as === 'value' || as === 'category' ? value! : 'nan';

function applyRule(column: DraftColumn, rule: MissingRule, problems: string[]): void {
  const { codes, name } = column.spec;
  if (rule === 'error') setMissing(column, { as: 'error' });
  else if (rule === 'nan' && column.input.type !== 'string') setMissing(column, { as: 'nan' });
  else if (codes && typeof rule === 'string') {
    // A category in place of a missing value: what reaches the model is its code.
    if (Object.hasOwn(codes, rule)) setMissing(column, { as: 'value', value: codes[rule]! });
    else problems.push(`column ${name}: --encoding says missing becomes ${rule}, which has no code`);
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
  // An encoder that fails on unknown categories was given something for missing values: the one word no row has.
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
  else if (known!.values.includes(word))
    findings.info(`${becomes}, which the model knows and the table does not hold.`, spec.name);
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
