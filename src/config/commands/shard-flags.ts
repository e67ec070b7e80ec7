// Flags of `shards`: those of a run, of its plan and of its end, as the commands for each step have them.
import { text, whole } from '../options/describe-option.ts';
import { type CommandSpecs, type FlagSpec, switchFlag } from './command-spec.ts';
import { SCORE_COMMANDS } from './score-flags.ts';

/** What `score --plan` takes. */
const OF_SCORING = [
  'model',
  'shard',
  'passthrough',
  'interpretation',
  'top',
  'interpret_below',
  'interactions',
  'max_evaluations',
  'registry',
  'workers',
  'evaluator',
  'max_columns',
  'require_lock',
  'require_signature',
  'require_signer',
  'require_approval',
  'deadline',
  'metrics_file',
  'push_gateway',
];
/** What decides where records end. */
const OF_PLANNING = ['input_format', 'input_compression', 'delimiter', 'max_row_bytes', 'block_bytes'];
const OF_MERGING = ['rejects', 'allow_empty', 'no_manifest', 'sign_key', 'json', 'quiet'];
const OF_GATE = [
  'max_rejects',
  'max_missing',
  'max_unseen',
  'max_out_of_range',
  'max_psi',
  'max_score_psi',
  'min_rows',
];

const { score, plan, merge } = SCORE_COMMANDS;

function flagsOf(command: { flags: object } | undefined, names: readonly string[]): Record<string, FlagSpec> {
  const flags = (command?.flags ?? {}) as Record<string, FlagSpec>;
  return Object.fromEntries(names.map((name) => [name, flags[name]!]));
}

export const SHARD_COMMANDS: CommandSpecs = {
  shards: {
    description: 'score files in shards, of which this process is one: the first plans, the last that is done merges',
    arguments: [{ name: 'file', description: 'applications, or a pattern of several', complete: 'file' }],
    flags: {
      shards: { schema: whole('how many', [1, 100_000]), required: true },
      work: {
        schema: text('folder, or prefix of objects, of this one run: its plan and its parts, for all shards'),
        value: 'folder',
        required: true,
        complete: 'folder',
      },
      output: {
        schema: text('where predictions go when all shards are done, with {name} where there are several inputs'),
        short: 'o',
        value: 'file',
        required: true,
        complete: 'file',
      },
      plan_wait: {
        schema: whole('seconds that a shard waits for the first one to have planned', [0, 86_400], { default: 3600 }),
        value: 'seconds',
      },
      keep_parts: switchFlag('leave the parts in the folder when they are merged'),
      ...flagsOf(score, OF_SCORING),
      ...flagsOf(plan, OF_PLANNING),
      ...flagsOf(merge, OF_MERGING),
      ...flagsOf(merge, OF_GATE),
    },
  },
};
