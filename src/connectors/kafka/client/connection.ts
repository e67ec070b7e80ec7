// Connection settings for brokers (addresses, TLS, login, timeouts), and functions that read their secrets.
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { SluiceError } from '../../../core/errors.ts';

/**
 * The source of a secret: an environment variable, or a file from which one trailing line break is removed. A secret is
 * read each time it is needed.
 */
type SecretSource = { file: string } | { env: string };

export interface KafkaTls {
  /** PEM file with certificate authorities; default: those of Node.js. */
  caFile?: string;
  /** PEM file with the certificate of this client. `keyFile`: PEM file with its private key. */
  certFile?: string;
  keyFile?: string;
  keyPassphrase?: SecretSource;
  /** Name expected in the broker's certificate, if it differs from the address. */
  serverName?: string;
}

export interface PasswordLogin {
  mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  username: string;
  password: SecretSource;
}

/** OAUTHBEARER (RFC 7628), either with a token that another process renews, or with tokens from a token endpoint. */
export interface BearerLogin {
  mechanism: 'oauthbearer';
  /** The token, which is read again for every login. */
  token?: SecretSource;
  endpoint?: TokenEndpoint;
  /** SASL extensions that are sent with the token, such as logicalCluster. */
  extensions?: Readonly<Record<string, string>>;
}

/** A token endpoint with the client credentials grant (RFC 6749, 4.4). */
export interface TokenEndpoint {
  url: string;
  clientId: string;
  clientSecret: SecretSource;
  /** Default: client_secret_basic. */
  authMethod?: 'client_secret_basic' | 'client_secret_post';
  scope?: string;
  audience?: string;
  tls?: KafkaTls;
  /** Timeout for a response, ms. Default: 10,000. */
  timeoutMs?: number;
}

export type KafkaLogin = PasswordLogin | BearerLogin;

export interface KafkaConnection {
  /** At least one address as host:port; the client discovers all further brokers. */
  brokers: readonly string[];
  /** Default: sluice. */
  clientId?: string;
  tls?: boolean | KafkaTls;
  sasl?: KafkaLogin;
  /** Rack of this machine, so that the client can read from a replica in the same rack. */
  rack?: string;
  /** Timeout for connecting, ms. Default: 10,000. */
  connectTimeoutMs?: number;
  /** Timeout for a request, ms. Default: 30,000. */
  requestTimeoutMs?: number;
}

/**
 * Converts TLS settings into options for Node.js.
 * @throws SluiceError kafka_config if a file or variable cannot be read
 */
export function tlsOptions(tls: boolean | KafkaTls | undefined): ConnectionOptions | boolean | undefined {
  return tls === undefined || typeof tls === 'boolean' ? tls : tlsOf(tls);
}

/** Converts TLS settings into options for Node.js. @throws SluiceError kafka_config if a file cannot be read */
export function tlsOf(tls: KafkaTls): ConnectionOptions {
  return {
    ...(tls.caFile ? { ca: readText(tls.caFile) } : {}),
    ...(tls.certFile ? { cert: readText(tls.certFile) } : {}),
    ...(tls.keyFile ? { key: readText(tls.keyFile) } : {}),
    ...(tls.keyPassphrase ? { passphrase: readSecret(tls.keyPassphrase) } : {}),
    ...(tls.serverName ? { servername: tls.serverName } : {}),
  };
}

/** Reads a secret. @throws SluiceError kafka_config if its file or variable is missing */
export function readSecret(source: SecretSource): string {
  if ('file' in source) return readText(source.file).replace(/\r?\n$/, '');
  const value = process.env[source.env];
  if (!value) throw new SluiceError('kafka_config', `the environment variable ${source.env} is not set`);
  return value;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable';
    throw new SluiceError('kafka_config', `${file} cannot be read (${reason})`);
  }
}
