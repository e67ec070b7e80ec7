// The drift plan of a model: the bins of its baseline, and the position of each column's counts in a flat list of cells.
import { isDeepStrictEqual } from 'node:util';
import { ownValue } from '../core/own-keys.ts';
import { type ColumnReader, columnReaders } from '../inference/encode/column-reader.ts';
import { leastFloat32 } from '../inference/evaluate/prediction.ts';
import type { Manifest } from '../model/package/manifest.ts';

type Baseline = NonNullable<Manifest['baseline']>;
type ColumnBaseline = Baseline['columns'][string];

/** The category under which onboarding counts all categories except the most frequent ones. */
const OTHER = '(other)';
/** Maximum number of columns with quantiles; it limits the total size of the sketches. */
const MAX_SKETCHES = 32;

/** How the values of a column are assigned to bins. */
type Binning =
  /** Numbers and the score. Bin k contains the values with edges[k - 1] ≤ value < edges[k], compared as float32. */
  | { by: 'edges'; edges: readonly number[] }
  /** Booleans (code 0 or 1), and categories listed in the package: the bin of each code. */
  | { by: 'codes'; bins: readonly number[] }
  /**
   * Texts, and categories not listed in the package: the bin of each text. `other`: the bin of all other texts; null:
   * all other texts are unseen.
   */
  | { by: 'texts'; bins: ReadonlyMap<string, number>; other: number | null };

/** A column, or the score. */
export interface MeasuredColumn {
  /** Name of the column; null: the score. */
  readonly name: string | null;
  /** Index of the column in the package; -1: the score. */
  readonly column: number;
  readonly binning: Binning;
  readonly bins: number;
  /** Index of the first cell of the column. Its cells are the bins, then missing values, then unseen values. */
  readonly at: number;
  /** Number of training rows by bin. The last entry counts unseen values. */
  readonly trained: readonly number[];
  /** Fraction of missing values in the training data. */
  readonly trainedMissing: number;
  /** Index of the column's sketch; -1: the column has no sketch. */
  readonly sketch: number;
  /** Smallest and largest number in the training data; null: the range is unknown, or the column is not numeric. */
  readonly range: readonly [smallest: number, largest: number] | null;
}

/** The decisions of the package, by which rows are counted. */
interface MeasuredDecisions {
  /** Names in ascending order of the minimum probability. '' means no decision. */
  readonly names: readonly string[];
  /**
   * Probabilities from limits[k] up to, but excluding, the next limit have the decision names[k]. They are compared as
   * float32.
   */
  readonly limits: readonly number[];
  /** Index of the first cell of the decisions. */
  readonly at: number;
}

interface Binned {
  binning: Binning;
  counts: number[];
}

export class DriftPlan {
  /** The measured columns: first the score, if the baseline contains it, then columns in package order. */
  readonly columns: readonly MeasuredColumn[];
  readonly sketches: number;
  /** null: the package has no decisions, or its baseline does not contain the score. */
  readonly decisions: MeasuredDecisions | null;
  /** Total number of cells. Cell 0 counts rows. */
  readonly cells: number;

  private constructor(manifest: Manifest, baseline: Baseline) {
    const columns: MeasuredColumn[] = [];
    let at = 1;
    let sketches = 0;
    const add = (name: string | null, column: number, { binning, counts }: Binned, own: Partial<ColumnBaseline>) => {
      const trained = [...counts, own.unseen ?? 0];
      const rows = baseline.rows ?? trained.reduce((a, b) => a + b, own.missing ?? 0);
      const trainedMissing = rows === 0 ? 0 : (own.missing ?? 0) / rows;
      const sketch = binning.by === 'edges' && sketches < MAX_SKETCHES ? sketches++ : -1;
      const { min, max } = own;
      const range = binning.by === 'edges' && min !== undefined && max !== undefined ? ([min, max] as const) : null;
      columns.push({ name, column, binning, bins: counts.length, at, trained, trainedMissing, sketch, range });
      at += counts.length + 2;
    };
    const score = baseline.score && edgesOf(baseline.score);
    // The score comes first, so that it always gets a sketch.
    if (score) add(null, -1, score, {});
    for (const [column, reader] of columnReaders(manifest).entries()) {
      const own = ownValue(baseline.columns, reader.name);
      const binned = own && binsOf(reader, own);
      if (binned) add(reader.name, column, binned, own);
    }
    this.columns = columns;
    this.decisions = score ? decisionsOf(manifest, at) : null;
    this.cells = at + (this.decisions?.names.length ?? 0);
    this.sketches = sketches;
  }

  /** Creates the plan of a model; null: the package has no baseline, or its baseline contains no measurable column. */
  static of(manifest: Manifest): DriftPlan | null {
    if (!manifest.baseline) return null;
    const plan = new DriftPlan(manifest, manifest.baseline);
    return plan.columns.length > 0 ? plan : null;
  }

  /** Whether the counts of both plans can be added. */
  sameAs(other: DriftPlan): boolean {
    return isDeepStrictEqual([this.columns, this.decisions], [other.columns, other.decisions]);
  }

  get score(): MeasuredColumn | null {
    const first = this.columns[0]!;
    return first.column < 0 ? first : null;
  }
}

function decisionsOf({ task, decisions = [] }: Manifest, at: number): MeasuredDecisions | null {
  if (task !== 'binary' || decisions.length === 0) return null;
  const ascending = decisions.toReversed().toSorted((a, b) => a.min_probability - b.min_probability);
  // If two decisions have the same limit, the first one applies. It comes last here, so its cell counts the rows.
  const names = ['', ...ascending.map(({ name }) => name)];
  return { names, limits: [-Infinity, ...ascending.map((d) => leastFloat32(d.min_probability))], at };
}

function binsOf(reader: ColumnReader, { edges, counts }: ColumnBaseline): Binned | null {
  if (reader.kind === 'number') return Array.isArray(counts) ? edgesOf({ edges: edges ?? [], counts }) : null;
  if (Array.isArray(counts)) return null;
  if (reader.kind === 'boolean') return booleanBins(reader, counts);
  return reader.kind === 'text' ? textBins(counts) : codeBins(reader, counts);
}

function edgesOf({ edges, counts }: NonNullable<Baseline['score']>): Binned | null {
  if (counts.length !== edges.length + 1) return null;
  return { binning: { by: 'edges', edges: edges.map(Math.fround) }, counts: [...counts] };
}

/** Bins of a boolean: bin 0 is false and bin 1 is true, independent of their spelling. */
function booleanBins(reader: ColumnReader, counts: Readonly<Record<string, number>>): Binned {
  const trained = [0, 0];
  for (const [word, n] of Object.entries(counts)) {
    const code = reader.codes.get(word);
    if (code !== undefined) trained[code]! += n;
  }
  return { binning: { by: 'codes', bins: [0, 1] }, counts: trained };
}

function textBins(counts: Readonly<Record<string, number>>): Binned {
  const words = Object.keys(counts);
  const other = words.indexOf(OTHER);
  const bins = new Map(words.map((word, bin) => [word, bin]));
  return { binning: { by: 'texts', bins, other: other < 0 ? null : other }, counts: Object.values(counts) };
}

/**
 * Bins of a category with codes. Categories that the baseline does not list are in the bin of other categories, which
 * is added if it is missing.
 */
function codeBins(reader: ColumnReader, counts: Readonly<Record<string, number>>): Binned {
  const words = Object.keys(counts);
  const trained = Object.values(counts);
  const index = new Map(words.map((word, bin) => [word, bin]));
  let other = words.indexOf(OTHER);
  const bins = reader.values.map((word) => {
    const bin = index.get(word);
    if (bin !== undefined) return bin;
    if (other < 0) other = trained.push(0) - 1;
    return other;
  });
  return { binning: { by: 'codes', bins }, counts: trained };
}
