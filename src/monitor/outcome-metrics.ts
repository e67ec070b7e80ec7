// What `sluice outcomes` leaves behind for a collector of text files: the table of its metrics, and how they are filled.
import { Gauge, Registry } from 'prom-client';

/** Of one model and month. */
interface MeasuredMonth {
  model: string;
  /** `2026-03`; null: no month is known. */
  month: string | null;
  rows: number;
  /** null: there is none, and no series. */
  auc: number | null;
  ks: number | null;
  brier: number | null;
  decisions: readonly { decision: string | null; badRatio: number }[];
}

/** Label where no month is known. */
const ALL_MONTHS = 'all';
/** Label where no decision was predicted. */
const NO_DECISION = 'none';

export class OutcomeMetrics {
  readonly registry = new Registry();
  readonly #rows = this.#gauge('sluice_outcome_rows', 'predictions whose outcome is known');
  readonly #auc = this.#gauge('sluice_outcome_auc', 'area under the ROC curve');
  readonly #ks = this.#gauge('sluice_outcome_ks', 'largest distance between the two distributions of scores');
  readonly #brier = this.#gauge('sluice_outcome_brier', 'mean square of probability less outcome');
  readonly #bad = this.#gauge('sluice_outcome_bad_ratio', 'share that went bad, by decision', ['decision']);

  constructor(months: readonly MeasuredMonth[] = []) {
    for (const { model, month: named, rows, auc, ks, brier, decisions } of months) {
      const month = named ?? ALL_MONTHS;
      this.#rows.set({ model, month }, rows);
      if (auc !== null) this.#auc.set({ model, month }, auc);
      if (ks !== null) this.#ks.set({ model, month }, ks);
      if (brier !== null) this.#brier.set({ model, month }, brier);
      for (const { decision, badRatio } of decisions) {
        this.#bad.set({ model, month, decision: decision ?? NO_DECISION }, badRatio);
      }
    }
  }

  /** The text exposition format. */
  text(): Promise<string> {
    return this.registry.metrics();
  }

  #gauge(name: string, help: string, more: readonly string[] = []): Gauge {
    return new Gauge({ name, help, labelNames: ['model', 'month', ...more], registers: [this.registry] });
  }
}
