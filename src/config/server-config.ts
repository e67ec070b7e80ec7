// The configuration of `serve`. One schema provides the type, the defaults, the validation and the reference page.
import { type Static, Type } from 'typebox';
import { database } from './options/database-options.ts';
import { choice, closed, LOGGING, MIB, maybe, section, text, whole } from './options/describe-option.ts';
import { registryAddress, SCORING } from './options/scoring.ts';
import { RegistryOptionsSchema } from './registry-options.ts';
import { SCOPES, type Scope } from './scopes.ts';

// Identity providers whose tokens the service accepts.

/**
 * Only algorithms with public keys are allowed: with a shared secret, everyone who can verify a token could also sign
 * one.
 */
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

const scopes = Type.Array(Type.Unsafe<Scope>(Type.Enum([...SCOPES])), { description: 'permitted operations' });
const models = Type.Optional(
  Type.Array(Type.String(), { description: 'ids of the models that the scopes apply to; default: all' }),
);

const IssuerSchema = Type.Object(
  {
    name: Type.String({
      pattern: '^[a-z0-9][a-z0-9-]{0,39}$',
      description: 'short name of the provider for the log, metrics and the names of its subjects',
    }),
    issuer: text('exact `iss` claim of the tokens: an https address'),
    audience: Type.Array(Type.String({ minLength: 1 }), {
      minItems: 1,
      description: 'accepted audiences: `aud` of a token must contain one of them',
    }),
    jwks_url: maybe('address of the signing keys', {
      otherwise: 'jwks_uri of ISSUER/.well-known/openid-configuration',
    }),
    ca: maybe('PEM file with trusted certificate authorities', { otherwise: 'the authorities of Node.js' }),
    algorithms: Type.Array(Type.Unsafe<(typeof SIGNATURE_ALGORITHMS)[number]>(Type.Enum([...SIGNATURE_ALGORITHMS])), {
      minItems: 1,
      default: ['RS256', 'PS256', 'ES256', 'EdDSA'],
      description: 'accepted signature algorithms',
    }),
    token_type: text(
      'required `typ` of a token; at+jwt marks access tokens (RFC 9068); any: no requirement, but ID tokens are rejected by their claims',
      { default: 'at+jwt' },
    ),
    clock_tolerance_ms: whole('allowed clock difference when the times of a token are checked', [0, 600_000], {
      default: 30_000,
    }),
    subject_claim: text('claim with the name of the caller, which owns jobs and quotas and appears in the audit log', {
      default: 'sub',
    }),
    scopes_claim: text(
      'claim with scopes, separated by spaces or as a list; a path such as a.b selects a nested claim',
      {
        default: 'scope',
      },
    ),
    models_claim: maybe(
      'claim with the ids of the permitted models, * for all; a token without the claim permits none',
      {
        otherwise: 'all models',
      },
    ),
    roles_claim: maybe('claim with roles or groups, such as realm_access.roles', { otherwise: 'no roles' }),
    roles: Type.Record(Type.String(), Type.Object({ scopes, models }, closed), {
      default: {},
      description: 'permissions of a role; other values of roles_claim are ignored',
    }),
    console: Type.Optional(
      Type.Object(
        {
          client_id: text('public client (code flow with PKCE, no secret) registered for the console'),
          scope: text('requested scopes', { default: 'openid' }),
          resource: maybe('resource parameter of the requests (RFC 8707)', { otherwise: 'not sent' }),
        },
        {
          ...closed,
          description:
            'login to the console through this provider, which must permit requests from its page (CORS) and the redirect to /console; default: none',
        },
      ),
    ),
    keys_refresh_ms: whole('interval for reading the signing keys; a withdrawn key is accepted for this long', [1000], {
      default: 300_000,
    }),
    keys_cooldown_ms: whole('minimum interval between readings caused by unknown keys', [100], { default: 30_000 }),
    keys_max_age_ms: whole(
      'time for which the last known keys are accepted while the provider is unreachable; afterwards its tokens get 503',
      [1000],
      {
        default: 4 * 3_600_000,
      },
    ),
  },
  closed,
);

export type IssuerConfig = Static<typeof IssuerSchema>;

/** A whole number of at least one. */
const atLeastOne = (value: number, description: string) => whole(description, [1], { default: value });
/** A whole number of at least zero. */
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
            'PEM file with the authorities of accepted client certificates; reloaded when it changes; see docs/identity.md',
            { otherwise: 'no client certificates are requested' },
          ),
          client_certificates: choice(
            'request: clients without a certificate may use a key or token; require: clients without a valid certificate cannot connect, not even to the health endpoints',
            ['request', 'require'],
            { default: 'request' },
          ),
          client_crl: maybe(
            'PEM file with revocation lists (CRLs), one for every authority of a client certificate chain; reloaded when it changes',
            { otherwise: 'revocation is not checked' },
          ),
        },
        { ...closed, description: 'HTTPS by this server' },
      ),
    ),
    behind_tls_proxy: Type.Optional(
      Type.Array(Type.String(), {
        description: 'addresses of the proxies that terminate TLS; the server accepts HTTP from these addresses only',
      }),
    ),
    client_address: choice(
      'source of the client address: the connection, or the last address in X-Forwarded-For that is not in behind_tls_proxy; the proxies must append to this header',
      ['connection', 'x_forwarded_for'],
      { default: 'connection' },
    ),
    proxy_streams: Type.Boolean({
      default: false,
      description:
        'true: the proxies pass on a response while its request still arrives, over HTTP/1.1, as HAProxy does and nginx does not; false: responses wait for the end of the request body and have a length',
    }),
    registry: Type.Optional(registryAddress()),
    registry_options: RegistryOptionsSchema,
    require_lock: Type.Optional(SCORING.require_lock({ otherwise: '$SLUICE_REQUIRE_LOCK, else false' })),
    require_signature: Type.Optional(
      SCORING.require_signature({ otherwise: '$SLUICE_REQUIRE_SIGNATURE, else signatures are not required' }),
    ),
    require_signer: Type.Optional(
      SCORING.require_signer_list({ otherwise: '$SLUICE_REQUIRE_SIGNER, else every certificate that is trusted' }),
    ),
    require_approval: Type.Optional(
      SCORING.require_approval({ otherwise: '$SLUICE_REQUIRE_APPROVAL, else approvals are not required' }),
    ),
    keys_file: Type.String({
      default: 'keys.yaml',
      description: 'API keys, written by `sluice keys`; reloaded when it changes',
    }),
    oidc: Type.Array(IssuerSchema, {
      default: [],
      description: 'identity providers whose tokens are accepted in addition to API keys; see docs/identity.md',
    }),
    workers: Type.Optional(SCORING.workers({ otherwise: 'one per core' })),
    evaluator: SCORING.evaluator({ default: 'auto' }),
    pipelines: Type.Array(Type.String({ minLength: 1 }), {
      default: [],
      description: 'pipeline files with an upload as their source; served as POST /api/v1/pipelines/NAME',
    }),
    pipeline_members: Type.Array(Type.String({ pattern: '^https?://[^/?#]+/?$' }), {
      default: [],
      description:
        'metrics addresses of `sluice run` processes, such as http://scoring:9464, which GET /api/v1/pipelines reads; if a host name has several addresses, each address is a process',
    }),
    run_records: maybe('folder with the records of `score --run-records` and of pipelines, for GET /api/v1/runs', {
      otherwise: 'no runs are listed',
    }),
    console: Type.Optional(
      Type.Union(
        [
          Type.Boolean({ description: 'whether the service has a console' }),
          Type.Object(
            {
              grafana: Type.Optional(
                Type.String({
                  pattern: '^https?://[^\\s]+$',
                  description: 'address of a Grafana dashboard to which the console links',
                }),
              ),
            },
            closed,
          ),
        ],
        { description: 'web page for operators at /console; false disables it; default: true' },
      ),
    ),
    preload: Type.Array(Type.String(), {
      default: [],
      description: 'models loaded before the server is ready and never unloaded',
    }),
    models_max: atLeastZero(8, 'maximum loaded models, including those of preload'),
    explain_memory_bytes: Type.Optional(
      whole('maximum memory for tables of effects, over all models and workers, bytes', [MIB], {
        otherwise: '192 MiB per core, at most a quarter of the memory',
      }),
    ),
    interpretation_aliases: Type.Array(Type.String(), {
      default: [],
      description: 'additional path prefixes under which the interpretation operations are served',
    }),
    limits: section(
      {
        body_bytes: atLeastOne(64 * 1024 * MIB, 'maximum size of a body as sent, bytes'),
        expanded_bytes: atLeastOne(256 * 1024 * MIB, 'maximum size of a body after decompression, bytes'),
        row_bytes: SCORING.record_bytes({ default: MIB }),
        rows: atLeastOne(1_000_000_000, 'maximum applications per request'),
        columns: SCORING.max_columns({ default: 2000 }),
        nesting_depth: atLeastOne(16, 'maximum nesting depth of a JSON application'),
        concurrent_requests: atLeastOne(64, 'maximum predict requests processed at once, over all keys'),
        queued_requests: atLeastZero(256, 'maximum predict requests waiting'),
        concurrent_requests_per_key: atLeastOne(32, 'maximum predict requests per key, including waiting ones'),
        requests_per_second_per_key: atLeastOne(
          10_000,
          'maximum predict requests per key and second, with bursts of the same size',
        ),
        failed_logins_per_minute_per_address: atLeastOne(
          60,
          'maximum failed logins per address (IPv6: per /64 network) that get 401; further ones get 400 limit_exceeded',
        ),
        header_bytes: atLeastOne(16 * 1024, 'maximum size of a request header, bytes'),
        model_bytes: atLeastOne(1024 * MIB, 'maximum size of an uploaded model package, bytes'),
        concurrent_model_uploads_per_key: atLeastOne(
          4,
          'maximum model packages per key that are uploaded or validated at once',
        ),
      },
      'limits per request, per key and in total',
    ),
    timeouts: section(
      {
        head_ms: atLeastZero(10_000, 'timeout of the request header'),
        body_idle_ms: atLeastZero(60_000, 'timeout between two parts of the request body'),
        body_min_bytes_per_second: atLeastZero(
          64,
          'minimum speed of a request body after the first body_idle_ms; a slower request ends with an error',
        ),
        answer_idle_ms: atLeastZero(120_000, 'a client that reads nothing for this long is disconnected'),
        keep_alive_ms: atLeastZero(65_000, 'idle connections are closed after this time'),
        stop_ms: atLeastZero(30_000, 'maximum time for responses in progress to finish when the server stops'),
      },
      'timeouts of the server',
    ),
    spill: section(
      {
        folder: Type.Optional(
          Type.String({ description: 'folder for the temporary files; default: the temporary folder of the system' }),
        ),
        max_bytes: atLeastOne(
          8 * 1024 * MIB,
          'maximum bytes per request: of a response that the client has not read yet, and of a Parquet file',
        ),
      },
      'temporary files: responses to clients that send the whole body before they read, and Parquet files',
    ),
    log: section(
      {
        format: LOGGING.format({ default: 'auto' }),
        level: LOGGING.level({ default: 'info' }),
        requests_per_second: atLeastZero(
          50,
          'maximum successful requests per route and second that are logged individually',
        ),
        sample_one_in: atLeastOne(
          100,
          'of N further successful requests, one is logged, with the number of requests that it represents',
        ),
      },
      'the log on standard error; see docs/logs.md',
    ),
    tracing: section(
      {
        otlp_endpoint: Type.Optional(
          Type.String({
            description:
              'address to which spans are sent, such as http://collector:4318 (OTLP over HTTP); default: $OTEL_EXPORTER_OTLP_ENDPOINT, else spans are not sent',
          }),
        ),
        traces_per_second: atLeastZero(
          10,
          'maximum new traces recorded per second, unless $OTEL_TRACES_SAMPLER_ARG sets a share; for continued traces, the decision of the caller applies',
        ),
      },
      'traces; see docs/logs.md',
    ),
    cors: section(
      {
        origins: Type.Array(Type.String(), {
          default: [],
          description:
            'web origins that may call the service, such as https://desk.bank.example, or * for all; default: none',
        }),
        max_age_s: atLeastZero(600, 'time for which browsers may cache the permission (Access-Control-Max-Age)'),
      },
      'requests from web pages of other origins',
    ),
    compression: section(
      {
        level: Type.Integer({
          minimum: 0,
          maximum: 9,
          default: 0,
          description:
            'compression level of responses to clients that accept zstd or gzip: 0 none, 1 fastest, 9 smallest',
        }),
      },
      'compression of responses; see docs/serve.md',
    ),
    audit: Type.Optional(
      Type.Object(
        {
          file: text('audit log file; a full file is renamed with the number of its last record'),
          sync: choice(
            'when records are synced to disk: batch: with each batch; second: once a second; none: when the system decides',
            ['batch', 'second', 'none'],
            { default: 'second' },
          ),
          on_failure: choice(
            'while records cannot be written: refuse audited operations with 503, or continue without records',
            ['refuse', 'continue'],
            { default: 'refuse' },
          ),
          address: choice(
            'client addresses in records: full, network only (24 bits of IPv4, 64 bits of IPv6), or none',
            ['full', 'network', 'none'],
            {
              default: 'full',
            },
          ),
          max_bytes: atLeastOne(256 * MIB, 'size at which a new file is started, bytes'),
        },
        {
          ...closed,
          description: 'audit log of all requests by key and model; see docs/audit-log.md; default: no audit log',
        },
      ),
    ),
    jobs: section(
      {
        folder: Type.String({ default: 'jobs', description: 'folder for uploads, results and the job table' }),
        keep_ms: atLeastZero(24 * 3600 * 1000, 'time after which finished jobs are deleted'),
        max_jobs: atLeastOne(1000, 'maximum stored jobs per key'),
        upload_ttl_ms: atLeastOne(24 * 3600 * 1000, 'time without new data after which a resumable upload is removed'),
        max_bytes: atLeastOne(
          100 * 1024 * MIB,
          'maximum bytes of uploads and results per key, including those being written',
        ),
        concurrent: atLeastOne(
          1,
          'maximum jobs scored at once; up to 16 more jobs run for keys that have no running job, and the keys take turns on the workers',
        ),
        max_crashes: atLeastOne(
          3,
          'a job fails with job_crashed after this many servers crashed while running it; after the first crash it runs alone',
        ),
        shared: Type.Optional(
          Type.Object(
            {
              database: section(database({ connect: 2000, statement: 5000 }), 'PostgreSQL database of the job table'),
              table: Type.String({
                default: 'sluice_jobs',
                minLength: 1,
                maxLength: 100,
                description:
                  'table or schema.table, created if missing, with two further tables ending in _meta and _uploads',
              }),
              files: Type.String({
                pattern: '^s3://[a-z0-9][a-z0-9.-]{1,62}/.+$',
                description:
                  'uploads and results: s3://bucket/prefix; the connection is set by $AWS_ENDPOINT_URL, $AWS_REGION and the other AWS variables',
              }),
              lease_ms: whole(
                'duration of a lease on a job; a server renews it every fifth of this time, and another server takes over an expired one',
                [1000],
                { default: 15_000 },
              ),
            },
            {
              ...closed,
              description: 'several servers share one job table; `folder` is not used; see replicas.md',
            },
          ),
        ),
        lock_wait_ms: atLeastZero(45_000, 'maximum wait for another server to stop using the folder'),
      },
      'asynchronous jobs',
    ),
  },
  closed,
);

export type ServerConfig = Static<typeof ServerConfigSchema>;
