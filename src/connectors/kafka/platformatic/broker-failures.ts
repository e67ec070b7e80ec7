// Internal errors of this client, and their conversion to SluiceErrors, so that no error of the library reaches callers.
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';

/** Error of partitions that were not processed because another partition failed. */
const NOT_THE_REASON = 'OPERATION_NOT_ATTEMPTED';

/**
 * The broker rejected a request. `ids` are the Kafka protocol's error names; the first meaningful name determines the
 * `type`.
 */
export class Refusal extends Error {
  /** The first of `ids` that names the reason. */
  readonly type: string;
  readonly ids: readonly string[];
  /** The response as the library parsed it. */
  readonly response: unknown;
  readonly #api: string;

  /** `topics`: the topics concerned, if the request covered several topics. */
  constructor(api: string, ids: readonly string[], response: unknown = null, topics: readonly string[] = []) {
    const type = ids.find((id) => id !== NOT_THE_REASON) ?? ids[0] ?? 'UNKNOWN_SERVER_ERROR';
    super(`${[api, ...topics.map((topic) => `the topic ${topic}`)].join(', ')}: ${type}`);
    this.name = 'Refusal';
    this.type = type;
    this.ids = ids;
    this.response = response;
    this.#api = api;
  }

  about(topics: readonly string[]): Refusal {
    return new Refusal(this.#api, this.ids, this.response, topics);
  }
}

/** The connection could not be opened, or was closed. */
export class NoConnection extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'NoConnection';
  }
}

/** The error for records that are damaged or compressed with an unknown codec. */
export class Unreadable extends Error {}

const PASSING = new Set([
  'COORDINATOR_LOAD_IN_PROGRESS',
  'COORDINATOR_NOT_AVAILABLE',
  'NOT_COORDINATOR',
  'LEADER_NOT_AVAILABLE',
  'NOT_LEADER_OR_FOLLOWER',
  'REPLICA_NOT_AVAILABLE',
  'BROKER_NOT_AVAILABLE',
  'REQUEST_TIMED_OUT',
  'NETWORK_EXCEPTION',
  'NOT_ENOUGH_REPLICAS',
  'NOT_ENOUGH_REPLICAS_AFTER_APPEND',
  'CONCURRENT_TRANSACTIONS',
  'UNSTABLE_OFFSET_COMMIT',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'KAFKA_STORAGE_ERROR',
  'PREFERRED_LEADER_NOT_AVAILABLE',
  'OFFSET_NOT_AVAILABLE',
  'THROTTLING_QUOTA_EXCEEDED',
  'LISTENER_NOT_FOUND',
]);
/** Errors that can mean that another broker has become the coordinator. */
const MOVED = new Set(['NOT_COORDINATOR', 'COORDINATOR_NOT_AVAILABLE']);
const REBALANCED = new Set([
  'ILLEGAL_GENERATION',
  'UNKNOWN_MEMBER_ID',
  'REBALANCE_IN_PROGRESS',
  'STALE_MEMBER_EPOCH',
  'FENCED_MEMBER_EPOCH',
  'UNRELEASED_INSTANCE_ID',
  'FENCED_INSTANCE_ID',
]);
const FENCED = new Set([
  'PRODUCER_FENCED',
  'INVALID_PRODUCER_EPOCH',
  'INVALID_PRODUCER_ID_MAPPING',
  'TRANSACTION_COORDINATOR_FENCED',
]);
const MISSING = new Set([
  'UNKNOWN_TOPIC_OR_PARTITION',
  'INVALID_TOPIC_EXCEPTION',
  'UNKNOWN_TOPIC_ID',
  'INCONSISTENT_TOPIC_ID',
]);
const TOO_LARGE = new Set(['MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE']);
const NO_LOGIN = new Set(['SASL_AUTHENTICATION_FAILED', 'UNSUPPORTED_SASL_MECHANISM', 'ILLEGAL_SASL_STATE']);
const TLS_CODES =
  /^(ERR_TLS|ERR_SSL|ERR_OSSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|EPROTO)|self.signed|certificate|SSL routines|wrong version number|answers in TLS/i;

/**
 * Explanations of errors by a missing permission or a wrong setting. The failed operation adds the names of topics and
 * groups.
 */
const WORDS: Readonly<Record<string, string>> = {
  TOPIC_AUTHORIZATION_FAILED: 'this user may not read, write or describe the topic',
  GROUP_AUTHORIZATION_FAILED: 'this user may not read as the group',
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED: 'this user may not write with the transactional id',
  CLUSTER_AUTHORIZATION_FAILED: 'this user may not write idempotently on the cluster',
  INCONSISTENT_GROUP_PROTOCOL:
    'the group contains members of a program that assigns partitions in another way: stop these members first',
};

/** Whether a retry can succeed, because the cluster and not the request is the cause. */
export const isPassing = (error: unknown): boolean =>
  error instanceof NoConnection
    ? codeOf(error) === 'kafka_unreachable'
    : error instanceof SluiceError
      ? error.code === 'kafka_token_unavailable'
      : error instanceof Refusal && PASSING.has(error.type);
export const hasMoved = (error: unknown): boolean => error instanceof Refusal && MOVED.has(error.type);
export const isRebalanced = (error: unknown): boolean => error instanceof Refusal && REBALANCED.has(error.type);
export const isMissing = (error: unknown): boolean => error instanceof Refusal && MISSING.has(error.type);
export const refusedAs = (error: unknown, id: string): boolean => error instanceof Refusal && error.type === id;

function codeOf(error: unknown): ErrorCode {
  if (error instanceof Unreadable) return 'kafka_codec';
  if (error instanceof NoConnection) {
    const causes = [error, error.cause].filter((e): e is NodeJS.ErrnoException => e instanceof Error);
    const tls = causes.some((e) => TLS_CODES.test(String(e.code ?? '')) || TLS_CODES.test(e.message));
    return tls ? 'kafka_authentication' : 'kafka_unreachable';
  }
  if (!(error instanceof Refusal)) return 'kafka_failed';
  const id = error.type;
  if (NO_LOGIN.has(id)) return 'kafka_authentication';
  if (id.endsWith('_AUTHORIZATION_FAILED')) return 'kafka_not_authorized';
  if (MISSING.has(id)) return 'kafka_topic_missing';
  if (TOO_LARGE.has(id)) return 'kafka_record_too_large';
  if (id === 'FENCED_INSTANCE_ID') return 'kafka_instance_taken';
  if (REBALANCED.has(id)) return 'kafka_rebalanced';
  if (id === 'INVALID_TIMESTAMP') return 'kafka_time_refused';
  if (id === 'OFFSET_OUT_OF_RANGE') return 'kafka_offset_lost';
  return 'kafka_failed';
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Refusal)) return error instanceof Error ? error.message : String(error);
  const why = WORDS[error.type] ?? (FENCED.has(error.type) ? 'a newer writer has this transactional id' : null);
  return why === null ? error.message : `${why} (${error.message})`;
}

/**
 * Converts an internal error to a SluiceError. Its message contains addresses and names, never the contents of records.
 */
export function failure(error: unknown, during: string): SluiceError {
  if (error instanceof SluiceError) return error;
  return new SluiceError(codeOf(error), `${during}: ${wordsOf(error)}`, { cause: error });
}
