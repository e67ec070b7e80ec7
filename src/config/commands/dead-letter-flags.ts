// Flags of `dlq list`, `show`, `count`, `replay` and `drop`. What selects letters is the same for all of them.
import { choice, text, whole } from '../options/describe-option.ts';
import { type CommandSpecs, type FlagSpec, switchFlag } from './command-spec.ts';

const pipeline = { name: 'pipeline', description: 'YAML file with the dead letter topic', complete: 'file' } as const;

const SELECTION = {
  code: { schema: text('only those with these error codes, comma-separated'), value: 'codes' },
  column: { schema: text('only those with these columns at fault, comma-separated'), value: 'columns' },
  pipeline: { schema: text('only those that these pipelines wrote, comma-separated'), value: 'names' },
  key: { schema: text('only those with this key'), value: 'key' },
  since: { schema: text('only those that became dead letters at or after it: 2026-11-22T02:00Z'), value: 'time' },
  until: { schema: text('only those that became dead letters before it'), value: 'time' },
  min_age_ms: { schema: whole('only those that have been dead letters for this long', [0, 3e11]) },
  max_attempt: { schema: whole('only those that became dead letters at most this often', [1, 1e6]) },
  partition: { schema: whole('only those in this partition of the dead letter topic', [0, 1e6]) },
  offsets: { schema: text('only those with these offsets in the dead letter topic: 100-199,205'), value: 'ranges' },
} as const satisfies Record<string, FlagSpec>;

const SETTLING = {
  limit: { schema: whole('at most this many, in order of partition and offset', [1, 1e10]) },
  reopen: switchFlag('also those that the replay of an earlier release passed: it put them back, or left them out'),
  dry_run: switchFlag('count them, write nothing'),
  json: switchFlag('print counts as JSON'),
} as const satisfies Record<string, FlagSpec>;

export const DEAD_LETTER_COMMANDS = {
  'dlq list': {
    description: 'list open dead letters: place and reason, no values',
    arguments: [pipeline],
    flags: {
      ...SELECTION,
      limit: { schema: whole('at most this many', [1, 1e10], { default: 50 }) },
      settled: switchFlag('also those that were put back or dropped'),
      json: switchFlag('print one JSON object a letter'),
    },
  },
  'dlq show': {
    description: 'show one dead letter: place, reason, sizes',
    arguments: [pipeline, { name: 'place', description: 'partition and offset as `dlq list` prints them: 0:17' }],
    flags: {
      value: switchFlag('print its value, and nothing else'),
      json: switchFlag('print JSON; with --value also key and value'),
    },
  },
  'dlq count': {
    description: 'count dead letters by what is wrong with them',
    arguments: [pipeline],
    flags: {
      ...SELECTION,
      by: {
        schema: choice('what to count open ones by', ['code', 'column', 'pipeline', 'topic', 'attempt'], {
          default: 'code',
        }),
      },
      json: switchFlag('print JSON'),
    },
  },
  'dlq replay': {
    description: 'put dead letters back where they came from, each once',
    arguments: [pipeline],
    flags: {
      topic: { schema: text('another topic than the one they came from'), value: 'topic' },
      timestamp: {
        schema: choice(
          'time of what is put back; retention may remove records of an old one at once',
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
    description: 'settle dead letters without putting them back, each once',
    arguments: [pipeline],
    flags: { ...SELECTION, all: switchFlag('all that are open'), ...SETTLING },
  },
} as const satisfies CommandSpecs;
