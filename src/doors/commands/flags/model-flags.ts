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

const who = word('person who does it', 'name', 'the user of this machine');
const leaving = {
  reason: word('why; kept in the history', 'text'),
  force: word('also while an alias means it or a process has it loaded; the reason is kept in the history', 'reason'),
  sign_key: file('sign the history entry with this private key (PEM; Ed25519 or P-256)'),
  who,
  registry: registryFlag,
};

export const MODEL_COMMANDS = {
  'model add': {
    description: 'look into an ONNX file and its training table, propose a package, check it, register it',
    arguments: [{ name: 'onnx', description: 'the ONNX file', complete: 'file' }],
    flags: {
      training_data: { ...file('CSV the model was trained on, with a header row'), required: true },
      id: word('id of the model', 'id', 'the name of the ONNX file'),
      // Not `--version`, which prints the version of the program.
      as_version: word('version', 'version', 'the next number'),
      outcome: word('the column that was predicted', 'column', 'ok'),
      positive_class: word('the class whose probability is wanted', 'class', '1'),
      ignore: word('columns of the table the model does not use, comma-separated', 'columns'),
      encoding: file('JSON with code maps, column order and what missing values became'),
      expected: file('CSV with predictions of the training library, row by row for the training table'),
      expected_rows: file('CSV with the applications those predictions belong to, if not the training table'),
      tolerance: {
        schema: Type.Number({
          minimum: 0,
          description: 'largest difference from those predictions that passes; default: 1e-6',
        }),
      },
      covers: file('JSON with the training rows at every tree node: effects along the paths of the trees'),
      background: file(
        'CSV with the applications that effects are measured against, instead of a sample of the training table',
      ),
      background_rows: {
        schema: whole('rows of the background', [1, 10_000], { otherwise: '100' }),
      },
      policy: file('YAML with decisions, scorecard, reasons and reasons_max, as in model.yaml'),
      force: word('register although the training table contradicts it; the reason is kept in the package', 'reason'),
      delimiter: word('tab, comma, semicolon, pipe, or one character', 'd', found.otherwise),
      task: { schema: choice('task of the model', ['binary', 'multiclass', 'regression', 'score'], found) },
      output: { schema: choice('what the scores are', ['probability', 'log_odds'], found), value: 'kind' },
      scores: word('the output of the graph that carries the scores', 'output', found.otherwise),
      description: word('a sentence kept in model.yaml', 'text'),
      require_batch_invariance: { schema: toggle('refuse a model whose bits change with the batch size') },
      alias: word('point this alias to the new version', 'alias'),
      sign_key: file('sign the package, and that it was added, with this private key (PEM; P-256, P-384 or P-521)'),
      certificates: file('PEM with the certificate of that key, and those it leads to a root by'),
      registry: registryFlag,
      dry_run: switchFlag('show model.yaml and the report, register nothing'),
      json,
    },
  },
  'model new-version': {
    description: 'a new version of a model from an old one, with other decisions, scorecard and reasons',
    flags: {
      from: {
        ...word('the version it is made from: id, id:version or id@alias', 'ref'),
        required: true,
        complete: 'model',
      },
      policy: {
        ...file(
          'YAML with decisions, scorecard, reasons and reasons_max, as in model.yaml, instead of those of the old one',
        ),
        required: true,
      },
      reason: word('why; kept in the package and in the history', 'text'),
      as_version: word('version', 'version', 'the next number'),
      sign_key: file('sign the package, and that it was added, with this private key (PEM; P-256, P-384 or P-521)'),
      certificates: file('PEM with the certificate of that key, and those it leads to a root by'),
      who,
      registry: registryFlag,
      dry_run: switchFlag('check everything and say what changes, register nothing'),
      json,
    },
  },
  'model list': { description: 'models, versions and aliases', flags: { registry: registryFlag, json } },
  'model show': {
    description: 'columns, aliases, their history and a sample application of one model; or its audit page',
    arguments: [ref('id, id:version or id@alias')],
    flags: {
      audit: switchFlag('one page: how it came to be what it is, who registered and approved it, what was checked'),
      key: file('with --audit: PEM with the public keys, or the certificates, to check its signatures with'),
      html: file('with --audit: leave the page there as HTML, to print'),
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
    description: 'what two packages say otherwise, and how their predictions, decisions and effects differ',
    arguments: [
      ref('id, id:version, id@alias or a folder'),
      { name: 'other', description: 'what it is held against', complete: 'model' },
    ],
    flags: { registry: registryFlag, json },
  },
  'model seal': {
    description: 'write package.lock, the list of its files, into a package that has none',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: { registry: registryFlag },
  },
  'model sign': {
    description: 'sign a package: model.sig beside its files, in the model-signing format of the OpenSSF',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: {
      key: { ...file('private key (PEM; P-256, P-384 or P-521)'), required: true },
      certificates: file('PEM with the certificate of that key, and those it leads to a root by'),
      registry: registryFlag,
    },
  },
  'model verify-signature': {
    description: 'check who signed a package, and that it is what was signed',
    arguments: [ref('id, id:version, id@alias or a folder')],
    flags: {
      key: file('public key (PEM) that has to have signed it'),
      certificates: file('PEM with the roots that the certificate of whoever signed has to lead to'),
      signer: { schema: SCORING.require_signer_text(), value: 'names' },
      registry: registryFlag,
      json,
    },
  },
  'model history': {
    description:
      'who moved the aliases of a model and judged its versions, when and why; checks that nothing was changed',
    arguments: [ref('id')],
    flags: { key: file('public key (PEM) that has to have signed each move'), registry: registryFlag, json },
  },
  'model approve': {
    description: 'approve a version: somebody else than who added it says that it may be used',
    arguments: [ref('id:version')],
    flags: {
      key: file('sign the approval with this private key (PEM; Ed25519 or P-256), another one than it was added with'),
      reason: word('why it is approved; kept in the history', 'text'),
      who,
      registry: registryFlag,
    },
  },
  'model retire': {
    description: 'retire a version: no bare id and no alias means it any more; by its number it still loads',
    arguments: [ref('id:version')],
    flags: leaving,
  },
  'model remove': {
    description: 'remove the files of a version for good; its history stays, and its number is never given again',
    arguments: [ref('id:version')],
    flags: leaving,
  },
  'model alias': {
    description: 'point an alias to a version, or remove it',
    arguments: [ref('id@alias'), { name: 'version', description: 'version it shall mean', optional: true }],
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
