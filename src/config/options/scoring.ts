// Options of scoring. Pipeline files, command lines, query parameters and the service configuration share these
// descriptions.

import { COMPRESSIONS, DELIMITER_NAMES } from '../../core/file-format.ts';
import { Type } from '../schema.ts';
import { at, choice, type Door, MIB, text, whole } from './describe-option.ts';

export const EVALUATORS = ['auto', 'onnxruntime', 'native'] as const;

/** Maximum number of model evaluations per row for an interpretation. */
const MOST_EVALUATIONS = 100_000_000;

const SIGNERS =
  'accept only signatures by certificates with one of these names: common names, or subject alternative names with their type, such as URI:spiffe://bank.example/model-team';

const PASSTHROUGH = 'columns outside the model to copy to the output';

export const SCORING = {
  model: () => text('model reference: id, id:version or id@alias'),
  interpretation: (door: Door<'none' | 'effects' | 'reasons'> = {}) =>
    choice(
      'interpretation of each prediction: effects of the columns with reason codes, or reason codes only',
      ['none', 'effects', 'reasons'],
      door,
    ),
  interpret_below: () =>
    Type.Number({ description: 'interpret only applications whose probability (or value) is below this number' }),
  max_evaluations: () =>
    whole('maximum evaluations for interpreting one application of a black-box model', [1, MOST_EVALUATIONS]),
  top_effects: () => whole('report only the N largest effects', [1, 2000]),
  interactions: () => whole('report the N strongest pairwise interactions; tree models only', [1, 500]),
  passthrough_list: () => Type.Union([Type.Array(Type.String()), Type.Enum(['*'])], { description: PASSTHROUGH }),
  passthrough_text: () => Type.String({ description: `${PASSTHROUGH}: a,b or *` }),
  batch_rows: (door: Door<number> = {}) => whole('rows per micro-batch', [1, 65_536], door),
  batch_wait_ms: (door: Door<number> = {}) =>
    whole('maximum wait for a full micro-batch; then a smaller one is scored', [0], door),
  workers: (door: Door<number> = {}) => whole('workers per model', [1, 256], door),
  evaluator: (door: Door<(typeof EVALUATORS)[number]> = {}) =>
    choice(
      'auto: the native evaluator if it agrees with ONNX Runtime, else ONNX Runtime; native, onnxruntime: only this evaluator',
      EVALUATORS,
      door,
    ),
  record_bytes: (door: Door<number> = {}) =>
    whole('maximum size of an application, bytes; larger ones are rejected', [16, 64 * MIB], door),
  max_columns: (door: Door<number> = {}) =>
    whole('maximum columns of a header row or keys of an object', [1, 100_000], door),
  on_invalid: <D extends Door<'report' | 'fail'>>(door?: D) =>
    choice('invalid applications: report rejects them and continues, fail ends the run', ['report', 'fail'], door),
  deadline: () => text('deadline of the run: 06:00 (its next occurrence, local time) or 2026-11-23T06:00'),
  report: () => text('write an HTML report of the run, compared with the report already in this file'),
  run_records: () => text('folder for a record of each run, which `sluice serve` lists (GET /api/v1/runs)'),
  allow_empty: () =>
    Type.Boolean({ description: 'publish the output even if every row is rejected; default: the run fails' }),
  manifest: (door: Door<boolean> = {}) =>
    Type.Boolean(at('write a manifest next to the output file, which proves its origin and completeness', door)),
  sign_key: (door: Door<string> = {}) =>
    text('private key (PEM; Ed25519 or P-256) with which manifests are signed', door),
  require_lock: (door: Door<boolean> = {}) => Type.Boolean(at('load only packages that have a package.lock', door)),
  require_signature: (door: Door<string> = {}) =>
    text('load only packages signed with this public key or a trusted certificate (PEM file)', door),
  require_signer_list: (door: Door<string[]> = {}) =>
    Type.Array(Type.String({ minLength: 1 }), { minItems: 1, ...at(SIGNERS, door) }),
  require_signer_text: (door: Door<string> = {}) => text(`${SIGNERS}, separated by commas`, door),
  require_approval: (door: Door<string> = {}) =>
    text(
      'load only versions approved by a person other than the one who added them: PEM file with the accepted public keys, or `any`',
      door,
    ),
  delimiter: (door: Door<(typeof DELIMITER_NAMES)[number]> = {}) => choice('delimiter of CSV', DELIMITER_NAMES, door),
  compression: (description: string, door: Door<(typeof COMPRESSIONS)[number]> = {}) =>
    choice(description, COMPRESSIONS, door),
} as const;

/** Address of the model registry. */
export const registryAddress = () =>
  Type.String(
    at('model registry: a folder, s3://bucket/prefix or mlflow+https://host', {
      otherwise: '$SLUICE_REGISTRY, else ./models',
    }),
  );
