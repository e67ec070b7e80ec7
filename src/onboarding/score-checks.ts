// Compares the scores of the sample of the training table with the outcome.
// Detects raw scores, an inverted class and a missing link function.
import { type EncodedRows, encodeRows } from '../inference/encode/encode-rows.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { scoreRows } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import { meansClass } from './classes.ts';
import { type Draft, manifestOf } from './draft.ts';
import { LINKS } from './likely-causes.ts';
import { type Findings, plural, refusal } from './report-card.ts';

/** The sample, encoded according to the manifest, and the scores of the model. */
export interface ScoredSample {
  /** Complete except for explain, self_test and baseline, which later steps set. */
  readonly manifest: Manifest;
  readonly encoded: EncodedRows;
  /** The scores of all rows that are accepted and have a finite score. */
  readonly values: readonly number[];
  /** Fraction of the positive class in the sample; null: it is unknown, or the task is not binary. */
  readonly outcomeRate: number | null;
}

/** @throws SluiceError registration_refused */
export async function scoreSample(draft: Draft): Promise<ScoredSample> {
  const manifest = manifestOf(draft);
  const rows = draft.sample.map((s) => s.fields);
  const encoded = encodeRows(manifest, rows, draft.fields);
  if (encoded.rejected.size === encoded.rows)
    throw refusal('every row of the training table is rejected by the encoding rules');
  const values = checkedScores(manifest, await scoreRows(draft.probe, manifest, encoded), encoded, draft.findings);
  const outcomeRate = compareWithOutcome(draft, manifest, values);
  compareWithValues(draft, manifest, values);
  return { manifest, encoded, values, outcomeRate };
}

/** Rejects raw scores that are declared as probabilities. Returns the score of every valid row. @throws SluiceError */
function checkedScores(manifest: Manifest, scores: Scores, encoded: EncodedRows, findings: Findings): number[] {
  const interpreter = new Interpreter(manifest);
  const { task } = manifest;
  const values: number[] = [];
  let notFinite = 0;
  let outside = 0;
  for (let r = 0; r < encoded.rows; r++) {
    if (encoded.rejected.has(r)) continue;
    if (!interpreter.finite(scores, r)) {
      notFinite++;
      continue;
    }
    if (interpreter.isInvalid(scores, r)) outside++;
    if (task === 'binary') values.push(interpreter.probability(scores, r));
    else values.push(task === 'multiclass' ? scores.values[r * scores.width]! : interpreter.value(scores, r));
  }
  if (outside > 0) {
    throw refusal(
      `the output named probabilities contains raw scores (${plural(outside, 'row')} outside 0…1 or not adding up to 1): export with options={'raw_scores': False}${task === 'binary' ? ', or register them as log-odds with --output log_odds' : ''}`,
    );
  }
  if (notFinite > 0)
    findings.warn(
      `the model returns NaN or infinity for ${plural(notFinite, 'training row')}; such applications are rejected`,
    );
  const reasons = Map.groupBy(encoded.rejected.values(), (r) => `${r.column ?? ''} ${r.code}`);
  for (const [reason, list] of reasons)
    findings.warn(`${plural(list.length, 'row')} of the sample would be rejected: ${reason.trim()}`);
  if (values.length === 0) throw refusal('the model returns NaN or infinity for every training row');
  return values;
}

/**
 * Warns if the probabilities of a binary model look like the probabilities of the other class. Returns the fraction of
 * the positive class.
 */
function compareWithOutcome(
  { table, sample, findings }: Draft,
  manifest: Manifest,
  values: readonly number[],
): number | null {
  const { outcome } = manifest;
  if (manifest.task !== 'binary' || outcome === undefined) return null;
  const field = table.header.indexOf(outcome);
  const positive = String(manifest.positive_class);
  const hits = sample.map((s) => meansClass(s.fields[field]!, positive));
  const count = hits.filter(Boolean).length;
  if (count === 0) return null;
  const rate = count / hits.length;
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  const reversed = rate < 1 && values.length === hits.length ? reversedRanking(hits, values) : null;
  if (reversed !== null) {
    findings.warn(
      `rows with ${outcome} = ${positive} score ${reversed[0].toFixed(3)} on average and the others ${reversed[1].toFixed(3)}: this looks like the probability of the other class (--positive-class), or a wrong encoding`,
    );
  } else if (Math.abs(mean - rate) > Math.abs(mean - (1 - rate)) + 0.05) {
    findings.warn(
      `the mean probability is ${mean.toFixed(3)}, the share of ${outcome} = ${positive} is ${rate.toFixed(3)}: this looks like the probability of the other class`,
    );
  } else if (Math.abs(mean - rate) > 0.1) {
    findings.warn(
      `the mean probability is ${mean.toFixed(3)}, but the share of ${outcome} = ${positive} is ${rate.toFixed(3)}`,
    );
  }
  return rate;
}

/**
 * If the model ranks positive rows lower than other rows: the mean scores of the positive rows and of all other rows.
 * Otherwise null.
 */
function reversedRanking(positive: readonly boolean[], values: readonly number[]): [number, number] | null {
  const sums = [0, 0];
  const counts = [0, 0];
  let squares = 0;
  positive.forEach((p, i) => {
    sums[p ? 0 : 1]! += values[i]!;
    counts[p ? 0 : 1]!++;
    squares += values[i]! ** 2;
  });
  const [a, b] = [sums[0]! / counts[0]!, sums[1]! / counts[1]!];
  const mean = (sums[0]! + sums[1]!) / positive.length;
  const deviation = Math.sqrt(Math.max(0, squares / positive.length - mean ** 2));
  // The threshold is four standard errors, which noise does not produce.
  return b - a > 4 * deviation * Math.sqrt(1 / counts[0]! + 1 / counts[1]!) ? [a, b] : null;
}

/**
 * Warns if a regression fits its training table worse than a constant, which indicates a missing final step or wrong
 * inputs.
 */
function compareWithValues({ table, sample, findings }: Draft, manifest: Manifest, values: readonly number[]): void {
  const { outcome } = manifest;
  if (manifest.task !== 'regression' || outcome === undefined || values.length !== sample.length) return;
  const field = table.header.indexOf(outcome);
  const answers = sample.map((s) => (s.fields[field] === '' ? Number.NaN : Number(s.fields[field])));
  const known = answers.map((_, i) => i).filter((i) => Number.isFinite(answers[i]!));
  if (known.length < 20) return;
  const mean = known.reduce((a, i) => a + answers[i]!, 0) / known.length;
  const spread = known.reduce((a, i) => a + (answers[i]! - mean) ** 2, 0);
  /** R², which is 0 for a constant. */
  const explained = (f: (v: number) => number) =>
    1 - known.reduce((a, i) => a + (answers[i]! - f(values[i]!)) ** 2, 0) / spread;
  const own = explained((v) => v);
  if (!(spread > 0) || own >= 0) return;
  const [best] = LINKS.map(([words, f]) => ({ words, share: explained(f) })).sort((a, b) => b.share - a.share);
  findings.warn(
    best && best.share > 0 && best.share > own + 0.1
      ? `the values of the model look like ${best.words} rather than ${outcome}: a constant would fit the training table better. Check with --expected`
      : `the values of the model fit ${outcome} worse than a constant: the encoding, the order of columns or the outcome differs from training. Check with --expected`,
  );
}
