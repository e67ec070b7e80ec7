// Metrics of a finished process as text, for a file collector or a push gateway.
import { Gauge, Registry } from 'prom-client';
import { epochMs } from '../core/clock.ts';
import type { Metrics } from './metrics.ts';

export interface RunEnd {
  pipeline: string;
  exitCode: number;
  /** Whether the run published its output. */
  success: boolean;
  seconds: number;
  rows: { scored: number; rejected: number };
  /** Seconds between the end of the run and its deadline; null without a deadline. */
  slackSeconds: number | null;
}

const LAST_SUCCESS = 'sluice_run_last_success_timestamp_seconds';
/**
 * The metrics as text. Every series has the label `pipeline`, because collectors combine the files of several
 * pipelines. `lastSuccess`: time of an earlier successful run in seconds since 1970, which is exported if this run
 * failed.
 */
export async function leftText(metrics: Metrics, end: RunEnd, lastSuccess: number | null): Promise<string> {
  const { pipeline, rows } = end;
  const now = epochMs() / 1000;
  const success = end.success ? now : lastSuccess;
  if (success !== null) metrics.runLastSuccess.set({ pipeline }, success);
  metrics.runLastEnd.set({ pipeline }, now);
  metrics.runExitCode.set({ pipeline }, end.exitCode);
  metrics.runSeconds.set({ pipeline }, end.seconds);
  for (const outcome of ['scored', 'rejected'] as const) metrics.runRows.set({ pipeline, outcome }, rows[outcome]);
  if (end.slackSeconds !== null) metrics.runSlack.set({ pipeline }, end.slackSeconds);
  await metrics.fillRun(pipeline);
  const { file } = metrics;
  file.setDefaultLabels({ pipeline });
  const texts: string[] = [];
  for (const { name, type, values } of await file.getMetricsAsJSON()) {
    // A counter that this run never incremented is omitted.
    const measured = String(type) === 'gauge' ? values.length > 0 : values.some(({ value }) => value !== 0);
    if (measured) texts.push(await file.getSingleMetricAsString(name));
  }
  return `${texts.join('\n')}\n`;
}

/**
 * Time of a pipeline's last success according to an existing text of metrics, in seconds since 1970; null if the text
 * contains none.
 */
export function lastSuccessIn(text: string, pipeline: string): number | null {
  const label = `pipeline="${escaped(pipeline)}"`;
  const line = text.split('\n').find((l) => l.startsWith(`${LAST_SUCCESS}{`) && l.includes(label));
  const value = Number(line?.slice(line.lastIndexOf(' ') + 1));
  return line === undefined || Number.isNaN(value) ? null : value;
}

/** Whether a run wrote this text. If not, the file may be a user's input and must not be replaced. */
export const isLeftText = (text: string): boolean =>
  text.includes('# TYPE sluice_run_last_end_timestamp_seconds gauge');

const escaped = (label: string): string =>
  label.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');

// Metrics of `sluice outcomes`.

/** Measurements for a model and a month. */
interface MeasuredMonth {
  model: string;
  /** For example `2026-03`; null if no month is known. */
  month: string | null;
  rows: number;
  /** Null without a value; the series is then not exported. */
  auc: number | null;
  ks: number | null;
  brier: number | null;
  decisions: readonly { decision: string | null; badRatio: number }[];
}

/** Label value if no month is known. */
const ALL_MONTHS = 'all';
/** Label value for predictions without a decision. */
const NO_DECISION = 'none';

export class OutcomeMetrics {
  readonly registry = new Registry();
  readonly #rows = this.#gauge('sluice_outcome_rows', 'predictions whose outcome is known');
  readonly #auc = this.#gauge('sluice_outcome_auc', 'area under the ROC curve');
  readonly #ks = this.#gauge(
    'sluice_outcome_ks',
    'KS: largest distance between the score distributions of good and bad outcomes',
  );
  readonly #brier = this.#gauge(
    'sluice_outcome_brier',
    'Brier score: mean squared difference between probability and outcome',
  );
  readonly #bad = this.#gauge('sluice_outcome_bad_ratio', 'share of predictions with a bad outcome, by decision', [
    'decision',
  ]);

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

  /** The metrics in the Prometheus text format. */
  text(): Promise<string> {
    return this.registry.metrics();
  }

  #gauge(name: string, help: string, more: readonly string[] = []): Gauge {
    return new Gauge({ name, help, labelNames: ['model', 'month', ...more], registers: [this.registry] });
  }
}
