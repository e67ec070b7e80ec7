// Which class of the model a cell of the outcome column means: the same label, or the one the scores speak for where training
// gave the classes other labels.
import type { Manifest } from '../model/package/manifest.ts';
import { fitLosses, type PairedGain, type Predictions, pairedGain } from './fit-loss.ts';
import { booleanWord } from './training-table.ts';

/** true if a cell of the outcome column means this class: the same text, number, or 1 and 0 as words. */
export function meansClass(cell: string, label: string): boolean {
  if (cell === label) return true;
  const word = booleanWord(cell);
  return word === undefined ? cell !== '' && Number(cell) === Number(label) : String(Number(word)) === label;
}

/** Share of rows with an outcome that is no class, from which the labels are not those of the model. */
const FOREIGN_SHARE = 0.02;
/** Labels of which every assignment to the classes is looked at. */
const MOST_LABELS = 6;

interface OutcomeLabels {
  /** Cell → index of its class. */
  readonly classOf: ReadonlyMap<string, number>;
  /** Share of the rows whose cell is none of the classes. */
  readonly foreign: number;
}

/** The cells by the labels of the model. −1 and 0 are both the other class of 1. */
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
  /** By how much it fits better than the next best. */
  readonly lead: PairedGain;
}

/**
 * The assignment of the cells' values to the classes that fits the scores best; null: there are not as many values as classes, or
 * too many.
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
