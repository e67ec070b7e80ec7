// The drift baseline: the distributions of the training data and of its scores.
import { setOwn } from '../core/own-keys.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { DraftColumn } from './draft.ts';
import { missingIn, type TrainingTable } from './training-table.ts';

type Baseline = NonNullable<Manifest['baseline']>;

const BINS = 10;
/** Maximum number of categories; all others are counted as "other". */
const MAX_CATEGORIES = 100;

/**
 * Computes the baseline. For a number column, the edges are deciles of the sample: n edges and n + 1 counts, and the
 * first and the last bin are open. Missing values are counted separately. For categories and booleans, values are
 * counted in the whole table.
 */
export function computeBaseline(
  table: TrainingTable,
  drafted: readonly DraftColumn[],
  scores: readonly number[],
): Baseline {
  const columns: Baseline['columns'] = {};
  for (const { spec, profile } of drafted) {
    const missing = missingIn(profile);
    if (spec.kind !== 'number') {
      const entries = [...(profile.distinct ?? [])].sort((a, b) => b[1] - a[1]);
      const kept = entries.slice(0, MAX_CATEGORIES);
      const rest = entries.slice(MAX_CATEGORIES).reduce((n, [, c]) => n + c, 0);
      const counts = Object.fromEntries(rest > 0 ? [...kept, ['(other)', rest]] : kept);
      setOwn(columns, spec.name, { counts, missing });
      continue;
    }
    const field = table.header.indexOf(spec.name);
    const absent = new Set(spec.missing?.values);
    const numbers = table.sample.flatMap(({ fields }) => (absent.has(fields[field]!) ? [] : [Number(fields[field])]));
    const { edges, counts } = histogram(numbers);
    const range = numbers.length > 0 ? { min: profile.min, max: profile.max } : {};
    setOwn(columns, spec.name, { edges, counts, missing, ...range });
  }
  return { rows: table.rows, columns, score: histogram(scores) };
}

/**
 * The distinct deciles as edges, and the number of values between them. A value below an edge is in the bin to the left
 * of the edge.
 */
export function histogram(values: readonly number[]): { edges: number[]; counts: number[] } {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const edges: number[] = [];
  for (let k = 1; k < BINS && sorted.length > 0; k++) {
    const edge = sorted[Math.floor((k * sorted.length) / BINS)]!;
    if (edge !== edges.at(-1) && edge > sorted[0]!) edges.push(edge);
  }
  const counts = new Array<number>(edges.length + 1).fill(0);
  for (const v of sorted) {
    let bin = 0;
    while (bin < edges.length && v >= edges[bin]!) bin++;
    counts[bin]!++;
  }
  return { edges, counts };
}
