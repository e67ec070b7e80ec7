// The configuration of `serve`: one schema gives the type, the defaults, the validation and the reference page.
import { type Static, Type } from 'typebox';
import { database } from './options/database-options.ts';
import { choice, closed, LOGGING, MIB, maybe, section, text, whole } from './options/describe-option.ts';
import { registryAddress, SCORING } from './options/scoring.ts';
import { RegistryOptionsSchema } from './registry-options.ts';
import { SCOPES, type Scope } from './scopes.ts';

// Identity providers whose tokens the service accepts.

/** Signatures that a public key checks: with a secret, whoever checks could sign, too. */
const SIGNATURE_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] as const;

const scopes = Type.Array(Type.Unsafe<Scope>(Type.Enum([...SCOPES])), { description: 'what it permits' });
const models = Type.Optional(Type.Array(Type.String(), { description: 'ids of models it is for; default: all' }));

const IssuerSchema = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
      description: 'short name of the provider, in the log, in metrics and in the names of its subjects',
    }),
    issuer: text('what `iss` of its tokens says, to the letter: an address with https'),
    audience: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'what `aud` of a token has to hold one of: the name under which the provider knows this service',
    }),
    jwks_url: maybe('address of its keys', { otherwise: 'jwks_uri of ISSUER/.well-known/openid-configuration' }),
    ca: maybe('PEM file with the authorities that its server is trusted by', { otherwise: 'those of Node' }),
    algorithms: Type.Array(Type.Unsafe<(typeof SIGNATURE_ALGORITHMS)[number]>(Type.Enum([...SIGNATURE_ALGORITHMS])), {
      minItems: 1,
      default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      description: 'signatures that are taken',
    }),
    token_type: text(
      'what `typ` of a token has to be; at+jwt marks access tokens (RFC 9068); any: whatever it is, and tokens whose claims show an ID token are refused',
      { default: 'at+jwt' },
    ),
    clock_tolerance_ms: whole('how far the clocks may be apart', [0, 600_000], { default: 30_000 }),
    subject_claim: text('claim with the name of the caller, by which jobs and quotas go; stands in the audit log', {
      default: 'sub',
    }),
    scopes_claim: text('claim with scopes, as words between blanks or as a list; a path such as a.b goes inside', {
      default: 'scope',
    }),
    models_claim: maybe('claim with the ids of the models that those scopes are for, * for all; without it: none', {
      otherwise: 'all models',
    }),
    roles_claim: maybe('claim with roles or groups, such as realm_access.roles', { otherwise: 'no roles' }),
    roles: Type.Record(Type.String(), Type.Object({ scopes, models }, closed), {
      default: {},
      description: 'what a role permits; the rest of roles_claim means nothing',
    }),
    keys_refresh_ms: whole(
      'its keys are read again after this; so long a key that it withdraws is still taken',
      [1000],
      {
        default: 300_000,
      },
    ),
    keys_cooldown_ms: whole('unknown keys have them read again at most this often', [100], { default: 30_000 }),
    keys_max_age_ms: whole('while the provider is away, its last keys are taken for this long; then 503', [1000], {
      default: 4 * 3_600_000,
    }),
  },
  closed,
);

export type IssuerConfig = Static<typeof IssuerSchema>;

/** A bound that is at least one. */
const atLeastOne = (value: number, description: string) => whole(description, [1], { default: value });
/** A bound that may be zero. */
const atLeastZero = (value: number, description: string) => whole(description, [0], { default: value });

export const ServerConfigSchema = Type.Object(
  {
    listen: section(
      {
        host: Type.String({ default: '0.0.0.0', description: 'address to listen on' }),
        port: Type.Integer({
          minimum: 0,
          maximum: 65_535,
          default: 8443,
          description: 'port to listen on; 0 picks a free one',
        }),
      },
      'where the server listens',
    ),
    tls: Type.Optional(
      Type.Object(
        {
          certificate: Type.String({ description: 'PEM file with the certificate chain; reloaded when it changes' }),
          key: Type.String({ description: 'PEM file with the private key; reloaded when it changes' }),
          client_ca: maybe(
            'PEM file with the authorities whose certificates clients may show; reloaded when it changes; see docs/identity.md',
            { otherwise: 'clients are asked for none' },
          ),
          client_certificates: choice(
            'request: who shows none may show a key or a token; require: who shows no valid one gets no connection, not even for the health of the process',
            ['request', 'require'],
            { default: 'request' },
          ),
          client_crl: maybe(
            'PEM file with the certificates that client_ca has revoked, a list for every authority of a chain; reloaded when it changes',
            { otherwise: 'none is asked for' },
          ),
        },
        { ...closed, description: 'HTTPS by this server' },
      ),
    ),
    behind_tls_proxy: Type.Optional(
      Type.Array(Type.String(), {
        description: 'addresses of the proxies that terminate TLS; only they are served, over HTTP',
      }),
    ),
    client_address: choice(
      'where the address of a client is read: from the connection, or behind behind_tls_proxy from the end of X-Forwarded-For, which the proxies have to append to',
      ['connection', 'x_forwarded_for'],
      { default: 'connection' },
    ),
    proxy_streams: Type.Boolean({
      default: false,
      description:
        'the proxies in between pass body and answer on at once, both ways, over HTTP/1.1; else answers wait for the end of the body and have a length',
    }),
    registry: Type.Optional(registryAddress()),
    registry_options: RegistryOptionsSchema,
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
    keys_file: Type.String({
      default: 'keys.yaml',
      description: 'API keys, written by `sluice keys`; reloaded when it changes',
    }),
    oidc: Type.Array(IssuerSchema, {
      default: [],
      description: 'identity providers whose tokens are taken beside API keys; see docs/identity.md',
    }),
    workers: Type.Optional(SCORING.workers({ otherwise: 'one per core' })),
    evaluator: SCORING.evaluator({ default: 'auto' }),
    pipelines: Type.Array(Type.String({ minLength: 1 }), {
      default: [],
      description: 'pipeline files with an upload as their source; served as POST /api/v1/pipelines/NAME',
    }),
    preload: Type.Array(Type.String(), {
      default: [],
      description: 'models loaded before the server is ready, and never closed',
    }),
    models_max: atLeastZero(8, 'models kept loaded at once, those of preload included'),
    interpretation_aliases: Type.Array(Type.String(), {
      default: [],
      description: 'further path prefixes for the interpretation operations',
    }),
    limits: section(
      {
        body_bytes: atLeastOne(64 * 1024 * MIB, 'size of a body as it is sent'),
        expanded_bytes: atLeastOne(256 * 1024 * MIB, 'size of a body after decompression'),
        row_bytes: SCORING.record_bytes({ default: MIB }),
        rows: atLeastOne(1_000_000_000, 'applications per request'),
        columns: SCORING.max_columns({ default: 2000 }),
        nesting_depth: atLeastOne(16, 'nesting depth of a JSON application'),
        concurrent_requests: atLeastOne(64, 'predict requests answered at once, all keys together'),
        queued_requests: atLeastZero(256, 'predict requests that may wait'),
        concurrent_requests_per_key: atLeastOne(32, 'predict requests of one key, waiting ones included'),
        requests_per_second_per_key: atLeastOne(10_000, 'predict requests of one key, with bursts of as many'),
        failed_logins_per_minute_per_address: atLeastOne(
          60,
          'wrong keys, tokens and certificates of one address (of IPv6: of its 64-bit network) that are answered 401; beyond, 400 limit_exceeded',
        ),
        header_bytes: atLeastOne(16 * 1024, 'size of a request head'),
        model_bytes: atLeastOne(1024 * MIB, 'size of an uploaded model package'),
        concurrent_model_uploads_per_key: atLeastOne(4, 'model packages of one key uploaded or tried at once'),
      },
      'limits of one request, of one key and of all together',
    ),
    timeouts: section(
      {
        head_ms: atLeastZero(10_000, 'the request head must have arrived by then'),
        body_idle_ms: atLeastZero(60_000, 'no byte of the body for this long ends the request'),
        body_min_bytes_per_second: atLeastZero(
          64,
          'a body slower than this, after the first body_idle_ms, ends the request',
        ),
        answer_idle_ms: atLeastZero(120_000, 'a client that reads nothing for this long is disconnected'),
        keep_alive_ms: atLeastZero(65_000, 'idle connections are closed after this'),
        stop_ms: atLeastZero(30_000, 'answers in progress may finish within this when the server stops'),
      },
      'how long the server waits',
    ),
    spill: section(
      {
        folder: Type.Optional(Type.String({ description: 'default: the system folder for temporary files' })),
        max_bytes: atLeastOne(8 * 1024 * MIB, 'answer bytes a client has not read yet, per request'),
      },
      'where answers wait for clients that send everything before they read',
    ),
    log: section(
      {
        format: LOGGING.format({ default: 'auto' }),
        level: LOGGING.level({ default: 'info' }),
        requests_per_second: atLeastZero(50, 'successful requests of one route that have a line each, in a second'),
        sample_one_in: atLeastOne(100, 'beyond that, one in so many has a line, which says how many it stands for'),
      },
      'the log on standard error; see docs/logs.md',
    ),
    tracing: section(
      {
        otlp_endpoint: Type.Optional(
          Type.String({
            description:
              'where spans are sent, such as http://collector:4318 (OTLP over HTTP); default: $OTEL_EXPORTER_OTLP_ENDPOINT, else nowhere',
          }),
        ),
        traces_per_second: atLeastZero(
          10,
          'traces that begin here and are recorded, in a second, unless $OTEL_TRACES_SAMPLER_ARG names a share of them; of the others the caller decides',
        ),
      },
      'traces; see docs/logs.md',
    ),
    cors: section(
      {
        origins: Type.Array(Type.String(), {
          default: [],
          description:
            'pages that may call from a browser, such as https://desk.bank.example, or * for all; default: none',
        }),
        max_age_s: atLeastZero(600, 'browsers need not ask again for so many seconds'),
      },
      'calls from pages of other origins',
    ),
    compression: section(
      {
        level: Type.Integer({
          minimum: 0,
          maximum: 9,
          default: 0,
          description: 'answers are compressed for clients that take zstd or gzip: 0 not at all, 1 fastest, 9 smallest',
        }),
      },
      'compressed answers; see docs/serve.md',
    ),
    audit: Type.Optional(
      Type.Object(
        {
          file: text('file of the records; full ones get the number of their last record in the name'),
          sync: choice(
            'when records are brought to the disk: with each batch of them, once a second, or when the system likes',
            ['batch', 'second', 'none'],
            { default: 'second' },
          ),
          on_failure: choice(
            'while records cannot be written: refuse what would have one with 503, or continue without',
            ['refuse', 'continue'],
            { default: 'refuse' },
          ),
          address: choice(
            'addresses in records: whole, their network (24 bits, of IPv6 64), or none',
            ['full', 'network', 'none'],
            {
              default: 'full',
            },
          ),
          max_bytes: atLeastOne(256 * MIB, 'a file that has reached this is full'),
        },
        {
          ...closed,
          description: 'who asked what of which model; see docs/audit-log.md; without it there is no such log',
        },
      ),
    ),
    jobs: section(
      {
        folder: Type.String({ default: 'jobs', description: 'uploads, results and the job table' }),
        keep_ms: atLeastZero(24 * 3600 * 1000, 'finished jobs are kept for this long'),
        max_jobs: atLeastOne(1000, 'jobs of one key kept at once'),
        upload_ttl_ms: atLeastOne(24 * 3600 * 1000, 'a resumable upload to which nothing came for so long is removed'),
        max_bytes: atLeastOne(
          100 * 1024 * MIB,
          'uploads and results of one key kept at once, also while they are written',
        ),
        concurrent: atLeastOne(1, 'jobs scored at once, besides one of each other key; keys take turns, row by row'),
        max_crashes: atLeastOne(
          3,
          'a job fails with job_crashed after so many servers ended without a word while they ran it; after the first it runs alone',
        ),
        shared: Type.Optional(
          Type.Object(
            {
              database: section(database({ connect: 2000, statement: 5000 }), 'the table of jobs: PostgreSQL'),
              table: Type.String({
                default: 'sluice_jobs',
                minLength: 1,
                maxLength: 100,
                description:
                  'table or schema.table, made where it is not there; beside it are two with _meta and _uploads behind its name',
              }),
              files: Type.String({
                pattern: '^s3://[a-z0-9][a-z0-9.-]{1,62}/.+$',
                description:
                  'uploads and results: s3://bucket/prefix, reached as $AWS_ENDPOINT_URL, $AWS_REGION and $AWS_… say',
              }),
              lease_ms: whole(
                'a server that did not renew its lease of a job for so long loses it to another; a fifth of it is the beat',
                [1000],
                { default: 15_000 },
              ),
            },
            {
              ...closed,
              description: 'several servers have one table of jobs, and `folder` is not used; see replicas.md',
            },
          ),
        ),
        lock_wait_ms: atLeastZero(45_000, 'a server that is stopping has so long to leave the folder to this one'),
      },
      'asynchronous jobs',
    ),
  },
  closed,
);

export type ServerConfig = Static<typeof ServerConfigSchema>;
