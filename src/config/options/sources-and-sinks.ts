// Sources, sinks and dead letters of a pipeline, by type.

import { ROW_CODES } from '../../core/errors.ts';
import { FILE_FORMATS, RECORD_FORMATS, STREAM_FORMATS, TEXT_FORMATS } from '../../core/file-format.ts';
import { Type } from '../schema.ts';
import { choice, closed, literal, MIB, maybe, text, toggle, whole } from './describe-option.ts';
import {
  declaredOfBytes,
  declaredOfRecords,
  totalsOfFiles,
  totalsOfStreams,
  totalsOfUploads,
} from './input-declarations.ts';
import { SCORING } from './scoring.ts';

const BY_NAME = { otherwise: 'by the name of the file' };
const recordFormat = () =>
  choice(
    'format of the record values; all formats except json are preceded by a schema id and need a schema_registry',
    RECORD_FORMATS,
    { default: 'json' },
  );
/** The schema Avro values are read with: its names, its defaults. */
const readerSchema = () =>
  Type.Optional(
    Type.Object(
      {
        subject: text('subject of the schema'),
        version: Type.Optional(whole('version of it', [1], { otherwise: 'the latest version at the start' })),
      },
      { ...closed, description: 'avro: schema to read values with, whichever they were written with' },
    ),
  );
const route = Type.Object(
  {
    decision: text('decision of the policy'),
    topic: text('topic of predictions with it'),
  },
  closed,
);
const delimiter = () => Type.Optional(SCORING.delimiter({ otherwise: 'comma' }));
/** Which database an end is, and how long it is waited for. */
export const database = (timeouts = { connect: 10_000, statement: 3_600_000 }) => ({
  url: maybe('postgresql://user@host:port/database?sslmode=…, without a password', {
    otherwise: '$PGHOST, $PGUSER, $PGDATABASE and the other PG variables',
  }),
  url_env: maybe('instead of `url`: environment variable that contains the URL with its password'),
  connect_timeout_ms: whole('timeout of one connection attempt', [1], { default: timeouts.connect }),
  statement_timeout_ms: whole('timeout of a statement other than the transfer of rows; 0: none', [0], {
    default: timeouts.statement,
  }),
});
const keyColumns = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1 }), { minItems: 1, description }));
const fileFormat = () => Type.Optional(choice('format of the file', FILE_FORMATS, BY_NAME));
const fileCompression = () => Type.Optional(SCORING.compression('compression of the file', BY_NAME));

/** Sources by type. */
export const SOURCES = {
  kafka: Type.Object(
    {
      type: literal('kafka'),
      topic: maybe('topic of applications, one per record'),
      topics: Type.Optional(
        Type.Array(Type.String({ minLength: 1 }), {
          minItems: 1,
          description: 'instead of `topic`: several topics',
        }),
      ),
      topic_pattern: maybe('instead of `topic`: a regular expression that whole names of topics match'),
      group: text('consumer group'),
      format: recordFormat(),
      reader_schema: readerSchema(),
      tombstones: choice(
        'records without a value: reject them as invalid, forward their key and no value, or skip them',
        ['reject', 'forward', 'skip'],
        { default: 'reject' },
      ),
      start_at: choice('where a group without offsets begins', ['earliest', 'latest'], { default: 'earliest' }),
      on_offset_lost: choice('when the committed offset no longer exists', ['stop', 'earliest', 'latest'], {
        default: 'stop',
      }),
      until_caught_up: toggle('end after the records that are in the topic at the start', { default: false }),
      fetch_bytes: whole('maximum bytes of one fetch from one partition', [1], { default: MIB / 2 }),
      in_flight_bytes: whole('maximum bytes of records in memory, over all partitions', [1], { default: 8 * MIB }),
      ...declaredOfRecords(),
    },
    closed,
  ),
  file: Type.Object(
    {
      type: literal('file'),
      path: text('file, or a pattern with * for several'),
      format: fileFormat(),
      compression: fileCompression(),
      delimiter: delimiter(),
      ...declaredOfBytes(),
      ...totalsOfFiles(),
    },
    closed,
  ),
  stdio: Type.Object(
    {
      type: literal('stdio'),
      format: choice('format of standard input', STREAM_FORMATS, { default: 'csv' }),
      compression: SCORING.compression('compression of standard input', { default: 'none' }),
      delimiter: delimiter(),
      ...declaredOfBytes(),
      ...totalsOfStreams(),
    },
    closed,
  ),
  postgres: Type.Object(
    {
      type: literal('postgres'),
      ...database(),
      table: maybe('table or schema.table: its columns of the model, and those passed through'),
      query: maybe('instead of `table`: a SELECT'),
      key: keyColumns('columns the rows are ordered by, so that their numbers mean something'),
    },
    closed,
  ),
  upload: Type.Object(
    {
      type: literal('upload'),
      format: choice('format of the request bodies', TEXT_FORMATS, { default: 'csv' }),
      delimiter: delimiter(),
      ...declaredOfBytes(),
      ...totalsOfUploads(),
    },
    closed,
  ),
} as const;

/** Sinks by type. */
export const SINKS = {
  kafka: Type.Object(
    {
      type: literal('kafka'),
      topic: text('topic of predictions'),
      routes: Type.Optional(
        Type.Array(route, {
          minItems: 1,
          description: 'separate topics for some decisions; all other predictions go to `topic`',
        }),
      ),
      format: recordFormat(),
      compression: choice('compression of record batches', ['none', 'gzip', 'snappy', 'lz4', 'zstd'], {
        default: 'none',
      }),
      timestamp: choice(
        'timestamp of a prediction: that of its application where the topic keeps it, or now',
        ['input', 'now'],
        {
          default: 'input',
        },
      ),
      partition: Type.Optional(
        choice(
          'from a topic: a prediction goes to the partition of its application, or to that of its key as Java chooses it',
          ['source', 'key'],
          { otherwise: 'source if all topics have the same number of partitions; otherwise required' },
        ),
      ),
      key: maybe('from a file or an upload: passthrough column that becomes the record key'),
    },
    closed,
  ),
  file: Type.Object(
    {
      type: literal('file'),
      path: text('output file; {name}: name of the input, {partition} and {offset}: those of the first record'),
      format: fileFormat(),
      compression: fileCompression(),
      delimiter: delimiter(),
      roll_rows: whole('from a topic: a file is finished after this many rows', [1], { default: 100_000 }),
      roll_ms: whole('from a topic: a file is finished after this long', [1], { default: 60_000 }),
    },
    closed,
  ),
  postgres: Type.Object(
    {
      type: literal('postgres'),
      ...database(),
      table: text('table or schema.table; created if missing'),
      mode: choice(
        'append adds rows, merge replaces rows with the same key, replace replaces all rows',
        ['append', 'merge', 'replace'],
        {
          default: 'append',
        },
      ),
      key: keyColumns('merge: passed-through columns that identify a row'),
    },
    closed,
  ),
  stdio: Type.Object(
    {
      type: literal('stdio'),
      format: choice('format of standard output', FILE_FORMATS, { default: 'ndjson' }),
      compression: SCORING.compression('compression of standard output', { default: 'none' }),
      delimiter: delimiter(),
    },
    closed,
  ),
} as const;

/** An answer that is too large becomes a letter while it is written, which no other attempt changes. */
const RETRYABLE = ROW_CODES.filter((code) => code !== 'output_too_large');
const WEEK_MS = 7 * 24 * 3600 * 1000;
const retry = Type.Object(
  {
    topic: text('topic where they wait, used by this pipeline only; cleanup.policy=delete'),
    codes: Type.Array(choice('error code', RETRYABLE), {
      minItems: 1,
      description: 'error codes to retry, because their cause may disappear without a change of the application',
    }),
    delay_ms: whole('wait before each attempt', [1, WEEK_MS], { default: 300_000 }),
    attempts: whole('attempts in all, the first one included', [2, 1000], { default: 3 }),
    group: maybe('consumer group of the attempts', { otherwise: 'topic name of the source with -retry appended' }),
  },
  { ...closed, description: 'between topics: rejected applications are tried again before they are dead letters' },
);

/** Dead letters by type. */
export const DEAD_LETTERS = {
  kafka: Type.Object(
    { type: literal('kafka'), topic: text('topic of rejected applications'), retry: Type.Optional(retry) },
    closed,
  ),
  file: Type.Object({ type: literal('file'), path: text('file that lists the rejected rows') }, closed),
  postgres: Type.Object(
    { type: literal('postgres'), table: text('from a topic to a table: table of rejected applications') },
    closed,
  ),
} as const;
