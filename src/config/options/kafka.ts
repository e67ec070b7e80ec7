// How brokers and the schema registry are reached: sections of a pipeline file.
import { Type } from 'typebox';
import { choice, closed, maybe, section, text, whole } from './describe-option.ts';

const secret = (description: string) =>
  Type.Union(
    [
      Type.Object({ file: text('file that holds it') }, closed),
      Type.Object({ env: text('environment variable that holds it') }, closed),
    ],
    { description: `${description}: where it is kept` },
  );

const TlsSchema = Type.Union(
  [
    Type.Boolean(),
    Type.Object(
      {
        ca_file: maybe('PEM file of trusted authorities', { otherwise: 'those of Node' }),
        certificate_file: maybe('PEM certificate of this client'),
        key_file: maybe('PEM key of this client'),
        key_passphrase: Type.Optional(secret('passphrase of that key')),
        server_name: maybe('name in the certificate of the broker'),
      },
      closed,
    ),
  ],
  { description: 'TLS to the brokers: true, or how' },
);

const SaslSchema = Type.Object(
  {
    mechanism: choice('how this client authenticates', ['plain', 'scram-sha-256', 'scram-sha-512']),
    username: text('user'),
    password: secret('password'),
  },
  { ...closed, description: 'SASL authentication' },
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
    timeout_ms: whole('longest wait for a response', [1], { default: 5000 }),
  },
  { ...closed, description: 'registry of the Avro schemas' },
);
