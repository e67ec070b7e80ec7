// Options of remote registries and of their package cache. The options come from the configuration of `serve` or from
// the environment.
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { didYouMean } from '../core/did-you-mean.ts';
import { SluiceError } from '../core/errors.ts';

const closed = { additionalProperties: false };
const text = (description: string) => Type.Optional(Type.String({ description }));
const GIB = 1024 ** 3;

export const RegistryOptionsSchema = Type.Object(
  {
    cache_folder: text('folder for packages on disk; default: $XDG_CACHE_HOME/sluice, else ~/.cache/sluice'),
    cache_max_bytes: Type.Integer({
      minimum: 1,
      default: 10 * GIB,
      description:
        'maximum size of the cached packages; the least recently used packages are removed first, packages in use never',
    }),
    refresh_ms: Type.Integer({
      minimum: 100,
      default: 5000,
      description: 'interval at which aliases and versions in use are looked up in the background',
    }),
    timeout_ms: Type.Integer({
      minimum: 100,
      default: 5000,
      description: 'timeout of a call, and of a transfer that makes no progress',
    }),
    retries: Type.Integer({ minimum: 0, maximum: 10, default: 3, description: 'retries of a failed call' }),
    ca_file: text('PEM file with trusted certificate authorities, instead of the authorities of the system'),
    endpoint: text(
      's3: address of the server; default: $AWS_ENDPOINT_URL_S3, else $AWS_ENDPOINT_URL, else the address of the region',
    ),
    region: text('s3: region; default: $AWS_REGION, else $AWS_DEFAULT_REGION, else us-east-1'),
    path_style: Type.Optional(
      Type.Boolean({
        description: 's3: the bucket is part of the path instead of the host; default: true with an endpoint',
      }),
    ),
    profile: text('s3: section of the shared credentials file; default: $AWS_PROFILE, else default'),
    username: text('mlflow: user of basic authentication; default: $MLFLOW_TRACKING_USERNAME'),
    password_file: text('mlflow: file with the password; default: the password in $MLFLOW_TRACKING_PASSWORD'),
    token_file: text('mlflow: file with a bearer token; default: the token in $MLFLOW_TRACKING_TOKEN'),
    experiment: Type.String({ default: 'sluice', description: 'mlflow: experiment whose runs hold added packages' }),
  },
  { ...closed, default: {}, description: 'options of a registry other than a folder; see registries.md' },
);

export type RegistryOptions = Static<typeof RegistryOptionsSchema>;

const PREFIX = 'SLUICE_REGISTRY_OPTIONS__';

/** Reads the options from the environment, for commands that have no configuration file. @throws SluiceError usage */
export function registryOptions(env: Record<string, string | undefined>): RegistryOptions {
  const given: Record<string, string> = {};
  const known = Object.keys(RegistryOptionsSchema.properties);
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith(PREFIX) || value === undefined) continue;
    const key = name.slice(PREFIX.length).toLowerCase();
    if (!known.includes(key)) throw new SluiceError('usage', `${name}: no such option${didYouMean(key, known)}`);
    given[key] = value;
  }
  const options = Value.Default(RegistryOptionsSchema, Value.Convert(RegistryOptionsSchema, given));
  if (Value.Check(RegistryOptionsSchema, options)) return options;
  const [error] = Value.Errors(RegistryOptionsSchema, options);
  throw new SluiceError('usage', `registry options: ${error?.instancePath.slice(1)} ${error?.message}`);
}
