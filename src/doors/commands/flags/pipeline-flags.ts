// Flags of commands that read pipeline files: `run`, `lint`, `test` and `dlq …`.
import { choice, LOGGING, text, whole } from '../../../config/options/describe-option.ts';
import { SCORING } from '../../../config/options/scoring.ts';
import {
  type CommandSpecs,
  type FlagSpec,
  type FlagsOf,
  METRICS_FLAGS,
  registryFlag,
  switchFlag,
} from './command-spec.ts';

const pipelines = { name: 'pipelines', description: 'YAML files of pipelines', many: true, complete: 'file' } as const;

export const PIPELINE_COMMANDS = {
  run: {
    description: 'run a pipeline until it ends or is stopped',
    arguments: [{ name: 'pipeline', description: 'YAML file; see docs/pipelines.md', complete: 'file' }],
    flags: {
      dry_run: switchFlag('check everything, score ten applications, write and commit nothing'),
      metrics_port: {
        schema: whole('serve /metrics, /metrics/columns, /livez and /readyz over plain HTTP at this port', [0, 65_535]),
      },
      metrics_host: { schema: text('address for --metrics-port', { default: '127.0.0.1' }), value: 'address' },
      ...METRICS_FLAGS,
      deadline: { schema: SCORING.deadline(), value: 'time' },
      restart: switchFlag('between files: start from the beginning and remove the files of an interrupted run'),
      stop_ms: {
        schema: whole('work in progress may finish within this after SIGTERM', [0, 3_600_000], { default: 25_000 }),
      },
      log_format: { schema: LOGGING.format({ otherwise: '$SLUICE_LOG_FORMAT, else auto' }), value: 'name' },
      log_level: { schema: LOGGING.level({ otherwise: '$SLUICE_LOG_LEVEL, else info' }), value: 'name' },
      registry: registryFlag,
      json: switchFlag('print a summary as JSON at the end'),
    },
  },
  lint: {
    description: 'check pipelines and their models without touching sources or sinks',
    arguments: [pipelines],
    flags: {
      schema: switchFlag('print the schema of the predictions instead, to register it with other tools'),
      registry: registryFlag,
    },
  },
  test: {
    description: 'score the applications of *.test.yaml and compare',
    arguments: [pipelines],
    flags: { registry: registryFlag },
  },
} as const satisfies CommandSpecs;

// All `dlq` commands select letters by the same flags.

const dlqPipeline = {
  name: 'pipeline',
  description: 'YAML file with the dead letter topic',
  complete: 'file',
} as const;

const SELECTION = {
  code: { schema: text('only those with these error codes, comma-separated'), value: 'codes' },
  column: { schema: text('only those with an error in one of these columns, comma-separated'), value: 'columns' },
  pipeline: { schema: text('only those that these pipelines wrote, comma-separated'), value: 'names' },
  key: { schema: text('only those with this key'), value: 'key' },
  since: {
    schema: text('only those that became dead letters at or after this time: 2026-11-22T02:00Z'),
    value: 'time',
  },
  until: { schema: text('only those that became dead letters before this time'), value: 'time' },
  min_age_ms: { schema: whole('only those that have been dead letters for this many milliseconds', [0, 3e11]) },
  max_attempt: { schema: whole('only those that became dead letters at most this many times', [1, 1e6]) },
  partition: { schema: whole('only those in this partition of the dead letter topic', [0, 1e6]) },
  offsets: { schema: text('only those with these offsets in the dead letter topic: 100-199,205'), value: 'ranges' },
} as const satisfies Record<string, FlagSpec>;

const SETTLING = {
  limit: { schema: whole('at most this many, in order of partition and offset', [1, 1e10]) },
  reopen: switchFlag('include dead letters that the replay of an earlier release replayed or skipped'),
  dry_run: switchFlag('count the selected dead letters, write nothing'),
  json: switchFlag('print counts as JSON'),
} as const satisfies Record<string, FlagSpec>;

export const DEAD_LETTER_COMMANDS = {
  'dlq list': {
    description: 'list open dead letters: position and reason, no values',
    arguments: [dlqPipeline],
    flags: {
      ...SELECTION,
      limit: { schema: whole('at most this many', [1, 1e10], { default: 50 }) },
      settled: switchFlag('include replayed and dropped dead letters'),
      json: switchFlag('print one JSON object per dead letter'),
    },
  },
  'dlq show': {
    description: 'show one dead letter: position, reason, sizes',
    arguments: [dlqPipeline, { name: 'place', description: 'partition and offset as `dlq list` prints them: 0:17' }],
    flags: {
      value: switchFlag('print only its value'),
      json: switchFlag('print JSON; with --value also key and value'),
    },
  },
  'dlq count': {
    description: 'count dead letters by error code',
    arguments: [dlqPipeline],
    flags: {
      ...SELECTION,
      by: {
        schema: choice('property to group open dead letters by', ['code', 'column', 'pipeline', 'topic', 'attempt'], {
          default: 'code',
        }),
      },
      json: switchFlag('print JSON'),
    },
  },
  'dlq replay': {
    description: 'write dead letters to their original topic again, each once',
    arguments: [dlqPipeline],
    flags: {
      topic: { schema: text('topic to replay to, instead of the original one'), value: 'topic' },
      timestamp: {
        schema: choice(
          'timestamp of replayed records; retention may delete records with an old timestamp immediately',
          ['now', 'original'],
          {
            default: 'now',
          },
        ),
      },
      ...SELECTION,
      ...SETTLING,
    },
  },
  'dlq drop': {
    description: 'settle dead letters without replaying them, each once',
    arguments: [dlqPipeline],
    flags: { ...SELECTION, all: switchFlag('all open dead letters'), ...SETTLING },
  },
} as const satisfies CommandSpecs;

export type RunFlags = FlagsOf<(typeof PIPELINE_COMMANDS)['run']>;
export type DlqCountFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq count']>;
export type DlqDropFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq drop']>;
export type DlqListFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq list']>;
export type DlqReplayFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq replay']>;
export type DlqShowFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq show']>;
