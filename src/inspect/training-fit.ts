// Compares the values of a column with the training data that the model package describes.
import { ownValue } from '../core/own-keys.ts';
import { psi } from '../drift/drift-report.ts';
import type { ColumnReader } from '../inference/encode/column-reader.ts';
import type { Manifest } from '../model/package/manifest.ts';

/** Minimum number of values for comparing distributions. */
const FEWEST_VALUES = 50;

export interface ValueFit {
  /**
   * Fraction of the values within the range of the training data or the allowed range; null: the package has neither.
   */
  inside: number | null;
  /**
   * Distance between the distributions; null: the package does not describe the distribution, or there are too few
   * values.
   */
  psi: number | null;
}

const UNKNOWN: ValueFit = { inside: null, psi: null };

/**
 * Compares values with the training data. `values`: the numbers of a number column, the codes of a boolean column, or
 * the texts of a category column.
 */
export function trainingFit(manifest: Manifest, reader: ColumnReader, values: readonly (number | string)[]): ValueFit {
  if (values.length === 0) return UNKNOWN;
  if (reader.kind === 'number') return fitOfNumbers(manifest, reader, values as readonly number[]);
  const counts = ownValue(manifest.baseline?.columns, reader.name)?.counts;
  const known = reader.kind === 'category' ? values.filter((v) => reader.codes.has(String(v))).length : null;
  const inside = known === null ? null : known / values.length;
  if (counts === undefined || Array.isArray(counts)) return { inside, psi: null };
  if (values.length < FEWEST_VALUES) return { inside, psi: null };
  // A boolean may be spelled in several ways; its bin is identified by its code.
  const binOf = (value: number | string) =>
    reader.kind === 'boolean' && typeof value === 'string' ? (reader.codes.get(value) ?? -1) : value;
  const trained = tally(Object.entries(counts).map(([word, n]) => [binOf(word), n]));
  const own = tally(values.map((value) => [binOf(value), 1]));
  const bins = [...trained.keys()];
  return {
    inside,
    psi: psi(
      bins.map((bin) => trained.get(bin)!),
      bins.map((bin) => own.get(bin) ?? 0),
    ),
  };
}

function tally(pairs: readonly (readonly [bin: number | string, n: number])[]): Map<number | string, number> {
  const sums = new Map<number | string, number>();
  for (const [bin, n] of pairs) sums.set(bin, (sums.get(bin) ?? 0) + n);
  return sums;
}

function fitOfNumbers(manifest: Manifest, reader: ColumnReader, values: readonly number[]): ValueFit {
  const base = ownValue(manifest.baseline?.columns, reader.name);
  const spec = manifest.columns.find(({ name }) => name === reader.name)?.range;
  const least = Math.max(base?.min ?? -Infinity, spec === undefined ? -Infinity : reader.min);
  const most = Math.min(base?.max ?? Infinity, spec === undefined ? Infinity : reader.max);
  const isBounded = least > -Infinity || most < Infinity;
  const within = values.filter((v) => v >= least && v <= most).length;
  const { edges, counts } = base ?? {};
  const distance =
    edges && Array.isArray(counts) && counts.length === edges.length + 1 && values.length >= FEWEST_VALUES
      ? psi(counts, binned(values, edges))
      : null;
  return { inside: isBounded ? within / values.length : null, psi: distance };
}

function binned(values: readonly number[], edges: readonly number[]): number[] {
  const counts = new Array<number>(edges.length + 1).fill(0);
  for (const value of values) {
    let bin = 0;
    while (bin < edges.length && Math.fround(value) >= Math.fround(edges[bin]!)) bin++;
    counts[bin]!++;
  }
  return counts;
}
