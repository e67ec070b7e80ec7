// Looks at the topics of a running pipeline from outside of it: a client may try for half a minute before it says why it stands still.
import { sleep } from '../core/clock.ts';
import { asSluiceError, type SluiceError } from '../core/errors.ts';
import { inBackground } from '../core/in-background.ts';
import { type Log, named, withAction, words } from '../core/log.ts';
import { kafkaClient } from '../kafka/choose-client.ts';
import type { KafkaConnection } from '../kafka/client/connection.ts';
import type { TopicAdmin } from '../kafka/client/kafka-client.ts';
import { inWords, type KafkaPlaces, type Teller } from './kafka-words.ts';

export interface TopicWatchOptions {
  connection: KafkaConnection;
  places: KafkaPlaces;
  teller: Teller;
  log: Log;
  /** Between two looks, ms. Default 4,000. */
  everyMs?: number;
}

/** A broker that starts may not know a topic for a moment: this many looks in a row make it news. */
const LOOKS = 2;

/** `start` begins, `stop` ends. */
export class TopicWatch {
  readonly #options: TopicWatchOptions;
  readonly #admin: TopicAdmin;
  readonly #stop = new AbortController();
  /** What is wrong, and for how many looks in a row, by what it is about. */
  readonly #wrong = new Map<string, { looks: number; told: boolean }>();

  /** @throws SluiceError kafka_config */
  constructor(options: TopicWatchOptions) {
    this.#options = options;
    this.#admin = kafkaClient().admin(options.connection);
  }

  /** Nothing that was looked at is wrong. */
  get well(): boolean {
    return [...this.#wrong.values()].every((w) => !w.told);
  }

  start(): void {
    inBackground('watching topics', async () => {
      while (!this.#stop.signal.aborted) {
        await sleep(this.#options.everyMs ?? 4_000, { signal: this.#stop.signal, ref: false }).catch(() => {});
        if (!this.#stop.signal.aborted) await this.#look();
      }
    });
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#admin.close();
  }

  async #look(): Promise<void> {
    const { reads, writes } = this.#options.places;
    const seen = new Map<string, SluiceError>();
    for (const topic of [...reads, ...writes]) {
      try {
        await this.#admin.partitions(topic);
      } catch (error) {
        const failure = asSluiceError(error, 'kafka_failed');
        seen.set(failure.code === 'kafka_unreachable' ? 'the brokers' : `the topic ${topic}`, failure);
        // The same would be said of every other topic.
        if (failure.code === 'kafka_unreachable') break;
      }
    }
    if (!this.#stop.signal.aborted) this.#tell(seen);
  }

  #tell(seen: ReadonlyMap<string, SluiceError>): void {
    const { log, teller, places } = this.#options;
    for (const about of [...this.#wrong.keys()]) {
      if (seen.has(about)) continue;
      if (this.#wrong.get(about)!.told) log('info', 'topic_well', words`${named(about)}: all is well again`);
      this.#wrong.delete(about);
      teller.forget(about);
    }
    for (const [about, failure] of seen) {
      const wrong = this.#wrong.get(about) ?? { looks: 0, told: false };
      this.#wrong.set(about, wrong);
      wrong.looks++;
      if (wrong.looks < LOOKS && failure.code !== 'kafka_unreachable') continue;
      wrong.told = true;
      const worded = inWords(failure, places);
      const says = words`${withAction(worded)} Records wait meanwhile.`;
      teller.tell(about, ['error', 'topic_trouble', says, { about: named(about), cause_code: worded.code }]);
    }
  }
}
