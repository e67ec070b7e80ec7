// How the values of each column are to be read and what the model gets for them: kinds, words, codes.
import { categoryKey, knownCategories } from '../inference/onnx/categories.ts';
import type { InputSpec } from '../model/package/manifest.ts';
import { assignColumns, checkNames, outcomeOf } from './assign-columns.ts';
import { draftBoolean, draftCodes, draftText, flagCodes } from './column-kinds.ts';
import { type ColumnRules, type Draft, type DraftColumn, SCORED_ROWS, type Sources, UNKNOWN_OUTPUTS } from './draft.ts';
import { NO_ENCODING, ruleFor } from './encoding-file.ts';
import { type Findings, plural, refusal } from './findings.ts';
import { draftMissing } from './missing-rule.ts';
import { valuesIn } from './training-table.ts';

const DEFAULT_TOLERANCE = 1e-6;

/** Assigns the columns to the inputs and drafts each. @throws SluiceError registration_refused with every problem */
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
  reportExactness(columns, findings);
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

/** Decides the kind of a column from its codes, the type of its input and the profile of its values, in this order. */
function draftColumn(column: DraftColumn, rules: ColumnRules): void {
  const { spec, input, profile } = column;
  const { findings } = rules;
  const codes = Object.hasOwn(rules.encoding.codes, spec.name) ? rules.encoding.codes[spec.name]! : undefined;
  spec.missing = { values: missingWords(column, codes) };
  reportMissingWords(column, findings);
  const values = valuesIn(profile);
  const allBooleans = values > 0 && profile.booleans === values;
  const flags = codes && allBooleans ? flagCodes(codes) : null;
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
      `column ${spec.name}: the model takes whole numbers, ${profile.numbers - profile.wholeNumbers} are not whole`,
    );
  }
}

const isWhole = (input: InputSpec): boolean => input.type === 'int64' || input.type === 'int32';

/** A numeric input: the values must be plain numbers, or there is a problem to report. */
function draftNumber({ spec, input, profile }: DraftColumn, { findings, problems }: ColumnRules): void {
  const { name } = spec;
  const values = valuesIn(profile);
  if (values > 0 && profile.numbers === values) {
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
}

/** The empty text, and the words of the table for "no value" that neither the codes nor the model know as a category. */
function missingWords({ profile, known }: DraftColumn, codes: Readonly<Record<string, number>> | undefined): string[] {
  const isCategory = (word: string): boolean =>
    (codes !== undefined && Object.hasOwn(codes, word)) || known?.values.includes(word) === true;
  return ['', ...[...profile.missing.keys()].filter((w) => w !== '' && !isCategory(w))];
}

function reportMissingWords({ spec }: DraftColumn, findings: Findings): void {
  const words = spec.missing!.values!.slice(1).map((w) => JSON.stringify(w));
  if (words.length > 0) findings.info(`${words.join(', ')} counts as missing besides the empty text.`, spec.name);
}

/** Amounts beyond what float32 holds are no error, but whoever trained in float64 should know. */
function reportExactness(columns: readonly DraftColumn[], findings: Findings): void {
  const floats = columns.filter((c) => c.spec.kind === 'number' && c.input.type === 'float32');
  for (const { profile } of floats) {
    if (profile.inexactWhole === 0) continue;
    findings.warn(
      `${plural(profile.inexactWhole, 'whole number')} beyond 16,777,216 cannot be held by float32: neighbours become the same number`,
      profile.name,
    );
  }
  const inexact = floats.filter((c) => c.profile.inexact > c.profile.inexactWhole).map((c) => c.spec.name);
  if (inexact.length > 0) {
    findings.info(
      `Values of ${inexact.join(', ')} change in the 8th digit as float32, which is what the model takes: a model trained on float64 can take another branch near a threshold.`,
    );
  }
}
