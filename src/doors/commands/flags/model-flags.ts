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
    'proceed even if an alias points to the version or a process has loaded it; the reason is recorded in the history',
    'reason',
  ),
  sign_key: file('sign the history entry with this private key (PEM; Ed25519 or P-256)'),
  who,
  registry: registryFlag,
};

export const MODEL_COMMANDS = {
  'model add': {
    description: 'inspect a model file and its training table; propose, check and register a package',
    arguments: [
      { name: 'model', description: 'ONNX file, or a file of LightGBM, XGBoost or CatBoost', complete: 'file' },
    ],
    flags: {
      training_data: { ...file('CSV file with the training data and a header row'), required: true },
      id: word('id of the model', 'id', 'the name of the model file'),
      // Named differently from `--version`, which prints the version of the program.
      as_version: word('number of the new version', 'version', 'the next number'),
      outcome: word('column of the training table with the outcome', 'column', 'ok'),
      positive_class: word('class whose probability is the score', 'class', '1'),
      ignore: word('columns of the training table that the model does not use, comma-separated', 'columns'),
      encoding: file('JSON file with code maps, column order and replacements of missing values'),
      expected: file('CSV file with predictions of the training library, one for each row of the training table'),
      expected_rows: file('CSV file with the applications of --expected, if they are not the training table'),
      tolerance: {
        schema: Type.Number({
          minimum: 0,
          description: 'largest accepted difference from the predictions of --expected; default: 1e-6',
        }),
      },
      covers: file('JSON file with the number of training rows at every tree node, for path-dependent effects'),
      background: file(
        'CSV file with the applications to compute effects against, instead of a sample of the training table',
      ),
      background_rows: {
        schema: whole('rows of the background sample', [1, 10_000], { otherwise: '100' }),
      },
      policy: file('YAML file with decisions, scorecard, reasons and reasons_max, as in model.yaml'),
      force: word(
        'register the model even if the training table contradicts it; the reason is recorded in the package',
        'reason',
      ),
      strict: { schema: toggle('reject a registration with warnings or open questions') },
      delimiter: word(
        'delimiter of the training table: tab, comma, semicolon, pipe, or one character',
        'd',
        found.otherwise,
      ),
      task: { schema: choice('task of the model', ['binary', 'multiclass', 'regression', 'score'], found) },
      output: { schema: choice('kind of the scores', ['probability', 'log_odds'], found), value: 'kind' },
      scores: word('graph output that contains the scores', 'output', found.otherwise),
      description: word('description of the model, written to model.yaml', 'text'),
      require_batch_invariance: { schema: toggle('reject a model whose scores depend on the batch size') },
      alias: word('point this alias to the new version', 'alias'),
      sign_key: file('sign the package and its history entry with this private key (PEM; P-256, P-384 or P-521)'),
      certificates: file('PEM file with the certificate of the private key and its intermediate certificates'),
      registry: registryFlag,
      dry_run: switchFlag('show model.yaml and the report, but register nothing'),
      json,
    },
  },
  'model new-version': {
    description: 'create a version of a model from an existing one with new decisions, scorecard and reason codes',
    flags: {
      from: {
        ...word('existing version: id, id:version or id@alias', 'ref'),
        required: true,
        complete: 'model',
      },
      policy: {
        ...file('YAML file with the new decisions, scorecard, reasons and reasons_max, written as in model.yaml'),
        required: true,
      },
      reason: word('reason, recorded in the package and in the history', 'text'),
      as_version: word('number of the new version', 'version', 'the next number'),
      sign_key: file('sign the package and its history entry with this private key (PEM; P-256, P-384 or P-521)'),
      certificates: file('PEM file with the certificate of the private key and its intermediate certificates'),
      who,
      registry: registryFlag,
      dry_run: switchFlag('check everything and list the changes, but register nothing'),
      json,
    },
  },
  'model list': { description: 'list models, versions and aliases', flags: { registry: registryFlag, json } },
  'model show': {
    description: 'show columns, aliases, their history and a sample application of one model, or its audit page',
    arguments: [ref('id, id:version or id@alias')],
    flags: {
      audit: switchFlag('show the audit page: origin, registration, approvals and checks of the version'),
      key: file('with --audit: PEM file with the public keys or certificates for checking signatures'),
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
    description: 'compare two packages: contents, predictions, decisions and effects',
    arguments: [
      ref('id, id:version, id@alias or a folder'),
      {
        name: 'other',
        description: 'package to compare with: id, id:version, id@alias or a folder',
        complete: 'model',
      },
    ],
    flags: { registry: registryFlag, json },
  },
  'model seal': {
    description: 'write package.lock, the list of files, into a package that has none',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: { registry: registryFlag },
  },
  'model sign': {
    description: 'sign a package: write model.sig, in the model-signing format of the OpenSSF',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: {
      key: { ...file('private key (PEM; P-256, P-384 or P-521)'), required: true },
      certificates: file('PEM file with the certificate of the private key and its intermediate certificates'),
      registry: registryFlag,
    },
  },
  'model verify-signature': {
    description: 'check the signer of a package, and that the package is unchanged since it was signed',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: {
      key: file('public key (PEM) of the required signer'),
      certificates: file('PEM file with the root certificates that the signing certificate must chain to'),
      signer: { schema: SCORING.require_signer_text(), value: 'names' },
      registry: registryFlag,
      json,
    },
  },
  'model history': {
    description:
      'list changes of the aliases and states of a model: person, time and reason; check that no entry was altered',
    arguments: [ref('id')],
    flags: { key: file('public key (PEM) with which every entry must be signed'), registry: registryFlag, json },
  },
  'model approve': {
    description: 'approve a version for use; the approver must not be the person who added it',
    arguments: [ref('id:version')],
    flags: {
      key: file(
        'sign the approval with this private key (PEM; Ed25519 or P-256), which must not be the key that signed the version',
      ),
      reason: word('reason for the approval, recorded in the history', 'text'),
      who,
      registry: registryFlag,
    },
  },
  'model retire': {
    description: 'retire a version: ids and aliases no longer resolve to it, but id:version still loads it',
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
