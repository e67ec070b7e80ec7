// Polls the topics of a running pipeline and logs failures early, because a client may retry for half a minute before it reports a problem.

import { inBackground } from '../../core/async.ts';
import { sleep } from '../../core/clock.ts';
import { asSluiceError, type SluiceError } from '../../core/errors.ts';
import { type Log, named, withAction, words } from '../../core/log.ts';
import { kafkaClient } from './choose-client.ts';
import type { KafkaConnection } from './client/connection.ts';
import type { TopicAdmin } from './client/kafka-client.ts';
import { type KafkaPlaces, LogThrottle, withAdvice } from './kafka-error-messages.ts';

interface TopicWatchOptions {
  connection: KafkaConnection;
  places: KafkaPlaces;
  log: Log;
  /** Interval of polls, ms. Default: 4,000. */
  everyMs?: number;
}

/**
 * Number of consecutive failures after which a failure is logged. A broker that is starting may not list a topic yet.
 */
const FAILURES = 2;

/** Polls the topics from `start` until `stop`. */
export class TopicWatch {
  readonly #options: TopicWatchOptions;
  readonly #admin: TopicAdmin;
  readonly #throttled: LogThrottle;
  readonly #stop = new AbortController();
  /** The consecutive failures of each topic, or of all brokers. */
  readonly #failing = new Map<string, { failures: number; logged: boolean }>();

  /** @throws SluiceError kafka_config */
  constructor(options: TopicWatchOptions) {
    this.#options = options;
    this.#throttled = new LogThrottle(options.log);
    this.#admin = kafkaClient().admin(options.connection);
  }

  /** Whether all topics are healthy: no failure that persists was logged. */
  get well(): boolean {
    return [...this.#failing.values()].every((w) => !w.logged);
  }

  start(): void {
    inBackground('watching topics', async () => {
      while (!this.#stop.signal.aborted) {
        await sleep(this.#options.everyMs ?? 4_000, { signal: this.#stop.signal, ref: false }).catch(() => {});
        if (!this.#stop.signal.aborted) await this.#poll();
      }
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#admin.close();
  }

  async #poll(): Promise<void> {
    const { reads, writes } = this.#options.places;
    const failures = new Map<string, SluiceError>();
    for (const topic of [...reads, ...writes]) {
      try {
        await this.#admin.partitions(topic);
      } catch (error) {
        const failure = asSluiceError(error, 'kafka_failed');
        failures.set(failure.code === 'kafka_unreachable' ? 'the brokers' : `the topic ${topic}`, failure);
        // The requests for all further topics would fail for the same reason.
        if (failure.code === 'kafka_unreachable') break;
      }
    }
    if (!this.#stop.signal.aborted) this.#log(failures);
  }

  #log(found: ReadonlyMap<string, SluiceError>): void {
    const { log, places } = this.#options;
    for (const about of [...this.#failing.keys()]) {
      if (found.has(about)) continue;
      if (this.#failing.get(about)!.logged) log('info', 'topic_well', words`${named(about)}: available again`);
      this.#failing.delete(about);
      this.#throttled.forget(about);
    }
    for (const [about, failure] of found) {
      const failing = this.#failing.get(about) ?? { failures: 0, logged: false };
      this.#failing.set(about, failing);
      failing.failures++;
      if (failing.failures < FAILURES && failure.code !== 'kafka_unreachable') continue;
      failing.logged = true;
      const advised = withAdvice(failure, places);
      const message = words`${withAction(advised)} Records wait until then.`;
      this.#throttled.write(about, [
        'error',
        'topic_trouble',
        message,
        { about: named(about), cause_code: advised.code },
      ]);
    }
  }
}
