// How brokers and the schema registry are reached: sections of a pipeline file.
import { Type } from 'typebox';
import { choice, closed, maybe, section, text, toggle, whole } from './describe-option.ts';

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
