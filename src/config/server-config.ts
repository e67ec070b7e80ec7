// The configuration of `serve`: one schema gives the type, the defaults, the validation and the reference page.
import { type Static, Type } from 'typebox';
import { RegistryOptionsSchema } from './registry-options.ts';

const closed = { additionalProperties: false };
const bytes = (value: number, description: string) => Type.Integer({ minimum: 1, default: value, description });
const whole = (value: number, description: string) => Type.Integer({ minimum: 0, default: value, description });
const section = <T extends Parameters<typeof Type.Object>[0]>(properties: T, description: string) =>
  Type.Object(properties, { ...closed, default: {}, description });

const MIB = 1024 * 1024;

export const ServerConfigSchema = Type.Object(
  {
    listen: section(
      {
        host: Type.String({ default: '0.0.0.0', description: 'address to listen on' }),
        port: Type.Integer({ minimum: 0, maximum: 65_535, default: 8443, description: '0 takes a free one' }),
      },
      'where the server listens',
    ),
    tls: Type.Optional(
      Type.Object(
        {
          certificate: Type.String({ description: 'PEM file with the certificate chain; read again when it changes' }),
          key: Type.String({ description: 'PEM file with the private key; read again when it changes' }),
        },
        { ...closed, description: 'HTTPS by this server' },
      ),
    ),
    behind_tls_proxy: Type.Optional(
      Type.Array(Type.String(), {
        description: 'addresses of the proxies that end TLS; only they are served, over HTTP',
      }),
    ),
    registry: Type.Optional(
      Type.String({ description: 'folder of model packages, s3://…, mlflow+https://…; default ./models' }),
    ),
    registry_options: RegistryOptionsSchema,
    keys_file: Type.String({
      default: 'keys.yaml',
      description: 'API keys, written by `sluice keys`; read again when it changes',
    }),
    workers: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 256, description: 'worker threads a model; default one a core' }),
    ),
    evaluator: Type.Unsafe<'auto' | 'onnxruntime' | 'native'>(
      Type.Enum(['auto', 'onnxruntime', 'native'], {
        default: 'auto',
        description: 'auto: our own evaluator where it agrees with ONNX Runtime; the others: only that one',
      }),
    ),
    preload: Type.Array(Type.String(), { default: [], description: 'models loaded before the server is ready' }),
    models_max: whole(8, 'models kept loaded at once'),
    interpretation_aliases: Type.Array(Type.String(), {
      default: [],
      description: 'further path prefixes for the interpretation operations',
    }),
    limits: section(
      {
        body_bytes: bytes(64 * 1024 * MIB, 'body as it is sent'),
        expanded_bytes: bytes(256 * 1024 * MIB, 'body after decompression'),
        row_bytes: bytes(MIB, 'one application'),
        rows: bytes(1_000_000_000, 'applications a request'),
        columns: bytes(2000, 'columns of a header row, keys of an object'),
        nesting_depth: bytes(16, 'nesting of a JSON application'),
        concurrent_requests: bytes(64, 'predict requests being answered at once, all keys together'),
        queued_requests: whole(256, 'predict requests that may wait for their turn'),
        concurrent_requests_per_key: bytes(32, 'predict requests of one key, waiting ones included'),
        requests_per_second_per_key: bytes(10_000, 'predict requests of one key, with bursts of as many'),
        header_bytes: bytes(16 * 1024, 'request head'),
        model_bytes: bytes(1024 * MIB, 'one uploaded model package'),
      },
      'what one request, one key and all together may ask for',
    ),
    timeouts: section(
      {
        head_ms: whole(10_000, 'the request head must have come by then'),
        body_idle_ms: whole(60_000, 'no byte of the body for this long ends the request'),
        body_min_bytes_per_second: whole(
          64,
          'a body that comes slower than this, beyond the first body_idle_ms, ends the request',
        ),
        answer_idle_ms: whole(120_000, 'a client that reads nothing for this long is left'),
        keep_alive_ms: whole(65_000, 'idle connections are closed after this'),
        stop_ms: whole(30_000, 'running answers may finish within this when the server stops'),
      },
      'how long the server waits',
    ),
    spill: section(
      {
        folder: Type.Optional(Type.String({ description: 'default: the folder for temporary files' })),
        max_bytes: bytes(8 * 1024 * MIB, 'answer bytes a client has not read yet, a request'),
      },
      'where answers wait for clients that send everything before they read',
    ),
    jobs: section(
      {
        folder: Type.String({ default: 'jobs', description: 'uploads, results and the job table' }),
        keep_ms: whole(24 * 3600 * 1000, 'finished jobs are kept for this long'),
        max_jobs: bytes(1000, 'jobs kept at once'),
        max_bytes: bytes(100 * 1024 * MIB, 'uploads and results kept at once'),
        concurrent: bytes(1, 'jobs being scored at once'),
      },
      'asynchronous jobs',
    ),
  },
  closed,
);

export type ServerConfig = Static<typeof ServerConfigSchema>;
