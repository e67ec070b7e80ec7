// The draft of a package: the input and output of every registration step. Its types depend on no step.
import type { OnnxModel } from '../inference/onnx/graph.ts';
import type { KnownCategories } from '../inference/onnx/labels.ts';
import type { Probe } from '../inference/sandbox/probe.ts';
import type { ColumnSpec, InputSpec, Manifest } from '../model/package/manifest.ts';
import type { EncodingFile } from './encoding-file.ts';
import type { Expected, ExpectedTable } from './expected.ts';
import type { PolicyFile } from './policy-file.ts';
import type { Findings, Report } from './report-card.ts';
import type { ColumnProfile, TrainingTable } from './training-table.ts';

export interface RegisterOptions {
  onnxFile: string;
  trainingFile: string;
  id: string;
  version: string | number;
  delimiter?: string;
  description?: string;
  outcome?: string;
  ignore?: readonly string[];
  encoding?: EncodingFile;
  task?: Manifest['task'];
  positiveClass?: string;
  output?: 'probability' | 'log_odds';
  /** The graph output that carries the scores; default: detected. */
  scores?: string;
  /** Predictions of the training library, row by row for the training table. */
  expected?: ExpectedTable;
  /** Other applications the predictions belong to. */
  expectedRows?: { header: readonly string[]; rows: readonly (readonly string[])[] };
  tolerance?: number;
  requireBatchInvariance?: boolean;
  /** Applications that effects are measured against; default: a sample of the training table. */
  background?: { file: string; header: readonly string[]; rows: readonly (readonly string[])[] };
  /** Rows of the background; default 100. */
  backgroundRows?: number;
  /** Why a registration that the training table contradicts is made all the same. */
  force?: string;
  /** covers.json: training rows at the nodes of the trees, for path-dependent effects. */
  covers?: string;
  /** Decisions, scorecard and reasons. */
  policy?: PolicyFile;
  /** Milliseconds the speed is measured for; default 700. */
  benchMs?: number;
}

export interface Proposal {
  manifest: Manifest;
  report: Report;
  /** File name → content, model.yaml not among them. */
  files: PackageFiles;
}

type PackageFiles = ReadonlyMap<string, string | Uint8Array>;

/** What a missing value may become; the first that fits is taken. */
export type MissingChoice = NonNullable<ColumnSpec['missing']>;

export interface DraftColumn {
  spec: ColumnSpec;
  readonly input: InputSpec;
  readonly profile: ColumnProfile;
  /** The categories the graph knows, where it shows them. */
  readonly known: KnownCategories | undefined;
  /** Other things the training code may have made of missing values; tried when predictions are given. */
  choices: MissingChoice[];
  /** true: neither the user nor the graph says what missing becomes. */
  open: boolean;
}

/** What every column is drafted by; the problems of all columns are collected and reported at once. */
export interface ColumnRules {
  readonly encoding: EncodingFile;
  readonly findings: Findings;
  readonly problems: string[];
}

/** The part of the manifest that is known once the graph has run. */
export type OutputPart = Pick<Manifest, 'task' | 'onnx'> &
  Partial<Pick<Manifest, 'classes' | 'positive_class' | 'output'>>;

/** Predictions of the training library and the rows they belong to. */
export interface Expectation {
  readonly expected: Expected;
  readonly rows: readonly (readonly string[])[];
  /** Per row: its row in the expectation. */
  readonly rowOf: readonly number[];
  /** Per column of the manifest: its field in a row. */
  readonly fields: readonly number[];
}

/** The input of registration. The probe belongs to the opener of the sources. */
export interface Sources {
  readonly options: RegisterOptions;
  readonly bytes: Uint8Array;
  readonly sha256: string;
  readonly model: OnnxModel;
  readonly table: TrainingTable;
  readonly probe: Probe;
  readonly findings: Findings;
}

export interface Draft extends Sources {
  readonly outcome: string | null;
  readonly inputs: InputSpec[];
  /** In the order of the training table. Steps change their specs in place. */
  readonly columns: readonly DraftColumn[];
  /** Per column: its field in a row of the training table. */
  readonly fields: readonly number[];
  /** Rows of the training table that are scored. */
  readonly sample: TrainingTable['sample'];
  /** Largest difference from the expected predictions that passes. */
  readonly tolerance: number;
  /** A placeholder until the graph has run. */
  outputs: OutputPart;
  /** null: no predictions were given, or they have not been looked at yet. */
  test: Expectation | null;
}

/** Rows scored for the statistics, and the most that are compared with predictions. */
export const SCORED_ROWS = 5000;

export const UNKNOWN_OUTPUTS: OutputPart = { task: 'regression', onnx: { file: 'model.onnx', sha256: '', value: '' } };

/** The manifest as far as it is known. */
export function manifestOf(draft: Draft): Manifest {
  const { options, outcome, sha256 } = draft;
  const { task, onnx, ...classes } = draft.outputs;
  return {
    id: options.id,
    version: options.version,
    task,
    onnx: { ...onnx, sha256 },
    columns: draft.columns.map((c) => c.spec),
    inputs: draft.inputs,
    ...(options.description ? { description: options.description } : {}),
    ...(outcome === null ? {} : { outcome }),
    ...classes,
  };
}
