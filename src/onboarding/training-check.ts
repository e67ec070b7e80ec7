// The training-data check: rejects a registration that contradicts the training table, and lists questions that the table cannot decide.
import { SluiceError } from '../core/errors.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { calibration } from '../outcomes/calibration.ts';
import { brierScore, discrimination, type ScoredOutcomes } from '../outcomes/discrimination.ts';
import type { Draft, DraftColumn } from './draft.ts';
import { NO_ENCODING, ruleFor } from './encoding-file.ts';
import { logOddsOf, type Predictions } from './fit-loss.ts';
import { binning } from './portfolio-change.ts';
import { plural, type Report, type Residual, refusal, type TrainingFit, type WitnessReport } from './report-card.ts';
import { runSwapTest, type SwapTest, type TriedSwap } from './swap-test.ts';
import { someNames } from './swaps.ts';
import { findWitness, type WitnessRows } from './training-check-rows.ts';
import { missingIn, valuesIn } from './training-table.ts';
import { columnsBeyondThresholds } from './unused-thresholds.ts';

// The code below measures the fit of the model to its training table: discrimination, calibration, and levels with
// errors beyond chance.

/** Maximum number of levels per column; the most frequent levels are used. */
const MOST_LEVELS = 50;
/** Minimum number of rows of a level. */
const LEAST_ROWS = 20;
/** Maximum number of residuals in the report. */
const KEPT = 10;

function fitOf(draft: Draft, { task, rows, truth, scorer }: WitnessRows): TrainingFit {
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
    // The outcome has two values, but the scores have another scale (such as points). So only their order is compared.
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

/** Outcome − prediction. For several classes, the index of the class − its expected value. */
function errorsOf({ values, width }: Predictions, truth: Float64Array): Float64Array {
  if (width === 1) return truth.map((t, r) => t - values[r]!);
  return truth.map((t, r) => {
    let expected = 0;
    for (let c = 0; c < width; c++) expected += c * values[r * width + c]!;
    return t - expected;
  });
}

/** Residuals by column and level, relative to the mean of all residuals, so that reweighted classes have no effect. */
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

// The code below finds values of the training table that the encoder accepts only in another spelling.

/** Fraction of rows with an unknown value above which the encoder was not created from this table. */
const FOREIGN_SHARE = 0.5;
/** Minimum fraction of the rows with an unknown value that another spelling must explain. */
const EXPLAINED = 0.5;
/** Minimum fraction of all rows whose value is known only in another spelling. */
const NOTICED = 0.005;

/** Contradictions between the table and the encoding, one text per column. */
function respelledValues({ columns }: Draft): string[] {
  return columns.flatMap((column) => {
    const found = foreignValues(column);
    return found === null ? [] : [`column ${column.spec.name}: ${found}`];
  });
}

function foreignValues({ spec, profile, known }: DraftColumn): string | null {
  const list = spec.codes ? Object.keys(spec.codes) : (known?.values ?? spec.values);
  if (spec.kind !== 'category' || !list || list.length === 0 || !profile.distinct) return null;
  const words = new Set(list);
  const values = valuesIn(profile);
  const unknown = [...profile.distinct].filter(([value]) => !words.has(value));
  const rows = unknown.reduce((n, [, count]) => n + count, 0);
  if (rows === 0 || rows <= NOTICED * (values + missingIn(profile))) return null;
  for (const [what, respell] of SPELLINGS) {
    const byKey = new Set(list.flatMap((w) => respell(w) ?? []));
    const explained = unknown.reduce((n, [value, count]) => {
      const key = respell(value);
      return key !== null && byKey.has(key) ? n + count : n;
    }, 0);
    if (explained > EXPLAINED * rows)
      return `${plural(explained, 'row')} hold values that the encoding knows ${what}: write the table and the applications as in training (read_csv(dtype=str)), or spell the codes as in the table`;
  }
  if (rows <= FOREIGN_SHARE * values) return null;
  return `${plural(rows, 'row')} of ${values.toLocaleString('en')} hold values that the encoding does not know: the encoding belongs to another table`;
}

/** Removes the leading zeros of an integer; 1.0 becomes 1. null: the text is not an integer. */
function wholeNumber(value: string): string | null {
  if (!/^\d+(?:\.0)?$/.test(value)) return null;
  return String(BigInt(value.split('.', 1)[0]!));
}

/**
 * Descriptions of spellings, with functions that convert both spellings of a value to the same text; null: not
 * applicable.
 */
const SPELLINGS: readonly (readonly [string, (value: string) => string | null])[] = [
  ['with other leading zeros', wholeNumber],
  ['in capital or small letters', (v) => v.toLowerCase()],
  ['with or without blanks around', (v) => v.trim().toLowerCase()],
];

/**
 * Minimum gain for a swap to contradict the registration: in standard errors, and as a fraction of the information in
 * the predictions with the swap.
 */
const USUAL = { errors: 4, share: 0.01 };
const RARE = { errors: 6, share: 0.05 };
/**
 * Support by the outcome, in standard errors, at or below which the outcome opposes the registration. `LARGE_SHARE`:
 * fraction of the information from which this evidence is not required.
 */
const NOT_BORNE_OUT = -2;
const LARGE_SHARE = 0.15;
/**
 * Gain in standard errors from which neither condition is required, because it does not occur by chance. The fraction
 * may be small if there are many columns.
 */
const CERTAIN = 8;
/** Minimum relevant gain per row, in nats or as a fraction of the variance. */
const LEAST_GAIN = 0.0005;
/** Minimum number of changed rows for reliable standard errors. */
const LEAST_CHANGED = 30;
/** Difference in standard errors within which two registrations cannot be distinguished. */
const OPEN = 2;
/** The same limit for values that the user declared. It is smaller, because declared values are more reliable. */
const OPEN_IF_SAID = 1;
/** Minimum difference between predictions for an open question to be relevant. */
const DIFFERS = 0.005;
/**
 * Maximum difference from the predictions of the training library at which these prove the registration, independent of
 * the outcome.
 */
const REPRODUCED = 1e-7;
/** Maximum number of open questions to list. */
const LISTED = 12;
/** Maximum number of contradictions to report. */
const TOLD = 4;

/**
 * Compares the registration with the outcome of the training table. Predictions of the training library are better
 * evidence than outcomes: if the model reproduces them, no swap is tried.
 * @throws SluiceError registration_contradicted
 */
export async function askTrainingTable(
  draft: Draft,
  manifest: Manifest,
  selfTest: Report['selfTest'],
): Promise<WitnessReport> {
  const { findings, options } = draft;
  const reproduced = selfTest?.passed === true && selfTest.largest <= REPRODUCED;
  const { witness, why, contradictions: ofOutcome } = await findWitness(draft, manifest);
  const tried = witness && !draft.test ? await runSwapTest(draft, manifest, witness) : null;
  const contradictions = [
    ...columnsBeyondThresholds(draft, manifest),
    ...respelledValues(draft),
    ...(tried ? contradictionsOf(tried) : []),
    ...(reproduced ? [] : ofOutcome),
  ];
  if (reproduced) for (const text of ofOutcome) findings.warn(text);
  if (contradictions.length > 0 && options.force === undefined) throw contradicted(contradictions);
  for (const text of contradictions) findings.warn(`registered with --force: ${text}`);
  if (!witness) findings.assumed(`the training table cannot confirm this registration (${why}): order, codes and missing values are as declared or assumed`); // biome-ignore format: words
  if (tried) reportOpen(draft, tried);
  if (!draft.test) reportUnwitnessed(draft);
  return {
    fit: witness && fitOf(draft, witness),
    swaps: tried && { rows: tried.rows, tried: tried.tried, offered: tried.offered },
    forced: contradictions.length > 0 ? { reason: options.force!, contradictions } : null,
  };
}

const contradicted = (texts: readonly string[]): SluiceError =>
  new SluiceError(
    'registration_contradicted',
    `the training table contradicts this registration:\n${texts.map((t) => `  - ${t}`).join('\n')}\nCorrect the registration as described, or use --force "reason", which is recorded in the package.`,
  );

function contradictionsOf({ near, rows }: SwapTest): string[] {
  const guilty = bestOfEach(near.filter(contradicts));
  const told = guilty
    .slice(0, TOLD)
    .map(
      ({ swap, gain, losses }) =>
        `with ${swap.words} the model would fit the outcome better by ${gain.z.toFixed(1)} standard errors over ${rows.toLocaleString('en')} rows (loss ${losses.swapped.toFixed(4)} instead of ${losses.given.toFixed(4)}): ${swap.mend}`,
    );
  if (guilty.length > TOLD)
    told.push(`and ${guilty.length - TOLD} more contradictions of this kind, possibly with the same cause`);
  return told;
}

/**
 * Whether a swap contradicts the registration. An underfitted model, such as a linear model of codes, may by chance fit
 * better with other codes than in training. In this case the outcome still supports the registration, and only a large
 * gain contradicts it.
 */
function contradicts({ swap, gain, losses, changed, borneOut }: TriedSwap): boolean {
  const bar = swap.rare ? RARE : USUAL;
  if (gain.mean < LEAST_GAIN || changed < LEAST_CHANGED) return false;
  if (gain.z >= CERTAIN) return true;
  const guilty = borneOut === null || borneOut <= NOT_BORNE_OUT;
  return (
    (guilty || gain.mean >= LARGE_SHARE * (losses.constant - losses.swapped)) &&
    gain.z >= bar.errors &&
    gain.mean >= bar.share * (losses.constant - losses.swapped)
  );
}

/** The best swap of each subject. If several swaps have the same effect, only the first is returned. */
function bestOfEach(near: readonly TriedSwap[]): TriedSwap[] {
  const seen = new Set<string | number>();
  return near.filter(({ swap, losses }) => {
    if (seen.has(swap.subject) || seen.has(losses.swapped)) return false;
    return seen.add(swap.subject).add(losses.swapped);
  });
}

/**
 * Reports questions that the table does not decide, with both candidates and the difference of their predictions.
 * Questions about assumed values come first.
 */
function reportOpen({ findings, options }: Draft, { near, rows }: SwapTest): void {
  const isOpen = ({ swap, gain, largest }: TriedSwap) =>
    gain.z > (swap.quiet ? OPEN : swap.declared ? -OPEN_IF_SAID : -OPEN) && largest >= DIFFERS;
  const open = bestOfEach(near.filter((t) => !contradicts(t) && isOpen(t))).sort(
    (a, b) => Number(a.swap.declared) - Number(b.swap.declared),
  );
  const questions: string[] = [];
  for (const { swap, gain, largest, typical } of open.slice(0, LISTED)) {
    const tells =
      gain.z > OPEN
        ? `the table supports the second alternative by ${gain.z.toFixed(1)} standard errors over ${rows.toLocaleString('en')} rows`
        : 'the table does not distinguish the two';
    questions.push(
      `${swap.subject}: ${swap.given}, or ${swap.words}? Predictions differ by up to ${largest.toPrecision(2)}, typically ${typical.toPrecision(2)}; ${tells} (${swap.mend})`,
    );
  }
  if (open.length > LISTED) {
    const most = Math.max(...open.slice(LISTED).map((t) => t.largest));
    questions.push(
      `${open.length - LISTED} more alternatives cannot be distinguished from the registration; predictions differ by up to ${most.toPrecision(2)} (${someNames(open.slice(LISTED).map((t) => t.swap.subject))})`,
    );
  }
  if (options.strict && questions.length > 0)
    throw refusal(
      `the training table leaves questions open, which --strict does not allow:\n${questions.map((q) => `  - ${q}`).join('\n')}`,
    );
  for (const text of questions) findings.assumed(text);
}

/** Reports columns without a rule for missing values that have no missing values in the table. */
function reportUnwitnessed({ columns, options, findings }: Draft): void {
  const encoding = options.encoding ?? NO_ENCODING;
  const names = columns.flatMap(({ spec, profile, known }) => {
    const said = ruleFor(encoding.missing, spec.name) !== undefined || known?.marker !== undefined;
    return missingIn(profile) > 0 || spec.missing?.as === 'error' || said ? [] : [spec.name];
  });
  if (names.length === 0) return;
  findings.assumed(
    `no training row lacks ${someNames(names, 8)}: if an application lacks it, the model receives a default (--encoding, missing)`,
  );
}
