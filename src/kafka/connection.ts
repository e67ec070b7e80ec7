// From the connection settings to a kafkajs client: addresses, TLS, login, time limits and where its log goes.
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import type { Kafka, KafkaConfig, LogEntry, SASLOptions } from 'kafkajs';
import { SluiceError } from '../core/errors.ts';
import { registerCodecs } from './codecs.ts';
import kafkajs from './kafkajs.ts';
import type { KafkaLogEntry } from './observer.ts';

/** A password is read when the client is made, from a file (one trailing line end is dropped) or the environment. */
export type SecretSource = { file: string } | { env: string };

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

export interface KafkaLogin {
  mechanism: 'plain' | 'scram-sha-256' | 'scram-sha-512';
  username: string;
  password: SecretSource;
}

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

/** Attempts of kafkajs before it gives an error up; ours come on top. Spans the restart of a broker. */
const RETRY = { initialRetryTime: 50, maxRetryTime: 1000, retries: 8 };
const LEVELS = ['error', 'error', 'warn', 'warn', 'info', 'debug'] as const;
/** Allowed fields of a log entry; everything else is dropped. */
const SAFE_FIELDS = ['broker', 'clientId', 'groupId', 'topic', 'partition', 'error', 'retryCount', 'retryTime', 'type'];

/**
 * A client of its own for each use: kafkajs shares committed offsets between consumers and producers of one client.
 * @throws SluiceError kafka_config when a file or variable cannot be read
 */
export function kafkaClient(connection: KafkaConnection, onLog?: (entry: KafkaLogEntry) => void): Kafka {
  registerCodecs();
  if (connection.brokers.length === 0) throw new SluiceError('kafka_config', 'no broker address is given');
  const ssl = tlsOptions(connection.tls);
  const config: KafkaConfig = {
    brokers: [...connection.brokers],
    clientId: connection.clientId ?? 'sluice',
    connectionTimeout: connection.connectTimeoutMs ?? 10_000,
    requestTimeout: connection.requestTimeoutMs ?? 30_000,
    retry: { ...RETRY, restartOnFailure: async () => false },
    logLevel: onLog ? kafkajs.logLevel.INFO : kafkajs.logLevel.NOTHING,
    logCreator: () => (entry) => onLog?.(logEntry(entry)),
    ...(ssl === undefined ? {} : { ssl }),
    ...(connection.sasl ? { sasl: saslOptions(connection.sasl) } : {}),
  };
  return new kafkajs.Kafka(config);
}

function tlsOptions(tls: boolean | KafkaTls | undefined): ConnectionOptions | boolean | undefined {
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

const saslOptions = ({ mechanism, username, password }: KafkaLogin): SASLOptions => ({
  mechanism,
  username,
  password: readSecret(password),
});

/** @throws SluiceError kafka_config when the file or variable is not there */
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

function logEntry({ level, namespace, log }: LogEntry): KafkaLogEntry {
  const detail: Record<string, string | number | boolean> = {};
  for (const field of SAFE_FIELDS) {
    const value: unknown = log[field];
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') detail[field] = value;
  }
  return { level: LEVELS[level] ?? 'debug', source: namespace, message: log.message, detail };
}
