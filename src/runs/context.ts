// The context and the result of every kind of run.
import type { ExplainedProgress } from '../core/explained-work.ts';
import type { Log } from '../core/log.ts';
import type { Tracer } from '../core/tracing.ts';
import type { RunCounts } from '../engine/counts.ts';
import type { ModelHost } from '../engine/model-host.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { Registry } from '../model/registry/registry.ts';
import type { Metrics } from '../monitor/metrics.ts';
import type { RunAccount } from './account.ts';
import type { RunFindings } from './gate.ts';
import type { RunFile } from './same-files.ts';

export interface RunContext {
  /** Of the pipeline: its file without the ending; a label of metrics. */
  name: string;
  registry: Registry;
  /** The models of a run that lasts: a moved alias takes effect while it goes on. Made when it is first asked for. */
  host: () => Promise<ModelHost>;
  account: RunAccount;
  /** null where none are served. */
  metrics: Metrics | null;
  /** Files that the door itself writes at the end: none of the run's may be one of them. */
  beside: readonly RunFile[];
  /** What is found in inputs that end; absent: nobody asks, but for a gate. */
  findings?: RunFindings;
  /** Logs what an operator should know. */
  log: Log;
  /** null: nobody collects traces. */
  tracer: Tracer | null;
}

/** Model and evaluator of a run. */
interface ScoredBy {
  model: ModelPackage;
  packageSha256: string;
  evaluator: string;
  workers: number;
}

export interface RunProgress {
  counts: Readonly<RunCounts>;
  bytesRead: number;
  /** null where unknown. */
  totalBytes: number | null;
  /** Records not yet committed; null for inputs that end. */
  lag: number | null;
  /** What is done of the effects; absent or null: none are asked for, or nothing is known yet. */
  explained?: ExplainedProgress | null;
}

export interface RunningPipeline {
  progress(): RunProgress;
  /** Whether it gets on; a run without it does from its start to its end. */
  ready?(): boolean;
  /** Resolves when the run is complete, rejects with the error that ended it. */
  readonly done: Promise<RunResult>;
  /** Finishes or abandons work in progress within the deadline, ms. Idempotent. */
  stop(deadlineMs: number): Promise<void>;
}

export interface RunResult {
  /** null for a run whose model may change while it goes on. */
  by: ScoredBy | null;
  bytesRead: number;
  bytesWritten: number;
  /** Rows whose answers a run that was interrupted had written already. */
  resumedRows: number;
  /** Inputs of a pattern that were scored before, and stay as they are. */
  inputsDoneBefore: number;
  /** Paths of outputs and reject lists that are final now. */
  outputs: string[];
  rejectLists: string[];
}

/** Of a run that has just begun. */
export const newResult = (): RunResult => ({
  by: null,
  bytesRead: 0,
  bytesWritten: 0,
  resumedRows: 0,
  inputsDoneBefore: 0,
  outputs: [],
  rejectLists: [],
});
