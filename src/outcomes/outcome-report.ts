// What the ledger adds up to: for each model and month how well its scores ordered applications, whether its probabilities came true, and
// what became of each decision.

import { monthText } from './calendar-month.ts';
import { type Calibration, calibration } from './calibration.ts';
import { brierScore, type Discrimination, discrimination, type ScoredOutcomes } from './discrimination.ts';
import { byName, type DecisionCount, type LedgerMonth, type OutcomeLedger } from './outcome-ledger.ts';
import type { PredictionCounts } from './read-predictions.ts';

interface DecisionOutcome {
  /** null: none was predicted. */
  decision: string | null;
  rows: number;
  /** Of the other class than the positive one. */
  bad: number;
  badRatio: number;
}

export interface OutcomeGroup extends Discrimination {
  model: string;
  /** `2026-03`; null: of all months, or none is known. */
  month: string | null;
  rows: number;
  positives: number;
  negatives: number;
  /** 2 · AUC − 1. */
  gini: number | null;
  brier: number | null;
  calibration: Calibration | null;
  decisions: DecisionOutcome[];
}

export interface OutcomeReport {
  labels: {
    rows: number;
    /** Different keys. */
    keys: number;
    /** Keys whose outcome is not known yet. */
    unknown: number;
    /** Keys with a known outcome that some prediction was found for. */
    matched: number;
    repeated: number;
  };
  predictions: PredictionCounts & { sources: number };
  /** By model, then by month. */
  groups: OutcomeGroup[];
  /** Over all months, of each model that has several. */
  totals: OutcomeGroup[];
}

type ReportCounts = Pick<OutcomeReport, 'predictions'> & { labels: { rows: number; repeated: number } };

/** Sorts the scores of one model after the other: at most 16 bytes per prediction in addition to the ledger. */
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
