// Facts about topics and groups by the admin of kafkajs.
import { monotonicMs, sleep } from '../../core/clock.ts';
import { SluiceError } from '../../core/errors.ts';
import { inBackground } from '../../core/in-background.ts';
import { within } from '../../core/within.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { reasonOf } from '../client/failures.ts';
import type { BrokerFeatures, PartitionRange, TopicAdmin } from '../client/kafka-client.ts';
import { type KafkajsHandle, openKafkajs } from './connect.ts';
import { fencesByGeneration } from './flexible-requests.ts';
import { kafkajsError } from './kafkajs-error.ts';
import kafkajs, { type AdminWithCluster, stableOffsets } from './repairs.ts';

/** Offsets that an open transaction may move, and a coordinator that has just been made or moved. */
const UNSETTLED =
  /^(UNSTABLE_OFFSET_COMMIT|NOT_COORDINATOR_FOR_GROUP|GROUP_COORDINATOR_NOT_AVAILABLE|GROUP_LOAD_IN_PROGRESS)$/;
/** Wait between questions for them, ms. */
const UNSTABLE_PAUSE_MS = 20;
/** Longest wait for them, ms: whoever asks will ask again, and can say so meanwhile. */
const UNSTABLE_MS = 15_000;
/** Attempts of one question whose connection somebody else gives up. */
const ATTEMPTS = 3;
const TRIPPED_PAUSE_MS = 100;
/** Wait for kafkajs to end its connections, ms: what is open then is cut. */
const CLOSING_MS = 500;

interface Opened {
  readonly handle: KafkajsHandle;
  readonly admin: AdminWithCluster;
}

export class KafkajsAdmin implements TopicAdmin {
  readonly #connection: KafkaConnection;
  #opened: Promise<Opened> | null = null;
  #closed = false;

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  topics(): Promise<readonly string[]> {
    return this.#ask('asking for the topics failed', ({ admin }) => admin.listTopics());
  }

  partitions(topic: string): Promise<number> {
    return this.#ask(`asking for the topic ${topic} failed`, async ({ admin }) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      const partitions = topics[0]?.partitions.length ?? 0;
      if (partitions === 0) throw new SluiceError('kafka_topic_missing', `the topic ${topic} has no partitions`);
      return partitions;
    });
  }

  /** Reading settings needs a permission of its own, which is not asked for. */
  async settings(topic: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | null> {
    try {
      return await this.#ask(`asking for the settings of ${topic} failed`, async ({ admin }) => {
        const { resources } = await admin.describeConfigs({
          includeSynonyms: false,
          resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: [...names] }],
        });
        return new Map(resources[0]?.configEntries.map((e) => [e.configName, e.configValue]));
      });
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'kafka_not_authorized') return null;
      throw error;
    }
  }

  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
    return this.#ask(`asking for the offsets of ${topic} failed`, async ({ admin }) => {
      const found = await admin.fetchTopicOffsets(topic);
      return new Map(found.map((o) => [o.partition, { low: BigInt(o.low), high: BigInt(o.high) }]));
    });
  }

  committed(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, bigint | null>> {
    return this.#ask(`asking for the offsets of the group ${group} failed`, async ({ admin }) => {
      const wanted = [{ topic, partitions: partitions.map((partition) => ({ partition })) }];
      stableOffsets.add(wanted);
      for (const end = monotonicMs() + UNSTABLE_MS; ; await sleep(UNSTABLE_PAUSE_MS)) {
        try {
          const coordinator = await admin.cluster.findGroupCoordinator({ groupId: group });
          const { responses } = await coordinator.offsetFetch({ groupId: group, topics: wanted });
          return new Map(responses.flatMap((r) => r.partitions).map((p) => [p.partition, offsetOf(p.offset)]));
        } catch (error) {
          if (!UNSETTLED.test(reasonOf(error)) || this.#closed || monotonicMs() > end) throw error;
        }
      }
    });
  }

  features(): Promise<BrokerFeatures> {
    return this.#ask('asking for the versions of the broker failed', async ({ handle }) => ({
      memberTransactions: fencesByGeneration(handle.versions()),
    }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #drop(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    await opened?.then(closeAdmin, () => {});
  }

  /** A connection that failed is replaced with the next question: kafkajs never refreshes what an admin knows. */
  async #ask<T>(during: string, question: (opened: Opened) => Promise<T>): Promise<T> {
    this.#closed = false;
    for (let attempt = 1; ; attempt++) {
      this.#opened ??= this.#open();
      const asked = this.#opened;
      try {
        return await question(await asked);
      } catch (error) {
        // Another question failed and took the connection with it: this one is asked again over the next.
        if (this.#opened !== asked && !this.#closed && attempt < ATTEMPTS) continue;
        if (this.#opened === asked) inBackground('closing an admin', () => this.#drop());
        // kafkajs trips over answers that lack a topic it has only just heard of.
        if (error instanceof TypeError && !this.#closed && attempt < ATTEMPTS) {
          await sleep(TRIPPED_PAUSE_MS);
          continue;
        }
        throw kafkajsError(error, during);
      }
    }
  }

  async #open(): Promise<Opened> {
    const handle = openKafkajs(this.#connection);
    const admin = handle.kafka.admin() as AdminWithCluster;
    try {
      await admin.connect();
    } catch (error) {
      handle.destroy();
      throw error;
    }
    return { handle, admin };
  }
}

const offsetOf = (text: string): bigint | null => (BigInt(text) < 0n ? null : BigInt(text));

async function closeAdmin({ handle, admin }: Opened): Promise<void> {
  await within(
    admin.disconnect().catch(() => {}),
    CLOSING_MS,
  );
  handle.destroy();
}
