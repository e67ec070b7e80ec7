// The background sample of a package, the applications a row is compared with, and what the model answers on it.
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';
import { NotExplainable } from './explainer.ts';

export interface Background {
  /** Encoded as applications are; `rows` rows are valid. */
  readonly inputs: readonly EncodedInput[];
  readonly rows: number;
  /** What the model answers on them. */
  readonly scores: Scores;
}

/** Where a column of the package goes among the inputs. */
export interface Place {
  /** Index of the input, and column within it. */
  readonly input: number;
  readonly at: number;
}

/** Places of column i of the package; a column may feed several inputs. */
export function placesOf(
  columns: readonly { name: string }[],
  inputs: readonly { columns?: string[]; column?: string }[],
): Place[][] {
  return columns.map(({ name }) =>
    inputs.flatMap((input, i) =>
      (input.columns ?? [input.column!]).flatMap((n, at) => (n === name ? [{ input: i, at }] : [])),
    ),
  );
}

/** The column of the package that feeds a feature. @throws NotExplainable */
export function columnFeeding(
  source: { readonly input: string; readonly column: number },
  shapes: readonly { readonly name: string }[],
  places: readonly (readonly Place[])[],
): number {
  const input = shapes.findIndex((s) => s.name === source.input);
  const column = places.findIndex((list) => list.some((p) => p.input === input && p.at === source.column));
  if (column < 0) throw new NotExplainable(`input ${source.input} belongs to no column`);
  return column;
}

/** Scores the background; the result is a copy. */
export async function scoreBackground(
  evaluator: Evaluator,
  inputs: readonly EncodedInput[],
  rows: number,
): Promise<Background> {
  const { values, width } = await evaluator.score(inputs, rows);
  return { inputs, rows, scores: { values: values.slice(), width } };
}
