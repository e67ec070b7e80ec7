// What the training table says of a registration: how the model fits it, what was tried, and the lines of the report card.
import { plural } from './findings.ts';

export interface Residual {
  readonly column: string;
  /** A category, true, false, `missing`, or `part 3 of 10` of the numbers from the lowest up. */
  readonly level: string;
  readonly rows: number;
  /** Mean of outcome − prediction. */
  readonly mean: number;
  /** The same in standard errors. */
  readonly z: number;
}

export interface TrainingFit {
  readonly rows: number;
  /** binary: of the positive class; multiclass: mean over the classes, each against the others. null: regression. */
  readonly auc: number | null;
  /** Mean log loss as the probabilities are; null: regression. */
  readonly logLoss: number | null;
  /** Share of the outcome's variance that the values explain; null: not a regression. */
  readonly explainedVariance: number | null;
  readonly brier: number | null;
  /** Expected calibration error and the line through the log odds: 0, 1 where probabilities are right; binary only. */
  readonly calibration: {
    readonly ece: number;
    readonly intercept: number | null;
    readonly slope: number | null;
  } | null;
  /** The largest by |z| over columns and levels, missing values among them. */
  readonly residuals: readonly Residual[];
}

export interface WitnessReport {
  readonly fit: TrainingFit | null;
  readonly swaps: { readonly rows: number; readonly tried: number; readonly offered: number } | null;
  /** What was registered against the table, and why; null: nothing was. */
  readonly forced: { readonly reason: string; readonly contradictions: readonly string[] } | null;
}

const n = (x: number | null, digits = 4): string =>
  x === null ? '–' : x.toLocaleString('en', { maximumFractionDigits: digits });

export function witnessLines({ fit, swaps, forced }: WitnessReport): string[] {
  return [
    ...(fit ? fitLines(fit) : ['Not held against an outcome: see what is assumed.']),
    ...(swaps
      ? [
          `${plural(swaps.tried, 'other registration')} tried (order, codes, missing values, class) on up to ${plural(swaps.rows, 'row')}${swaps.tried < swaps.offered ? `, of ${n(swaps.offered)} there are` : ''}.`,
        ]
      : []),
    ...(forced
      ? [
          '',
          `**Registered against the table, by force:** ${forced.reason}`,
          '',
          ...forced.contradictions.map((c) => `- ${c}`),
        ]
      : []),
  ];
}

function fitLines({ rows, auc, logLoss, explainedVariance, brier, calibration, residuals }: TrainingFit): string[] {
  const numbers: [string, number | null][] = [
    ['AUC', auc],
    ['log loss', logLoss],
    ['Brier score', brier],
    ['explained variance', explainedVariance],
    ['calibration error', calibration?.ece ?? null],
    ['calibration slope', calibration?.slope ?? null],
    ['calibration intercept', calibration?.intercept ?? null],
  ];
  const known = numbers.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${n(value)}`);
  const [largest] = residuals;
  return [
    `Over ${plural(rows, 'row')}: ${known.join(', ')}.`,
    ...(largest ? [`Largest residual of a level: ${residualWords(largest)}.`] : []),
  ];
}

const residualWords = ({ column, level, rows, mean, z }: Residual): string =>
  `\`${column}\` ${level}, ${mean > 0 ? '+' : ''}${n(mean, 4)} over ${plural(rows, 'row')}, z ${z.toFixed(1)}`;
