// Pipeline options of topics (source, sink, dead letters), of brokers and of the schema registry.
import type { Static } from 'typebox';
import {
  choice,
  closed,
  literal,
  MIB,
  maybe,
  section,
  text,
  toggle,
  whole,
} from '../../config/options/describe-option.ts';
import { declaredOfRecords } from '../../config/options/input-declarations.ts';
import { Type } from '../../config/schema.ts';
import { ROW_CODES } from '../../core/errors.ts';
import { RECORD_FORMATS } from '../../core/file-format.ts';

const recordFormat = () =>
  choice(
    'format of the record values; all formats except json are preceded by a schema id and need a schema_registry',
    RECORD_FORMATS,
    { default: 'json' },
  );
/** The schema with which Avro values are read. It determines field names and defaults. */
const readerSchema = () =>
  Type.Optional(
    Type.Object(
      {
        subject: text('subject of the schema'),
        version: Type.Optional(whole('version of the schema', [1], { otherwise: 'the latest version at the start' })),
      },
      { ...closed, description: 'avro: reader schema, into which values of other schemas are converted' },
    ),
  );
const route = Type.Object(
  {
    decision: text('decision of the policy'),
    topic: text('topic for predictions with this decision'),
  },
  closed,
);
const source = Type.Object(
  {
    type: literal('kafka'),
    topic: maybe('topic of applications, one per record'),
    topics: Type.Optional(
      Type.Array(Type.String({ minLength: 1 }), {
        minItems: 1,
        description: 'instead of `topic`: several topics',
      }),
    ),
    topic_pattern: maybe('instead of `topic`: a regular expression for complete topic names'),
    group: text('consumer group'),
    format: recordFormat(),
    reader_schema: readerSchema(),
    tombstones: choice(
      'records without a value: reject them as invalid, forward their key and no value, or skip them',
      ['reject', 'forward', 'skip'],
      { default: 'reject' },
    ),
    start_at: choice('position at which a group without offsets begins', ['earliest', 'latest'], {
      default: 'earliest',
    }),
    on_offset_lost: choice('action if the committed offset no longer exists', ['stop', 'earliest', 'latest'], {
      default: 'stop',
    }),
    until_caught_up: toggle('end the run after the records that are in the topic at the start', { default: false }),
    fetch_bytes: whole('maximum bytes of one fetch from one partition', [1], { default: MIB / 2 }),
    in_flight_bytes: whole('maximum bytes of records in memory, over all partitions', [1], { default: 8 * MIB }),
    ...declaredOfRecords(),
  },
  closed,
);

const sink = Type.Object(
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
      'timestamp of a prediction: input copies that of its application if the topic retains it, now is the current time',
      ['input', 'now'],
      {
        default: 'input',
      },
    ),
    partition: Type.Optional(
      choice(
        'from a topic: source keeps the partition of the application, key computes the partition from the key like the Java client',
        ['source', 'key'],
        { otherwise: 'source if all topics have the same number of partitions; otherwise required' },
      ),
    ),
    key: maybe('from a file or an upload: passthrough column that becomes the record key'),
  },
  closed,
);

/**
 * Error codes that can be retried. An answer that is too large stays too large, and becomes a dead letter when it is
 * written.
 */
const RETRYABLE = ROW_CODES.filter((code) => code !== 'output_too_large');
const WEEK_MS = 7 * 24 * 3600 * 1000;
const retry = Type.Object(
  {
    topic: text('topic for waiting records, used by this pipeline only; cleanup.policy=delete'),
    codes: Type.Array(choice('error code', RETRYABLE), {
      minItems: 1,
      description: 'error codes to retry: errors whose cause may disappear without a change of the application',
    }),
    delay_ms: whole('wait before each attempt', [1, WEEK_MS], { default: 300_000 }),
    attempts: whole('total number of attempts, including the first one', [2, 1000], { default: 3 }),
    group: maybe('consumer group of the attempts', { otherwise: 'topic name of the source with -retry appended' }),
  },
  { ...closed, description: 'between topics: rejected applications are scored again before they become dead letters' },
);

const deadLetter = Type.Object(
  { type: literal('kafka'), topic: text('topic of rejected applications'), retry: Type.Optional(retry) },
  closed,
);

// Connections to brokers and to the schema registry.

const secret = (description: string) =>
  Type.Union(
    [
      Type.Object({ file: text('file that contains the secret') }, closed),
      Type.Object({ env: text('environment variable that contains the secret') }, closed),
    ],
    { description: `${description}: the file or environment variable that contains it` },
  );

/** TLS settings for connections to brokers or to a registry. */
const tlsKeys = (server: string) =>
  Type.Object(
    {
      ca_file: maybe('PEM file with trusted certificate authorities', { otherwise: 'the authorities of Node.js' }),
      certificate_file: maybe('PEM file with the client certificate'),
      key_file: maybe('PEM file with the private key of the client certificate'),
      key_passphrase: Type.Optional(secret('passphrase of the key file')),
      server_name: maybe(`name in the certificate of the ${server}`),
    },
    closed,
  );

const TlsSchema = Type.Union([Type.Boolean(), tlsKeys('broker')], {
  description: 'TLS to the brokers: true, or TLS settings',
});

const TokenEndpointSchema = Type.Object(
  {
    url: text('address of the token endpoint; https, except on localhost'),
    client_id: text('name of this client at the issuer'),
    client_secret: secret('secret of this client'),
    auth_method: choice(
      'client authentication: in the Authorization header or in the form',
      ['client_secret_basic', 'client_secret_post'],
      { default: 'client_secret_basic' },
    ),
    scope: maybe('requested scopes, separated by spaces'),
    audience: maybe('requested audience, if the issuer requires one'),
    tls: Type.Optional({ ...tlsKeys('token endpoint'), description: 'TLS to the token endpoint' }),
    timeout_ms: whole('timeout of a token request', [1], { default: 10_000 }),
  },
  {
    ...closed,
    description: 'oauthbearer: tokens by the client credentials grant, cached and renewed before they expire',
  },
);

const SaslSchema = Type.Object(
  {
    mechanism: choice('authentication mechanism', ['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer']),
    username: maybe('user name, required for plain and scram'),
    password: Type.Optional(secret('password, required for plain and scram')),
    token_endpoint: Type.Optional(TokenEndpointSchema),
    token: Type.Optional(secret('oauthbearer: a token that another process renews; read again for every login')),
    extensions: Type.Optional(
      Type.Record(Type.String({ pattern: '^[A-Za-z]+$' }), Type.String({ pattern: '^[\\x21-\\x7E \\t]+$' }), {
        additionalProperties: false,
        description: 'oauthbearer: SASL extensions sent with the token, such as logicalCluster and identityPoolId',
      }),
    ),
  },
  { ...closed, description: 'SASL authentication: username and password, or a token for oauthbearer' },
);

export const KafkaSchema = section(
  {
    brokers: Type.Optional(
      Type.Array(text('host:port'), {
        minItems: 1,
        description: 'host:port of some brokers; default: $SLUICE_KAFKA_BROKERS, comma-separated',
      }),
    ),
    client_id: Type.String({ default: 'sluice', description: 'name of this client in the logs of the brokers' }),
    instance_id: Type.Optional(
      Type.String({
        pattern: '^[A-Za-z0-9._-]{1,249}$',
        description:
          'name for static membership, unique per member: after a restart within the session timeout, a member keeps its partitions without a rebalance; default in Kubernetes: pod name and topic, otherwise none',
      }),
    ),
    rack: maybe('rack of this machine, so that the consumer can read from the nearest replica'),
    tls: Type.Optional(TlsSchema),
    sasl: Type.Optional(SaslSchema),
    session_timeout_ms: whole('time without heartbeat after which a member loses its partitions', [1000], {
      default: 30_000,
    }),
    connect_timeout_ms: whole('timeout of a connection', [1], { default: 10_000 }),
    request_timeout_ms: whole('timeout of a response', [1], { default: 30_000 }),
  },
  'connection to the brokers',
);

export const SchemaRegistrySchema = Type.Object(
  {
    url: text('address of the registry'),
    username: maybe('user of basic authentication'),
    password: Type.Optional(secret('password of basic authentication')),
    token: Type.Optional(secret('bearer token, read again for every request')),
    tls: Type.Optional({ ...tlsKeys('registry'), description: 'TLS to a registry with an https address' }),
    register: toggle(
      'register the schema of predictions; false: it must already exist (`sluice lint --schema` prints it)',
      {
        default: true,
      },
    ),
    subject: choice(
      'subject of the schema of predictions: <topic>-value, sluice.Prediction, or <topic>-sluice.Prediction',
      ['topic', 'record', 'topic_record'],
      { default: 'topic' },
    ),
    timeout_ms: whole('timeout of a response', [1], { default: 5000 }),
  },
  { ...closed, description: 'registry of the schemas of record values' },
);

export const KAFKA_ENDS = { source, sink, deadLetter };

export type KafkaSource = Static<typeof source>;
export type KafkaSink = Static<typeof sink>;
export type KafkaDeadLetter = Static<typeof deadLetter>;
export type KafkaConfig = Static<typeof KafkaSchema>;
export type SchemaRegistryConfig = Static<typeof SchemaRegistrySchema>;
