// Temporary keys of a role, which are issued to a web identity (EKS, any OIDC issuer), a container (ECS, EKS Pod Identity), or an instance.
import http from 'node:http';
import https from 'node:https';
import { fromHttp } from '@aws-sdk/credential-provider-http';
import { fromTokenFile } from '@aws-sdk/credential-provider-web-identity';
import { fromInstanceMetadata } from '@smithy/credential-provider-imds';
import { NodeHttpHandler } from '@smithy/node-http-handler';
import { SluiceError } from '../../core/errors.ts';
import { httpAddress, type OutageCode, readCa } from '../http-client.ts';
import type { Lent } from './renewed-credentials.ts';

interface RoleOptions {
  env: Record<string, string | undefined>;
  region: string;
  /** PEM file with CA certificates, which replace the certificates of the system. */
  caFile: string | undefined;
  code: OutageCode;
}

/** Kind of role, as named in messages. */
type Lender = 'web identity' | 'container' | 'instance';

const CONNECT_MS = 5_000;
const ANSWER_MS = 20_000;
const ATTEMPTS = 4;

/** A logger that suppresses the output of the libraries, because errors are thrown and reported once. */
const nothing = () => {};
const SILENT = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** The kind of role that the environment configures. Default: `instance`, unless disabled. */
export function lenderOf(env: RoleOptions['env']): Lender | null {
  if (env.AWS_WEB_IDENTITY_TOKEN_FILE) return 'web identity';
  if (env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI || env.AWS_CONTAINER_CREDENTIALS_FULL_URI) return 'container';
  return env.AWS_EC2_METADATA_DISABLED?.toLowerCase() === 'true' ? null : 'instance';
}

/**
 * Requests keys, without caching.
 * @throws SluiceError `code` if the provider is unreachable or rejects the request; usage if environment variables
 * contradict each other
 */
export async function lend(lender: Lender, options: RoleOptions): Promise<Lent> {
  try {
    return await LENDERS[lender](options)();
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    throw new SluiceError(options.code, `no credentials ${WHENCE[lender](options)}: ${reason(cause)}`, { cause });
  }
}

const LENDERS: Record<Lender, (options: RoleOptions) => () => Promise<Lent>> = {
  'web identity': ({ env, region, caFile }) => {
    const { AWS_WEB_IDENTITY_TOKEN_FILE: webIdentityTokenFile, AWS_ROLE_ARN: roleArn } = env;
    if (!roleArn || !webIdentityTokenFile) {
      throw new SluiceError('usage', '$AWS_WEB_IDENTITY_TOKEN_FILE needs $AWS_ROLE_ARN, the role it is for');
    }
    const endpoint = stsEndpoint(env);
    const ca = readCa(caFile);
    const agents = { httpAgent: new http.Agent(), httpsAgent: new https.Agent(ca) };
    return fromTokenFile({
      webIdentityTokenFile,
      roleArn,
      roleSessionName: env.AWS_ROLE_SESSION_NAME || 'sluice',
      logger: SILENT,
      clientConfig: {
        region,
        logger: SILENT,
        maxAttempts: ATTEMPTS,
        ...(endpoint === undefined ? {} : { endpoint }),
        requestHandler: new NodeHttpHandler({
          ...agents,
          connectionTimeout: CONNECT_MS,
          requestTimeout: ANSWER_MS,
          throwOnRequestTimeout: true,
        }),
      },
    });
  },
  container: ({ env }) => {
    const said = {
      awsContainerCredentialsRelativeUri: env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI,
      awsContainerCredentialsFullUri: env.AWS_CONTAINER_CREDENTIALS_FULL_URI,
      awsContainerAuthorizationToken: env.AWS_CONTAINER_AUTHORIZATION_TOKEN,
      awsContainerAuthorizationTokenFile: env.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE,
    };
    const given = Object.fromEntries(Object.entries(said).filter(([, value]) => value));
    return fromHttp({ ...given, logger: SILENT, timeout: 1000, maxRetries: ATTEMPTS - 1 });
  },
  // The library reads $AWS_EC2_METADATA_SERVICE_ENDPOINT and similar variables from the process environment.
  instance: () =>
    fromInstanceMetadata({ timeout: 1000, maxRetries: ATTEMPTS - 1, ec2MetadataV1Disabled: true, logger: SILENT }),
};

const WHENCE: Record<Lender, (options: RoleOptions) => string> = {
  'web identity': ({ env }) => `by web identity for the role ${env.AWS_ROLE_ARN}`,
  container: ({ env }) =>
    `of the container from ${env.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI || env.AWS_CONTAINER_CREDENTIALS_FULL_URI}`,
  instance: () =>
    'in $AWS_ACCESS_KEY_ID with $AWS_SECRET_ACCESS_KEY, a credentials file, $AWS_WEB_IDENTITY_TOKEN_FILE with $AWS_ROLE_ARN or ' +
    '$AWS_CONTAINER_CREDENTIALS_FULL_URI, nor from the metadata service of an instance',
};

/** The configured endpoint of STS; undefined: the default endpoint is used. @throws SluiceError usage */
function stsEndpoint(env: RoleOptions['env']): string | undefined {
  const endpoint = env.AWS_ENDPOINT_URL_STS || env.AWS_ENDPOINT_URL;
  if (!endpoint) return undefined;
  httpAddress('$AWS_ENDPOINT_URL_STS', endpoint);
  return endpoint;
}

interface Refusal extends Error {
  Code?: string;
  Message?: string;
  code?: string;
  statusCode?: number;
}

/** Name and message of an error on one line. */
function reason(error: unknown): string {
  const { name, message, Code, Message, code, statusCode } = error as Refusal;
  // This error means that the library would retry without a session, which an instance need not support.
  if (name === 'InstanceMetadataV1FallbackError') return 'it does not answer';
  const called =
    Code ?? code ?? statusCode ?? (/^(Error|CredentialsProviderError|ProviderError)$/.test(name) ? '' : name);
  const text = [called, Message ?? message].filter(Boolean).join(': ');
  return text.slice(0, 300).replace(/\s+/g, ' ');
}
