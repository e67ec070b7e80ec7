// The schema of pipelines/*.yaml: which keys a pipeline has depends on the types of its source, sink and dead letters.
import { type Static, type TSchema, Type } from 'typebox';
import { choice, closed, maybe, section, text, toggle, whole } from '../config/options/describe-option.ts';
import { GateSchema } from '../config/options/gate-limits.ts';
import { SCORING } from '../config/options/scoring.ts';
import type { DEAD_LETTERS, SINKS, SOURCES } from '../config/options/sources-and-sinks.ts';

// Connections to brokers and to the schema registry.

const secret = (description: string) =>
  Type.Union(
    [
      Type.Object({ file: text('file that holds it') }, closed),
      Type.Object({ env: text('environment variable that holds it') }, closed),
    ],
    { description: `${description}: where it is kept` },
  );

/** TLS of a client, to a broker or to a registry. */
const tlsKeys = (server: string) =>
  Type.Object(
    {
      ca_file: maybe('PEM file of trusted authorities', { otherwise: 'those of Node' }),
      certificate_file: maybe('PEM certificate of this client'),
      key_file: maybe('PEM key of this client'),
      key_passphrase: Type.Optional(secret('passphrase of that key')),
      server_name: maybe(`name in the certificate of the ${server}`),
    },
    closed,
  );

const TlsSchema = Type.Union([Type.Boolean(), tlsKeys('broker')], { description: 'TLS to the brokers: true, or how' });

const TokenEndpointSchema = Type.Object(
  {
    url: text('address that gives tokens; https, but for this very machine'),
    client_id: text('name of this client at the issuer'),
    client_secret: secret('secret of this client'),
    auth_method: choice(
      'how the client says who it is: in the Authorization header, or in the form',
      ['client_secret_basic', 'client_secret_post'],
      { default: 'client_secret_basic' },
    ),
    scope: maybe('scope asked for; several are separated by a space'),
    audience: maybe('audience asked for, where the issuer wants one'),
    tls: Type.Optional({ ...tlsKeys('token endpoint'), description: 'TLS to the token endpoint' }),
    timeout_ms: whole('longest wait for a token', [1], { default: 10_000 }),
  },
  {
    ...closed,
    description: 'oauthbearer: tokens by the client credentials grant, kept and renewed before they expire',
  },
);

const SaslSchema = Type.Object(
  {
    mechanism: choice('how this client authenticates', ['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer']),
    username: maybe('user; plain and scram need it'),
    password: Type.Optional(secret('password; plain and scram need it')),
    token_endpoint: Type.Optional(TokenEndpointSchema),
    token: Type.Optional(secret('oauthbearer: a token that others renew, read again for every login')),
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
          'static membership: whoever comes back under this name within the session gets its partitions back, unnoticed by others; one member a name; default in Kubernetes: the name of the pod and the topic, elsewhere none',
      }),
    ),
    rack: maybe('rack of this machine: a nearer replica may be read'),
    tls: Type.Optional(TlsSchema),
    sasl: Type.Optional(SaslSchema),
    session_timeout_ms: whole('a member silent for this long loses its partitions', [1000], { default: 30_000 }),
    connect_timeout_ms: whole('longest wait for a connection', [1], { default: 10_000 }),
    request_timeout_ms: whole('longest wait for a response', [1], { default: 30_000 }),
  },
  'how the brokers are reached',
);

export const SchemaRegistrySchema = Type.Object(
  {
    url: text('address of the registry'),
    username: maybe('user of basic authentication'),
    password: Type.Optional(secret('password of basic authentication')),
    token: Type.Optional(secret('bearer token, read again for every request')),
    tls: Type.Optional({ ...tlsKeys('registry'), description: 'TLS to a registry with an address of https' }),
    register: toggle(
      'register the schema of predictions; false: it has to be there, `sluice lint --schema` prints it',
      {
        default: true,
      },
    ),
    subject: choice(
      'subject of the schema of predictions: <topic>-value, sluice.Prediction, or <topic>-sluice.Prediction',
      ['topic', 'record', 'topic_record'],
      { default: 'topic' },
    ),
    timeout_ms: whole('longest wait for a response', [1], { default: 5000 }),
  },
  { ...closed, description: 'registry of the schemas of record values' },
);

export const ScoreSchema = section(
  {
    interpretation: SCORING.interpretation({ default: 'none' }),
    interpret_below: Type.Optional(SCORING.interpret_below()),
    top_effects: Type.Optional(SCORING.top_effects()),
    interactions: Type.Optional(SCORING.interactions()),
    max_evaluations: Type.Optional(SCORING.max_evaluations()),
    passthrough: Type.Optional(SCORING.passthrough_list()),
    batch_rows: SCORING.batch_rows({ default: 1024 }),
    batch_wait_ms: SCORING.batch_wait_ms({ default: 20 }),
    workers: Type.Optional(SCORING.workers({ otherwise: 'one per core' })),
    evaluator: SCORING.evaluator({ default: 'auto' }),
    record_bytes: SCORING.record_bytes({ default: 1024 * 1024 }),
    max_columns: SCORING.max_columns({ default: 2000 }),
  },
  'how applications are scored',
);

/** The keys of every pipeline, around the schemas of its ends. */
export function pipelineSchema<A extends TSchema, B extends TSchema, C extends TSchema>(
  source: A,
  sink: B,
  deadLetter: C,
) {
  return Type.Object(
    {
      model: SCORING.model(),
      source,
      score: ScoreSchema,
      sink,
      dead_letter: Type.Optional(deadLetter),
      on_invalid: Type.Optional(
        choice(
          'invalid applications: dead_letter sends them there, report lists them and goes on, fail ends the run',
          ['dead_letter', 'report', 'fail'],
          { otherwise: 'dead_letter if there is one, else report' },
        ),
      ),
      allow_empty: Type.Optional(SCORING.allow_empty()),
      deadline: Type.Optional(SCORING.deadline()),
      checkpoint_every: SCORING.checkpoint_every({ default: 5 }),
      gate: Type.Optional(GateSchema),
      manifest: Type.Optional(SCORING.manifest({ otherwise: 'true' })),
      sign_key: Type.Optional(SCORING.sign_key({ otherwise: 'manifests are not signed' })),
      require_lock: Type.Optional(SCORING.require_lock({ otherwise: '$SLUICE_REQUIRE_LOCK, else false' })),
      require_signature: Type.Optional(
        SCORING.require_signature({ otherwise: '$SLUICE_REQUIRE_SIGNATURE, else signatures are not asked for' }),
      ),
      require_signer: Type.Optional(
        SCORING.require_signer_list({ otherwise: '$SLUICE_REQUIRE_SIGNER, else every certificate that is trusted' }),
      ),
      require_approval: Type.Optional(
        SCORING.require_approval({ otherwise: '$SLUICE_REQUIRE_APPROVAL, else approvals are not asked for' }),
      ),
      report: Type.Optional(SCORING.report()),
      delivery: Type.Optional(
        choice(
          'exactly_once: between topics, from a topic to a table, and of uploads per idempotency key',
          ['exactly_once', 'at_least_once'],
          {
            otherwise: 'exactly_once where it is possible',
          },
        ),
      ),
      transaction_rows: whole('between topics: most rows of one transaction', [1], { default: 4096 }),
      commit_interval_ms: whole(
        'between topics: least time from one transaction to the next; the less, the sooner an answer is seen, and the more CPU it takes',
        [0],
        { default: 20 },
      ),
      transaction_timeout_ms: whole('between topics: the broker aborts a transaction that takes longer', [1], {
        default: 10_000,
      }),
      kafka: KafkaSchema,
      schema_registry: Type.Optional(SchemaRegistrySchema),
    },
    closed,
  );
}

/** Just the type of an end: what is known of a pipeline before the schemas of its ends are chosen. */
export const typeOnly = (types: Readonly<Record<string, TSchema>>) =>
  Type.Object({ type: Type.Enum(Object.keys(types)) }, { additionalProperties: true });

export type KafkaSource = Static<(typeof SOURCES)['kafka']>;
export type FileSource = Static<(typeof SOURCES)['file']>;
export type StdioSource = Static<(typeof SOURCES)['stdio']>;
export type UploadSource = Static<(typeof SOURCES)['upload']>;
export type PostgresSource = Static<(typeof SOURCES)['postgres']>;
export type Source = KafkaSource | FileSource | StdioSource | PostgresSource | UploadSource;
export type KafkaSink = Static<(typeof SINKS)['kafka']>;
export type FileSink = Static<(typeof SINKS)['file']>;
export type StdioSink = Static<(typeof SINKS)['stdio']>;
export type PostgresSink = Static<(typeof SINKS)['postgres']>;
type Sink = KafkaSink | FileSink | StdioSink | PostgresSink;
export type DeadLetter = Static<(typeof DEAD_LETTERS)['kafka' | 'file' | 'postgres']>;
export type SchemaRegistryConfig = Static<typeof SchemaRegistrySchema>;
export type KafkaConfig = Static<typeof KafkaSchema>;

type Common = Static<
  ReturnType<typeof pipelineSchema<(typeof SOURCES)['file'], (typeof SINKS)['file'], (typeof DEAD_LETTERS)['file']>>
>;

/** A pipeline as its file says it, with the defaults that do not depend on other keys. */
export interface PipelineFile extends Omit<Common, 'source' | 'sink' | 'dead_letter'> {
  source: Source;
  sink: Sink;
  dead_letter?: DeadLetter;
}

export interface Pipeline extends PipelineFile {
  /** Path of the file it was read from. */
  file: string;
  on_invalid: 'dead_letter' | 'report' | 'fail';
  delivery: 'exactly_once' | 'at_least_once';
}
