// Derives the report from the conclusions about a file: open questions, problems without a solution, and the command.

import { isAscii } from 'node:buffer';
import { RECORD_OK } from '../core/block.ts';
import type { TextRules } from '../core/input-declaration.ts';
import { ownValue } from '../core/own-keys.ts';
import { shellWord } from '../core/shell-word.ts';
import { DELIMITERS } from '../formats/delimited/header.ts';
import { type ColumnReader, PLAIN_NOTATION } from '../inference/encode/column-reader.ts';
import { otherSpelling } from './category-spelling.ts';
import { fitOfCells, isCompatible, SIMILAR, swappedPairs } from './column-values.ts';
import type { Conclusions } from './conclusions.ts';
import type { CommandForAnswer, InspectedColumn, Inspection, InspectionVerdict, OpenQuestion } from './inspection.ts';
import type { NameMatch } from './match-names.ts';
import { planOf, type ReadingState } from './reading-plan.ts';
import { fieldsOf, recordAt } from './sample-records.ts';
import { isListable, isPiped, notationFlags, type ReadingPlan, scoreCommand } from './score-command.ts';
import { type MissingWord, notationText } from './text-rules.ts';
import type { Trial } from './trial-decode.ts';

/** A question whose answers change how the file is read. */
interface Choice {
  question: string;
  /** The model column whose input column the question asks for. */
  column?: string;
  /** `flags`: the flags that the answer adds to the command. Default: determined by comparing the plans. */
  answers: { meaning: string; flags?: string; change: (state: ReadingState) => ReadingState }[];
}

/**
 * Maximum number of candidates that a question names. `MOST_COMMANDS`: maximum number of commands that are printed for
 * combinations of answers.
 */
const MOST_CANDIDATES = 4;
const MOST_COMMANDS = 8;
/** Fraction of rows with another spelling of a category above which the whole file probably has another spelling. */
const MISSPELLED = 0.05;
/** Fraction of unseen values from which the values probably do not belong to the column. */
const MOSTLY_UNSEEN = 0.2;
/** Fraction of missing values that is unusual if the fraction in training was below `SELDOM_MISSING`. */
const MOSTLY_MISSING = 0.9;
const SELDOM_MISSING = 0.1;
/** Fraction of values within the range of the training data below which the values probably have another unit. */
const MOSTLY_INSIDE = 0.5;
const FEWEST_COMPARED = 10;
/** Minimum number of rows for comparing distributions to confirm the order of columns. */
const ENOUGH_ROWS = 50;
const LONGEST_SHOWN = 40;
/** Minimum number of rows from which a column with a different value in every row is probably an identifier. */
const FEWEST_IDENTIFIED = 10;

type TryPlan = (plan: ReadingPlan) => Trial;

/** Builds the report about a file. `tryPlan` decodes the sample according to a plan. */
export function conclude(found: Conclusions, tryPlan: TryPlan): Inspection {
  const ofColumns = columnChoices(found);
  const choices = [...ofColumns, ...swapChoices(found), ...textChoices(found), ...endChoices(found)];
  const combinations = combined(choices, found.state);
  const first = combinations[0]?.state ?? found.state;
  const plan = planOf(first);
  const lost = lostColumns(found, ofColumns);
  const trial = lost.length > 0 || combinations.length === 0 ? null : tryPlan(plan);
  const values = trial ? valueFindings(found, trial) : { problems: [], questions: [] };
  const plausible = trial ? [...plausibilityQuestions(found, first, trial), ...encodingQuestions(found, first)] : [];
  const problems = [...lost, ...planProblems(found, plan), ...(trial ? trialProblems(trial) : []), ...values.problems];
  const order = trial && problems.length === 0 && choices.length === 0 ? orderQuestions(found) : [];
  const questions = [
    ...choices.map((choice) => asked(choice, found.state)),
    ...order,
    ...values.questions,
    ...plausible,
  ];
  const isImpossible = problems.length > 0;
  const isPrinted = !isImpossible && trial !== null;
  const open = openColumns(found);
  const verdict: InspectionVerdict = isImpossible
    ? 'impossible'
    : questions.length > 0
      ? 'open'
      : trial && trial.rejected > 0
        ? 'rejects'
        : 'ready';
  return {
    ...described(found, plan),
    verdict,
    columns: inspectedColumns(found, trial, first),
    rejected: { rows: trial?.rejected ?? 0, first: trial?.first ?? [] },
    first_row: found.names === null && trial ? firstRow(found, plan) : null,
    notes: notesOf(found, plan),
    questions,
    problems,
    command: isPrinted && choices.length === 0 ? scoreCommand(plan) : null,
    alternatives: isPrinted && choices.length > 0 ? combinations.map(commandOf) : [],
    open_columns: open,
    template: trial === null && problems.length === lost.length ? templateOf(found, open) : null,
  };
}

/** The part of the report that does not depend on questions. */
function described(
  { sample, rules, after, records, table, state }: Conclusions,
  plan: ReadingPlan,
): Omit<
  Inspection,
  | 'verdict'
  | 'columns'
  | 'rejected'
  | 'first_row'
  | 'notes'
  | 'questions'
  | 'problems'
  | 'command'
  | 'alternatives'
  | 'open_columns'
  | 'template'
> {
  const { request, format, compression, encoding, shape, whole, end } = sample;
  // Numbers in JSON and in columnar formats have no local notation.
  const hasNotation = shape !== null || (sample.typed === undefined && rules.notation.confidence !== 'low');
  return {
    file: request.file,
    model: request.model.ref,
    inspected: { rows: records.count, whole_file: whole, end_of_file: whole || end !== null },
    format,
    compression,
    encoding,
    delimiter: shape?.delimiter ?? null,
    header: shape?.headerGuess ?? null,
    skipped_lines: shape?.skip ?? 0,
    trailer: after
      ? {
          value: `${after.lines} ${after.lines === 1 ? 'line' : 'lines'}`,
          confidence: after.confidence,
          reason: after.reason,
        }
      : null,
    numbers: hasNotation ? { ...rules.notation, value: notationText(rules.notation.value) } : null,
    trim: rules.trim,
    null_values: rules.missingWords,
    ignored: ignoredOf(plan, table.names, state),
  };
}

function ignoredOf({ ignore }: ReadingPlan, names: readonly string[] | null, { assigned }: ReadingState): string[] {
  if (ignore !== '*') return [...ignore];
  const used = new Set(assigned.values());
  return [...new Set((names ?? []).filter((_, i) => !used.has(i)))].map((name) => (name === '' ? '(no name)' : name));
}

const rulesIn = ({ notation, trim, nullValues }: ReadingState): TextRules => ({ ...notation, trim, nullValues });
const cellsAt = ({ table }: Pick<Conclusions, 'table'>, at: number): unknown[] => table.rows.map((row) => row[at]);
const readerOf = ({ sample }: Conclusions, column: string): ColumnReader =>
  sample.readers.find(({ name }) => name === column)!;

// Questions and problems about columns.

/** Input columns that no model column uses. */
function spareColumns({ table, matches, names, sample }: Conclusions): number[] {
  const used = new Set(matches.flatMap(({ at }) => (at === null ? [] : [at])));
  const ignored = sample.request.declared?.columns?.ignore ?? [];
  for (const [i, name] of (names ?? []).entries()) if (ignored !== '*' && ignored.includes(name)) used.add(i);
  return Array.from({ length: table.width }, (_, i) => i).filter((i) => !used.has(i));
}

/** The questions about model columns for which several input columns are possible. */
function columnChoices(found: Conclusions): Choice[] {
  const { matches, names, offsets } = found;
  if (names === null) return offsets.length > 1 ? [offsetChoice(found)] : [];
  const spare = spareColumns(found);
  const hints = hintsOf(found, spare);
  return matches.flatMap((match): Choice[] => {
    const candidates = hints.get(match.column) ?? candidatesFor(found, match, spare);
    if (candidates.length === 0) return [];
    const shown = candidates.slice(0, MOST_CANDIDATES);
    // A flag cannot distinguish columns with the same name.
    const isDuplicate = new Set(candidates.map((at) => names[at])).size < candidates.length;
    const why = isDuplicate
      ? `occurs ${candidates.length} times with different values`
      : match.match === 'missing'
        ? 'is not in the file; columns with other names have values that could be its own'
        : 'resembles several names of the file, or one whose values do not fit';
    return [
      {
        question: `which input column is ${match.column}? It ${why}`,
        column: match.column,
        answers: shown.map((at) => ({
          meaning: `${match.column} is ${isDuplicate ? `field ${at + 1}` : names[at]}`,
          flags: isDuplicate ? '' : `--rename ${shellWord(`${match.column}=${names[at]}`)}`,
          change: (state) => ({ ...state, assigned: new Map([...state.assigned, [match.column, at]]) }),
        })),
      },
    ];
  });
}

/** The input columns that are possible for a model column. Empty: the file decides which one it is. */
function candidatesFor(found: Conclusions, match: NameMatch, spare: readonly number[]): number[] {
  if (match.match === 'open') return [...match.candidates];
  if (match.at === null || (match.match !== 'affix' && match.match !== 'spelling')) return [];
  // A column with a similar name is questioned if the values of another column fit better.
  const reader = readerOf(found, match.column);
  const cells = cellsAt(found, match.at);
  const { psi } = fitOfCells(found.sample.request.model.manifest, reader, cells, rulesIn(found.state));
  if (isCompatible(reader, cells, rulesIn(found.state)) !== false && (psi === null || psi < SIMILAR)) return [];
  const others = fitting(found, match.column, spare).toSorted((a, b) => a.distance - b.distance);
  return others.length === 0 ? [] : [match.at, ...others.map(({ at }) => at)];
}

/**
 * For each missing model column: possible input columns. Input columns that fit no other missing column come first,
 * followed by columns that fit no other missing column better.
 */
function hintsOf(found: Conclusions, spare: readonly number[]): ReadonlyMap<string, number[]> {
  const missing = found.matches.filter(({ match }) => match === 'missing').map(({ column }) => column);
  const fits = missing.flatMap((column) => fitting(found, column, spare).map((fit) => ({ column, ...fit })));
  const byInput = Map.groupBy(fits, ({ at }) => at);
  const rank = ({ at, distance }: ValueHint) => {
    const rivals = byInput.get(at)!;
    return rivals.length === 1 ? 0 : rivals.every((rival) => distance <= rival.distance) ? 1 : 2;
  };
  const byColumn = Map.groupBy(fits, ({ column }) => column);
  return new Map(
    missing.map((column) => [
      column,
      (byColumn.get(column) ?? []).toSorted((a, b) => rank(a) - rank(b) || a.distance - b.distance).map(({ at }) => at),
    ]),
  );
}

interface ValueHint {
  /** Index of the input column. */
  at: number;
  /** Distance between the values of the column and the training data. */
  distance: number;
}

/** Unused input columns whose values could be those of a missing column: they are only suggested, never assigned. */
function fitting(found: Conclusions, column: string, spare: readonly number[]): ValueHint[] {
  const reader = readerOf(found, column);
  const rules = rulesIn(found.state);
  const { manifest } = found.sample.request.model;
  return spare.flatMap((at) => {
    const cells = cellsAt(found, at);
    if (isCompatible(reader, cells, rules) !== true || cells.every((cell) => cell === '')) return [];
    const { psi, inside } = fitOfCells(manifest, reader, cells, rules);
    // Known categories identify a column even if their distribution differs.
    const isLikely = psi === null || psi < SIMILAR || reader.kind === 'category';
    return isLikely ? [{ at, distance: psi ?? 1 - (inside ?? 0) }] : [];
  });
}

function offsetChoice({ offsets, sample }: Conclusions): Choice {
  const columns = sample.readers.map(({ name }) => name);
  return {
    question: `the file has no header row and more fields than the model has columns: which field is ${columns[0]}?`,
    answers: offsets.slice(0, MOST_CANDIDATES).map((offset) => ({
      meaning: `${columns[0]} is field ${offset + 1}`,
      change: (state) => ({ ...state, assigned: new Map(columns.map((column, i) => [column, i + offset])) }),
    })),
  };
}

/** Model columns that have neither an input column nor a constant value. */
const openColumns = ({ matches }: Conclusions): string[] =>
  matches.flatMap(({ at, column, match }) => (at === null && match !== 'constant' ? [column] : []));

/**
 * The command with `?` in place of the name for every open column. null: no column is open, the file has no unused
 * column, or columns cannot be named.
 */
function templateOf(found: Conclusions, open: readonly string[]): string | null {
  const plan = planOf(found.state);
  if (open.length === 0 || plan.names !== null || spareColumns(found).length === 0) return null;
  const rename = new Map([...plan.rename, ...open.map((column) => [column, '?'] as const)]);
  const command = { ...plan, rename, ignore: '*' as const };
  if (found.rules.readings.length === 0) return scoreCommand(command);
  return `${scoreCommand({ ...command, notation: PLAIN_NOTATION })} --decimal '?'`;
}

/** Problems with model columns that the file lacks. They cannot be solved by answering questions. */
function lostColumns(found: Conclusions, choices: readonly Choice[]): string[] {
  const { names, sample, table, offsets, misfit } = found;
  if (names === null) {
    if (offsets.length > 0) return [];
    const fields = `the file has no header row and ${table.width} fields, the model has ${sample.readers.length} columns`;
    if (table.width < sample.readers.length) return [`${fields}: declare the names in their order with --columns`];
    const other = misfit ? `, but field values do not fit ${misfit.name} in the order of the model` : '';
    return [`${fields}${other}: declare the names in the order of the file with --columns`];
  }
  const spare = spareColumns(found);
  const asked = new Set(choices.map(({ column }) => column));
  const open = openColumns(found);
  const lost = open.filter((column) => !asked.has(column));
  if (lost.length === 0) return [];
  const unused = spare.map((at) => names[at]).filter((name) => name !== '');
  const constants = 'a value that is the same in all rows can be declared with --constants';
  if (unused.length === 0) {
    return [`the file has no column for ${lost.join(', ')}. Ask the sender for it; ${constants}`];
  }
  const [have, list] = [open.length === 1 ? 'column of the model has' : 'columns of the model have', open.join(', ')];
  return [
    `${open.length} ${have} no counterpart by name: ${list}. Declare those among ${unused.slice(0, 20).join(', ')} with --rename column=name; ${constants}`,
  ];
}

/** Model columns whose input column was not identified by an exact name, with their cells. */
const uncertainColumns = (found: Conclusions) =>
  found.matches.flatMap(({ match, column, at }) => {
    if (at === null || !(match === 'position' || match === 'spelling' || match === 'affix')) return [];
    return [{ reader: readerOf(found, column), cells: cellsAt(found, at) }];
  });

/**
 * Questions about columns that may be swapped. Each answer needs another command, so the report has one command per
 * answer.
 */
function swapChoices(found: Conclusions): Choice[] {
  const pairs = swappedPairs(found.sample.request.model.manifest, uncertainColumns(found), rulesIn(found.state));
  return pairs.map(([a, b]) => ({
    question: `are ${a} and ${b} swapped? Their values fit the training data better if the two columns are exchanged`,
    answers: [
      {
        meaning: `${a} and ${b} are swapped`,
        change: (state) => {
          const [atA, atB] = [state.assigned.get(a)!, state.assigned.get(b)!];
          return { ...state, assigned: new Map([...state.assigned, [a, atB], [b, atA]]) };
        },
      },
      { meaning: `${a} and ${b} are in the order of the model`, change: (state) => state },
    ],
  }));
}

/**
 * For a file without a header row: the question about the order of the columns, unless the values confirm the order.
 */
function orderQuestions(found: Conclusions): OpenQuestion[] {
  const { names, state, table, sample } = found;
  const { manifest } = sample.request.model;
  const rules = rulesIn(state);
  if (names !== null) return [];
  const columns = uncertainColumns(found);
  const numbers = columns.filter(({ reader }) => reader.kind === 'number');
  const fits = numbers.map(({ reader, cells }) => fitOfCells(manifest, reader, cells, rules).psi);
  // A line with many cells may be a header row with other names in another order.
  const hasOtherNames = (sample.shape?.cellsBefore ?? 0) > table.width / 2;
  const isConfirmed =
    !hasOtherNames && table.rows.length >= ENOUGH_ROWS && fits.every((psi) => psi !== null && psi < SIMILAR);
  if (isConfirmed) return [];
  return [
    {
      column: null,
      question: 'is the order of the fields that of the model? Only their kinds agree: compare the first row above',
      answers: [
        { meaning: 'yes', flags: 'run the command below' },
        { meaning: 'no', flags: 'change the order of the names in --columns' },
      ],
    },
  ];
}

// Questions about texts and lines.

function textChoices({ rules }: Conclusions): Choice[] {
  const notation: Choice[] =
    rules.readings.length === 0
      ? []
      : [
          {
            question: `what do the numbers mean? ${rules.notation.reason}`,
            answers: rules.readings.map((reading) => ({
              meaning: reading.meaning,
              flags: notationFlags(reading.notation).join(' '),
              change: (state) => ({ ...state, notation: reading.notation }),
            })),
          },
        ];
  return [...notation, ...[...rules.doubtfulWords, ...rules.sentinels].map(wordChoice)];
}

const wordChoice = ({ text, count, columns }: MissingWord): Choice => ({
  question: `does ${text} mean a missing value? It occurs ${count} times in ${columns.join(', ')}`,
  answers: [
    {
      meaning: `${text} means a missing value`,
      change: (state) => ({ ...state, nullValues: [...state.nullValues, text] }),
    },
    { meaning: `${text} is a value`, change: (state) => state },
  ],
});

function endChoices({ after }: Conclusions): Choice[] {
  if (!after?.isDoubtful) return [];
  return [
    {
      question: `is the last line an application? ${after.reason}`,
      answers: [
        { meaning: 'the last line is not an application', change: (state) => ({ ...state, cut: after.lines }) },
        { meaning: 'the last line is an application', change: (state) => state },
      ],
    },
  ];
}

/** The question with the flags that each answer declares. */
const asked = ({ question, column, answers }: Choice, state: ReadingState): OpenQuestion => ({
  question,
  column: column ?? null,
  answers: answers.map(({ meaning, flags, change }) => ({
    meaning,
    flags: flags ?? addedFlags(planOf(state), planOf(change(state))),
  })),
});

/** The flags for names and missing values that `after` has and `before` lacks. */
function addedFlags(before: ReadingPlan, after: ReadingPlan): string {
  const words = after.nullValues.filter((word) => !before.nullValues.includes(word));
  const names = after.names?.join(',') ?? '';
  const renamed = [...after.rename].filter(([column, name]) => before.rename.get(column) !== name);
  return [
    ...(words.length === 0 ? [] : ['--null-values', shellWord(words.join(','))]),
    ...(names === '' || names === before.names?.join(',') ? [] : ['--columns', shellWord(names)]),
    ...(renamed.length === 0 ? [] : ['--rename', shellWord(renamed.map((pair) => pair.join('=')).join(','))]),
  ].join(' ');
}

interface Combination {
  /** The meanings of the answers; empty without questions. */
  meaning: string;
  state: ReadingState;
}

/** All combinations of answers; empty if there are too many combinations to list. */
function combined(choices: readonly Choice[], state: ReadingState): Combination[] {
  let open: Combination[] = [{ meaning: '', state }];
  for (const { answers } of choices) {
    open = open.flatMap((before) =>
      answers.map(({ meaning, change }) => ({
        meaning: before.meaning === '' ? meaning : `${before.meaning}, and ${meaning}`,
        state: change(before.state),
      })),
    );
    // A combination is invalid if two model columns have the same input column.
    open = open.filter((one) => new Set(one.state.assigned.values()).size === one.state.assigned.size);
    if (open.length > MOST_COMMANDS) return [];
  }
  return open;
}

const commandOf = ({ meaning, state }: Combination): CommandForAnswer => ({
  meaning,
  command: scoreCommand(planOf(state)),
});

// Problems of a plan and of the decoded sample.

function planProblems({ sample, rules }: Conclusions, plan: ReadingPlan): string[] {
  const problems: string[] = [];
  const isText = sample.shape !== null;
  if (isPiped(plan) && /^\w+:\/\//.test(plan.file)) {
    problems.push(`lines must be removed from ${plan.file}: copy it to a local file first`);
  }
  for (const { text, columns } of rules.takenWords) {
    problems.push(
      `${text} means a missing value in ${columns.join(', ')}, but is a category of another column: ask the sender for an empty value`,
    );
  }
  const unlisted = plan.nullValues.filter((text) => text.includes(','));
  if (isText && unlisted.length > 0)
    problems.push('a text for missing values contains a comma: declare it in a pipeline');
  const renamed = [...plan.rename].filter(([, name]) => !isListable(name));
  for (const [column] of renamed) {
    problems.push(
      `the name of ${column} in the file has a comma or a control character: declare it with columns.rename in a pipeline`,
    );
  }
  return problems;
}

function trialProblems({ error, rows, rejected, first }: Trial): string[] {
  if (error) return error.details.length > 0 ? error.details.map(({ message }) => message) : [error.message];
  if (rows === 0) return ['the file has no rows after its header'];
  if (rejected < rows) return [];
  const reasons = first.slice(0, 1).map(({ column, message }) => `${column === null ? '' : `${column}: `}${message}`);
  return [`every inspected row would be rejected: ${reasons.join('')}${adviceFor(first[0]?.code)}`];
}

const ADVICE: Readonly<Record<string, string>> = {
  bad_boolean:
    '; list the words of the file in true_values and false_values of the package (docs/model-package.md), or ask the sender for true and false',
  bad_number: '; no flag removes currency signs, percent signs or units: ask the sender for plain numbers',
};
const adviceFor = (code: string | undefined): string => ADVICE[code ?? ''] ?? '';

/**
 * Findings about unseen categories that indicate that the file is read incorrectly. They would be scored without an
 * error.
 */
function valueFindings(found: Conclusions, trial: Trial): { problems: string[]; questions: OpenQuestion[] } {
  const problems: string[] = [];
  const questions: OpenQuestion[] = [];
  const { baseline } = found.sample.request.model.manifest;
  for (const [column, { unseen, missing, unseenTexts }] of trial.columns) {
    const present = trial.rows - trial.rejected - missing;
    if (unseen === 0 || present <= 0) continue;
    const share = unseen / present;
    const percent = `${(100 * share).toFixed(1)} %`;
    const spelling = otherSpelling(readerOf(found, column), unseenTexts);
    const trained = ownValue(baseline?.columns, column);
    const usual = trained?.unseen !== undefined && baseline?.rows ? trained.unseen / baseline.rows : 0;
    if (spelling !== null && share >= MISSPELLED) {
      problems.push(
        `${percent} of the values of ${column} are known categories except for ${spelling}; they would be scored as unseen ones. Ask the sender for the spelling of the model`,
      );
    } else if (spelling !== null) {
      questions.push(
        confirmation(
          `${percent} of the values of ${column} differ from known categories only in ${spelling}: is that accepted?`,
          UNSEEN_THEM,
        ),
      );
    } else if (share >= MOSTLY_UNSEEN && share > 5 * usual) {
      questions.push(
        confirmation(
          `${percent} of the values of ${column} are unseen categories: is it the right column?`,
          UNSEEN_THEM,
        ),
      );
    }
  }
  return { problems, questions };
}

/**
 * Questions about columns whose values can be read but are implausible: they may have another unit or belong to another
 * column.
 */
function plausibilityQuestions(found: Conclusions, state: ReadingState, trial: Trial): OpenQuestion[] {
  const { manifest } = found.sample.request.model;
  const { baseline } = manifest;
  const scored = trial.rows - trial.rejected;
  if (!baseline || trial.error || scored < FEWEST_COMPARED) return [];
  const questions: OpenQuestion[] = [];
  for (const [column, { missing }] of trial.columns) {
    const trained = ownValue(baseline.columns, column);
    const at = state.assigned.get(column);
    if (trained === undefined || at === undefined) continue;
    const usual = baseline.rows === undefined ? 1 : (trained.missing ?? 0) / baseline.rows;
    if (missing >= MOSTLY_MISSING * scored && usual < SELDOM_MISSING) {
      const share = `${((100 * missing) / scored).toFixed(1)} %`;
      questions.push(
        confirmation(
          `${share} of the values of ${column} are missing, unlike in the training data: is it the right column?`,
          READS_THEM,
        ),
      );
      continue;
    }
    const reader = readerOf(found, column);
    const cells = cellsAt(found, at);
    const { inside } = fitOfCells(manifest, reader, cells, rulesIn(state));
    if (reader.kind !== 'number' || inside === null || inside >= MOSTLY_INSIDE) continue;
    const share = `${(100 * (1 - inside)).toFixed(1)} %`;
    const range = `${trained.min ?? '…'} to ${trained.max ?? '…'}`;
    questions.push(
      confirmation(
        `${share} of the values of ${column} are outside the training data (${range}): is it the right column, in the same unit?`,
        READS_THEM,
      ),
    );
  }
  return questions;
}

/**
 * Asks for the encoding if it is uncertain and the model reads free text, which would differ without an error. In other
 * columns, a wrong encoding causes unseen categories.
 */
function encodingQuestions(found: Conclusions, { assigned }: ReadingState): OpenQuestion[] {
  const { encoding, readers } = found.sample;
  if (encoding === null || encoding.confidence === 'high' || encoding.value === 'utf-8') return [];
  for (const { kind, name } of readers) {
    const at = assigned.get(name);
    if (kind !== 'text' || at === undefined) continue;
    const word = cellsAt(found, at).find((cell) => typeof cell === 'string' && !isAscii(Buffer.from(cell)));
    if (typeof word !== 'string') continue;
    const shown = word.slice(0, LONGEST_SHOWN);
    return [
      confirmation(`is ${encoding.value} the encoding? The model reads ${name}, which contains ${shown}`, READS_THEM),
    ];
  }
  return [];
}

const READS_THEM = 'run the command below';
const UNSEEN_THEM = 'run the command below, which scores them as unseen categories';

const confirmation = (question: string, yes: string): OpenQuestion => ({
  question,
  column: null,
  answers: [
    { meaning: 'yes', flags: yes },
    { meaning: 'no', flags: 'ask the sender' },
  ],
});

// The columns in the report.

function inspectedColumns(found: Conclusions, trial: Trial | null, state: ReadingState): InspectedColumn[] {
  const { sample, matches, table } = found;
  return sample.readers.map((reader, i) => {
    const { match, confidence, column } = matches[i]!;
    const at = state.assigned.get(column) ?? null;
    const isAsked = at !== null && matches[i]!.at !== at;
    const own = trial && !trial.error ? trial.columns.get(column) : undefined;
    const scored = trial ? trial.rows - trial.rejected : 0;
    const share = (n: number) => (scored === 0 ? 0 : n / scored);
    const hasList = reader.kind === 'category';
    return {
      column,
      kind: reader.kind,
      input: at === null || isAsked ? constantOf(found, column) : (table.names?.[at] ?? `field ${at + 1}`),
      match: isAsked ? 'open' : match,
      confidence: isAsked ? 'low' : confidence,
      missing: own ? share(own.missing) : null,
      unseen: own && hasList ? share(own.unseen) : null,
      rejected: own?.rejected ?? 0,
    };
  });
}

/** A declared constant as `= value`; null: the column has no constant. */
function constantOf({ sample: { request } }: Conclusions, column: string): string | null {
  const { constants = {} } = request.declared?.columns ?? {};
  return Object.hasOwn(constants, column) ? `= ${constants[column]}` : null;
}

function firstRow({ sample, records }: Conclusions, plan: ReadingPlan): { column: string; value: string }[] | null {
  const at = records.faults.indexOf(RECORD_OK);
  if (at < 0 || plan.names === null) return null;
  const cells = fieldsOf(recordAt(records, at), DELIMITERS[sample.delimiter])?.[0] ?? [];
  return plan.names.map((column, i) => ({ column, value: (cells[i] ?? '').slice(0, LONGEST_SHOWN) }));
}

function notesOf(found: Conclusions, plan: ReadingPlan): string[] {
  const { sample, matches, rules, names } = found;
  const notes: string[] = [];
  const { outcome } = sample.request.model.manifest;
  if (!sample.whole && sample.shape && sample.end === null) {
    notes.push('the end of the file was not inspected: look for a total line there');
  }
  const guessed = matches.filter(({ match }) => match === 'spelling' || match === 'affix');
  if (guessed.length > 0) {
    notes.push(`check the names that only resemble the model: ${guessed.map(({ column }) => column).join(', ')}`);
  }
  const duplicates = matches.filter(({ match, confidence }) => match === 'exact' && confidence === 'medium');
  for (const { column } of duplicates)
    notes.push(`${column} occurs several times with the same values; the first one is read`);
  if (sample.whole && sample.end !== null && lastIsCut(found)) {
    notes.push('the last record has fewer fields and no line end: the file may be truncated');
  }
  const ids = plan.names === null && openColumns(found).length === 0 ? identifierOf(found) : null;
  if (ids !== null) {
    notes.push(
      `the values of ${ids} are unique: to copy them to the output, name ${ids} in --passthrough instead of --ignore`,
    );
  }
  if (outcome !== undefined && names?.includes(outcome))
    notes.push(`${outcome} is the outcome that the model predicts; it is ignored`);
  if (sample.encoding?.confidence !== 'high' && sample.encoding?.value.startsWith('windows-')) {
    notes.push('the encoding is a guess: check letters beyond ASCII in the output');
  }
  if (sample.shape !== null && rules.notation.confidence !== 'high' && rules.readings.length === 0)
    notes.push(`check the numbers: ${rules.notation.reason}`);
  return notes;
}

const LF = 10;

function lastIsCut({ sample, table }: Conclusions): boolean {
  const last = table.rows.at(-1);
  return last !== undefined && last.length < table.width && sample.end!.at(-1) !== LF;
}

/** The name of an unused column with a different value in every row; null: there is none. */
function identifierOf({ table, names, state }: Conclusions): string | null {
  const { rows } = table;
  const used = new Set(state.assigned.values());
  if (rows.length < FEWEST_IDENTIFIED) return null;
  const at = (names ?? []).findIndex((name, i) => {
    if (name === '' || used.has(i)) return false;
    return new Set(rows.map((row) => row[i] ?? '')).size === rows.length && rows.every((row) => (row[i] ?? '') !== '');
  });
  return at < 0 ? null : names![at]!;
}
