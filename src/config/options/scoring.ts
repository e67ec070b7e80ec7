// Options of scoring, each described once: pipeline files, command lines, query parameters and the configuration of the service take them from here.

import { COMPRESSIONS, DELIMITER_NAMES } from '../../core/file-format.ts';
import { Type } from '../schema.ts';
import { at, choice, type Door, MIB, text, whole } from './describe-option.ts';

export const EVALUATORS = ['auto', 'onnxruntime', 'native'] as const;

/** Of an interpretation, a row. */
const MOST_EVALUATIONS = 100_000_000;

const SIGNERS =
  'names of the certificates that may sign: common names, or alternative names with their kind, such as URI:spiffe://bank.example/model-team';

const PASSTHROUGH = 'columns outside the model to copy to the output';

export const SCORING = {
  model: () => text('model reference: id, id:version or id@alias'),
  interpretation: (door: Door<'none' | 'effects' | 'reasons'> = {}) =>
    choice(
      'what accompanies each prediction: effects of the columns with reasons, or reasons only',
      ['none', 'effects', 'reasons'],
      door,
    ),
  interpret_below: () =>
    Type.Number({ description: 'interpret only applications whose probability (or value) is below this' }),
  max_evaluations: () =>
    whole('evaluations that the interpretation of one application may take, where the model has to be asked', [
      1,
      MOST_EVALUATIONS,
    ]),
  top_effects: () => whole('only so many effects, the largest', [1, 2000]),
  interactions: () =>
    whole('so many pairs of columns by what they make together, the strongest; for models of trees', [1, 500]),
  passthrough_list: () => Type.Union([Type.Array(Type.String()), Type.Enum(['*'])], { description: PASSTHROUGH }),
  passthrough_text: () => Type.String({ description: `${PASSTHROUGH}: a,b or *` }),
  batch_rows: (door: Door<number> = {}) => whole('rows per micro-batch', [1, 65_536], door),
  batch_wait_ms: (door: Door<number> = {}) => whole('a smaller micro-batch is scored after this wait', [0], door),
  workers: (door: Door<number> = {}) => whole('workers per model', [1, 256], door),
  evaluator: (door: Door<(typeof EVALUATORS)[number]> = {}) =>
    choice('auto: the native evaluator where it agrees with ONNX Runtime; the others: only that one', EVALUATORS, door),
  record_bytes: (door: Door<number> = {}) =>
    whole('longest application; a longer one is rejected', [16, 64 * MIB], door),
  max_columns: (door: Door<number> = {}) => whole('columns of a header row, or keys of an object', [1, 100_000], door),
  on_invalid: <D extends Door<'report' | 'fail'>>(door?: D) =>
    choice('invalid applications: report lists them and goes on, fail ends the run', ['report', 'fail'], door),
  deadline: () => text('when the run has to be over: 06:00 (its next occurrence, local time) or 2026-11-23T06:00'),
  report: () => text('leave a report of the run there, one HTML page; compared with the report that is there'),
  allow_empty: () =>
    Type.Boolean({ description: 'an input all of whose rows are rejected gives an output too; default: it fails' }),
  manifest: (door: Door<boolean> = {}) =>
    Type.Boolean(at('leave a manifest beside an output file: what made it, and proof that it is whole', door)),
  sign_key: (door: Door<string> = {}) =>
    text('private key (PEM; Ed25519 or P-256) with which manifests are signed', door),
  require_lock: (door: Door<boolean> = {}) => Type.Boolean(at('load only packages that have a package.lock', door)),
  require_signature: (door: Door<string> = {}) =>
    text('load only packages signed with this: PEM file with the public key, or with the certificates trusted', door),
  require_signer_list: (door: Door<string[]> = {}) =>
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1, ...at(SIGNERS, door) }),
  require_signer_text: (door: Door<string> = {}) => text(`${SIGNERS}, separated by commas`, door),
  require_approval: (door: Door<string> = {}) =>
    text(
      'load only versions that somebody else than who added them approved: PEM file with the public keys whose approvals count, or `any`',
      door,
    ),
  delimiter: (door: Door<(typeof DELIMITER_NAMES)[number]> = {}) => choice('delimiter of CSV', DELIMITER_NAMES, door),
  compression: (description: string, door: Door<(typeof COMPRESSIONS)[number]> = {}) =>
    choice(description, COMPRESSIONS, door),
} as const;

/** Where models are looked for. */
export const registryAddress = () =>
  Type.String(
    at('where models are: a folder, s3://bucket/prefix or mlflow+https://host', {
      otherwise: '$SLUICE_REGISTRY, else ./models',
    }),
  );
