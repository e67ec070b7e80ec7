// Inputs of a model with a typical value in the cells that another registration would change.
import type { EncodedInput } from '../inference/encode/encoder.ts';

/** More values than this are numbers, whose median is typical; of fewer it is the most frequent one. */
const MOST_LEVELS = 50;

/** Copies of `given`; both have `rows` rows. `whole`: all cells of a place where any would change. */
export function typicalWhereChanged(
  given: readonly EncodedInput[],
  other: readonly EncodedInput[],
  rows: number,
  whole: boolean,
): readonly EncodedInput[] {
  return given.map((input, i): EncodedInput => {
    const { width } = input;
    const data = input.data.slice() as EncodedInput['data'];
    for (let j = 0; j < width; j++) {
      const changed = Array.from({ length: rows }, (_, r) => r * width + j).filter(
        (at) => !Object.is(input.data[at], other[i]!.data[at]),
      );
      if (changed.length === 0) continue;
      const typical = typicalAt(input, j, rows);
      if (whole) for (let r = 0; r < rows; r++) (data as unknown[])[r * width + j] = typical;
      else for (const at of changed) (data as unknown[])[at] = typical;
    }
    return { ...input, data };
  });
}

function typicalAt({ data, width }: EncodedInput, place: number, rows: number): unknown {
  const cells = Array.from({ length: rows }, (_, r) => data[r * width + place]!);
  const present = cells.filter((v) => typeof v !== 'number' || !Number.isNaN(v));
  const counts = [...Map.groupBy(present, (v) => v)].map(([value, of]) => ({ value, n: of.length }));
  if (counts.length <= MOST_LEVELS) return counts.sort((a, b) => b.n - a.n)[0]?.value ?? cells[0];
  return (present as number[]).sort((a, b) => a - b)[present.length >> 1];
}
