// Transactions that the broker calls ended and whose partitions were never told: found and ended as they were decided by the next fence.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BrokerCluster } from '../../../../src/connectors/kafka/platformatic/broker-cluster.ts';
import { isPending, unfinished } from '../../../../src/connectors/kafka/platformatic/forgotten-markers.ts';
import {
  addPartitionsToTxnV3,
  endTxnV3,
  initProducerIdV3,
  produceV8,
  txnOffsetCommitV3,
} from '../../../../src/connectors/kafka/platformatic/kafka-protocol.ts';
import { platformaticClient } from '../../../../src/connectors/kafka/platformatic/platformatic-client.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { requireKafka } from '../../../support/kafka/require.ts';
import { readTopic } from '../../../support/kafka/topics.ts';

requireKafka('transactions whose end was not told', () => {
  let cluster: KafkaCluster;
  beforeAll(async () => {
    // Lets a record into a transaction that its coordinator knows nothing of, which is what a forgotten marker leaves behind.
    const settings = () => ({ 'transaction.partition.verification.enable': 'false' });
    cluster = await KafkaCluster.start({ settings });
  });
  afterAll(() => cluster?.stop());

  test.each([true, false])('committed: %s', async (committed) => {
    const [input, output, letters] = await Promise.all(
      ['in', 'out', 'dlq'].map((topic) => cluster.createTopic(`${topic}-${committed}`, 2)),
    );
    const [group, transactionalId] = [`g-${committed}`, `id-${committed}`];
    const connection = { brokers: cluster.brokers };
    const places = { group, topic: input!, partitions: committed ? [1] : null, writes: [output!, letters!] };
    const brokers = new BrokerCluster(connection);
    const any = () => brokers.coordinator('transaction', transactionalId);
    const ask = <T>(attempt: () => Promise<T>) => brokers.patiently(30_000, attempt);
    const { producerId, producerEpoch } = await ask(async () =>
      (await any()).call(initProducerIdV3.api, [transactionalId, 30_000, -1n, -1]),
    );
    // A transaction that ends as it should, so that the coordinator says how.
    const topics = [{ name: output!, partitions: [0] }];
    const transaction = { transactionalId, producerId, producerEpoch, verifyOnly: false, topics };
    await ask(async () => (await any()).call(addPartitionsToTxnV3.api, [[transaction]]));
    await ask(async () => (await any()).call(endTxnV3.api, [transactionalId, producerId, producerEpoch, committed]));
    // For the coordinator to write the markers, which it does after its answer.
    await sleep(200);
    // And what it leaves behind where nobody was told.
    const message = { topic: output!, partition: 1, key: Buffer.from('k'), value: Buffer.from('answer') };
    const producing = {
      transactionalId,
      producerId,
      producerEpoch,
      sequences: Object.assign(new Map(), { getWithDefault: () => 0 }),
    };
    await ask(async () => (await any()).call(produceV8.api, [-1, 10_000, [message as never], producing as never]));
    const offset = { partitionIndex: 1, committedOffset: 7n, committedLeaderEpoch: -1, committedMetadata: null };
    const offsets = [{ name: input!, partitions: [offset] }];
    await ask(async () => {
      const broker = await brokers.coordinator('group', group);
      const args = [transactionalId, group, producerId, producerEpoch, -1, '', null, offsets] as const;
      return broker.call(txnOffsetCommitV3.api, [...args]);
    });
    expect(await isPending(brokers, places)).toBe(true);
    expect(await unfinished(brokers, places.writes)).toEqual(new Map([[output, [1]]]));

    const writer = platformaticClient.transactionalWriter!({
      connection,
      transactionalId,
      transactionTimeoutMs: 30_000,
      compression: 'none',
    });
    await writer.fence(places);
    const admin = platformaticClient.admin(connection);
    expect(await admin.committed(group, input!, [1])).toEqual(new Map([[1, committed ? 7n : null]]));
    expect(await unfinished(brokers, places.writes)).toEqual(new Map());
    expect((await readTopic(cluster, output!)).map((r) => r.value)).toEqual(committed ? ['answer'] : []);
    await writer.discard();
    await admin.close();
    brokers.destroy();
  });
});
