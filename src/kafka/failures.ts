// Maps errors of kafkajs to codes of the catalogue, and decides whether retrying makes sense.
import { type ErrorCode, SluiceError } from '../core/errors.ts';
import { CODEC_FAILED } from './codecs.ts';
import { OFFSET_LOST } from './kafkajs.ts';

interface ClientError extends Error {
  type?: string;
  retriable?: boolean;
  code?: string | number;
}

/** The error and its causes, outermost first: kafkajs wraps errors, and the innermost one is the actual cause. */
function chain(error: unknown): ClientError[] {
  const found: ClientError[] = [];
  for (let e = error; e instanceof Error && found.length < 8; e = e.cause) found.push(e as ClientError);
  return found;
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
  const errors = chain(error);
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
  if (typed(/_AUTHORIZATION_FAILED$/)) return 'kafka_not_authorized';
  if (typed(/^(UNKNOWN_TOPIC_OR_PARTITION|INVALID_TOPIC_EXCEPTION)$/)) return 'kafka_topic_missing';
  if (typed(/^(MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE)$/)) return 'kafka_record_too_large';
  return named(...UNREACHABLE) ? 'kafka_unreachable' : 'kafka_failed';
}

/** The SluiceError for anything the client threw. Its message is that of the client: addresses and names, no contents. */
export function kafkaError(error: unknown, during: string): SluiceError {
  if (error instanceof SluiceError) return error;
  const innermost = chain(error).at(-1);
  const message = innermost?.message ?? String(error);
  return new SluiceError(codeOf(error), `${during}: ${message}`, { cause: error });
}

const HOPELESS: readonly ErrorCode[] = [
  'kafka_config',
  'kafka_codec',
  'kafka_authentication',
  'kafka_not_authorized',
  'kafka_topic_missing',
  'kafka_offset_lost',
];

/** Whether retrying is pointless: the error ends the run. */
export const isHopeless = (error: SluiceError): boolean => HOPELESS.includes(error.code);

/** One line for a counter's label or a log: the protocol's name of the error, or that of its class. */
export function reasonOf(error: unknown): string {
  const errors = chain(error);
  return errors.find((e) => e.type)?.type ?? (error instanceof SluiceError ? error.code : (errors.at(-1)?.name ?? ''));
}

export const isTooLarge = (error: unknown): boolean => codeOf(error) === 'kafka_record_too_large';
