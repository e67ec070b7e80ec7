// Maps errors of kafkajs to codes of the catalogue.
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import { causesOf } from '../client/failures.ts';
import { CODEC_FAILED } from './register-codecs.ts';
import { OFFSET_LOST } from './repairs.ts';

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

/** The SluiceError for anything kafkajs threw. Its message is that of the client: addresses and names, no contents. */
export function kafkajsError(error: unknown, during: string): SluiceError {
  const told = causesOf(error).find((e) => e instanceof SluiceError);
  if (told) return told;
  const message = causesOf(error).at(-1)?.message ?? String(error);
  return new SluiceError(codeOf(error), `${during}: ${message}`, { cause: error });
}
