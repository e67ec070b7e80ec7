// The drift baseline: the distributions of the training data and of its scores.
import { setOwn } from '../core/own-keys.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { DraftColumn } from './draft.ts';
import { missingIn, type TrainingTable, valuesIn } from './training-table.ts';

type Baseline = NonNullable<Manifest['baseline']>;

const BINS = 10;
/** Maximum number of categories; all others are counted as "other". */
const MAX_CATEGORIES = 100;

/** Bin of all categories that have no bin of their own. */
const OTHER = '(other)';

/**
 * Computes the baseline. For a number column, the edges are deciles of the sample: n edges and n + 1 counts, and the
 * first and the last bin are open. Missing values are counted separately. For categories and booleans, values are
 * counted in the whole table. Every value is counted as drift counts it in an application: otherwise the training table
 * itself would have drifted.
 */
export function computeBaseline(
  table: TrainingTable,
  drafted: readonly DraftColumn[],
  scores: readonly number[],
): Baseline {
  const columns: Baseline['columns'] = {};
  for (const { spec, profile } of drafted) {
    if (spec.kind !== 'number') {
      setOwn(columns, spec.name, categoryBaseline({ spec, profile }));
      continue;
    }
    const field = table.header.indexOf(spec.name);
    const absent = new Set(spec.missing?.values);
    const numbers = table.sample.flatMap(({ fields }) => (absent.has(fields[field]!) ? [] : [Number(fields[field])]));
    const { edges, counts } = histogram(numbers);
    const range = numbers.length > 0 ? { min: profile.min, max: profile.max } : {};
    setOwn(columns, spec.name, { edges, counts, missing: missingIn(profile), ...range });
  }
  return { rows: table.rows, columns, score: histogram(scores) };
}

function categoryBaseline({ spec, profile }: Pick<DraftColumn, 'spec' | 'profile'>): Baseline['columns'][string] {
  const absent = new Set(spec.missing?.values);
  const known = spec.codes ? new Set(Object.keys(spec.codes)) : spec.values ? new Set(spec.values) : null;
  const found = new Map(profile.distinct ?? [[OTHER, valuesIn(profile)]]);
  let missing = 0;
  // A word such as NA is not missing if it is a category of the model.
  for (const [word, n] of profile.missing) {
    if (absent.has(word)) missing += n;
    else found.set(word, (found.get(word) ?? 0) + n);
  }
  let unseen = 0;
  if (known && profile.distinct) {
    for (const [word, n] of found) {
      if (known.has(word)) continue;
      found.delete(word);
      // Applications with such a value are rejected, and rejected rows are in no bin.
      if (spec.unseen !== 'error') unseen += n;
    }
  }
  const entries = [...found].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const counts: Record<string, number> = Object.fromEntries(entries.slice(0, MAX_CATEGORIES));
  const rest = entries.slice(MAX_CATEGORIES).reduce((n, [, c]) => n + c, 0);
  if (rest > 0) counts[OTHER] = (counts[OTHER] ?? 0) + rest;
  return { counts, missing, ...(unseen > 0 ? { unseen } : {}) };
}

/**
 * The distinct deciles as edges, and the number of values between them. A value below an edge is in the bin to the left
 * of the edge. Values are compared as float32, as in the model and in drift: decimals or large whole numbers that are
 * equal as float32 are in the same bin.
 */
export function histogram(values: readonly number[]): { edges: number[]; counts: number[] } {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  const edges: number[] = [];
  for (let k = 1; k < BINS && sorted.length > 0; k++) {
    const edge = sorted[Math.floor((k * sorted.length) / BINS)]!;
    if (Math.fround(edge) > Math.fround(edges.at(-1) ?? sorted[0]!)) edges.push(edge);
  }
  const counts = new Array<number>(edges.length + 1).fill(0);
  for (const v of sorted) {
    let bin = 0;
    while (bin < edges.length && Math.fround(v) >= Math.fround(edges[bin]!)) bin++;
    counts[bin]!++;
  }
  return { edges, counts };
}
