// The background sample of a package, to which applications are compared, and the model's scores for it.
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';
import { NotExplainable } from './explainer.ts';

export interface Background {
  /** Encoded like applications; `rows` rows are valid. */
  readonly inputs: readonly EncodedInput[];
  readonly rows: number;
  /** The model's scores for the background rows. */
  readonly scores: Scores;
}

/** Position of a package column among the inputs. */
export interface Place {
  /** Index of the input, and column within it. */
  readonly input: number;
  readonly at: number;
}

/** Positions of each package column; a column may feed several inputs. */
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

/** The package column that feeds a feature. @throws NotExplainable */
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

/** Scores the background and copies the scores. */
export async function scoreBackground(
  evaluator: Evaluator,
  inputs: readonly EncodedInput[],
  rows: number,
): Promise<Background> {
  const { values, width } = await evaluator.score(inputs, rows);
  return { inputs, rows, scores: { values: values.slice(), width } };
}
