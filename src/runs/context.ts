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
  /** Models of a long-running run, which follows moved aliases. Created on first use. */
  host: () => Promise<ModelHost>;
  account: RunAccount;
  /** null where none are served. */
  metrics: Metrics | null;
  /** Files that the door itself writes at the end: none of the run's may be one of them. */
  beside: readonly RunFile[];
  /** Findings about finite inputs; absent: only a gate needs them. */
  findings?: RunFindings;
  /** Log for operators. */
  log: Log;
  /** null: traces are off. */
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
  /** Progress of the effects; absent or null: none are requested, or it is unknown yet. */
  explained?: ExplainedProgress | null;
}

export interface RunningPipeline {
  progress(): RunProgress;
  /** Whether it makes progress; a run without it does from start to end. */
  ready?(): boolean;
  /** Resolves when the run is complete, rejects with the error that ended it. */
  readonly done: Promise<RunResult>;
  /** Finishes or abandons work in progress within the deadline, ms. Idempotent. */
  stop(deadlineMs: number): Promise<void>;
}

export interface RunResult {
  /** null for a run whose model may change. */
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

/** The result of a run at its start. */
export const newResult = (): RunResult => ({
  by: null,
  bytesRead: 0,
  bytesWritten: 0,
  resumedRows: 0,
  inputsDoneBefore: 0,
  outputs: [],
  rejectLists: [],
});
