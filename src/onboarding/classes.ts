// The classes of a model: assigns cells of the outcome column to classes, and determines the positive class, whose probability is served.
import type { ClassLabel } from '../inference/onnx/servable.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import { fitLosses, type PairedGain, type Predictions, pairedGain } from './fit-loss.ts';
import { refusal } from './report-card.ts';
import { booleanWord } from './training-table.ts';

/**
 * Whether a cell of the outcome column means this class: it has the same text, the same number, or is a boolean word
 * for 1 or 0.
 */
export function meansClass(cell: string, label: string): boolean {
  if (cell === label) return true;
  const word = booleanWord(cell);
  return word === undefined ? cell !== '' && Number(cell) === Number(label) : String(Number(word)) === label;
}

/** Fraction of rows with an unknown class above which the labels do not belong to the model. */
const FOREIGN_SHARE = 0.02;
/** Maximum number of labels for which all assignments to classes are compared. */
const MOST_LABELS = 6;

interface OutcomeLabels {
  /** The index of the class by cell. */
  readonly classOf: ReadonlyMap<string, number>;
  /** Fraction of rows whose cell is not a class. */
  readonly foreign: number;
}

/** Assigns cells to the labels of the model. Both −1 and 0 mean the class opposite to 1. */
export function outcomeLabels({ classes = [] }: Manifest, cells: readonly string[]): OutcomeLabels {
  const labels = classes.map(String);
  const classOf = new Map<string, number>();
  let foreign = 0;
  for (const [cell, of] of Map.groupBy(cells, (c) => c)) {
    const exact = labels.indexOf(cell);
    const found = exact >= 0 ? exact : labels.findIndex((label) => meansClass(cell, label));
    if (found < 0) foreign += of.length;
    else classOf.set(cell, found);
  }
  return { classOf, foreign: foreign / Math.max(1, cells.length) };
}

export const areForeign = ({ foreign }: OutcomeLabels): boolean => foreign > FOREIGN_SHARE;

interface LabelAssignment {
  readonly classOf: ReadonlyMap<string, number>;
  /** The advantage of this assignment over the second-best assignment. */
  readonly lead: PairedGain;
}

/**
 * The assignment of cell values to classes that fits the scores best. null: there are not as many values as classes, or
 * there are too many of them.
 */
export function assignLabels(
  { classes = [], positive_class }: Manifest,
  cells: readonly string[],
  { values, width }: Predictions,
): LabelAssignment | null {
  const names = [...new Set(cells)].sort();
  if (names.length !== classes.length || names.length > MOST_LABELS) return null;
  const positive = classes.indexOf(positive_class!);
  const scoreOf = (c: number): Float64Array => {
    if (width > 1) return Float64Array.from(cells, (_, r) => values[r * width + c]!);
    return c === positive ? values : values.map((p) => 1 - p);
  };
  const losses = classes.map((_, c) => {
    const score = scoreOf(c);
    return names.map((name) =>
      fitLosses(
        'binary',
        { values: score, width: 1 },
        Float64Array.from(cells, (cell) => Number(cell === name)),
      ),
    );
  });
  const lossOf = (order: readonly number[]): Float64Array =>
    Float64Array.from(cells, (_, r) => order.reduce((sum, name, c) => sum + losses[c]![name]![r]!, 0));
  const tried = permutations(names.length).map((order) => ({ order, loss: lossOf(order) }));
  const mean = (v: Float64Array) => v.reduce((a, b) => a + b, 0);
  const [best, next] = tried.sort((a, b) => mean(a.loss) - mean(b.loss));
  const classOf = new Map(best!.order.map((name, c) => [names[name]!, c]));
  return { classOf, lead: pairedGain(next!.loss, best!.loss) };
}

function permutations(n: number): number[][] {
  if (n === 0) return [[]];
  return permutations(n - 1).flatMap((order) =>
    Array.from({ length: n }, (_, at) => [...order.slice(0, at), n - 1, ...order.slice(at)]),
  );
}

// Names of good and bad classes, which determine the positive class. If a class has another name, the user must name
// the positive class with a flag.

const GOOD = [
  'good', 'ok', 'true', 'yes', 'y', 'paid', 'repaid', 'approve', 'approved', 'accept', 'accepted', 'positive',
  'performing', 'fully paid', 'fully_paid', 'current',
]; // biome-ignore format: a list
const BAD = [
  'bad', 'false', 'no', 'n', 'default', 'defaulted', 'reject', 'rejected', 'negative', 'not_ok', 'charged_off',
  'charged off', 'late', 'overdue', 'fraud',
]; // biome-ignore format: a list
/** Matches names of outcome columns in which 1 means the bad outcome. */
const BAD_OUTCOME =
  /^(?:is)?(?:bad|defaults|defaulted|default|fraud|arrears|delinq[a-z]{0,12}|chargedoff|chargeoff|writeoff|npl|overdue|dpd\d{0,4})(?:flag|ind)?$/;
/** Maximum number of words in such a name, as in is_charged_off_flag. */
const NAME_WORDS = 4;

/**
 * Whether the first of two classes is the class that a lender wants to avoid, according to its name or to the name of
 * the outcome.
 */
function isBadClass(label: ClassLabel, other: ClassLabel | undefined, outcome: string | null): boolean {
  const [word, rest] = [label, other].map((c) => String(c).toLowerCase());
  if (BAD.includes(word!) || GOOD.includes(rest!)) return !GOOD.includes(word!);
  const bad = outcome !== null && namesBadOutcome(outcome);
  return bad ? word === '1' : rest === '1';
}

export const isGoodWord = (word: string): boolean => GOOD.includes(word.toLowerCase());

function namesBadOutcome(column: string): boolean {
  const words = column.toLowerCase().split(/[\W_]/);
  const from = (at: number) => Array.from({ length: NAME_WORDS }, (_, n) => words.slice(at, at + n + 1).join(''));
  return words.some((_, at) => from(at).some((name) => BAD_OUTCOME.test(name)));
}

/** Determines the positive class. @throws SluiceError registration_refused */
export function positiveOf(classes: readonly ClassLabel[], { options, outcome, findings }: Draft): ClassLabel {
  if (options.positiveClass !== undefined) {
    const found = classes.find((c) => String(c) === options.positiveClass);
    if (found === undefined)
      throw refusal(
        `--positive-class ${options.positiveClass} is not a class of the model: use one of ${classes.join(', ')}`,
      );
    const other = classes.find((c) => c !== found);
    if (isBadClass(found, other, outcome)) {
      findings.assumed(
        `--positive-class selects class ${found} of ${outcome ?? 'the outcome'}, which looks like the bad outcome. Decisions and reason codes assume that a high probability is good; --positive-class ${other} serves 1 minus this probability`,
      );
    } else findings.info(`The probability is that of class ${found}.`);
    return found;
  }
  const column = outcome ?? 'the outcome';
  const one = classes.find((c) => String(c) === '1');
  if (one !== undefined && classes.some((c) => String(c) === '0' || String(c) === '-1')) {
    if (namesBadOutcome(column)) {
      const other = classes.find((c) => c !== one);
      throw refusal(
        `class 1 of ${column} looks like the bad outcome, but decisions and reason codes assume that a high probability is good. Use --positive-class ${other} for the probability of the good outcome, or --positive-class ${one} for the probability of the bad outcome`,
      );
    }
    findings.info(`The probability is that of class 1 of ${column}.`);
    return one;
  }
  const words = classes.map((c) => String(c).toLowerCase());
  const good = words.findIndex((w) => GOOD.includes(w) || w === outcome?.toLowerCase());
  const bad = words.findIndex((w) => BAD.includes(w));
  const pick = good >= 0 ? good : bad >= 0 ? 1 - bad : -1;
  if (pick < 0 || (good >= 0 && good === bad)) {
    throw refusal(
      `the class whose probability is the score is unknown: choose one of ${classes.join(' and ')} with --positive-class`,
    );
  }
  findings.assumed(`the probability is that of class ${classes[pick]} (--positive-class to change that)`);
  return classes[pick]!;
}
