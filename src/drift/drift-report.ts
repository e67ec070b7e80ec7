// Computes drift reports from counts: PSI, fractions of missing and unseen values, and quantiles.
// A report never contains input values, because bins have numbers.
import type { DriftSum } from './drift-counts.ts';
import type { DriftPlan, MeasuredColumn } from './drift-plan.ts';

/**
 * The usual levels in credit scoring: a PSI below `moved` counts as stable, one from `drifted` on as that of another
 * population.
 */
export const PSI_LEVELS = { moved: 0.1, drifted: 0.25 } as const;

/** Fraction that is assumed for an empty bin. */
const EMPTY_SHARE = 0.0001;

/** The fractions of counts. Empty bins get `EMPTY_SHARE`. null: all counts are 0. */
function sharesOf(counts: ArrayLike<number>): number[] | null {
  let sum = 0;
  let least = Infinity;
  for (let b = 0; b < counts.length; b++) {
    sum += counts[b]!;
    if (counts[b]! > 0) least = Math.min(least, counts[b]!);
  }
  if (sum === 0) return null;
  const filler = least / sum <= EMPTY_SHARE ? least / sum / 1e6 : EMPTY_SHARE;
  return Array.from(counts, (n) => (n === 0 ? filler : n / sum));
}

/**
 * The population stability index: Σ (reference − current) · ln(reference ÷ current) over the fractions of the bins. A
 * bin that is empty in both distributions is ignored. null: one of the distributions has no counts.
 */
export function psi(reference: ArrayLike<number>, current: ArrayLike<number>): number | null {
  const before = sharesOf(reference);
  const now = sharesOf(current);
  if (!before || !now) return null;
  let sum = 0;
  for (const [b, share] of before.entries()) {
    if (reference[b] !== 0 || current[b] !== 0) sum += (share - now[b]!) * Math.log(share / now[b]!);
  }
  return sum;
}

/** Minimum number of rows for comparing distributions. */
export const FEWEST_ROWS = 1000;
/** Names of the quantiles of a report. */
const QUANTILES = { p01: 0.01, p05: 0.05, p25: 0.25, p50: 0.5, p75: 0.75, p95: 0.95, p99: 0.99 } as const;

/** The fractions of rows in each bin, with missing values, and with unseen values. */
export interface Shares {
  bins: number[];
  missing: number;
  unseen: number;
}

interface Distribution {
  /** null: the report has too few rows. */
  psi: number | null;
  /** The fractions of the counted rows; null: no rows were counted. */
  now: Shares | null;
  training: Shares;
  /** Estimated quantiles, with an error of at most 3 %. undefined: they are not measured. */
  quantiles?: Record<keyof typeof QUANTILES, number>;
}

export interface ColumnDrift extends Distribution {
  column: string;
  /**
   * Fraction of rows that are certainly outside the range of the training data; null: no rows were counted, or it is
   * not measured.
   */
  outOfRange: number | null;
}

export interface DecisionShare {
  /** Name of the decision; '' means no decision. */
  decision: string;
  share: number;
}

export interface DriftReport {
  rows: number;
  /** Whether there are at least `FEWEST_ROWS` rows; if not, no PSI is computed. */
  enough: boolean;
  score: Distribution | null;
  /** In descending order of probability. Empty: no rows were counted, or the package has no decisions. */
  decisions: DecisionShare[];
  /** In package order. */
  columns: ColumnDrift[];
}

/** The drift gauges of a model. */
interface DriftFigures {
  scorePsi: number | null;
  psiMax: number;
  /** The column with the maximum PSI; null: no column is measured. */
  psiMaxColumn: string | null;
  drifted: number;
  unseenMax: number;
  missingShiftMax: number;
}

/** The fractions of the training data in the bins of a column. */
export function trainedShares({ trained, trainedMissing, bins }: MeasuredColumn): Shares {
  const present = trained.reduce((a, b) => a + b, 0);
  const shares = trained.map((n) => (present === 0 ? 0 : (n / present) * (1 - trainedMissing)));
  return { bins: shares.slice(0, bins), missing: trainedMissing, unseen: shares[bins]! };
}

const sharesNow = ({ at, bins }: MeasuredColumn, { cells, rows }: DriftSum): Shares => ({
  bins: Array.from(cells.subarray(at, at + bins), (n) => n / rows),
  missing: cells[at + bins]! / rows,
  unseen: cells[at + bins + 1]! / rows,
});

const flat = ({ bins, missing, unseen }: Shares): number[] => [...bins, missing, unseen];

function distributionOf(measured: MeasuredColumn, sum: DriftSum): Distribution {
  const training = trainedShares(measured);
  if (sum.rows === 0) return { psi: null, now: null, training };
  const now = sharesNow(measured, sum);
  const names = Object.keys(QUANTILES) as (keyof typeof QUANTILES)[];
  const found = sum.sketches?.[measured.sketch]?.quantiles(Object.values(QUANTILES)) ?? [];
  const quantiles = Object.fromEntries(names.map((name, i) => [name, found[i]!])) as Record<keyof typeof QUANTILES, number>; // biome-ignore format: one line
  return {
    psi: sum.rows < FEWEST_ROWS ? null : psi(flat(training), flat(now)),
    now,
    training,
    ...(found.length > 0 ? { quantiles } : {}),
  };
}

export function driftReport(plan: DriftPlan, sum: DriftSum): DriftReport {
  const { score } = plan;
  return {
    rows: sum.rows,
    enough: sum.rows >= FEWEST_ROWS,
    score: score && distributionOf(score, sum),
    decisions: decisionsNow(plan, sum),
    columns: plan.columns
      .filter(({ column }) => column >= 0)
      .map((measured) => ({
        column: measured.name!,
        ...distributionOf(measured, sum),
        outOfRange: outOfRange(measured, sum),
      })),
  };
}

function outOfRange({ range, sketch }: MeasuredColumn, { rows, sketches }: DriftSum): number | null {
  const numbers = sketches?.[sketch];
  return range && numbers && rows > 0 ? numbers.outside(Math.fround(range[0]), Math.fround(range[1])) / rows : null;
}

function decisionsNow({ decisions }: DriftPlan, { rows, cells }: DriftSum): DecisionShare[] {
  if (!decisions || rows === 0) return [];
  const shares = decisions.names.map((decision, k) => ({ decision, share: cells[decisions.at + k]! / rows }));
  return shares.reverse().filter(({ decision, share }) => decision !== '' || share > 0);
}

/** The drift gauges of a model; null: the report has too few rows. */
export function driftFigures({ enough, score, columns }: DriftReport): DriftFigures | null {
  if (!enough) return null;
  const most = (of: (column: ColumnDrift) => number): number => Math.max(0, ...columns.map(of));
  return {
    scorePsi: score?.psi ?? null,
    psiMax: most((c) => c.psi ?? 0),
    psiMaxColumn: columns.toSorted((a, b) => (b.psi ?? 0) - (a.psi ?? 0))[0]?.column ?? null,
    drifted: columns.filter((c) => (c.psi ?? 0) >= PSI_LEVELS.drifted).length,
    unseenMax: most((c) => c.now!.unseen),
    missingShiftMax: most((c) => c.now!.missing - c.training.missing),
  };
}

/** The drift of a column in a digest. */
export interface ColumnDigest {
  column: string;
  /** null: the report has too few rows. */
  psi: number | null;
  missing: number;
  missingInTraining: number;
  unseen: number;
  /** null: it is not measured. */
  outOfRange: number | null;
}

/** The short form of a report, without bins. */
export interface DriftDigest {
  rows: number;
  /** null: there are too few rows, or the baseline does not contain the score. */
  scorePsi: number | null;
  columnsDrifted: number;
  decisions: DecisionShare[];
  /** All columns, starting with the largest differences. */
  columns: ColumnDigest[];
}

/**
 * Thresholds from which fractions are reported: unseen values, numbers out of range, and the difference of missing
 * values from the training data.
 */
const NOTABLE = { unseen: 0.01, outOfRange: 0.01, missing: 0.05 } as const;

/** The largest ratio of a measure of a column to its threshold. The column is reported if the ratio is at least 1. */
const notability = ({ psi, missing, missingInTraining, unseen, outOfRange }: ColumnDigest): number =>
  Math.max(
    (psi ?? 0) / PSI_LEVELS.drifted,
    Math.abs(missing - missingInTraining) / NOTABLE.missing,
    unseen / NOTABLE.unseen,
    (outOfRange ?? 0) / NOTABLE.outOfRange,
  );

export function driftDigest(report: DriftReport): DriftDigest {
  const figures = driftFigures(report);
  const columns = report.columns.flatMap(({ column, psi, now, training, outOfRange }): ColumnDigest[] =>
    now === null
      ? []
      : [{ column, psi, missing: now.missing, missingInTraining: training.missing, unseen: now.unseen, outOfRange }],
  );
  return {
    rows: report.rows,
    scorePsi: figures?.scorePsi ?? null,
    columnsDrifted: figures?.drifted ?? 0,
    decisions: report.decisions,
    columns: columns.toSorted((a, b) => notability(b) - notability(a)),
  };
}

/** Maximum number of columns that are reported in a terminal. */
const TOLD_COLUMNS = 8;

export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/**
 * Formats the largest differences from the training data as a few lines, starting with the largest; null: there are
 * none.
 */
export function driftWords({ rows, scorePsi, columns }: DriftDigest): string | null {
  // Columns are reported only if there are enough rows, because a few rows always differ from the training data.
  const out = rows < FEWEST_ROWS ? [] : columns.filter((column) => notability(column) >= 1);
  if (out.length === 0 && (scorePsi ?? 0) < PSI_LEVELS.drifted) return null;
  const score = scorePsi === null ? '' : ` (PSI of the score ${scorePsi.toFixed(2)})`;
  const cells = out
    .slice(0, TOLD_COLUMNS)
    .map(({ column, psi, missing, missingInTraining, unseen, outOfRange }) => [
      column,
      psi === null ? '' : psi.toFixed(2),
      percent(missing),
      percent(missingInTraining),
      percent(unseen),
      outOfRange === null ? '' : percent(outOfRange),
    ]);
  const more = out.length > TOLD_COLUMNS ? [`  and ${out.length - TOLD_COLUMNS} more`] : [];
  const head = ['column', 'PSI', 'missing', 'in training', 'unseen', 'out of range'];
  return [`largest differences from the training data${score}:`, ...(out.length > 0 ? textTable([head, ...cells]) : []), ...more].join('\n'); // biome-ignore format: one line
}

/** Formats rows of cells as lines; the first column is left-aligned, all other columns are right-aligned. */
export function textTable(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]!.map((_, c) => Math.max(...rows.map((row) => row[c]!.length)));
  const padded = (cell: string, c: number): string => (c === 0 ? cell.padEnd(widths[c]!) : cell.padStart(widths[c]!));
  return rows.map((row) => `  ${row.map(padded).join('  ')}`.trimEnd());
}
