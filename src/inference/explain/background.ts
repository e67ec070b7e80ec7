// The background sample of a package: the applications a row is compared with.
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';

export interface Background {
  /** Encoded as applications are; `rows` rows are valid. */
  readonly inputs: readonly EncodedInput[];
  readonly rows: number;
  /** What the model answers on them. */
  readonly scores: Scores;
}

/** Where each column of the package stands among the inputs. */
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

/** Scores the background; the result is a copy. */
export async function scoreBackground(
  evaluator: Evaluator,
  inputs: readonly EncodedInput[],
  rows: number,
): Promise<Background> {
  const { values, width } = await evaluator.score(inputs, rows);
  return { inputs, rows, scores: { values: values.slice(), width } };
}
