// Opens a remote registry by its address: `s3://bucket/prefix` or `mlflow+https://host`.

import { readFileSync } from 'node:fs';
import type { RegistryOptions } from '../../config/registry-options.ts';
import { cacheFolder } from '../../core/cache-folder.ts';
import { SluiceError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import { httpAddress } from '../../storage/http-client.ts';
import { s3Credentials } from '../../storage/s3/s3-credentials.ts';
import { MlflowStore } from './mlflow.ts';
import { type Registry, withoutSlashes } from './registry.ts';
import { RemoteRegistry, type Store } from './remote.ts';
import { S3Store } from './s3.ts';
import type { Approvals } from './state-journal.ts';

interface OpenRemoteOptions {
  options: RegistryOptions;
  env: Record<string, string | undefined>;
  /** Fallback registry, for ids that the remote registry does not have. */
  behind?: Registry;
  log?: Log;
  approvals?: Approvals | null;
  onRetired?: (ref: string) => void;
  onLookup?: (outcome: 'ok' | 'stale' | 'failed') => void;
}

/** Opens a registry. Does not access the network yet. @throws SluiceError usage */
export function openRemote(address: string, open: OpenRemoteOptions): RemoteRegistry {
  const { options, env } = open;
  if (open.approvals && address.startsWith('mlflow')) {
    throw new SluiceError(
      'usage',
      `${address} does not store approvals: require_approval needs a folder or object storage`,
    );
  }
  return new RemoteRegistry(openStore(address, options, env), {
    cacheFolder: options.cache_folder ?? cacheFolder(env),
    cacheMaxBytes: options.cache_max_bytes,
    refreshMs: options.refresh_ms,
    ...(open.behind ? { behind: open.behind } : {}),
    ...(open.log ? { log: open.log } : {}),
    ...(open.approvals ? { approvals: open.approvals } : {}),
    ...(open.onRetired ? { onRetired: open.onRetired } : {}),
    ...(open.onLookup ? { onLookup: open.onLookup } : {}),
  });
}

function openStore(address: string, options: RegistryOptions, env: OpenRemoteOptions['env']): Store {
  const url = URL.parse(address);
  if (!url) throw new SluiceError('usage', `the registry ${address} is neither a folder nor a supported address`);
  if (url.username || url.password || url.search || url.hash) {
    throw new SluiceError(
      'usage',
      'the address of a registry must not contain a user, password or query; see docs/registries.md',
    );
  }
  const common = { timeoutMs: options.timeout_ms, retries: options.retries };
  if (url.protocol === 's3:') {
    const region = options.region ?? env.AWS_REGION ?? env.AWS_DEFAULT_REGION ?? 'us-east-1';
    const caFile = options.ca_file ?? env.AWS_CA_BUNDLE;
    const endpoint = options.endpoint ?? env.AWS_ENDPOINT_URL_S3 ?? env.AWS_ENDPOINT_URL;
    return new S3Store(withoutSlashes(decodeURIComponent(url.pathname)), {
      ...common,
      name: address,
      bucket: url.host,
      region,
      endpoint: addressOf('endpoint', endpoint ?? `https://s3.${region}.amazonaws.com`),
      pathStyle: options.path_style ?? endpoint !== undefined,
      credentials: s3Credentials(env, { region, caFile, profile: options.profile }),
      caFile,
    });
  }
  if (url.protocol === 'mlflow+https:' || url.protocol === 'mlflow+http:') {
    return new MlflowStore({
      ...common,
      name: address,
      address: addressOf('registry', address.slice('mlflow+'.length)),
      experiment: options.experiment,
      authorization: mlflowAuthorization(options, env),
      caFile: options.ca_file ?? env.MLFLOW_TRACKING_SERVER_CERT_PATH,
    });
  }
  throw new SluiceError('usage', `the registry ${address} must be a folder, s3://, mlflow+https:// or mlflow+http://`);
}

const addressOf = (what: string, text: string): URL => httpAddress(`${what} ${text}`, text);

/**
 * The value of the Authorization header; undefined without authentication. The value is read before each request,
 * because tokens are rotated.
 */
function mlflowAuthorization(options: RegistryOptions, env: OpenRemoteOptions['env']): () => string | undefined {
  const username = options.username ?? env.MLFLOW_TRACKING_USERNAME;
  return () => {
    const token = options.token_file ? secret('token_file', options.token_file) : env.MLFLOW_TRACKING_TOKEN;
    if (token && username === undefined) return `Bearer ${token}`;
    if (username === undefined) return undefined;
    const password = options.password_file
      ? secret('password_file', options.password_file)
      : (env.MLFLOW_TRACKING_PASSWORD ?? '');
    return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`;
  };
}

function secret(option: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (cause) {
    throw new SluiceError('registry_unavailable', `${option} ${file} cannot be read`, { cause });
  }
}
