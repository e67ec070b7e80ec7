// Context and result of every kind of run.
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
  /** Pipeline name: its file name without the extension; used as a label of metrics. */
  name: string;
  registry: Registry;
  /** Models of a long-running run. The host follows moved aliases. Created on first use. */
  host: () => Promise<ModelHost>;
  account: RunAccount;
  /** null: metrics are disabled. */
  metrics: Metrics | null;
  /** Files that the entry point writes at the end; no file of the run may have the same path. */
  beside: readonly RunFile[];
  /** Findings about finite inputs. Absent: only a gate needs findings. */
  findings?: RunFindings;
  /** Log for operators. */
  log: Log;
  /** null: traces are off. */
  tracer: Tracer | null;
}

/** Model and evaluator that scored a run. */
interface ScoredBy {
  model: ModelPackage;
  packageSha256: string;
  evaluator: string;
  workers: number;
}

export interface RunProgress {
  counts: Readonly<RunCounts>;
  bytesRead: number;
  /** null: unknown. */
  totalBytes: number | null;
  /** Number of records not yet committed; null for finite inputs. */
  lag: number | null;
  /** Progress of the effects. Absent or null: effects were not requested, or their progress is not known yet. */
  explained?: ExplainedProgress | null;
}

export interface RunningPipeline {
  progress(): RunProgress;
  /** Whether the run makes progress. Absent: the run is ready from start to end. */
  ready?(): boolean;
  /** Resolves when the run is complete, rejects with the error that ended it. */
  readonly done: Promise<RunResult>;
  /** Finishes or abandons work in progress within the deadline, ms. Idempotent. */
  stop(deadlineMs: number): Promise<void>;
}

export interface RunResult {
  /** null: the model can change during the run. */
  by: ScoredBy | null;
  bytesRead: number;
  bytesWritten: number;
  /** Rows whose predictions an interrupted run had already written. */
  resumedRows: number;
  /** Inputs of a pattern that an earlier run scored; their outputs stay unchanged. */
  inputsDoneBefore: number;
  /** Paths of the published outputs and rejects files. */
  outputs: string[];
  rejectLists: string[];
}

/** The result of a run before its first row. */
export const newResult = (): RunResult => ({
  by: null,
  bytesRead: 0,
  bytesWritten: 0,
  resumedRows: 0,
  inputsDoneBefore: 0,
  outputs: [],
  rejectLists: [],
});
