// Flags of the commands that read outputs: `verify`, `replay`, and `outcomes`.

import { choice, maybe, text, whole } from '../../../config/options/describe-option.ts';
import { SCORING } from '../../../config/options/scoring.ts';
import { FILE_FORMATS } from '../../../core/file-format.ts';
import { type CommandSpecs, type FlagsOf, registryFlag, switchFlag } from './command-spec.ts';

const output = {
  name: 'output',
  description: 'output file with a manifest in the same folder',
  complete: 'file',
} as const;
const input = { schema: text('input file that was scored'), value: 'file', complete: 'file' } as const;
const modelPackage = {
  schema: text('folder of the package that produced the output'),
  value: 'folder',
  complete: 'folder',
} as const;
const key = {
  schema: text('public key (PEM) of the required signer of the manifest'),
  value: 'file',
  complete: 'file',
} as const;

export const PROOF_COMMANDS = {
  verify: {
    description:
      'verify an output against its manifest; report changed blocks and, with --input and --package, changed rows',
    arguments: [output],
    flags: {
      input,
      list: {
        schema: text('rejects file', { otherwise: 'next to the output' }),
        value: 'file',
        complete: 'file',
      },
      package: modelPackage,
      registry: registryFlag,
      key,
      written_as: {
        schema: text('name under which the output was written, if it was renamed', {
          otherwise: 'its current name',
        }),
        value: 'name',
      },
      json: switchFlag('print the result as JSON'),
    },
  },
  replay: {
    description: 'score a row of an input again with the package that the manifest names, and compare bit for bit',
    arguments: [
      {
        name: 'output',
        description: 'output file with a manifest in the same folder, or the pipeline (YAML file) that wrote a table',
        complete: 'file',
      },
    ],
    flags: {
      row: { schema: whole('number of the row, from 1', [1, 2 ** 31]), required: true },
      input: { ...input, schema: text('input file that was scored', { otherwise: 'in the folder of the output' }) },
      package: modelPackage,
      registry: registryFlag,
      key,
      json: switchFlag('print both results as JSON'),
    },
  },
} as const satisfies CommandSpecs;

const BY_NAME = { otherwise: 'by the name of the file' };
const COMMA = { otherwise: 'tab for .tsv and .tab, else comma' };
const file = (description: string) => ({ schema: text(description), value: 'file', complete: 'file' }) as const;
const column = (description: string, otherwise?: string) =>
  ({ schema: maybe(description, otherwise === undefined ? {} : { otherwise }), value: 'column' }) as const;

export const OUTCOME_COMMANDS = {
  outcomes: {
    description:
      'compare predictions with observed outcomes: AUC, KS, Brier score, calibration, bad rate of approved applications',
    arguments: [
      {
        name: 'predictions',
        description: 'files with predictions, or patterns that match several; default: the output topics of --pipeline',
        optional: true,
        many: true,
        complete: 'file',
      },
    ],
    flags: {
      labels: file('file with the outcomes'),
      labels_topic: { schema: text('topic with the outcomes, on the brokers of --pipeline'), value: 'topic' },
      pipeline: file('pipeline that names the brokers, the schema registry and the output topics'),
      key: column('column of the predictions that identifies the application', 'the record key, for topics'),
      label_key: column('column of the labels that identifies the application', 'as --key'),
      outcome: { schema: text('column of the labels with the outcome', { default: 'ok' }), value: 'column' },
      positive: {
        schema: text('labels of the class whose probability was predicted, comma-separated', {
          default: 'true,True,TRUE,1,1.0',
        }),
        value: 'words',
      },
      negative: {
        schema: text('labels of the other outcomes, which count as bad', { default: 'false,False,FALSE,0,0.0' }),
        value: 'words',
      },
      month: column('column with the month of the application (2026-03), in the labels or in the predictions'),
      time: column(
        'column with the time of the application in ISO 8601; replaces --month',
        'the record time, for topics',
      ),
      model: {
        schema: maybe('model that made the predictions: id:version', {
          otherwise: 'the model that the predictions name',
        }),
        value: 'name',
      },
      model_column: column('column of the predictions that contains id:version'),
      probability: {
        schema: text('column with the probability of the positive class', { default: 'probability' }),
        value: 'column',
      },
      on_duplicate: {
        schema: choice('duplicate keys: refuse ends the command, last uses the last row', ['refuse', 'last'], {
          otherwise: 'refuse for files, last for topics',
        }),
        value: 'what',
      },
      format: { schema: choice('format of the predictions', FILE_FORMATS, BY_NAME) },
      delimiter: { schema: SCORING.delimiter(COMMA), value: 'name' },
      labels_format: { schema: choice('format of the labels', FILE_FORMATS, BY_NAME) },
      labels_delimiter: { schema: SCORING.delimiter(COMMA), value: 'name' },
      output: { schema: text('write the report to this file as JSON'), short: 'o', value: 'file', complete: 'file' },
      metrics_file: {
        schema: text('write the metrics to this file, for a textfile collector'),
        value: 'file',
        complete: 'file',
      },
      html: { schema: text('write a self-contained HTML page to this file'), value: 'file', complete: 'file' },
      json: switchFlag('print the report as JSON instead of tables'),
    },
  },
} as const satisfies CommandSpecs;

export type ReplayFlags = FlagsOf<(typeof PROOF_COMMANDS)['replay']>;
export type VerifyFlags = FlagsOf<(typeof PROOF_COMMANDS)['verify']>;
export type OutcomesFlags = FlagsOf<(typeof OUTCOME_COMMANDS)['outcomes']>;
