// Connection settings of brokers: addresses, TLS, login and time limits; reads their secrets.
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { SluiceError } from '../../../core/errors.ts';

/** A secret is read when it is needed: from the environment, or from a file, without one trailing line end. */
type SecretSource = { file: string } | { env: string };

export interface KafkaTls {
  /** PEM file; default: Node's certificate authorities. */
  caFile?: string;
  /** PEM files of this client's certificate and key. */
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

/** OAUTHBEARER (RFC 7628), with a token that another process renews or with tokens from a token endpoint. */
export interface BearerLogin {
  mechanism: 'oauthbearer';
  /** Read again for every login. */
  token?: SecretSource;
  endpoint?: TokenEndpoint;
  /** Sent with the token, such as logicalCluster. */
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
  /** Longest wait for an answer, ms. Default 10,000. */
  timeoutMs?: number;
}

export type KafkaLogin = PasswordLogin | BearerLogin;

export interface KafkaConnection {
  /** At least one address as host:port; the client discovers the other brokers. */
  brokers: readonly string[];
  /** Default: sluice. */
  clientId?: string;
  tls?: boolean | KafkaTls;
  sasl?: KafkaLogin;
  /** Rack of this machine, so that the client can read from a nearer replica. */
  rack?: string;
  /** Default 10,000. */
  connectTimeoutMs?: number;
  /** Default 30,000. */
  requestTimeoutMs?: number;
}

/** Options for Node's TLS. @throws SluiceError kafka_config when a file or variable cannot be read */
export function tlsOptions(tls: boolean | KafkaTls | undefined): ConnectionOptions | boolean | undefined {
  return tls === undefined || typeof tls === 'boolean' ? tls : tlsOf(tls);
}

/** @throws SluiceError kafka_config when a file cannot be read */
export function tlsOf(tls: KafkaTls): ConnectionOptions {
  return {
    ...(tls.caFile ? { ca: readText(tls.caFile) } : {}),
    ...(tls.certFile ? { cert: readText(tls.certFile) } : {}),
    ...(tls.keyFile ? { key: readText(tls.keyFile) } : {}),
    ...(tls.keyPassphrase ? { passphrase: readSecret(tls.keyPassphrase) } : {}),
    ...(tls.serverName ? { servername: tls.serverName } : {}),
  };
}

/** @throws SluiceError kafka_config when the file or variable is missing */
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
