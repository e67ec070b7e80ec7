// Runs a comparison: reads outcomes, matches predictions with outcomes, and computes the report.
import { SluiceError } from '../core/errors.ts';
import { OutcomeLedger } from './outcome-ledger.ts';
import { type OutcomeReport, outcomeReport } from './outcome-report.ts';
import { type LabelOptions, readLabels } from './read-labels.ts';
import { type PredictionCounts, type PredictionOptions, readPredictions } from './read-predictions.ts';
import type { RowSource } from './row-batch.ts';

export interface MeasureOptions {
  labels: RowSource & Omit<LabelOptions, 'signal' | 'month'>;
  predictions: Omit<PredictionOptions, 'signal' | 'month' | 'recordTimes'> & { readonly sources: readonly RowSource[] };
  /** The column with the month. It is read from the outcomes, or from the predictions if the outcomes lack it. */
  month: LabelOptions['month'];
  signal?: AbortSignal | undefined;
}

/**
 * @throws SluiceError usage; outcomes_invalid (unusable rows, duplicate keys, or no prediction matches an outcome); any
 * error of reading
 */
export async function measureOutcomes({ labels, predictions, month, signal }: MeasureOptions): Promise<OutcomeReport> {
  const ledger = new OutcomeLedger();
  const labelled = await readLabels(ledger, labels, { ...labels, month, signal });
  if (ledger.known === 0) {
    throw new SluiceError('outcomes_invalid', `${labels.name}: none of ${labelled.rows} rows has an outcome`);
  }
  const options = {
    ...predictions,
    month: labelled.months ? null : month,
    recordTimes: !labelled.months && month === null,
    signal,
  };
  const counts: PredictionCounts = { rows: 0, matched: 0, repeated: 0, withdrawn: 0, unlabelled: 0, withoutProbability: 0, withoutKey: 0 }; // biome-ignore format: one line
  for (const source of predictions.sources) await readPredictions(ledger, source, options, counts);
  if (counts.matched === 0) throw nothingMatched(counts);
  return outcomeReport(ledger, {
    labels: { rows: labelled.rows, repeated: labelled.repeated },
    predictions: { sources: predictions.sources.length, ...counts },
  });
}

function nothingMatched({ rows, withoutProbability, withoutKey }: PredictionCounts): SluiceError {
  const why =
    rows === withoutProbability
      ? 'none has a probability'
      : rows === withoutProbability + withoutKey
        ? 'none has a key'
        : 'none has a key of the labels: check that both key columns contain the same ids in the same spelling';
  return new SluiceError('outcomes_invalid', `of ${rows} predictions ${why}`);
}
