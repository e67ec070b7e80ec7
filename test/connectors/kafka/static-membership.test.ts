// A member under a name of its own that dies and comes back: it goes on with its partitions, and the others are not even told.
import { type ChildProcess, fork } from 'node:child_process';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { KafkaCounters } from '../../../src/connectors/kafka/observer.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { times } from '../../support/tiers.ts';
import { until } from '../../support/until.ts';
import type { WorkerSettings } from './chaos/worker.ts';

class Worker {
  readonly process: ChildProcess;
  counters: Partial<KafkaCounters> = {};

  constructor(settings: WorkerSettings) {
    this.process = fork(path.join(import.meta.dirname, 'chaos/worker.ts'), [JSON.stringify(settings)]);
    this.process.on('message', (counters) => {
      this.counters = counters as KafkaCounters;
    });
  }

  get rebalances(): number {
    return this.counters.rebalances ?? 0;
  }

  get fences(): number {
    return this.counters.fences ?? 0;
  }
}

requireKafka('static membership', () => {
  test('kill -9 and a restart rebalance nothing; without a name the same does', async () => {
    await using cluster = await KafkaCluster.shared();
    const rounds = times('static restarts', { quick: 1, check: 1, campaigns: 20 });
    for (const named of [true, false]) {
      const [input, output] = [
        await cluster.createTopic(`in-${named}`, 4),
        await cluster.createTopic(`out-${named}`, 4),
      ];
      const hire = (name: string) =>
        new Worker({
          connection: { brokers: cluster.brokers },
          topic: input,
          group: `g-${named}`,
          outputTopic: output,
          deadLetterTopic: null,
          sessionTimeoutMs: named ? 30_000 : 6_000,
          instanceId: named ? name : null,
          workMs: 1,
        });
      let dying = hire('dying');
      await until(async () => dying.rebalances > 0, 'the first member');
      const staying = hire('staying');
      // Cooperative members share in two steps: it is over when the newcomer works on its share.
      await until(async () => staying.fences >= 1 && dying.rebalances > 1, 'both members');
      const before = staying.rebalances;
      let sent = 0;
      for (let round = 0; round < rounds; round++) {
        dying.process.kill('SIGKILL');
        dying = hire('dying');
        await produce(cluster, input, numbered(40, 4, sent));
        sent += 40;
        await until(async () => dying.rebalances > 0, 'the member that died');
        await until(async () => (await readTopic(cluster, output)).length >= sent, `${sent} answers`);
      }
      const ids = (await readTopic(cluster, output)).map((m) => m.key);
      expect(new Set(ids).size).toBe(ids.length);
      if (named) expect(staying.rebalances).toBe(before);
      else expect(staying.rebalances).toBeGreaterThan(before);
      for (const worker of [dying, staying]) worker.process.kill('SIGKILL');
    }
  });
});
