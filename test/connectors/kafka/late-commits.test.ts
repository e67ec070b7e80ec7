// Commits that arrive late: after their sender gave up, and after another member took its partitions over.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { answerTo } from '../../../src/connectors/kafka/client/records.ts';
import { TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { SlowLink } from '../../support/kafka/slow-link.ts';
import { committed, numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { campaignTest } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';

const SESSION_MS = 3_000;
const REQUEST_MS = 2_000;

requireKafka('commits that arrive late', () => {
  // A transaction a partition is what members have at brokers before 2.5.
  for (const unit of ['member', 'partition'] as const) {
    campaignTest(`every record is answered once and in order, a transaction a ${unit}`, async () => {
      await using link = await SlowLink.open();
      await using cluster = await KafkaCluster.start({ settings: link.settings });
      const topic = await cluster.createTopic('late-in', 2);
      const outputTopic = await cluster.createTopic('late-out', 2);
      const start = (broker: string) =>
        TransactionalProcessor.start({
          connection: { brokers: [broker], requestTimeoutMs: REQUEST_MS },
          topic,
          outputTopic,
          deadLetterTopic: null,
          group: 'late',
          transactionOf: unit,
          sessionTimeoutMs: SESSION_MS,
          rebalanceTimeoutMs: 5_000,
          batchRows: 20,
          transactionRows: 20,
          transactionTimeoutMs: 20_000,
          process: async ({ records }) => {
            // So that a commit is under way most of the time.
            await sleep(20);
            return { outputs: records.map((r) => answerTo(r, r.value)), rejected: [] };
          },
        });
      let fed = 0;
      let feeding = true;
      const feeder = (async () => {
        for (; feeding; fed += 40) {
          await produce(cluster, topic, numbered(40, 2, fed));
          // The pace of the records, which come until the feeder is stopped.
          await sleep(100);
        }
      })();
      const slow = await start(link.address);
      const other = await start(cluster.brokers[0]!);
      // Longer than the sender waits; longer than its session; both.
      for (const [ms, everything] of [
        [REQUEST_MS + 500, false],
        [SESSION_MS + 1_500, true],
        [SESSION_MS + 1_500, false],
        [SESSION_MS + 2_500, true],
      ] as const) {
        await link.holdNext(ms, everything);
        // The link holds what it got for so long; the broker measures the session.
        await sleep(ms);
        const before = slow.counters.transactions;
        await until(() => slow.counters.transactions > before, 'the member behind the link at work again');
      }
      feeding = false;
      await feeder;
      await until(async () => (await committed(cluster, 'late', topic).catch(() => 0)) === fed, 'everything read');
      await Promise.all([slow.stop(5_000), other.stop(5_000)]);
      expect(link.held).toBe(4);
      expect(slow.counters.aborts).toBeGreaterThan(0);
      const seen = await readTopic(cluster, outputTopic);
      const ids = seen.map((s) => Number(s.headers.id));
      expect({ answers: ids.length, distinct: new Set(ids).size }).toEqual({ answers: fed, distinct: fed });
      for (const partition of [0, 1]) {
        const own = seen.filter((s) => s.partition === partition).map((s) => Number(s.headers.id));
        expect(own).toEqual([...own].sort((x, y) => x - y));
      }
    });
  }
});
