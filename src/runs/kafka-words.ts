// What a failure of Kafka means for whoever is called at night: who may not do what to which thing, what is not there, and what mends it.
import { monotonicMs } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import { type Log, words } from '../core/log.ts';
import { reasonOf } from '../kafka/client/failures.ts';

/** What a pipeline touches at its brokers. */
export interface KafkaPlaces {
  brokers: readonly string[];
  group: string | null;
  /** May grow while the pipeline runs. */
  reads: readonly string[];
  writes: readonly string[];
}

const list = (topics: readonly string[]): string => topics.join(' and ');

/** The topic that a message names, if one of the pipeline's is named in it alone. */
function named(message: string, { reads, writes }: KafkaPlaces): string | null {
  const found = [...new Set([...reads, ...writes])].filter((topic) => isNamed(message, topic));
  return found.length === 1 ? found[0]! : null;
}

/** Whether "topic NAME" stands there, and not only the beginning of a longer name. */
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

/** The same error with a sentence to act on, where there is one. */
export function inWords(error: unknown, places: KafkaPlaces): SluiceError {
  if (!(error instanceof SluiceError)) return new SluiceError('kafka_failed', String(error), { cause: error });
  const sentence = wordsOf(error, places);
  return sentence === null ? error : new SluiceError(error.code, sentence, { cause: error });
}

function wordsOf(error: SluiceError, places: KafkaPlaces): string | null {
  switch (error.code) {
    case 'kafka_not_authorized':
      return denied(reasonOf(error), error.message, places);
    case 'kafka_topic_missing': {
      const topic = named(error.message, places);
      return topic === null ? null : `the topic ${topic} does not exist`;
    }
    case 'kafka_unreachable': {
      // What a listener does to those who do not speak as it expects.
      const hint = /closed (the )?connection/i.test(error.message)
        ? '; it closes connections: does it expect TLS (kafka.tls) or a login (kafka.sasl)?'
        : '';
      return `no broker answers at ${places.brokers.join(', ')}: ${error.message}${hint}`;
    }
    default:
      return null;
  }
}

/** The same words again are told after this long, with how often they were left out, ms. */
const SILENCE_MS = 30_000;

/** A log that does not repeat itself. */
export class Teller {
  readonly #log: Log;
  readonly #told = new Map<string, { at: number; more: number }>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** `about`: what counts as the same. */
  tell(about: string, [level, event, says, fields]: Parameters<Log>): void {
    const now = monotonicMs();
    const before = this.#told.get(about);
    if (before && now - before.at < SILENCE_MS) {
      before.more++;
      return;
    }
    this.#told.set(about, { at: now, more: 0 });
    const repeated = before?.more ?? 0;
    if (repeated === 0) this.#log(level, event, says, fields);
    else {
      const again = words`${says} (${repeated} times more since the last of these lines)`;
      this.#log(level, event, again, { ...fields, repeated });
    }
  }

  /** It is over: the next time it is news. */
  forget(about: string): void {
    this.#told.delete(about);
  }
}
