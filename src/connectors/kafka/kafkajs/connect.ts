// Creates kafkajs clients from connection settings: adds destroyable sockets, token logins, codecs, and error codes.
import { connect as connectPlain, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import type {
  AuthenticationProviderArgs,
  ISocketFactory,
  ISocketFactoryArgs,
  Kafka,
  KafkaConfig,
  LogEntry,
  Mechanism,
  SASLOptions,
  SaslAuthenticateArgs,
} from 'kafkajs';
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { BEARER_FAREWELL, bearerMessage, bearerRefusal, bearerTokens } from '../client/bearer-tokens.ts';
import { type BatchCompression, type PackedCompression, packBatch, unpackBatch } from '../client/codecs.ts';
import {
  type BearerLogin,
  type KafkaConnection,
  type KafkaLogin,
  readSecret,
  tlsOptions,
} from '../client/connection.ts';
import { causesOf } from '../client/failures.ts';
import type { KafkaLogEntry } from '../client/kafka-client.ts';
import kafkajs, { closedClients, OFFSET_LOST } from './repairs.ts';

const { CompressionTypes, CompressionCodecs } = kafkajs;

/** Retries within kafkajs, in addition to the retries of Sluice. They take longer than the restart of a broker. */
const RETRY = { initialRetryTime: 50, maxRetryTime: 1000, retries: 8 };
const KEEP_ALIVE_DELAY_MS = 60_000;
const LEVELS = ['error', 'error', 'warn', 'warn', 'info', 'debug'] as const;
/** The fields of a log entry that are kept. All other fields are dropped. */
const SAFE_FIELDS = ['broker', 'clientId', 'groupId', 'topic', 'partition', 'error', 'retryCount', 'retryTime', 'type'];

export interface KafkajsHandle {
  readonly kafka: Kafka;
  /**
   * Destroys all sockets and prevents new connections. A socket that kafkajs forgets to close would keep the process
   * alive. Idempotent.
   */
  destroy(): void;
}

/**
 * Opens a client. Each consumer and producer needs its own client, because kafkajs shares committed offsets within a
 * client.
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
    destroy() {
      closedClients.add(socketFactory);
      // kafkajs cancels pending requests only if a socket is destroyed with an error.
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

const LENGTH_BYTES = 4;

/**
 * SASL OAUTHBEARER. The mechanism of kafkajs treats every answer of the broker as success, so a rejected token would
 * appear as a broken connection. `prepare` runs before each login. If it fails, the current login stays valid.
 */
function bearerMechanism(login: BearerLogin): Mechanism & { prepare(): Promise<void> } {
  const tokens = bearerTokens(login);
  return {
    mechanism: 'oauthbearer',
    prepare: () =>
      withoutRetries(async () => {
        await tokens.credential();
      }),
    authenticationProvider: ({ saslAuthenticate }: AuthenticationProviderArgs) => ({
      authenticate: () =>
        withoutRetries(async () => {
          const say = async (bytes: Buffer) => (await saslAuthenticate(message(bytes))) ?? null;
          const answer = await say(bearerMessage(await tokens.credential())).catch((error: unknown) => {
            const refused = causesOf(error).some((e) => 'type' in e && e.type === 'SASL_AUTHENTICATION_FAILED');
            throw refused ? tokens.refused('SASL_AUTHENTICATION_FAILED') : error;
          });
          const refusal = bearerRefusal(answer);
          if (refusal !== null) {
            await say(BEARER_FAREWELL).catch(() => {});
            throw tokens.refused(refusal);
          }
          tokens.accepted();
        }),
    }),
  };
}

/** A message with its length prefix, as kafkajs expects it from a login mechanism. */
const message = (bytes: Buffer): SaslAuthenticateArgs<Buffer> => ({
  request: {
    encode() {
      const framed = Buffer.alloc(LENGTH_BYTES + bytes.length);
      framed.writeInt32BE(bytes.length);
      bytes.copy(framed, LENGTH_BYTES);
      return framed;
    },
  },
  response: { decode: (raw) => raw, parse: (raw) => raw.subarray(LENGTH_BYTES) },
});

/** Prevents that kafkajs retries: it would repeat unknown errors a dozen times. */
async function withoutRetries(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw Object.assign(new kafkajs.KafkaJSNonRetriableError(error.message), { cause: error });
  }
}

export const COMPRESSION_TYPES: Readonly<Record<BatchCompression, number>> = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
};

const CODEC_FAILED = 'SluiceCodecFailed';

/** Throws a non-retriable error, because a retry reads the same corrupt bytes. */
const refuse = (name: string) => (cause: unknown) => {
  const error = new kafkajs.KafkaJSNonRetriableError(
    `a batch compressed with ${name} cannot be decompressed: ${cause instanceof Error ? cause.message : 'unknown reason'}`,
  );
  throw Object.assign(error, { name: CODEC_FAILED });
};

/**
 * Adds the codecs that kafkajs lacks. Replaces its gzip codec, which ignores all bytes after the first member.
 * Idempotent.
 */
function registerCodecs(): void {
  const codecs: Record<number, unknown> = CompressionCodecs;
  for (const name of Object.keys(COMPRESSION_TYPES) as BatchCompression[]) {
    if (name === 'none') continue;
    const compression: PackedCompression = name;
    codecs[COMPRESSION_TYPES[name]] = () => ({
      compress: ({ buffer }: { buffer: Buffer }) => packBatch(buffer, compression),
      decompress: (packed: Buffer) => unpackBatch(packed, compression).catch(refuse(name)),
    });
  }
}

interface ClientError extends Error {
  type?: string;
  retriable?: boolean;
  code?: string | number;
}

const AUTHENTICATION = ['KafkaJSSASLAuthenticationError'];
const AUTHENTICATION_TYPES = ['SASL_AUTHENTICATION_FAILED', 'UNSUPPORTED_SASL_MECHANISM', 'ILLEGAL_SASL_STATE'];
const TLS_CODES =
  /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)|self.signed|certificate|wrong version number/i;
const UNREACHABLE = [
  'KafkaJSConnectionError',
  'KafkaJSConnectionClosedError',
  'KafkaJSBrokerNotFound',
  'KafkaJSNoBrokerAvailableError',
  'KafkaJSRequestTimeoutError',
];

function codeOf(error: unknown): ErrorCode {
  const errors: ClientError[] = causesOf(error);
  const named = (...names: string[]) => errors.some((e) => names.includes(e.name));
  const typed = (match: RegExp) => errors.some((e) => e.type !== undefined && match.test(e.type));
  if (named(OFFSET_LOST)) return 'kafka_offset_lost';
  if (named(CODEC_FAILED, 'KafkaJSNotImplemented')) return 'kafka_codec';
  if (named(...AUTHENTICATION) || errors.some((e) => AUTHENTICATION_TYPES.includes(e.type ?? ''))) {
    return 'kafka_authentication';
  }
  if (errors.some((e) => TLS_CODES.test(String(e.code ?? '')) || /certificate|SSL routines/i.test(e.message))) {
    return 'kafka_authentication';
  }
  if (typed(/^FENCED_INSTANCE_ID$/)) return 'kafka_instance_taken';
  if (typed(/^(REBALANCE_IN_PROGRESS|ILLEGAL_GENERATION|UNKNOWN_MEMBER_ID)$/)) return 'kafka_rebalanced';
  if (typed(/_AUTHORIZATION_FAILED$/)) return 'kafka_not_authorized';
  if (typed(/^(UNKNOWN_TOPIC_OR_PARTITION|INVALID_TOPIC_EXCEPTION)$/)) return 'kafka_topic_missing';
  if (typed(/^(MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE)$/)) return 'kafka_record_too_large';
  if (typed(/^INVALID_TIMESTAMP$/)) return 'kafka_time_refused';
  return named(...UNREACHABLE) ? 'kafka_unreachable' : 'kafka_failed';
}

/**
 * Converts an error of kafkajs to a SluiceError. The message of kafkajs contains addresses and names, never the
 * contents of records.
 */
export function kafkajsError(error: unknown, during: string): SluiceError {
  const coded = causesOf(error).find((e) => e instanceof SluiceError);
  if (coded) return coded;
  const message = causesOf(error).at(-1)?.message ?? String(error);
  return new SluiceError(codeOf(error), `${during}: ${message}`, { cause: error });
}
