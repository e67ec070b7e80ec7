// What every kind of pipeline is given and gives back.

import type { ModelHost } from '../engine/model-host.ts';
import type { Metrics } from '../monitor/metrics.ts';

export interface RunTotals {
  rows: number;
  scored: number;
  rejected: number;
}

export interface RunContext {
  /** Of the pipeline: its file without the ending; a label of metrics. */
  name: string;
  host: ModelHost;
  metrics: Metrics;
  /** Hears in words what an operator should know. */
  tell: (text: string) => void;
}

export interface RunningPipeline {
  readonly totals: Readonly<RunTotals>;
  /** Records not yet read; null where nobody knows. */
  lag(): number | null;
  /** Resolves when the pipeline has come to its end, rejects with what ended it. */
  readonly done: Promise<void>;
  /** Finishes or gives up what is in hand within the deadline, ms. Idempotent. */
  stop(deadlineMs: number): Promise<void>;
}
