// What sums of counts say: PSI, missing and unseen shares, quantiles. Bins go by their number: a report never holds a value of the input.
import type { DriftSum } from './drift-counts.ts';
import type { DriftPlan, MeasuredColumn } from './drift-plan.ts';
import { psi, SHIFTED } from './psi.ts';

/** Fewer rows say nothing of a distribution. */
export const FEWEST_ROWS = 1000;
/** Names of the quantiles of a report. */
const QUANTILES = { p01: 0.01, p05: 0.05, p25: 0.25, p50: 0.5, p75: 0.75, p95: 0.95, p99: 0.99 } as const;

/** Shares of rows: a bin each, then missing and unseen. */
export interface Shares {
  bins: number[];
  missing: number;
  unseen: number;
}

export interface Distribution {
  /** null: too few rows. */
  psi: number | null;
  /** null: no rows. */
  now: Shares | null;
  training: Shares;
  /** Estimates within 3 %; absent where none are measured. */
  quantiles?: Record<keyof typeof QUANTILES, number>;
}

export interface ColumnDrift extends Distribution {
  column: string;
}

export interface DriftReport {
  rows: number;
  /** false: there are fewer than `FEWEST_ROWS` rows, and no PSI. */
  enough: boolean;
  score: Distribution | null;
  /** In the order of the package. */
  columns: ColumnDrift[];
}

/** The gauges of a model. */
export interface DriftFigures {
  scorePsi: number | null;
  psiMax: number;
  drifted: number;
  unseenMax: number;
  missingShiftMax: number;
}

/** Shares of the training data in the bins of a column. */
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
    columns: plan.columns
      .filter(({ column }) => column >= 0)
      .map((measured) => ({ column: measured.name!, ...distributionOf(measured, sum) })),
  };
}

/** null: too few rows. */
export function driftFigures({ enough, score, columns }: DriftReport): DriftFigures | null {
  if (!enough) return null;
  const most = (of: (column: ColumnDrift) => number): number => Math.max(0, ...columns.map(of));
  return {
    scorePsi: score?.psi ?? null,
    psiMax: most((c) => c.psi ?? 0),
    drifted: columns.filter((c) => (c.psi ?? 0) >= SHIFTED).length,
    unseenMax: most((c) => c.now!.unseen),
    missingShiftMax: most((c) => c.now!.missing - c.training.missing),
  };
}

/** What a summary has of a column. */
export interface ColumnDigest {
  column: string;
  psi: number;
  missing: number;
  missingInTraining: number;
  unseen: number;
}

/** The short form of a report: the columns that shifted most. */
export interface DriftDigest {
  rows: number;
  /** null: too few rows, or a baseline without the score. */
  scorePsi: number | null;
  columnsDrifted: number;
  /** By PSI, the largest first; empty where there are too few rows. */
  columns: ColumnDigest[];
}

const DIGEST_COLUMNS = 5;

export function driftDigest(report: DriftReport): DriftDigest {
  const figures = driftFigures(report);
  const columns = report.columns.flatMap(({ column, psi, now, training }) =>
    psi === null
      ? []
      : [{ column, psi, missing: now!.missing, missingInTraining: training.missing, unseen: now!.unseen }],
  );
  return {
    rows: report.rows,
    scorePsi: figures?.scorePsi ?? null,
    columnsDrifted: figures?.drifted ?? 0,
    columns: columns.toSorted((a, b) => b.psi - a.psi).slice(0, DIGEST_COLUMNS),
  };
}

/** A line for people: what shifted; null if nothing did. */
export function driftWords({ scorePsi, columns }: DriftDigest): string | null {
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
  const shifted = columns.filter(({ psi }) => psi >= SHIFTED);
  if (shifted.length === 0 && (scorePsi ?? 0) < SHIFTED) return null;
  const about = ({ column, psi, missing, missingInTraining, unseen }: ColumnDigest): string => {
    const more = [
      ...(Math.abs(missing - missingInTraining) >= 0.05
        ? [`missing ${percent(missing)}, in training ${percent(missingInTraining)}`]
        : []),
      ...(unseen >= 0.01 ? [`unseen ${percent(unseen)}`] : []),
    ];
    return `${column} ${psi.toFixed(2)}${more.length > 0 ? ` (${more.join('; ')})` : ''}`;
  };
  const score = scorePsi === null ? [] : [`score ${scorePsi.toFixed(2)}`];
  return `drift (PSI against the training): ${[...score, ...shifted.map(about)].join(', ')}`;
}
