// The background sample of a package: the rows with which applications are compared, and the model's scores for them.
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';
import { NotExplainable } from './explainer.ts';

export interface Background {
  /** The background rows, encoded like applications. `rows` rows are valid. */
  readonly inputs: readonly EncodedInput[];
  readonly rows: number;
  /** The model's scores for the background rows. */
  readonly scores: Scores;
}

/** Position of a package column among the inputs. */
export interface Place {
  /** Index of the input, and column within that input. */
  readonly input: number;
  readonly at: number;
}

/** The positions of each package column; several inputs can use the same column. */
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

/** The package column from which a feature is derived. @throws NotExplainable */
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

/** Scores the background rows and copies the scores. */
export async function scoreBackground(
  evaluator: Evaluator,
  inputs: readonly EncodedInput[],
  rows: number,
): Promise<Background> {
  const { values, width } = await evaluator.score(inputs, rows);
  return { inputs, rows, scores: { values: values.slice(), width } };
}
