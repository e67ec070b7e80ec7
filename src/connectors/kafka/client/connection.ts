// How brokers are reached: addresses, TLS, login and time limits, and where their secrets are read.
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { SluiceError } from '../../../core/errors.ts';

/** A password is read when the client is made, from a file (one trailing line end is dropped) or the environment. */
type SecretSource = { file: string } | { env: string };

export interface KafkaTls {
  /** PEM; default: the certificate authorities of Node. */
  caFile?: string;
  /** PEM certificate and key of this client. */
  certFile?: string;
  keyFile?: string;
  keyPassphrase?: SecretSource;
  /** Name the broker's certificate must carry, where it is not the address. */
  serverName?: string;
}

export interface PasswordLogin {
  mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  username: string;
  password: SecretSource;
}

/** OAUTHBEARER (RFC 7628): with a token renewed by another process, or with tokens of a token endpoint. */
export interface BearerLogin {
  mechanism: 'oauthbearer';
  /** Read again for every login. */
  token?: SecretSource;
  endpoint?: TokenEndpoint;
  /** Sent with the token, such as logicalCluster. */
  extensions?: Readonly<Record<string, string>>;
}

/** Tokens by the client credentials grant (RFC 6749, 4.4). */
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
  /** host:port, at least one; the others are discovered. */
  brokers: readonly string[];
  /** Default: sluice. */
  clientId?: string;
  tls?: boolean | KafkaTls;
  sasl?: KafkaLogin;
  /** Rack of this machine: lets brokers point to a nearer replica. */
  rack?: string;
  /** Default 10,000. */
  connectTimeoutMs?: number;
  /** Default 30,000. */
  requestTimeoutMs?: number;
}

/** What Node's TLS takes. @throws SluiceError kafka_config when a file or variable cannot be read */
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
