// Columns of words: categories with codes, texts the model takes itself, booleans however they are spelled.
import { DEFAULT_FALSE, DEFAULT_TRUE } from '../inference/encode/column-reader.ts';
import type { KnownCategories } from '../inference/onnx/categories.ts';
import type { ColumnSpec } from '../model/package/manifest.ts';
import type { ColumnRules, DraftColumn } from './draft.ts';
import { ruleFor } from './encoding-file.ts';
import { type Findings, plural } from './findings.ts';
import { booleanWord, type ColumnProfile, valuesIn } from './training-table.ts';

type Codes = Readonly<Record<string, number>>;

/** Categories that become the numbers they were trained as. */
export function draftCodes({ spec, profile }: DraftColumn, codes: Codes, { encoding, findings }: ColumnRules): void {
  spec.kind = 'category';
  spec.codes = { ...codes, ...respelled(codes, profile) };
  checkCodes(spec, profile, findings);
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

/** A column of an input that takes texts. */
export function draftText(column: DraftColumn, { encoding, findings }: ColumnRules): void {
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
    findings.info(
      `has ${spec.values.length} categories; training refused others, so such applications are rejected.`,
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

/** A boolean whose words are the usual ones and those of the table. */
export function draftBoolean({ spec, profile }: DraftColumn): void {
  const seen = [...(profile.distinct?.keys() ?? [])];
  spec.kind = 'boolean';
  spec.true_values = [...new Set([...DEFAULT_TRUE, ...seen.filter((v) => booleanWord(v) === true)])];
  spec.false_values = [...new Set([...DEFAULT_FALSE, ...seen.filter((v) => booleanWord(v) === false)])];
}

/** What false and true become, if the codes are those of booleans. */
export function flagCodes(codes: Codes): [number, number] | null {
  const of = (b: boolean) => Object.entries(codes).filter(([k]) => booleanWord(k) === b);
  const [no, yes] = [of(false), of(true)];
  if (no.length !== 1 || yes.length !== 1 || Object.keys(codes).length !== 2) return null;
  return [no[0]![1], yes[0]![1]];
}

/**
 * The word the model knows for a boolean, else the word of the table. They may differ: pandas writes True where the CSV
 * says true.
 */
const spelling = ({ known, profile }: DraftColumn, value: boolean): string | undefined =>
  known?.values.find((v) => booleanWord(v) === value) ??
  [...(profile.distinct?.keys() ?? [])].find((v) => booleanWord(v) === value);

function reportKnown(known: KnownCategories, { spec, profile }: DraftColumn, findings: Findings): void {
  const unknown = [...(profile.distinct?.keys() ?? [])].filter((v) => !known.values.includes(v));
  if (unknown.length > 0 && unknown.length === profile.distinct?.size) {
    findings.warn(
      `none of its ${unknown.length} training values is one the model knows: another encoding was used`,
      spec.name,
    );
  }
  findings.info(`has ${known.values.length} categories the model knows; it ignores others.`, spec.name);
}

/** Codes of whole numbers that the table spells another way: 10.0 for 10, as pandas does where a column has gaps. */
function respelled(codes: Codes, profile: ColumnProfile): Record<string, number> {
  const byNumber = new Map(Object.entries(codes).map(([k, c]) => [k.trim() === '' ? Number.NaN : Number(k), c]));
  return Object.fromEntries(
    [...(profile.distinct?.keys() ?? [])].flatMap((cell) => {
      if (Object.hasOwn(codes, cell) || !/^-?\d*(\.0*)?$/.test(cell)) return [];
      const code = byNumber.get(Number(cell));
      return code === undefined ? [] : [[cell, code] as const];
    }),
  );
}

function checkCodes({ name, codes = {} }: ColumnSpec, profile: ColumnProfile, findings: Findings): void {
  const unmapped = [...(profile.distinct?.keys() ?? [])].filter((v) => !Object.hasOwn(codes, v));
  if (unmapped.length > 0) {
    findings.warn(`${plural(unmapped.length, 'training value')} has no code; applications with them are unseen`, name);
  }
  const unsafe = Object.values(codes).filter((c) => Math.fround(c) !== c).length;
  if (unsafe > 0) findings.warn(`${plural(unsafe, 'code')} cannot be held by float32`, name);
}
