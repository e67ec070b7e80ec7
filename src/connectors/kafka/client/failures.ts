// Functions about Kafka failures, for all client libraries: whether and when to retry, and the name of an error in the Kafka protocol.
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';

/** The error and its causes, outermost first. Libraries wrap errors, so the innermost error is the actual cause. */
export function causesOf(error: unknown): Error[] {
  const found: Error[] = [];
  for (let e = error; e instanceof Error && found.length < 8; e = e.cause) found.push(e);
  return found;
}

/** Returns a SluiceError unchanged and wraps any other error as an unclassified Kafka failure. */
export function kafkaError(error: unknown, during: string): SluiceError {
  if (error instanceof SluiceError) return error;
  const message = causesOf(error).at(-1)?.message ?? String(error);
  return new SluiceError('kafka_failed', `${during}: ${message}`, { cause: error });
}

const HOPELESS: readonly ErrorCode[] = [
  'kafka_config',
  'kafka_codec',
  'kafka_authentication',
  'kafka_not_authorized',
  'kafka_topic_missing',
  'kafka_offset_lost',
  'kafka_instance_taken',
];

/** Whether a retry cannot succeed, so that the error ends the run. */
export const isHopeless = (error: SluiceError): boolean => HOPELESS.includes(error.code);

/**
 * A short name of the error for metric labels and logs: its name in the Kafka protocol (the `type` of a cause), else
 * its code or class.
 */
export function reasonOf(error: unknown): string {
  const errors = causesOf(error);
  for (const e of errors) if ('type' in e && typeof e.type === 'string') return e.type;
  return error instanceof SluiceError ? error.code : (errors.at(-1)?.name ?? '');
}

/** Upper limit of the backoff, ms. Low enough to reconnect to a recovered broker within a second or two. */
const MAX_BACKOFF_MS = 1_500;

/**
 * Exponential backoff starting at 100 ms, in ms. Jitter prevents that the members of a group retry at the same moments.
 */
export function backoffMs(failures: number): number {
  return Math.min(MAX_BACKOFF_MS, 100 * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
}
