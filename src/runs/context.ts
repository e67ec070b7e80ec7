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
  /** Name of the pipeline: the file name without its extension. Used as a label of metrics. */
  name: string;
  registry: Registry;
  /** Models of a long-running run, created on first use. The host follows aliases that move to another version. */
  host: () => Promise<ModelHost>;
  account: RunAccount;
  /** Null if metrics are disabled. */
  metrics: Metrics | null;
  /** Files that the entry point writes when the run ends. No file of the run may have the same path. */
  beside: readonly RunFile[];
  /** Findings about finite inputs. If absent, findings are collected only for a gate. */
  findings?: RunFindings;
  /** Log for operators. */
  log: Log;
  /** Null if traces are off. */
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
  /** Total size of the input in bytes; null if unknown. */
  totalBytes: number | null;
  /** Number of records not yet committed; null for finite inputs. */
  lag: number | null;
  /** Progress of the effects. Absent or null if effects were not requested, or if their progress is not known yet. */
  explained?: ExplainedProgress | null;
}

export interface RunningPipeline {
  progress(): RunProgress;
  /** Whether the run makes progress. A run without this function counts as ready from start to end. */
  ready?(): boolean;
  /** Resolves when the run is complete; rejects with the error that ended the run. */
  readonly done: Promise<RunResult>;
  /** The result of the inputs that were published, even if others fail; null if there are none. Files only. */
  published?(): RunResult | null;
  /** Finishes work in progress within `deadlineMs`, or abandons it. Idempotent. */
  stop(deadlineMs: number): Promise<void>;
}

export interface RunResult {
  /** Null if the model can change during the run. */
  by: ScoredBy | null;
  bytesRead: number;
  bytesWritten: number;
  /** Rows whose predictions an interrupted run had already written. */
  resumedRows: number;
  /** Inputs of a pattern that an earlier run scored; their outputs stay unchanged. */
  inputsDoneBefore: number;
  /** Rows of these inputs that the earlier run rejected. */
  rejectedBefore: number;
  /** Paths of the published outputs and rejects files. */
  outputs: string[];
  rejectLists: string[];
}

/** Rejected rows of all inputs of a run, with those of the inputs that an earlier run scored. */
export const rejectedInAll = ({ rejected }: Pick<RunCounts, 'rejected'>, result: RunResult | null): number =>
  rejected + (result?.rejectedBefore ?? 0);

/** The result of a run before its first row. */
export const newResult = (): RunResult => ({
  by: null,
  bytesRead: 0,
  bytesWritten: 0,
  resumedRows: 0,
  inputsDoneBefore: 0,
  rejectedBefore: 0,
  outputs: [],
  rejectLists: [],
});
