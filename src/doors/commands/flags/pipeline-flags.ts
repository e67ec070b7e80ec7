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
      dry_run: switchFlag('check everything and score ten applications, but write and commit nothing'),
      metrics_port: {
        schema: whole('serve /metrics, /metrics/columns, /livez and /readyz over plain HTTP on this port', [0, 65_535]),
      },
      metrics_host: { schema: text('address for --metrics-port', { default: '127.0.0.1' }), value: 'address' },
      ...METRICS_FLAGS,
      deadline: { schema: SCORING.deadline(), value: 'time' },
      restart: switchFlag('between files: start from the beginning and remove the files of an interrupted run'),
      stop_ms: {
        schema: whole('milliseconds that work in progress may take after SIGTERM', [0, 3_600_000], { default: 25_000 }),
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
      schema: switchFlag('print the schema of the predictions, so that another tool can register it'),
      registry: registryFlag,
    },
  },
  test: {
    description: 'score the applications of *.test.yaml and compare the results with the expected ones',
    arguments: [pipelines],
    flags: { registry: registryFlag },
  },
} as const satisfies CommandSpecs;

// All `dlq` commands select dead letters with the same flags.

const dlqPipeline = {
  name: 'pipeline',
  description: 'YAML file that names the dead-letter topic',
  complete: 'file',
} as const;

const SELECTION = {
  code: { schema: text('select dead letters with these error codes, comma-separated'), value: 'codes' },
  column: { schema: text('select dead letters whose error is in these columns, comma-separated'), value: 'columns' },
  pipeline: { schema: text('select dead letters that these pipelines wrote, comma-separated'), value: 'names' },
  key: { schema: text('select dead letters with this key'), value: 'key' },
  since: { schema: text('select dead letters written at or after this time: 2026-11-22T02:00Z'), value: 'time' },
  until: { schema: text('select dead letters written before this time'), value: 'time' },
  min_age_ms: { schema: whole('select dead letters that are at least this old, in milliseconds', [0, 3e11]) },
  max_attempt: { schema: whole('select records that became dead letters at most this many times', [1, 1e6]) },
  partition: { schema: whole('select dead letters in this partition of the dead-letter topic', [0, 1e6]) },
  offsets: {
    schema: text('select dead letters with these offsets in the dead-letter topic: 100-199,205'),
    value: 'ranges',
  },
} as const satisfies Record<string, FlagSpec>;

const SETTLING = {
  limit: { schema: whole('maximum number of dead letters, in order of partition and offset', [1, 1e10]) },
  reopen: switchFlag('include dead letters that the replay of an earlier release replayed or skipped'),
  dry_run: switchFlag('count the dead letters, but write nothing'),
  json: switchFlag('print counts as JSON'),
} as const satisfies Record<string, FlagSpec>;

export const DEAD_LETTER_COMMANDS = {
  'dlq list': {
    description: 'list open dead letters with position and reason, but without values',
    arguments: [dlqPipeline],
    flags: {
      ...SELECTION,
      limit: { schema: whole('maximum number of dead letters', [1, 1e10], { default: 50 }) },
      settled: switchFlag('include replayed and dropped dead letters'),
      json: switchFlag('print one JSON object per dead letter'),
    },
  },
  'dlq show': {
    description: 'show position, reason and sizes of one dead letter',
    arguments: [
      dlqPipeline,
      {
        name: 'place',
        description: 'position of the dead letter (partition:offset) as `dlq list` prints it, such as 0:17',
      },
    ],
    flags: {
      value: switchFlag('print only the value of the dead letter'),
      json: switchFlag('print JSON, with --value including key and value'),
    },
  },
  'dlq count': {
    description: 'count dead letters by error code or another property',
    arguments: [dlqPipeline],
    flags: {
      ...SELECTION,
      by: {
        schema: choice(
          'property by which open dead letters are counted',
          ['code', 'column', 'pipeline', 'topic', 'attempt'],
          {
            default: 'code',
          },
        ),
      },
      json: switchFlag('print JSON'),
    },
  },
  'dlq replay': {
    description: 'replay each dead letter once into the topic it came from',
    arguments: [dlqPipeline],
    flags: {
      topic: { schema: text('replay into this topic instead'), value: 'topic' },
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
    description: 'settle dead letters without replaying them',
    arguments: [dlqPipeline],
    flags: { ...SELECTION, all: switchFlag('drop all open dead letters'), ...SETTLING },
  },
} as const satisfies CommandSpecs;

export type RunFlags = FlagsOf<(typeof PIPELINE_COMMANDS)['run']>;
export type DlqCountFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq count']>;
export type DlqDropFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq drop']>;
export type DlqListFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq list']>;
export type DlqReplayFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq replay']>;
export type DlqShowFlags = FlagsOf<(typeof DEAD_LETTER_COMMANDS)['dlq show']>;
