// Builds the report of a ledger: discrimination and calibration of the scores for each model and month, and the outcomes by decision.

import { monthText } from './calendar-month.ts';
import { type Calibration, calibration } from './calibration.ts';
import { brierScore, type Discrimination, discrimination, type ScoredOutcomes } from './discrimination.ts';
import { byName, type DecisionCount, type LedgerMonth, type OutcomeLedger } from './outcome-ledger.ts';
import type { PredictionCounts } from './read-predictions.ts';

interface DecisionOutcome {
  /** null: the predictions have no decision. */
  decision: string | null;
  rows: number;
  /** Number of rows that are not in the positive class. */
  bad: number;
  badRatio: number;
}

export interface OutcomeGroup extends Discrimination {
  model: string;
  /** `2026-03`; null: the group contains all months, or predictions without a known month. */
  month: string | null;
  rows: number;
  positives: number;
  negatives: number;
  /** Gini coefficient: 2 · AUC − 1. */
  gini: number | null;
  brier: number | null;
  calibration: Calibration | null;
  decisions: DecisionOutcome[];
}

export interface OutcomeReport {
  labels: {
    rows: number;
    /** Number of distinct keys. */
    keys: number;
    /** Number of keys whose outcome is not known yet. */
    unknown: number;
    /** Number of keys with a known outcome and at least one prediction. */
    matched: number;
    repeated: number;
  };
  predictions: PredictionCounts & { sources: number };
  /** Sorted by model, then by month. */
  groups: OutcomeGroup[];
  /** Results over all months, for each model that has several months. */
  totals: OutcomeGroup[];
}

type ReportCounts = Pick<OutcomeReport, 'predictions'> & { labels: { rows: number; repeated: number } };

/**
 * Builds the report. It sorts the scores of one model at a time, so it needs at most 16 bytes per prediction in
 * addition to the ledger.
 */
export function outcomeReport(ledger: OutcomeLedger, { labels, predictions }: ReportCounts): OutcomeReport {
  const groups: OutcomeGroup[] = [];
  const totals: OutcomeGroup[] = [];
  for (const model of [...ledger.models].sort()) {
    const months = ledger.months(model);
    groups.push(...months.map((month) => groupOf(model, monthText(month.month), month, month.decisions)));
    if (months.length > 1) totals.push(groupOf(model, null, together(months), decisionsOf(months)));
  }
  return {
    labels: { ...labels, keys: ledger.labels, unknown: ledger.labels - ledger.known, matched: ledger.matched() },
    predictions,
    groups,
    totals,
  };
}

function groupOf(
  model: string,
  month: string | null,
  scored: ScoredOutcomes,
  decisions: readonly DecisionCount[],
): OutcomeGroup {
  const [positives, negatives] = [scored.positives.length, scored.negatives.length];
  const { auc, ks } = discrimination(scored);
  return {
    model,
    month,
    rows: positives + negatives,
    positives,
    negatives,
    auc,
    gini: auc === null ? null : 2 * auc - 1,
    ks,
    brier: brierScore(scored),
    calibration: calibration(scored),
    decisions: decisions.map((d) => {
      const rows = d.positives + d.negatives;
      return { decision: d.decision, rows, bad: d.negatives, badRatio: d.negatives / rows };
    }),
  };
}

function together(months: readonly LedgerMonth[]): ScoredOutcomes {
  const joined = (parts: readonly Float64Array[]): Float64Array => {
    const all = new Float64Array(parts.reduce((n, part) => n + part.length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all.sort();
  };
  return { positives: joined(months.map((m) => m.positives)), negatives: joined(months.map((m) => m.negatives)) };
}

function decisionsOf(months: readonly LedgerMonth[]): DecisionCount[] {
  const sums = new Map<string | null, DecisionCount>();
  for (const { decision, positives, negatives } of months.flatMap((m) => m.decisions)) {
    const sum = sums.get(decision) ?? { decision, positives: 0, negatives: 0 };
    sums.set(decision, { decision, positives: sum.positives + positives, negatives: sum.negatives + negatives });
  }
  return [...sums.values()].sort(byName);
}
