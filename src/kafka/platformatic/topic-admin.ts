// Facts about topics and groups: what the rest of the house asks before and while it reads.

import type { KafkaConnection } from '../client/connection.ts';
import type { BrokerFeatures, PartitionRange, TopicAdmin } from '../client/kafka-client.ts';
import { BrokerCluster } from './broker-cluster.ts';
import { failure, hasMoved, isMissing, isPassing, Refusal, refusedAs } from './broker-failures.ts';
import { apiVersionsV3, describeConfigsV2, listOffsetsV5, offsetFetchV6, offsetFetchV7 } from './kafka-protocol.ts';

/** A broker that restarts is waited for, ms. */
const PATIENCE_MS = 5_000;
/** A transaction that is open is waited for, ms: longer than one of ours may stay open. */
const STABLE_MS = 15_000;
const TOPIC_RESOURCE = 2;
const EARLIEST = -2n;
const LATEST = -1n;
const READ_COMMITTED = 1;
const TXN_OFFSET_COMMIT = 28;
const OFFSET_FETCH = 9;

export class PlatformaticAdmin implements TopicAdmin {
  readonly #connection: KafkaConnection;
  #cluster: BrokerCluster | null = null;

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  async partitions(topic: string): Promise<number> {
    return await this.#ask(`looking for the topic ${topic} failed`, async (cluster) => {
      cluster.forget(topic);
      return (await cluster.layout(topic)).leaders.length;
    });
  }

  async maxMessageBytes(topic: string): Promise<number | null> {
    return await this.#ask(`reading the settings of the topic ${topic} failed`, async (cluster) => {
      const any = await cluster.any();
      const resources = [
        { resourceType: TOPIC_RESOURCE, resourceName: topic, configurationKeys: ['max.message.bytes'] },
      ] as const;
      try {
        const { results } = await any.call(describeConfigsV2.api, [[...resources] as never, false, false]);
        const value = results[0]?.configs.find((c) => c.name === 'max.message.bytes')?.value;
        return value ? Number(value) : null;
      } catch (error) {
        if (refusedAs(error, 'TOPIC_AUTHORIZATION_FAILED') || refusedAs(error, 'CLUSTER_AUTHORIZATION_FAILED'))
          return null;
        throw error;
      }
    });
  }

  async ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
    return await this.#ask(`looking for the ends of the topic ${topic} failed`, async (cluster) => {
      const { leaders } = await cluster.layout(topic, 0);
      if (leaders.includes(-1)) throw new Refusal('Metadata', ['LEADER_NOT_AVAILABLE']);
      const byLeader = Map.groupBy(leaders.keys(), (partition) => leaders[partition]!);
      const found = new Map<number, { low: bigint; high: bigint }>();
      const ask = async (leader: number, partitions: readonly number[], timestamp: bigint) => {
        const broker = await cluster.node(leader);
        const asked = partitions.map((partitionIndex) => ({ partitionIndex, currentLeaderEpoch: -1, timestamp }));
        const { topics } = await broker.call(listOffsetsV5.api, [
          -1,
          READ_COMMITTED,
          [{ name: topic, partitions: asked }],
        ]);
        for (const p of topics[0]?.partitions ?? []) {
          const range = found.get(p.partitionIndex) ?? { low: 0n, high: 0n };
          found.set(
            p.partitionIndex,
            timestamp === EARLIEST ? { ...range, low: p.offset } : { ...range, high: p.offset },
          );
        }
      };
      // The ends are asked for after the beginnings, so a range is never negative.
      for (const timestamp of [EARLIEST, LATEST]) {
        await Promise.all([...byLeader].map(([leader, partitions]) => ask(leader, partitions, timestamp)));
      }
      return found;
    });
  }

  async committed(
    group: string,
    topic: string,
    partitions: readonly number[],
  ): Promise<ReadonlyMap<number, bigint | null>> {
    const stable = (await this.features()).memberTransactions;
    const during = `reading the offsets of the group ${group} failed`;
    return await this.#ask(during, (cluster) =>
      this.#committed(cluster, group, [{ name: topic, partitionIndexes: [...partitions] }], stable),
    );
  }

  async #committed(
    cluster: BrokerCluster,
    group: string,
    topics: { name: string; partitionIndexes: number[] }[],
    stable: boolean,
  ): Promise<Map<number, bigint | null>> {
    const groups = [{ groupId: group, topics }];
    const api = stable ? offsetFetchV7.api : offsetFetchV6.api;
    const end = performance.now() + STABLE_MS;
    for (;;) {
      const broker = await cluster.coordinator('group', group);
      try {
        const answer = await broker.call(api, [groups, stable]);
        const partitions = answer.topics[0]?.partitions ?? [];
        return new Map(partitions.map((p) => [p.partitionIndex, p.committedOffset < 0n ? null : p.committedOffset]));
      } catch (error) {
        if (hasMoved(error)) cluster.forgetCoordinator('group', group);
        if (!refusedAs(error, 'UNSTABLE_OFFSET_COMMIT') || performance.now() > end) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  async features(): Promise<BrokerFeatures> {
    return await this.#ask('asking the broker what it can do failed', async (cluster) => {
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
