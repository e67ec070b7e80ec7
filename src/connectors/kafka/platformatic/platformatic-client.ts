// Implements the client interface with the protocol encoding of @platformatic/kafka, but with its own connections and states.
// This file has the queries about topics and groups. Members, writers and scanners are in other files.

import { monotonicMs, sleep } from '../../../core/clock.ts';
import type { KafkaConnection } from '../client/connection.ts';
import type { BrokerFeatures, KafkaClient, PartitionRange, TopicAdmin } from '../client/kafka-client.ts';
import { PlatformaticWriter } from './batch-writer.ts';
import { BrokerCluster, offsetsOf } from './broker-cluster.ts';
import { failure, hasMoved, isMissing, isPassing, refusedAs } from './broker-failures.ts';
import { PlatformaticMember } from './group-member.ts';
import { apiVersionsV3, describeConfigsV2, offsetFetchV6, offsetFetchV7 } from './kafka-protocol.ts';
import { markedTopic } from './offset-marks.ts';
import { PlatformaticScanner } from './partition-scanner.ts';

export const platformaticClient: KafkaClient = {
  name: 'platformatic',
  cooperative: true,
  paced: true,
  admin: (connection) => new PlatformaticAdmin(connection),
  member: (options, events) => new PlatformaticMember(options, events),
  writer: (settings) => new PlatformaticWriter({ ...settings, transactionalId: null, transactionTimeoutMs: 0 }),
  transactionalWriter: (settings) => new PlatformaticWriter(settings),
  scanner: (connection) => new PlatformaticScanner(connection),
};

/** Maximum time to wait for a broker that restarts, ms. */
const PATIENCE_MS = 5_000;
/** Maximum time to wait for open transactions, ms. It exceeds the time that transactions of Sluice can be open. */
const STABLE_MS = 15_000;
const TOPIC_RESOURCE = 2;
const TXN_OFFSET_COMMIT = 28;
const OFFSET_FETCH = 9;

class PlatformaticAdmin implements TopicAdmin {
  readonly #connection: KafkaConnection;
  #cluster: BrokerCluster | null = null;

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  async topics(): Promise<readonly string[]> {
    return await this.#ask('querying the topics failed', (cluster) => cluster.topics());
  }

  async partitions(topic: string): Promise<number> {
    return await this.#ask(`querying the topic ${topic} failed`, async (cluster) => {
      cluster.forget(topic);
      return (await cluster.layout(topic)).leaders.length;
    });
  }

  async settings(topic: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | null> {
    return await this.#ask(`reading the settings of the topic ${topic} failed`, async (cluster) => {
      const any = await cluster.any();
      const resources = [{ resourceType: TOPIC_RESOURCE, resourceName: topic, configurationKeys: [...names] }];
      try {
        const { results } = await any.call(describeConfigsV2.api, [resources as never, false, false]);
        return new Map(results[0]?.configs.flatMap(({ name, value }) => (value ? [[name, value] as const] : [])));
      } catch (error) {
        if (refusedAs(error, 'TOPIC_AUTHORIZATION_FAILED') || refusedAs(error, 'CLUSTER_AUTHORIZATION_FAILED'))
          return null;
        throw error;
      }
    });
  }

  async topicId(topic: string): Promise<string | null> {
    return await this.#ask(`querying the topic ${topic} failed`, async (cluster) => {
      return (await cluster.layout(topic, 0)).topicId;
    });
  }

  async ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
    return await this.#ask(`querying the end offsets of the topic ${topic} failed`, (cluster) =>
      offsetsOf(cluster, topic),
    );
  }

  async committed(
    group: string,
    topic: string,
    partitions: readonly number[],
  ): Promise<ReadonlyMap<number, bigint | null>> {
    return await this.#offsetsOf(group, topic, partitions, async (cluster, offsets) => {
      const found = new Map<number, bigint | null>();
      for (const { partitionIndex, committedOffset, metadata } of offsets) {
        const earlier = committedOffset > 0n && (await isOfEarlierTopic(cluster, topic, metadata));
        found.set(partitionIndex, committedOffset < 0n ? null : earlier ? 0n : committedOffset);
      }
      return found;
    });
  }

  async note(group: string, topic: string, partition: number): Promise<string | null> {
    return await this.#offsetsOf(group, topic, [partition], async (_, [offset]) => offset?.metadata || null);
  }

  /** Reads offsets with their metadata. `use` is repeated with the request. */
  async #offsetsOf<T>(
    group: string,
    topic: string,
    partitions: readonly number[],
    use: (cluster: BrokerCluster, offsets: readonly CommittedOffset[]) => Promise<T>,
  ): Promise<T> {
    const stable = (await this.features()).memberTransactions;
    const during = `reading the offsets of the group ${group} failed`;
    const groups = [{ groupId: group, topics: [{ name: topic, partitionIndexes: [...partitions] }] }];
    return await this.#ask(during, async (cluster) => {
      const answer = await this.#fetchOffsets(cluster, groups, stable);
      return await use(cluster, answer.topics[0]?.partitions ?? []);
    });
  }

  async #fetchOffsets(
    cluster: BrokerCluster,
    groups: { groupId: string; topics: { name: string; partitionIndexes: number[] }[] }[],
    stable: boolean,
  ) {
    const group = groups[0]!.groupId;
    const api = stable ? offsetFetchV7.api : offsetFetchV6.api;
    const end = monotonicMs() + STABLE_MS;
    for (;;) {
      const broker = await cluster.coordinator('group', group);
      try {
        return await broker.call(api, [groups, stable]);
      } catch (error) {
        if (hasMoved(error)) cluster.forgetCoordinator('group', group);
        if (!refusedAs(error, 'UNSTABLE_OFFSET_COMMIT') || monotonicMs() > end) throw error;
      }
      await sleep(20);
    }
  }

  async features(): Promise<BrokerFeatures> {
    return await this.#ask('querying the API versions of the broker failed', async (cluster) => {
      const { apiKeys } = await (await cluster.any()).call(apiVersionsV3.api, ['sluice', '1']);
      const most = (key: number) => apiKeys.find((a) => a.apiKey === key)?.maxVersion ?? -1;
      return { memberTransactions: most(TXN_OFFSET_COMMIT) >= 3 && most(OFFSET_FETCH) >= 7 };
    });
  }

  async close(): Promise<void> {
    this.#cluster?.destroy();
    this.#cluster = null;
  }

  async #ask<T>(during: string, question: (cluster: BrokerCluster) => Promise<T>): Promise<T> {
    this.#cluster ??= new BrokerCluster(this.#connection);
    const cluster = this.#cluster;
    try {
      return await cluster.patiently(PATIENCE_MS, () => question(cluster));
    } catch (error) {
      if (!isPassing(error) && !isMissing(error)) throw failure(error, during);
      cluster.destroy();
      if (this.#cluster === cluster) this.#cluster = null;
      throw failure(error, during);
    }
  }
}

/** A committed offset in the response of a broker. -1: the partition has none. */
interface CommittedOffset {
  partitionIndex: number;
  committedOffset: bigint;
  metadata?: string | null | undefined;
}

/**
 * Whether an offset was committed for an earlier topic with the same name. Nothing of the new topic was read then.
 * @throws Refusal | NoConnection
 */
async function isOfEarlierTopic(cluster: BrokerCluster, topic: string, metadata?: string | null): Promise<boolean> {
  if (!metadata) return false;
  const marked = markedTopic(metadata, await cluster.id());
  if (marked === null || cluster.known(topic)?.topicId === marked) return false;
  const { topicId } = await cluster.layout(topic, 0);
  return topicId !== null && topicId !== marked;
}
