// From the connection settings to kafkajs, with a hold on every socket it opens.
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type { ISocketFactory, ISocketFactoryArgs, Kafka, KafkaConfig, LogEntry, Mechanism, SASLOptions } from 'kafkajs';
import { SluiceError } from '../../core/errors.ts';
import { type KafkaConnection, type KafkaLogin, readSecret, tlsOptions } from '../client/connection.ts';
import type { KafkaLogEntry } from '../client/kafka-client.ts';
import { bearerMechanism } from './bearer-login.ts';
import { registerCodecs } from './register-codecs.ts';
import kafkajs, { type ApiVersions, apiVersionsOf, closedClients } from './repairs.ts';

/** Attempts of kafkajs before it gives an error up; ours come on top. Spans the restart of a broker. */
const RETRY = { initialRetryTime: 50, maxRetryTime: 1000, retries: 8 };
const KEEP_ALIVE_DELAY_MS = 60_000;
const LEVELS = ['error', 'error', 'warn', 'warn', 'info', 'debug'] as const;
/** Allowed fields of a log entry; everything else is dropped. */
const SAFE_FIELDS = ['broker', 'clientId', 'groupId', 'topic', 'partition', 'error', 'retryCount', 'retryTime', 'type'];

export interface KafkajsHandle {
  readonly kafka: Kafka;
  /** Versions of the requests the brokers know; none before it was connected. */
  versions(): ApiVersions;
  /** Ends every socket at once and opens no other: what kafkajs forgets to end would keep the process alive. Idempotent. */
  destroy(): void;
}

/**
 * A client of its own for each use: kafkajs shares committed offsets between consumers and producers of one client.
 * @throws SluiceError kafka_config when a file or variable cannot be read
 */
export function openKafkajs(connection: KafkaConnection, onLog?: (entry: KafkaLogEntry) => void): KafkajsHandle {
  registerCodecs();
  if (connection.brokers.length === 0) throw new SluiceError('kafka_config', 'no broker address is given');
  const ssl = tlsOptions(connection.tls);
  const sockets = new Set<Socket>();
  const socketFactory: ISocketFactory = (args) => {
    if (closedClients.has(socketFactory)) throw new Error('the client is closed');
    const socket = openSocket(args);
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  const config: KafkaConfig = {
    brokers: [...connection.brokers],
    clientId: connection.clientId ?? 'sluice',
    connectionTimeout: connection.connectTimeoutMs ?? 10_000,
    requestTimeout: connection.requestTimeoutMs ?? 30_000,
    retry: { ...RETRY, restartOnFailure: async () => false },
    logLevel: onLog ? kafkajs.logLevel.INFO : kafkajs.logLevel.NOTHING,
    logCreator: () => (entry) => onLog?.(logEntry(entry)),
    socketFactory,
    ...(ssl === undefined ? {} : { ssl }),
    ...(connection.sasl ? { sasl: saslOptions(connection.sasl) } : {}),
  };
  return {
    kafka: new kafkajs.Kafka(config),
    versions: () => apiVersionsOf.get(socketFactory) ?? {},
    destroy() {
      closedClients.add(socketFactory);
      // With an error, because it is what makes kafkajs give up the requests it waits for.
      for (const socket of sockets) socket.destroy(new Error('the client is closed'));
    },
  };
}

function saslOptions(login: KafkaLogin): SASLOptions | Mechanism {
  if (login.mechanism === 'oauthbearer') return bearerMechanism(login);
  const { mechanism, username, password } = login;
  return { mechanism, username, password: readSecret(password) } as SASLOptions;
}

function openSocket({ host, port, ssl, onConnect }: ISocketFactoryArgs): Socket {
  const options = ssl as ConnectionOptions | boolean | undefined;
  const socket = options
    ? connectTls(
        { host, port, ...(isIP(host) ? {} : { servername: host }), ...(options === true ? {} : options) },
        onConnect,
      )
    : connectPlain({ host, port }, onConnect);
  socket.setKeepAlive(true, KEEP_ALIVE_DELAY_MS);
  return socket;
}

function logEntry({ level, namespace, log }: LogEntry): KafkaLogEntry {
  const detail: Record<string, string | number | boolean> = {};
  for (const field of SAFE_FIELDS) {
    const value: unknown = log[field];
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') detail[field] = value;
  }
  return { level: LEVELS[level] ?? 'debug', source: namespace, message: log.message, detail };
}
