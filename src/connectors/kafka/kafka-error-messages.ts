// Rewrites the messages of Kafka errors: they name the topic, group or broker concerned, and the permission or setting to change.

import { monotonicMs } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { type Log, words } from '../../core/log.ts';
import { reasonOf } from './client/failures.ts';

/** The brokers, the group and the topics of a pipeline. */
export interface KafkaPlaces {
  brokers: readonly string[];
  group: string | null;
  /** Topics that the pipeline reads. Topics may be added while the pipeline runs. */
  reads: readonly string[];
  writes: readonly string[];
}

const list = (topics: readonly string[]): string => topics.join(' and ');

/** The topic of the pipeline that the message names; null: the message names none or several. */
function named(message: string, { reads, writes }: KafkaPlaces): string | null {
  const found = [...new Set([...reads, ...writes])].filter((topic) => isNamed(message, topic));
  return found.length === 1 ? found[0]! : null;
}

/** Whether the message contains "topic NAME", and NAME is not just the beginning of a longer name. */
function isNamed(message: string, topic: string): boolean {
  const place = `topic ${topic}`;
  for (let at = message.indexOf(place); at >= 0; at = message.indexOf(place, at + 1)) {
    const behind = message[at + place.length] ?? ' ';
    if (!/[\w.-]/.test(behind)) return true;
  }
  return false;
}

function denied(reason: string, message: string, places: KafkaPlaces): string | null {
  const { group, reads, writes } = places;
  switch (reason) {
    case 'GROUP_AUTHORIZATION_FAILED':
      return `this user may not read as the group ${group}: grant READ on the group ${group}`;
    case 'TRANSACTIONAL_ID_AUTHORIZATION_FAILED':
      return `this user may not open transactions: grant WRITE and DESCRIBE on the transactional ids that begin with ${group}- (a prefixed grant)`;
    case 'CLUSTER_AUTHORIZATION_FAILED':
      return 'this user may not write idempotently: grant IDEMPOTENT_WRITE on the cluster';
    case 'TOPIC_AUTHORIZATION_FAILED': {
      const topic = named(message, places);
      if (topic !== null && reads.includes(topic)) {
        return `this user may not read the topic ${topic}: grant READ and DESCRIBE on the topic ${topic}`;
      }
      const topics = topic === null ? writes : [topic];
      return `this user may not write: grant WRITE and DESCRIBE on the topic ${list(topics)}`;
    }
    default:
      return null;
  }
}

/** Returns the error with a message that recommends an action, or the unchanged error if nothing can be recommended. */
export function withAdvice(error: unknown, places: KafkaPlaces): SluiceError {
  if (!(error instanceof SluiceError)) return new SluiceError('kafka_failed', String(error), { cause: error });
  const message = messageOf(error, places);
  return message === null ? error : new SluiceError(error.code, message, { cause: error });
}

function messageOf(error: SluiceError, places: KafkaPlaces): string | null {
  switch (error.code) {
    case 'kafka_not_authorized':
      return denied(reasonOf(error), error.message, places);
    case 'kafka_topic_missing': {
      const topic = named(error.message, places);
      return topic === null ? null : `the topic ${topic} does not exist`;
    }
    case 'kafka_unreachable': {
      // A listener that requires TLS or a login closes connections that lack them.
      const hint = /closed (the )?connection/i.test(error.message)
        ? '; it closes connections: does it expect TLS (kafka.tls) or a login (kafka.sasl)?'
        : '';
      return `no broker answers at ${places.brokers.join(', ')}: ${error.message}${hint}`;
    }
    default:
      return null;
  }
}

/**
 * Time during which a repeated message is suppressed, ms. The next message then includes the number of suppressed
 * repetitions.
 */
const SILENCE_MS = 30_000;

/** A log that suppresses repeated messages. */
export class LogThrottle {
  readonly #log: Log;
  /** For each key: when its message was last logged, and how many repetitions were suppressed since then. */
  readonly #written = new Map<string, { at: number; suppressed: number }>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Logs a message. Messages with the same `key` are repetitions. */
  write(key: string, [level, event, message, fields]: Parameters<Log>): void {
    const now = monotonicMs();
    const before = this.#written.get(key);
    if (before && now - before.at < SILENCE_MS) {
      before.suppressed++;
      return;
    }
    this.#written.set(key, { at: now, suppressed: 0 });
    const repeated = before?.suppressed ?? 0;
    if (repeated === 0) this.#log(level, event, message, fields);
    else {
      const again = words`${message} (${repeated} times more since this line was last logged)`;
      this.#log(level, event, again, { ...fields, repeated });
    }
  }

  /** Ends the suppression of messages with this key. */
  forget(key: string): void {
    this.#written.delete(key);
  }
}
