// How the registered model fits its own training table: discrimination, calibration, and where it errs by more than chance.
import { calibration } from '../outcomes/calibration.ts';
import { brierScore, discrimination, type ScoredOutcomes } from '../outcomes/discrimination.ts';
import type { Draft } from './draft.ts';
import { logOddsOf, type Predictions } from './fit-loss.ts';
import { binning } from './portfolio-change.ts';
import type { Residual, TrainingFit } from './witness-report.ts';
import type { WitnessRows } from './witness-rows.ts';

/** Levels of a column that are looked at: those with most rows. */
const MOST_LEVELS = 50;
/** A level with fewer rows tells nothing. */
const LEAST_ROWS = 20;
/** Residuals that are kept, the largest first. */
const KEPT = 10;

export function fitOf(draft: Draft, { task, rows, truth, scorer }: WitnessRows): TrainingFit {
  const { given } = scorer;
  return {
    rows: rows.length,
    ...summaryOf(task, given, truth),
    residuals: task === 'regression' && hasTwoValues(truth) ? [] : residualsOf(draft, rows, errorsOf(given, truth)),
  };
}

const hasTwoValues = (truth: Float64Array): boolean => new Set(truth).size === 2;

type Summary = Omit<TrainingFit, 'rows' | 'residuals'>;

function summaryOf(task: WitnessRows['task'], given: Predictions, truth: Float64Array): Summary {
  const none = { auc: null, logLoss: null, explainedVariance: null, brier: null, calibration: null };
  const n = truth.length;
  if (task === 'regression') {
    // Points or a score held against an outcome of two values have another scale, and tell by their order only.
    if (hasTwoValues(truth))
      return { ...none, auc: discrimination(splitBy(truth, (r) => given.values[r]!, Math.max(...new Set(truth)))).auc };
    const mean = truth.reduce((a, b) => a + b, 0) / n;
    const spread = truth.reduce((a, t) => a + (t - mean) ** 2, 0);
    const left = truth.reduce((a, t, r) => a + (t - given.values[r]!) ** 2, 0);
    return { ...none, explainedVariance: 1 - left / spread };
  }
  if (task === 'multiclass') {
    const { values, width } = given;
    const classes = [...new Set(truth)];
    const aucs = classes.flatMap((c) => discrimination(splitBy(truth, (r) => values[r * width + c]!, c)).auc ?? []);
    const logLoss = truth.reduce((a, t, r) => a - Math.log(Math.max(1e-15, values[r * width + t]!)), 0) / n;
    return { ...none, auc: aucs.reduce((a, b) => a + b, 0) / aucs.length, logLoss };
  }
  const scored = splitBy(truth, (r) => given.values[r]!, 1);
  const found = calibration(scored);
  const logLoss =
    truth.reduce((a, t, r) => a + Math.log1p(Math.exp((t === 1 ? -1 : 1) * logOddsOf(given.values[r]!))), 0) / n;
  return {
    ...none,
    auc: discrimination(scored).auc,
    logLoss,
    brier: brierScore(scored),
    calibration: found && { ece: found.ece, intercept: found.intercept, slope: found.slope },
  };
}

function splitBy(truth: Float64Array, score: (r: number) => number, positive: number): ScoredOutcomes {
  const of = (is: boolean) => {
    const scores: number[] = [];
    truth.forEach((t, r) => {
      if ((t === positive) === is) scores.push(score(r));
    });
    return Float64Array.from(scores).sort();
  };
  return { positives: of(true), negatives: of(false) };
}

/** Outcome − prediction; of several classes, of the place of the class among them. */
function errorsOf({ values, width }: Predictions, truth: Float64Array): Float64Array {
  if (width === 1) return truth.map((t, r) => t - values[r]!);
  return truth.map((t, r) => {
    let expected = 0;
    for (let c = 0; c < width; c++) expected += c * values[r * width + c]!;
    return t - expected;
  });
}

/** Residuals by column and level against the mean of all: a model trained on reweighted classes is not told apart by that. */
function residualsOf(
  { columns, table }: Draft,
  rows: readonly (readonly string[])[],
  errors: Float64Array,
): Residual[] {
  const mean = errors.reduce((a, b) => a + b, 0) / errors.length;
  const variance = errors.reduce((a, e) => a + (e - mean) ** 2, 0) / errors.length;
  const found = columns.flatMap((column) => {
    const field = table.header.indexOf(column.spec.name);
    const levelOf = binning(
      column,
      rows.map((r) => r[field]!),
    );
    const groups = Map.groupBy(rows.keys(), (r) => levelOf(rows[r]![field]!));
    const largest = [...groups].filter(([, rs]) => rs.length >= LEAST_ROWS).sort((a, b) => b[1].length - a[1].length);
    return largest.slice(0, MOST_LEVELS).map(([level, rs]): Residual => {
      const own = rs.reduce((a, r) => a + errors[r]!, 0) / rs.length - mean;
      const share = 1 - rs.length / errors.length;
      const error = Math.sqrt((variance * share) / rs.length);
      return { column: column.spec.name, level, rows: rs.length, mean: own, z: error > 0 ? own / error : 0 };
    });
  });
  return found.sort((a, b) => Math.abs(b.z) - Math.abs(a.z)).slice(0, KEPT);
}
