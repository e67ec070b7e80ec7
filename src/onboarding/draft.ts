// The draft of a package, which every registration step reads and extends. These types do not depend on any step.
import { boosterFormat } from '../inference/boosters/read-model.ts';
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
  modelFile: string;
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
  /** Name of the graph output with the scores. Default: it is detected. */
  scores?: string;
  /** Predictions of the training library, one row per row of the training table. */
  expected?: ExpectedTable;
  /** The applications to which the predictions belong, if they are not the rows of the training table. */
  expectedRows?: { header: readonly string[]; rows: readonly (readonly string[])[] };
  tolerance?: number;
  requireBatchInvariance?: boolean;
  /** Applications for the background sample. Default: a sample of the training table. */
  background?: { file: string; header: readonly string[]; rows: readonly (readonly string[])[] };
  /** Number of background rows. Default: 100. */
  backgroundRows?: number;
  /** Whether to reject a registration with warnings or open questions, for automated pipelines. */
  strict?: boolean;
  /** The reason for registering a model that the training table contradicts. */
  force?: string;
  /** The file covers.json, which contains the number of training rows per tree node for path-dependent effects. */
  covers?: string;
  /** Decisions, scorecard and reason codes. */
  policy?: PolicyFile;
  /** Duration of the speed measurement, ms. Default: 700. */
  benchMs?: number;
}

export interface Proposal {
  manifest: Manifest;
  report: Report;
  /** The contents of the files by name, without model.yaml. */
  files: PackageFiles;
}

type PackageFiles = ReadonlyMap<string, string | Uint8Array>;

/** How a missing value is encoded. */
export type MissingChoice = NonNullable<ColumnSpec['missing']>;

export interface DraftColumn {
  spec: ColumnSpec;
  readonly input: InputSpec;
  profile: ColumnProfile;
  /** The categories stored in the graph, if they can be read from it. */
  readonly known: KnownCategories | undefined;
  /**
   * Other encodings of missing values that the training code may have used. They are tried if predictions are
   * available.
   */
  choices: MissingChoice[];
  /** Whether the encoding of missing values is determined neither by the user nor by the graph. */
  open: boolean;
}

/** The context for drafting columns. `problems` collects problems, which are reported together. */
export interface ColumnRules {
  readonly encoding: EncodingFile;
  readonly findings: Findings;
  readonly problems: string[];
}

/** The section of the manifest that is known only after the graph has run. */
export type OutputPart = Pick<Manifest, 'task' | 'onnx'> &
  Partial<Pick<Manifest, 'classes' | 'positive_class' | 'output'>>;

/** The predictions of the training library, and the rows to which they belong. */
export interface Expectation {
  readonly expected: Expected;
  readonly rows: readonly (readonly string[])[];
  /** For each row, the index of its prediction. */
  readonly rowOf: readonly number[];
  /** For each column of the manifest, its field index in a row. */
  readonly fields: readonly number[];
}

/** The input of a registration. The code that opened the sources must close the probe. */
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
  /** Columns in the order of the training table. Steps modify the specs in place. */
  readonly columns: readonly DraftColumn[];
  /** For each column, its field index in a row of the training table. */
  readonly fields: readonly number[];
  /** The rows of the training table that are scored. */
  readonly sample: TrainingTable['sample'];
  /** Maximum accepted difference from the expected predictions. */
  readonly tolerance: number;
  /** The outputs of the model; a placeholder until the graph has run. */
  outputs: OutputPart;
  /** The expected predictions; null: there are none, or they were not read yet. */
  test: Expectation | null;
}

/** Maximum number of rows that are scored for statistics, and that are compared with predictions. */
export const SCORED_ROWS = 5000;

export const UNKNOWN_OUTPUTS: OutputPart = { task: 'regression', onnx: { file: 'model.onnx', sha256: '', value: '' } };

/** Name of the model file in the package. */
function modelFile(model: OnnxModel): string {
  const format = boosterFormat(model.bytes);
  if (format === 'lightgbm') return 'model.txt';
  return format === null ? 'model.onnx' : format === 'json' ? 'model.json' : 'model.ubj';
}

/** The manifest with all values that are known so far. */
export function manifestOf(draft: Draft): Manifest {
  const { options, outcome, sha256 } = draft;
  const { task, onnx, ...classes } = draft.outputs;
  return {
    id: options.id,
    version: options.version,
    task,
    onnx: { ...onnx, file: modelFile(draft.model), sha256 },
    columns: draft.columns.map((c) => c.spec),
    inputs: draft.inputs,
    ...(options.description ? { description: options.description } : {}),
    ...(outcome === null ? {} : { outcome }),
    ...classes,
  };
}
