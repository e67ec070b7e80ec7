// The schema of pipelines/*.yaml: which parts a pipeline has depends on the types of its source and sinks.
import { readFile } from 'node:fs/promises';
import { type Static, type TSchema, Type } from 'typebox';
import { Value } from 'typebox/value';
import { SluiceError } from '../core/errors.ts';
import { formatProblem, type Problem } from './yaml.ts';
import { parseYaml } from './yaml-document.ts';

const closed = { additionalProperties: false };
const text = (description: string) => Type.String({ minLength: 1, description });
const maybe = (description: string) => Type.Optional(text(description));
const whole = (value: number, description: string, minimum = 1) =>
  Type.Integer({ minimum, default: value, description });
const choice = <V extends string>(value: V, values: readonly V[], description: string) =>
  Type.Unsafe<V>(Type.Enum([...values], { default: value, description }));
const section = <T extends Parameters<typeof Type.Object>[0]>(properties: T, description: string) =>
  Type.Object(properties, { ...closed, default: {}, description });

const SecretSchema = Type.Union([
  Type.Object({ file: text('file that holds it') }, closed),
  Type.Object({ env: text('environment variable that holds it') }, closed),
]);

export const KafkaSchema = section(
  {
    brokers: Type.Optional(
      Type.Array(text('host:port'), { minItems: 1, description: 'default $SLUICE_KAFKA_BROKERS, comma-separated' }),
    ),
    client_id: Type.String({ default: 'sluice', description: 'name brokers know this client by' }),
    rack: maybe('rack of this machine: a nearer replica may be read'),
    tls: Type.Optional(
      Type.Union([
        Type.Boolean(),
        Type.Object(
          {
            ca_file: maybe('PEM; default: the authorities of Node'),
            certificate_file: maybe('PEM certificate of this client'),
            key_file: maybe('PEM key of this client'),
            key_passphrase: Type.Optional(SecretSchema),
            server_name: maybe('name the certificate of the broker carries'),
          },
          closed,
        ),
      ]),
    ),
    sasl: Type.Optional(
      Type.Object(
        {
          mechanism: Type.Unsafe<'plain' | 'scram-sha-256' | 'scram-sha-512'>(
            Type.Enum(['plain', 'scram-sha-256', 'scram-sha-512']),
          ),
          username: text('user'),
          password: SecretSchema,
        },
        closed,
      ),
    ),
    session_timeout_ms: whole(30_000, 'a member silent for so long loses its partitions', 1000),
    connect_timeout_ms: whole(10_000, 'longest wait for a connection'),
    request_timeout_ms: whole(30_000, 'longest wait for an answer'),
  },
  'how brokers are reached',
);

const SchemaRegistrySchema = Type.Object(
  {
    url: text('address of the registry'),
    username: maybe('user of basic authentication'),
    password: Type.Optional(SecretSchema),
    timeout_ms: whole(5000, 'longest wait for an answer'),
  },
  { ...closed, description: 'where Avro schemas are kept' },
);

const FILE_FORMATS = ['csv', 'tsv', 'ndjson', 'json'] as const;
const FILE_FORMATS_AND_PARQUET = [...FILE_FORMATS, 'parquet'] as const;
const COMPRESSIONS = ['none', 'gzip', 'zstd'] as const;
const delimiter = Type.Optional(
  Type.Unsafe<'tab' | 'comma' | 'semicolon' | 'pipe'>(
    Type.Enum(['tab', 'comma', 'semicolon', 'pipe'], { description: 'of csv; default comma' }),
  ),
);
/** What the name of a file says unless it is said here. */
const byName = <V extends string>(values: readonly V[]) =>
  Type.Optional(Type.Unsafe<V>(Type.Enum([...values], { description: 'default: by the name of the file' })));
const literal = <V extends string>(value: V) => Type.Unsafe<V>(Type.Enum([value]));

/** Sources by type. */
export const SOURCES = {
  kafka: Type.Object(
    {
      type: literal('kafka'),
      topic: text('topic of applications, one a record'),
      group: text('consumer group'),
      format: choice(
        'json',
        ['json', 'avro'],
        'of the values; avro in the framing of Confluent, with a schema_registry',
      ),
      start_at: choice('earliest', ['earliest', 'latest'], 'where a group without offsets begins'),
      on_offset_lost: choice('stop', ['stop', 'earliest', 'latest'], 'when the committed offset is gone'),
      until_caught_up: Type.Boolean({ default: false, description: 'end at what is in the topic now' }),
      fetch_bytes: whole(1024 * 1024, 'most bytes a fetch brings of one partition'),
      in_flight_bytes: whole(32 * 1024 * 1024, 'records in memory, all partitions together'),
    },
    closed,
  ),
  file: Type.Object(
    {
      type: literal('file'),
      path: text('file, or a pattern with * for several'),
      format: byName(FILE_FORMATS_AND_PARQUET),
      compression: byName(COMPRESSIONS),
      delimiter,
    },
    closed,
  ),
  stdio: Type.Object(
    {
      type: literal('stdio'),
      format: choice('csv', FILE_FORMATS, 'of standard input'),
      compression: choice('none', COMPRESSIONS, 'of standard input'),
      delimiter,
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
      format: choice(
        'json',
        ['json', 'avro'],
        'of the values; avro in the framing of Confluent, with a schema_registry',
      ),
      compression: choice('none', ['none', 'gzip', 'snappy', 'lz4', 'zstd'], 'of what is sent'),
      timestamp: choice('input', ['input', 'now'], 'of the predictions'),
      key: maybe('from a file: the passthrough column that becomes the key'),
    },
    closed,
  ),
  file: Type.Object(
    {
      type: literal('file'),
      path: text('file; {name} is that of the input, {partition} and {offset} those of the first record'),
      format: byName(FILE_FORMATS_AND_PARQUET),
      compression: byName(COMPRESSIONS),
      delimiter,
      roll_rows: whole(100_000, 'from a topic: a file is finished after so many rows'),
      roll_ms: whole(60_000, 'from a topic: or after so long'),
    },
    closed,
  ),
  stdio: Type.Object(
    {
      type: literal('stdio'),
      format: choice('ndjson', FILE_FORMATS, 'of standard output'),
      compression: choice('none', COMPRESSIONS, 'of standard output'),
      delimiter,
    },
    closed,
  ),
} as const;

/** Dead letters by type. */
export const DEAD_LETTERS = {
  kafka: Type.Object({ type: literal('kafka'), topic: text('topic of rejected applications') }, closed),
  file: Type.Object({ type: literal('file'), path: text('list of rejected rows') }, closed),
} as const;

export const ScoreSchema = section(
  {
    interpretation: choice('none', ['none', 'effects', 'reasons'], 'beside each prediction'),
    interpret_below: Type.Optional(Type.Number({ description: 'only where the probability (or value) is below' })),
    top_effects: Type.Optional(Type.Integer({ minimum: 1, maximum: 2000, description: 'only so many, the largest' })),
    passthrough: Type.Optional(
      Type.Union([Type.Array(Type.String()), literal('*')], { description: 'columns outside the model to echo' }),
    ),
    batch_rows: whole(1024, 'rows a micro-batch'),
    batch_wait_ms: whole(20, 'a smaller micro-batch is scored after this', 0),
    workers: Type.Optional(Type.Integer({ minimum: 1, maximum: 256, description: 'default one a core' })),
    evaluator: choice('auto', ['auto', 'onnxruntime', 'native'], 'auto: our own where it agrees with ONNX Runtime'),
    record_bytes: whole(1024 * 1024, 'a longer application is rejected'),
  },
  'how applications are scored',
);

function schemaFor(source: TSchema, sink: TSchema, deadLetter: TSchema) {
  return Type.Object(
    {
      model: text('id, id:version or id@alias'),
      source: source as (typeof SOURCES)['file'],
      score: ScoreSchema,
      sink: sink as (typeof SINKS)['file'],
      dead_letter: Type.Optional(deadLetter as (typeof DEAD_LETTERS)['file']),
      on_invalid: Type.Optional(
        Type.Unsafe<'dead_letter' | 'report' | 'fail'>(
          Type.Enum(['dead_letter', 'report', 'fail'], {
            description: 'what becomes of an invalid application; default dead_letter if there is one, else report',
          }),
        ),
      ),
      delivery: Type.Optional(
        Type.Unsafe<'exactly_once' | 'at_least_once'>(
          Type.Enum(['exactly_once', 'at_least_once'], { description: 'topic to topic; default exactly_once' }),
        ),
      ),
      transaction_rows: whole(4096, 'topic to topic: most rows of one transaction'),
      transaction_timeout_ms: whole(60_000, 'topic to topic: a transaction longer than this is given up by the broker'),
      kafka: KafkaSchema,
      schema_registry: Type.Optional(SchemaRegistrySchema),
    },
    closed,
  );
}

/** The whole schema with one type each; for the reference page and as a type. */
export const pipelineSchema = schemaFor;

export type Source = Static<(typeof SOURCES)['kafka' | 'file' | 'stdio']>;
export type Sink = Static<(typeof SINKS)['kafka' | 'file' | 'stdio']>;
export type KafkaSource = Static<(typeof SOURCES)['kafka']>;
export type FileSource = Static<(typeof SOURCES)['file']>;
export type StdioSource = Static<(typeof SOURCES)['stdio']>;
export type KafkaSink = Static<(typeof SINKS)['kafka']>;
export type FileSink = Static<(typeof SINKS)['file']>;
export type StdioSink = Static<(typeof SINKS)['stdio']>;
export type DeadLetter = Static<(typeof DEAD_LETTERS)['kafka' | 'file']>;
export type SchemaRegistryConfig = Static<typeof SchemaRegistrySchema>;
export type KafkaConfig = Static<typeof KafkaSchema>;

export interface Pipeline
  extends Omit<Static<ReturnType<typeof schemaFor>>, 'source' | 'sink' | 'dead_letter' | 'on_invalid' | 'delivery'> {
  /** Path of the file it was read from. */
  file: string;
  source: Source;
  sink: Sink;
  dead_letter?: DeadLetter;
  on_invalid: 'dead_letter' | 'report' | 'fail';
  delivery: 'exactly_once' | 'at_least_once';
}

/** Just enough to see the types: everything else is looked at with the schema they choose. */
const TypeOnly = (types: readonly string[]) =>
  Type.Object({ type: Type.Enum([...types]) }, { additionalProperties: true });
const ShapeSchema = Type.Object(
  {
    source: TypeOnly(Object.keys(SOURCES)),
    sink: TypeOnly(Object.keys(SINKS)),
    dead_letter: Type.Optional(TypeOnly(Object.keys(DEAD_LETTERS))),
  },
  { additionalProperties: true },
);

export type ParsedPipeline = { ok: true; value: Pipeline } | { ok: false; problems: Problem[] };

/** Parses and checks the text of a pipeline; every fault at once, each with its place. */
export function parsePipeline(file: string, content: string): ParsedPipeline {
  const shape = parseYaml(file, content, ShapeSchema);
  const types = shape.ok
    ? (shape.value as {
        source: { type: keyof typeof SOURCES };
        sink: { type: keyof typeof SINKS };
        dead_letter?: { type: keyof typeof DEAD_LETTERS };
      })
    : null;
  const schema = schemaFor(
    types ? SOURCES[types.source.type] : SOURCES.kafka,
    types ? SINKS[types.sink.type] : SINKS.kafka,
    types?.dead_letter ? DEAD_LETTERS[types.dead_letter.type] : DEAD_LETTERS.kafka,
  );
  // Defaults are no faults of the file: what may be left out is optional while the file is judged.
  const judged = parseYaml(file, content, withoutDefaults(schema));
  if (!shape.ok)
    return { ok: false, problems: judged.ok || shape.problems.length > 0 ? shape.problems : judged.problems };
  if (!judged.ok) return judged;
  const value = Value.Default(schema, structuredClone(judged.value)) as Omit<Pipeline, 'file'>;
  const pipeline: Pipeline = {
    ...value,
    file,
    on_invalid: value.on_invalid ?? (value.dead_letter ? 'dead_letter' : 'report'),
    delivery:
      value.delivery ??
      (value.source.type === 'kafka' && value.sink.type === 'kafka' ? 'exactly_once' : 'at_least_once'),
  };
  const wrong = contradictions(pipeline, content, file);
  return wrong.length > 0 ? { ok: false, problems: wrong } : { ok: true, value: pipeline };
}

/** What the schema cannot say. */
function contradictions(p: Pipeline, content: string, file: string): Problem[] {
  const problems: Problem[] = [];
  const say = (key: string, message: string) => problems.push({ file, ...placeOf(content, key), message });
  const topics = p.source.type === 'kafka' && p.sink.type === 'kafka';
  if (p.on_invalid === 'dead_letter' && !p.dead_letter)
    say('on_invalid', 'on_invalid: dead_letter needs a dead_letter');
  const avro =
    (p.source.type === 'kafka' && p.source.format === 'avro') || (p.sink.type === 'kafka' && p.sink.format === 'avro');
  if (avro && !p.schema_registry) say('schema_registry', 'format: avro needs a schema_registry');
  if (p.sink.type === 'file' && (p.sink.format === 'parquet' || /\.parquet$/i.test(p.sink.path))) {
    if (p.source.type === 'kafka') say('sink', 'a topic goes to files of lines: ndjson');
    if (p.score.passthrough === '*') say('score', 'passthrough: a Parquet file needs the names of its columns');
  }
  if (p.delivery === 'exactly_once' && !topics) {
    say('delivery', 'delivery: exactly_once needs a topic on both sides');
  }
  if (p.source.type === 'kafka' && p.dead_letter?.type === 'file')
    say('dead_letter', 'dead letters of a topic go to a topic');
  if (p.source.type !== 'kafka' && p.dead_letter?.type === 'kafka')
    say('dead_letter', 'dead letters of files are listed in a file');
  if (topics && p.source.type === 'kafka' && p.sink.type === 'kafka' && p.source.topic === p.sink.topic) {
    say('sink', 'source and sink are the same topic');
  }
  if (p.source.type === 'kafka' && p.dead_letter?.type === 'kafka' && p.dead_letter.topic === p.source.topic) {
    say('dead_letter', 'dead letters would be read again: another topic is needed');
  }
  if (p.source.type === 'kafka' && p.sink.type === 'file' && !/\{partition\}/.test(p.sink.path)) {
    say('sink', 'path of a sink behind a topic needs {partition} and {offset}');
  }
  if (p.source.type === 'kafka' && p.sink.type === 'stdio') say('sink', 'a topic goes to a topic or to files');
  if (
    p.source.type === 'file' &&
    p.source.path.includes('*') &&
    p.sink.type === 'file' &&
    !p.sink.path.includes('{name}')
  ) {
    say('sink', 'path of a sink behind several files needs {name}');
  }
  if (p.sink.type === 'kafka' && p.sink.key !== undefined && p.source.type === 'kafka') {
    say('sink', 'key: predictions keep the key of their application');
  }
  return problems;
}

function placeOf(content: string, key: string): { line: number; column: number } {
  const line = content.split('\n').findIndex((l) => l.startsWith(`${key}:`));
  return { line: line < 0 ? 1 : line + 1, column: 1 };
}

/** The same schema in which every key with a default may be missing. */
function withoutDefaults(schema: TSchema): TSchema {
  const s = schema as {
    type?: string;
    properties?: Record<string, TSchema & { default?: unknown }>;
    required?: string[];
  };
  if (s.type !== 'object' || !s.properties) return schema;
  const properties = Object.fromEntries(Object.entries(s.properties).map(([k, v]) => [k, withoutDefaults(v)]));
  const required = (s.required ?? []).filter((k) => s.properties![k]!.default === undefined);
  return { ...schema, properties, required } as TSchema;
}

/** Reads a pipeline file. @throws SluiceError usage with every fault as file:line:column */
export async function readPipeline(file: string): Promise<Pipeline> {
  let content: string;
  try {
    content = await readFile(file, 'utf8');
  } catch (cause) {
    throw new SluiceError('usage', `${file} cannot be read`, { cause });
  }
  const parsed = parsePipeline(file, content);
  if (!parsed.ok) throw new SluiceError('usage', parsed.problems.map(formatProblem).join('\n'));
  return parsed.value;
}
