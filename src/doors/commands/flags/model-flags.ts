// Flags of the `model …` commands: registering, listing and verifying models.

import { choice, text, toggle, whole } from '../../../config/options/describe-option.ts';
import { SCORING } from '../../../config/options/scoring.ts';
import { Type } from '../../../config/schema.ts';
import { type CommandSpecs, type FlagsOf, registryFlag, switchFlag } from './command-spec.ts';

const found = { otherwise: 'detected' };
const file = (description: string) => ({ schema: text(description), value: 'file', complete: 'file' }) as const;
const word = (description: string, value: string, otherwise?: string) => ({
  schema: text(description, otherwise === undefined ? {} : { otherwise }),
  value,
});
const json = switchFlag('print a JSON document');
const ref = (description: string) => ({ name: 'ref', description, complete: 'model' }) as const;

const who = word('person who performs the change', 'name', 'the user of this machine');
const leaving = {
  reason: word('reason, recorded in the history', 'text'),
  force: word(
    'even if an alias points to it or a process has it loaded; the reason is recorded in the history',
    'reason',
  ),
  sign_key: file('sign the history entry with this private key (PEM; Ed25519 or P-256)'),
  who,
  registry: registryFlag,
};

export const MODEL_COMMANDS = {
  'model add': {
    description: 'analyse an ONNX file and its training table, write a package, check it and register it',
    arguments: [{ name: 'onnx', description: 'the ONNX file', complete: 'file' }],
    flags: {
      training_data: { ...file('CSV the model was trained on, with a header row'), required: true },
      id: word('id of the model', 'id', 'the name of the ONNX file'),
      // Not `--version`, which prints the version of the program.
      as_version: word('version', 'version', 'the next number'),
      outcome: word('the column that was predicted', 'column', 'ok'),
      positive_class: word('the class whose probability is predicted', 'class', '1'),
      ignore: word('columns of the training table that the model does not use, comma-separated', 'columns'),
      encoding: file('JSON with code maps, column order and the codes of missing values'),
      expected: file('CSV with predictions of the training library, one row per row of the training table'),
      expected_rows: file('CSV with the applications of --expected, if they are not the training table'),
      tolerance: {
        schema: Type.Number({
          minimum: 0,
          description: 'largest accepted difference from --expected; default: 1e-6',
        }),
      },
      covers: file('JSON with the number of training rows at every tree node, for path-dependent effects'),
      background: file(
        'CSV with the applications that effects are compared with; default: a sample of the training table',
      ),
      background_rows: {
        schema: whole('rows of the background', [1, 10_000], { otherwise: '100' }),
      },
      policy: file('YAML with decisions, scorecard, reasons and reasons_max, as in model.yaml'),
      force: word(
        'register although the training table contradicts it; the reason is recorded in the package',
        'reason',
      ),
      delimiter: word('tab, comma, semicolon, pipe, or one character', 'd', found.otherwise),
      task: { schema: choice('task of the model', ['binary', 'multiclass', 'regression', 'score'], found) },
      output: { schema: choice('meaning of the scores', ['probability', 'log_odds'], found), value: 'kind' },
      scores: word('the output of the graph with the scores', 'output', found.otherwise),
      description: word('description for model.yaml', 'text'),
      require_batch_invariance: { schema: toggle('reject a model whose bits change with the batch size') },
      alias: word('point this alias to the new version', 'alias'),
      sign_key: file('sign the package and the history entry with this private key (PEM; P-256, P-384 or P-521)'),
      certificates: file('PEM with the certificate of that key and its intermediate certificates'),
      registry: registryFlag,
      dry_run: switchFlag('show model.yaml and the report, register nothing'),
      json,
    },
  },
  'model new-version': {
    description: 'create a version from an existing one, with other decisions, scorecard and reasons',
    flags: {
      from: {
        ...word('existing version: id, id:version or id@alias', 'ref'),
        required: true,
        complete: 'model',
      },
      policy: {
        ...file('YAML with decisions, scorecard, reasons and reasons_max, as in model.yaml; replaces the old policy'),
        required: true,
      },
      reason: word('reason, recorded in the package and in the history', 'text'),
      as_version: word('version', 'version', 'the next number'),
      sign_key: file('sign the package and the history entry with this private key (PEM; P-256, P-384 or P-521)'),
      certificates: file('PEM with the certificate of that key and its intermediate certificates'),
      who,
      registry: registryFlag,
      dry_run: switchFlag('check everything and show the changes, register nothing'),
      json,
    },
  },
  'model list': { description: 'list models, versions and aliases', flags: { registry: registryFlag, json } },
  'model show': {
    description: 'show columns, aliases, their history and a sample application of a model, or its audit page',
    arguments: [ref('id, id:version or id@alias')],
    flags: {
      audit: switchFlag('show the audit page: origin, checks, registration and approval of a version'),
      key: file('with --audit: PEM with the public keys or certificates for verifying signatures'),
      html: file('with --audit: write the page to this file as HTML'),
      registry: registryFlag,
      json,
    },
  },
  'model verify': {
    description: 'repeat all checks on a registered model or a package folder',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: { registry: registryFlag, json },
  },
  'model diff': {
    description: 'compare two packages: model.yaml, predictions, decisions and effects',
    arguments: [
      ref('id, id:version, id@alias or a folder'),
      { name: 'other', description: 'version or package folder to compare with', complete: 'model' },
    ],
    flags: { registry: registryFlag, json },
  },
  'model seal': {
    description: 'write package.lock, the checksums of all files, into a package without one',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: { registry: registryFlag },
  },
  'model sign': {
    description: 'sign a package: writes model.sig in the model-signing format of the OpenSSF',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: {
      key: { ...file('private key (PEM; P-256, P-384 or P-521)'), required: true },
      certificates: file('PEM with the certificate of that key and its intermediate certificates'),
      registry: registryFlag,
    },
  },
  'model verify-signature': {
    description: 'verify the signature of a package',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: {
      key: file('public key (PEM) of the required signer'),
      certificates: file('PEM with the trusted root certificates'),
      signer: { schema: SCORING.require_signer_text(), value: 'names' },
      registry: registryFlag,
      json,
    },
  },
  'model history': {
    description:
      'show who moved aliases and approved or retired versions, when and why; verify that no entry was changed',
    arguments: [ref('id')],
    flags: { key: file('public key (PEM) that must have signed each entry'), registry: registryFlag, json },
  },
  'model approve': {
    description: 'approve a version for use; must be done by a person other than the one who added it',
    arguments: [ref('id:version')],
    flags: {
      key: file(
        'sign the approval with this private key (PEM; Ed25519 or P-256), not the one that signed the addition',
      ),
      reason: word('reason for the approval, recorded in the history', 'text'),
      who,
      registry: registryFlag,
    },
  },
  'model retire': {
    description: 'retire a version: no bare id or alias resolves to it; it still loads by its number',
    arguments: [ref('id:version')],
    flags: leaving,
  },
  'model remove': {
    description: 'remove the files of a version permanently; its history remains, and its number is never reused',
    arguments: [ref('id:version')],
    flags: leaving,
  },
  'model alias': {
    description: 'point an alias to a version, or remove it',
    arguments: [
      ref('id@alias'),
      { name: 'version', description: 'version that the alias will point to', optional: true },
    ],
    flags: {
      remove: switchFlag('remove the alias'),
      who,
      reason: word('reason for the move, recorded in the history', 'text'),
      sign_key: file('sign the history entry with this private key (PEM; Ed25519 or P-256)'),
      registry: registryFlag,
    },
  },
} as const satisfies CommandSpecs;

export type ModelShowFlags = FlagsOf<(typeof MODEL_COMMANDS)['model show']>;
export type ModelAddFlags = FlagsOf<(typeof MODEL_COMMANDS)['model add']>;
export type ModelAliasFlags = FlagsOf<(typeof MODEL_COMMANDS)['model alias']>;
export type ModelApproveFlags = FlagsOf<(typeof MODEL_COMMANDS)['model approve']>;
export type ModelRetireFlags = FlagsOf<(typeof MODEL_COMMANDS)['model retire']>;
export type ModelNewVersionFlags = FlagsOf<(typeof MODEL_COMMANDS)['model new-version']>;
