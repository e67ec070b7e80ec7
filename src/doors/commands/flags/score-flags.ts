// Flags of `score`, `explain` and `shards`, and of the commands that create files to score: `generate` and `demo`.

import { choice, MIB, maybe, text, whole } from '../../../config/options/describe-option.ts';
import { GATE_FLAGS } from '../../../config/options/gate-limits.ts';
import { DECLARED, TOTALS } from '../../../config/options/input-declarations.ts';
import { SCORING } from '../../../config/options/scoring.ts';
import { Type } from '../../../config/schema.ts';
import { FILE_FORMATS } from '../../../core/file-format.ts';
import { ODDNESS } from '../../../demo/oddness.ts';
import { RUN_OPTIONS } from '../../../runs/plugins/plugin-list.ts';
import {
  type CommandSpecs,
  type FlagSpec,
  type FlagsOf,
  flagsOfFeatures,
  METRICS_FLAGS,
  registryFlag,
  signKeyFlag,
  switchFlag,
} from './command-spec.ts';

const listed = (description: string) => Type.String({ minLength: 1, description });

const blockBytesFlag = {
  schema: whole('bytes per block, the unit of work', [16, 64 * MIB], {
    otherwise: '524288, for Parquet and Arrow 1048576',
  }),
};

const DECLARED_FLAGS = {
  skip_lines: { schema: DECLARED.skip_lines() },
  columns: { schema: listed('the input has no header row; names of its fields in order: a,b,c'), value: 'names' },
  rename: { schema: listed('columns with another name in the input: column=name_in_input, …'), value: 'pairs' },
  ignore: { schema: listed('input columns to ignore: a,b, or * for all unused ones') },
  constants: {
    schema: listed('model columns that the input lacks: column=value for all rows, …'),
    value: 'pairs',
  },
  encoding: { schema: DECLARED.encoding({ otherwise: 'utf-8' }) },
  decimal: { schema: DECLARED.decimal({ otherwise: 'point' }), value: 'mark' },
  thousands: { schema: DECLARED.thousands(), value: 'mark' },
  trim: { schema: DECLARED.trim() },
  null_values: {
    schema: listed('texts that mean a missing value, in addition to those of the model package: NULL,N/A'),
    value: 'words',
  },
} as const satisfies Readonly<Record<string, FlagSpec>>;

const model = { schema: SCORING.model(), short: 'm', value: 'ref', required: true, complete: 'model' } as const;
const BY_INPUT = { otherwise: 'by the name of the file' };
const BY_OUTPUT = { otherwise: 'by the name of the output' };

export const SCORE_COMMANDS = {
  score: {
    description: 'score a file of applications',
    arguments: [
      {
        name: 'file',
        description: 'input file, or a pattern that matches several files; - for standard input; omit it with --plan',
        optional: true,
        complete: 'file',
      },
    ],
    flags: {
      model,
      plan: { schema: maybe('score one shard of this plan, created by sluice plan'), value: 'file', complete: 'file' },
      shard: {
        schema: Type.Optional(whole('shard number, from 0', [0, 99_999], { otherwise: '$JOB_COMPLETION_INDEX' })),
        value: 'n',
      },
      output: {
        schema: text('output file; - for standard output', { default: '-' }),
        short: 'o',
        value: 'file',
        complete: 'file',
      },
      rejects: {
        schema: maybe('rejects file; written even if no row is rejected', {
          otherwise: 'name of the output with .rejects.csv appended, if rows are rejected; none for standard output',
        }),
        value: 'file',
        complete: 'file',
      },
      input_format: { schema: choice('format of the input', FILE_FORMATS, BY_INPUT) },
      input_compression: { schema: SCORING.compression('compression of the input', BY_INPUT) },
      delimiter: { schema: SCORING.delimiter({ otherwise: 'comma for .csv, else tab' }), value: 'name' },
      ...DECLARED_FLAGS,
      expect_rows: { schema: TOTALS.rows() },
      expect_sha256: { schema: TOTALS.sha256(), value: 'hex' },
      trailer: { schema: TOTALS.trailer(), value: 'marker' },
      control_file: { schema: TOTALS.control_file(), value: 'file', complete: 'file' },
      format: {
        schema: choice('format of the output', FILE_FORMATS, {
          otherwise: 'by the extension of the output, else the format of the input (ndjson for parquet)',
        }),
        value: 'name',
      },
      compression: { schema: SCORING.compression('compression of the output', BY_OUTPUT) },
      passthrough: { schema: SCORING.passthrough_text(), value: 'columns' },
      interpretation: switchFlag('add the effect of every column and reason codes to each prediction'),
      top: { schema: SCORING.top_effects() },
      interpret_below: { schema: SCORING.interpret_below(), value: 'p' },
      interactions: { schema: SCORING.interactions() },
      max_evaluations: { schema: SCORING.max_evaluations() },
      on_invalid: { schema: SCORING.on_invalid({ default: 'report' }), value: 'what' },
      allow_empty: { schema: SCORING.allow_empty() },
      registry: registryFlag,
      workers: { schema: SCORING.workers({ otherwise: 'one per core' }) },
      evaluator: { schema: SCORING.evaluator({ otherwise: 'auto' }), value: 'which' },
      batch_rows: { schema: SCORING.batch_rows({ otherwise: '512, with effects 4096' }) },
      block_bytes: blockBytesFlag,
      read_bytes: { schema: whole('bytes per read of the input', [1, 64 * MIB], { otherwise: '262144' }) },
      max_row_bytes: { schema: SCORING.record_bytes({ otherwise: '1048576' }) },
      max_columns: { schema: SCORING.max_columns({ otherwise: '2000' }) },
      ...METRICS_FLAGS,
      no_manifest: switchFlag('write no manifest'),
      sign_key: signKeyFlag,
      require_lock: { schema: SCORING.require_lock({ otherwise: '$SLUICE_REQUIRE_LOCK' }) },
      require_signature: {
        schema: SCORING.require_signature({
          otherwise: '$SLUICE_REQUIRE_SIGNATURE, else signatures are not required',
        }),
        value: 'file',
        complete: 'file',
      },
      require_signer: {
        schema: SCORING.require_signer_text({
          otherwise: '$SLUICE_REQUIRE_SIGNER, else every certificate that is trusted',
        }),
        value: 'names',
      },
      require_approval: {
        schema: SCORING.require_approval({ otherwise: '$SLUICE_REQUIRE_APPROVAL, else approvals are not required' }),
        value: 'file',
        complete: 'file',
      },
      deadline: { schema: SCORING.deadline(), value: 'time' },
      resume: switchFlag('resume the interrupted run with the same input and options, or start if there is none'),
      restart: switchFlag('start from the beginning and remove the files of an interrupted run'),
      ...flagsOfFeatures(RUN_OPTIONS),
      ...GATE_FLAGS,
      report: { schema: SCORING.report(), value: 'file', complete: 'file' },
      run_records: { schema: SCORING.run_records(), value: 'folder', complete: 'folder' },
      json: switchFlag('print a machine-readable summary, on standard error when predictions go to standard output'),
      quiet: switchFlag('print no progress and no summary'),
    },
  },
  plan: {
    description: 'divide files among shards at record boundaries',
    arguments: [{ name: 'file', description: 'input file, or a pattern that matches several files', complete: 'file' }],
    flags: {
      shards: {
        schema: Type.Optional(
          whole('number of shards', [1, 100_000], { otherwise: 'the smallest number that meets --by' }),
        ),
        value: 'n',
      },
      output: {
        schema: text('file for the plan; - for standard output', { default: 'plan.json' }),
        short: 'o',
        value: 'file',
        complete: 'file',
      },
      input_format: { schema: choice('format of the input', FILE_FORMATS, BY_INPUT) },
      input_compression: { schema: SCORING.compression('compression of the input', BY_INPUT) },
      delimiter: { schema: SCORING.delimiter({ otherwise: 'comma for .csv, else tab' }), value: 'name' },
      max_row_bytes: { schema: SCORING.record_bytes({ otherwise: '1048576' }) },
      block_bytes: blockBytesFlag,
      by: {
        schema: maybe(
          'deadline of the sharded run, in the format of --deadline; samples are scored to estimate the duration and the number of shards',
        ),
        value: 'time',
      },
      model: { schema: Type.Optional(SCORING.model()), short: 'm', value: 'ref', complete: 'model' },
      interpretation: switchFlag('with --by: include effects and reason codes in the measured scoring'),
      interactions: { schema: SCORING.interactions() },
      passthrough: { schema: SCORING.passthrough_text(), value: 'columns' },
      registry: registryFlag,
      workers: { schema: SCORING.workers({ otherwise: 'one per core' }) },
      json: switchFlag('print a summary of the plan as JSON; on standard error if the plan goes to standard output'),
      quiet: switchFlag('print no summary of the plan'),
    },
  },
  merge: {
    description: 'check that the outputs of all shards are complete and unchanged, and merge them',
    arguments: [{ name: 'plan', description: 'plan that the shards were scored with', complete: 'file' }],
    flags: {
      parts: {
        schema: text('pattern of the outputs of all shards; their sidecar files must be in the same folder'),
        value: 'pattern',
        required: true,
        complete: 'file',
      },
      output: {
        schema: text(
          'file for the predictions, with {name} if there are several inputs; with --leave-parts: file for the list of outputs',
        ),
        short: 'o',
        value: 'file',
        required: true,
        complete: 'file',
      },
      rejects: {
        schema: maybe('rejects file; written even if no row is rejected', {
          otherwise: 'name of the output with .rejects.csv appended, if rows are rejected',
        }),
        value: 'file',
        complete: 'file',
      },
      leave_parts: switchFlag('check the outputs of the shards and write a list of them, but do not merge them'),
      allow_empty: { schema: SCORING.allow_empty() },
      no_manifest: switchFlag('write no manifest'),
      sign_key: signKeyFlag,
      ...GATE_FLAGS,
      registry: registryFlag,
      json: switchFlag('print a machine-readable summary'),
      quiet: switchFlag('print no summary'),
    },
  },
  explain: {
    description: 'show the effects that led to the score of one application of a file',
    arguments: [{ name: 'file', description: 'input file; - for standard input', complete: 'file' }],
    flags: {
      row: { schema: whole('number of the data row, from 1', [1, 2 ** 31]), required: true },
      model,
      input_format: { schema: choice('format of the input', FILE_FORMATS, BY_INPUT) },
      delimiter: { schema: SCORING.delimiter({ otherwise: 'tab for .tsv and .tab, else comma' }), value: 'name' },
      ...DECLARED_FLAGS,
      top: {
        schema: whole('number of columns shown separately; the effects of the other columns are added up', [1, 2000], {
          default: 12,
        }),
      },
      interactions: {
        schema: whole('show the N strongest pairwise interactions; tree models only', [0, 500], {
          default: 0,
        }),
      },
      html: { schema: text('write a self-contained HTML page to this file'), value: 'file', complete: 'file' },
      registry: registryFlag,
      json: switchFlag('print the prediction with its interpretation as JSON'),
    },
  },
  inspect: {
    description: 'report how to read an unfamiliar file, and the command that scores it; scores nothing',
    arguments: [{ name: 'file', description: 'file to inspect', complete: 'file' }],
    flags: {
      model,
      output: {
        schema: maybe('output file in the reported command', {
          otherwise: 'name of the file with its extension replaced by .scored.csv',
        }),
        short: 'o',
        value: 'file',
        complete: 'file',
      },
      delimiter: { schema: SCORING.delimiter({ otherwise: 'detected in the file' }), value: 'name' },
      ...DECLARED_FLAGS,
      encoding: { schema: DECLARED.encoding({ otherwise: 'detected in the file' }) },
      skip_lines: { schema: DECLARED.skip_lines('detected in the file') },
      decimal: { schema: DECLARED.decimal({ otherwise: 'detected in the file' }), value: 'mark' },
      thousands: { schema: DECLARED.thousands({ otherwise: 'detected in the file' }), value: 'mark' },
      registry: registryFlag,
      json: switchFlag('print the report as JSON'),
    },
  },
  generate: {
    description: 'generate synthetic applications as CSV or TSV',
    flags: {
      rows: { schema: whole('number of applications', [0, 1e10], { default: 1000 }) },
      seed: { schema: whole('random seed; the same seed gives the same bytes', [0, 2 ** 32 - 1], { default: 7 }) },
      output: {
        schema: text('output file; - for standard output', { default: 'portfolio.csv' }),
        short: 'o',
        value: 'file',
        complete: 'file',
      },
      delimiter: { schema: SCORING.delimiter({ otherwise: 'tab for .tsv, else comma' }), value: 'name' },
      faults: { schema: whole('number of invalid rows', [0, 1e9], { default: 0 }) },
      faults_json: {
        schema: text('write a list of the invalid rows to this JSON file'),
        value: 'file',
        complete: 'file',
      },
      outcome: switchFlag('add the outcome column ok, for training'),
      ids: switchFlag('add a leading column application_id'),
      oddness: {
        schema: choice(
          'amount of unusual values (unseen categories, quotes, long texts and numbers): none, few, as in real portfolios, in every row, or Cyrillic texts in every row',
          ODDNESS,
          {
            default: 'light',
          },
        ),
        value: 'level',
      },
      clean: switchFlag('the same as --oddness none'),
      drift: switchFlag('generate data that has drifted from the training data of the bundled model'),
    },
  },
  demo: {
    description: 'generate a portfolio, score it with the bundled model, and show the results',
    flags: {
      rows: { schema: whole('number of applications', [1, 1e9], { default: 50_000 }) },
      folder: {
        schema: text('folder for the files', { default: 'demo' }),
        value: 'path',
        complete: 'folder',
      },
    },
  },
} as const satisfies CommandSpecs;

// `shards` accepts flags for scoring, planning and merging.

/** Flags that affect predictions and outputs. */
const OF_PREDICTIONS = [
  'passthrough',
  'interpretation',
  'top',
  'interpret_below',
  'interactions',
  'max_evaluations',
  'evaluator',
  'max_columns',
] as const;
/** Flags that `score --plan` accepts. */
const OF_SCORING = [
  'model',
  'shard',
  ...OF_PREDICTIONS,
  'registry',
  'workers',
  'require_lock',
  'require_signature',
  'require_signer',
  'require_approval',
  'deadline',
  'metrics_file',
  'push_gateway',
] as const;
/** Flags that determine where records end. */
const OF_PLANNING = ['input_format', 'input_compression', 'delimiter', 'max_row_bytes', 'block_bytes'] as const;
/** Flags that must be equal in all processes of a run in shards. */
export const FLAGS_OF_RUN = [...OF_PREDICTIONS, ...OF_PLANNING] as const;
const OF_MERGING = ['rejects', 'allow_empty', 'no_manifest', 'sign_key', 'json', 'quiet'] as const;
const OF_GATE = [
  'max_rejects',
  'max_missing',
  'max_unseen',
  'max_out_of_range',
  'max_psi',
  'max_score_psi',
  'min_rows',
] as const;

const { score, plan, merge } = SCORE_COMMANDS;

function flagsOf<F extends object, K extends keyof F>({ flags }: { flags: F }, names: readonly K[]): Pick<F, K> {
  return Object.fromEntries(names.map((name) => [name, flags[name]])) as Pick<F, K>;
}

export const SHARD_COMMANDS = {
  shards: {
    description: 'score one shard of files; shard 0 also plans the run, and the last shard to finish also merges it',
    arguments: [{ name: 'file', description: 'input file, or a pattern that matches several files', complete: 'file' }],
    flags: {
      shards: { schema: whole('number of shards', [1, 100_000]), required: true },
      work: {
        schema: text(
          'folder or object prefix that all shards of this run share; it holds the plan and the outputs of the shards',
        ),
        value: 'folder',
        required: true,
        complete: 'folder',
      },
      output: {
        schema: text('file for the predictions of all shards, with {name} if there are several inputs'),
        short: 'o',
        value: 'file',
        required: true,
        complete: 'file',
      },
      plan_wait: {
        schema: whole('maximum seconds that a shard waits for the plan of shard 0', [0, 86_400], { default: 3600 }),
        value: 'seconds',
      },
      keep_parts: switchFlag('keep the outputs of the shards after the merge'),
      ...flagsOf(score, OF_SCORING),
      ...flagsOf(plan, OF_PLANNING),
      ...flagsOf(merge, OF_MERGING),
      ...flagsOf(merge, OF_GATE),
    },
  },
} as const satisfies CommandSpecs;

export type InspectFlags = FlagsOf<(typeof SCORE_COMMANDS)['inspect']>;
export type ExplainFlags = FlagsOf<(typeof SCORE_COMMANDS)['explain']>;
export type GenerateFlags = FlagsOf<(typeof SCORE_COMMANDS)['generate']>;
export type DemoFlags = FlagsOf<(typeof SCORE_COMMANDS)['demo']>;
export type ScoreFlags = FlagsOf<(typeof SCORE_COMMANDS)['score']>;
export type MergeFlags = FlagsOf<(typeof SCORE_COMMANDS)['merge']>;
export type ShardsFlags = FlagsOf<(typeof SHARD_COMMANDS)['shards']>;
export type PlanFlags = FlagsOf<(typeof SCORE_COMMANDS)['plan']>;
