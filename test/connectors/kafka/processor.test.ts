// The processor against a real broker: what comes out, in which order, and what happens to what cannot be answered.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { kafkaClient } from '../../../src/connectors/kafka/choose-client.ts';
import { answerTo, type BatchResult, type MicroBatch } from '../../../src/connectors/kafka/client/records.ts';
import { deadLetter } from '../../../src/connectors/kafka/dlq/dead-letter.ts';
import { settleDeadLetters } from '../../../src/connectors/kafka/dlq/settle-dead-letters.ts';
import type { TransactionReport } from '../../../src/connectors/kafka/observer.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../../src/connectors/kafka/processor.ts';
import { KafkaCluster } from '../../support/kafka/cluster.ts';
import { requireKafka } from '../../support/kafka/require.ts';
import { addPartitions, committed, numbered, produce, readTopic } from '../../support/kafka/topics.ts';
import { PATIENCE_MS } from '../../support/patience.ts';
import { until } from '../../support/until.ts';

const echo = async ({ records }: MicroBatch): Promise<BatchResult> => ({
  outputs: records.map((r) => answerTo(r, r.value)),
  rejected: [],
});

requireKafka('the transactional processor', () => {
  let cluster: KafkaCluster;
  let running: TransactionalProcessor[] = [];
  beforeAll(async () => {
    cluster = await KafkaCluster.shared();
  });
  afterAll(() => cluster?.stop());
  afterEach(async () => {
    await Promise.all(running.map((p) => p.stop(2_000)));
    running = [];
  });

  let names = 0;
  const topics = async (partitions = 1, settings: Record<string, string> = {}) => {
    const name = `t${names++}`;
    return {
      topic: await cluster.createTopic(`${name}-in`, partitions),
      outputTopic: await cluster.createTopic(`${name}-out`, partitions, settings),
      deadLetterTopic: await cluster.createTopic(`${name}-dlq`, 1),
      group: name,
    };
  };
  const start = async (
    options: Pick<ProcessorOptions, 'topic' | 'outputTopic' | 'deadLetterTopic' | 'group'> & Partial<ProcessorOptions>,
  ) => {
    const processor = await TransactionalProcessor.start({
      connection: { brokers: cluster.brokers },
      sessionTimeoutMs: 3_000,
      rebalanceTimeoutMs: 5_000,
      metadataMaxAgeMs: 1_000,
      process: echo,
      ...options,
    });
    running.push(processor);
    return processor;
  };

  test.each(['exactly_once', 'at_least_once'] as const)(
    '%s keeps key, headers, timestamp, null values, the partition and the order',
    async (delivery) => {
      const t = await topics(3);
      const timestamp = String(Date.now() - 3_600_000);
      const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
      const messages = numbered(300, 3).map((m) => ({ ...m, timestamp, headers: { ...m.headers, ...trace } }));
      messages.push({
        key: 'nothing',
        value: null as unknown as string,
        partition: 2,
        timestamp,
        headers: trace as never,
      });
      messages.push({
        key: null as unknown as string,
        value: 'no key',
        partition: 1,
        timestamp,
        headers: trace as never,
      });
      await produce(cluster, t.topic, messages);
      const processor = await start({ ...t, delivery });
      await until(() => processor.counters.records === 302, '302 records');
      const seen = await readTopic(cluster, t.outputTopic);
      for (const partition of [0, 1, 2]) {
        const expected = messages.filter((m) => m.partition === partition);
        const got = seen.filter((s) => s.partition === partition);
        expect(got.map((s) => s.value)).toEqual(expected.map((m) => m.value));
        expect(got.map((s) => s.key)).toEqual(expected.map((m) => m.key));
        expect(got.map((s) => s.headers)).toEqual(expected.map((m) => m.headers));
      }
      expect(new Set(seen.map((s) => s.timestamp))).toEqual(new Set([Number(timestamp)]));
      await expect.poll(() => committed(cluster, t.group, t.topic)).toBe(302);
    },
  );

  test('to a topic with other partitions records go by key, in order', async () => {
    const t = await topics(2);
    const outputTopic = await cluster.createTopic(`${t.group}-wide`, 5);
    const messages = Array.from({ length: 200 }, (_, i) => ({ key: `k${i % 20}`, value: `${i}`, partition: i % 2 }));
    await produce(cluster, t.topic, messages);
    const processor = await start({ ...t, outputTopic, partitioning: 'key' });
    await until(() => processor.counters.records === 200, '200 records');
    const seen = await readTopic(cluster, outputTopic);
    expect(seen).toHaveLength(200);
    for (let k = 0; k < 20; k++) {
      const mine = seen.filter((s) => s.key === `k${k}`);
      expect(new Set(mine.map((s) => s.partition)).size).toBe(1);
      expect(mine.map((s) => Number(s.value))).toEqual(Array.from({ length: 10 }, (_, i) => k + i * 20));
    }
  });

  test('a micro-batch is full, or its first record has waited', async () => {
    const t = await topics();
    const sizes: number[] = [];
    const reports: TransactionReport[] = [];
    const processor = await start({
      ...t,
      batchRows: 100,
      batchWaitMs: 300,
      process: async (batch) => {
        sizes.push(batch.records.length);
        return echo(batch);
      },
      observer: { onTransaction: (r) => reports.push(r) },
    });
    await produce(cluster, t.topic, numbered(250));
    await until(() => processor.counters.records === 250, '250 records');
    expect(sizes).toEqual([100, 100, 50]);
    expect(reports.flatMap((r) => r.partitions).reduce((sum, p) => sum + p.records, 0)).toBe(250);
  });

  test('with a backlog small batches share a transaction', async () => {
    const t = await topics();
    await produce(cluster, t.topic, numbered(20_000));
    const processor = await start({ ...t, batchRows: 50 });
    await until(() => processor.counters.records === 20_000, '20,000 records');
    expect(processor.counters.records / processor.counters.transactions).toBeGreaterThan(1_000);
  });

  test.each(['member', 'partition'] as const)(
    'pipelines whose names run into each other do not fence each other, a transaction a %s',
    async (transactionOf) => {
      const outputTopic = await cluster.createTopic(`names-${transactionOf}-out`, 1);
      const some = await Promise.all(
        [
          ['score-eu', 'loan'],
          ['score', 'eu-loan'],
        ].map(async ([group, name]) => {
          const topic = await cluster.createTopic(`${name}-${transactionOf}`, 1);
          return start({ topic, outputTopic, deadLetterTopic: null, group: group!, transactionOf });
        }),
      );
      for (let n = 1; n <= 5; n++) {
        await Promise.all(['loan', 'eu-loan'].map((t) => produce(cluster, `${t}-${transactionOf}`, numbered(10))));
        await until(() => some.every((p) => p.counters.records === n * 10), 'both have answered');
      }
      for (const { counters } of some) expect(counters).toMatchObject({ fences: 1, aborts: 0 });
    },
  );

  test('the partitions of a member share a transaction', async () => {
    const t = await topics(4);
    const reports: TransactionReport[] = [];
    // The answers of all partitions come at once, however slowly their records arrive.
    const inHand = new Set<number>();
    const all = Promise.withResolvers<void>();
    const processor = await start({
      ...t,
      commitIntervalMs: 300,
      observer: { onTransaction: (r) => reports.push(r) },
      process: async (batch) => {
        inHand.add(batch.partition);
        if (inHand.size === 4) all.resolve();
        await all.promise;
        return echo(batch);
      },
    });
    for (let n = 0; n < 4; n++) {
      await produce(cluster, t.topic, numbered(40, 4, n * 40));
      await until(() => processor.counters.records === (n + 1) * 40, 'all records');
    }
    expect(processor.counters).toMatchObject({ fences: 1, aborts: 0 });
    expect(Math.max(...reports.map((r) => r.partitions.length))).toBe(4);
    await expect.poll(() => committed(cluster, t.group, t.topic)).toBe(160);
    expect((await readTopic(cluster, t.outputTopic)).length).toBe(160);
  });

  test.skipIf(!kafkaClient().cooperative)('a partition that a member keeps goes on through a rebalance', async () => {
    const t = await topics(2);
    const taken: string[] = [];
    const gate = Promise.withResolvers<void>();
    const slow = await start({
      ...t,
      process: async (batch) => {
        taken.push(...batch.records.map((r) => `${r.partition}/${r.offset}`));
        await gate.promise;
        return echo(batch);
      },
    });
    await produce(cluster, t.topic, numbered(2, 2));
    await until(() => taken.length === 2, 'both partitions in hand');
    const other = await start(t);
    await until(() => other.counters.records === 1, 'the partition that was taken away');
    gate.resolve();
    await until(() => slow.counters.records === 1, 'the one that was kept');
    expect(taken.toSorted()).toEqual(['0/0', '1/0']);
    expect(slow.counters.aborts).toBe(0);
    expect((await readTopic(cluster, t.outputTopic)).length).toBe(2);
  });

  test('what fails in the transaction of a member is read again, all of it, once', async () => {
    const t = await topics(3, { 'max.message.bytes': '20000' });
    // It does not look at the settings of the topic again.
    const processor = await start({ ...t, commitIntervalMs: 100, metadataMaxAgeMs: 600_000 });
    await produce(cluster, t.topic, numbered(30, 3));
    await until(() => processor.counters.records === 30, '30 records');
    // The limit falls unseen: a batch of one partition is refused, and takes those of the others with it.
    const configEntries = [{ name: 'max.message.bytes', value: '10000' }];
    const resources = [{ type: 2, name: t.outputTopic, configEntries }];
    const admin = await cluster.admin();
    await admin.alterConfigs({ validateOnly: false, resources });
    // The broker says that the setting has changed before the log of the partition has it.
    const isRefused = () =>
      produce(cluster, t.outputTopic, [{ value: 'x'.repeat(15_000), partition: 0 }]).then(
        () => false,
        (error) => error.type === 'MESSAGE_TOO_LARGE',
      );
    await until(isRefused, 'the lower limit');
    await produce(
      cluster,
      t.topic,
      numbered(600, 3, 30).map((m) => ({ ...m, value: 'w'.repeat(100) })),
    );
    await until(() => processor.counters.records === 630, '630 records');
    expect(processor.counters.aborts).toBeGreaterThan(0);
    const ids = (await readTopic(cluster, t.outputTopic)).flatMap((s) => s.headers.id ?? []);
    expect({ answers: ids.length, distinct: new Set(ids).size }).toEqual({ answers: 630, distinct: 630 });
  });

  test('dead letters are in the transaction of their neighbours, and are replayed once', async () => {
    const t = await topics();
    await produce(cluster, t.topic, numbered(40));
    let heal = false;
    const processor = await start({
      ...t,
      process: async ({ records }) => {
        const bad = records.filter((r) => !heal && Number(r.headers.id!.toString()) % 10 === 3);
        return {
          outputs: records.filter((r) => !bad.includes(r)).map((r) => answerTo(r, r.value)),
          rejected: bad.map((r) => deadLetter(r, { code: 'bad_number', column: 'income', message: 'not a number' })),
        };
      },
    });
    await until(() => processor.counters.records === 40, '40 records');
    expect(processor.counters).toMatchObject({ rejected: 4, transactions: 1 });
    heal = true;
    const connection = { brokers: cluster.brokers };
    const { deadLetterTopic } = t;
    const replay = () => settleDeadLetters({ connection, deadLetterTopic, action: 'replayed' });
    expect(await replay()).toEqual({ settled: 4, left: 0, unusable: 0, failed: [] });
    expect(await replay()).toEqual({ settled: 0, left: 0, unusable: 0, failed: [] });
    await until(() => processor.counters.records === 44, 'the replayed records');
    const seen = await readTopic(cluster, t.outputTopic);
    expect(seen).toHaveLength(40);
    expect(seen.slice(-4).map((s) => [s.key, s.headers])).toEqual(
      [3, 13, 23, 33].map((i) => [`k${i}`, { id: String(i), 'sluice-attempt': '2' }]),
    );

    const all = await readTopic(cluster, t.deadLetterTopic);
    const letters = all.filter((l) => l.headers['sluice-desk'] === undefined);
    expect(all.length - letters.length).toBe(1);
    expect(letters.map((l) => l.value)).toEqual(['v3', 'v13', 'v23', 'v33']);
    expect(letters[1]).toMatchObject({
      key: 'k13',
      headers: {
        id: '13',
        'sluice-error-code': 'bad_number',
        'sluice-error-column': 'income',
        'sluice-error-message': 'not a number',
        'sluice-error-topic': t.topic,
        'sluice-error-partition': '0',
        'sluice-error-offset': '13',
        'sluice-attempt': '1',
      },
    });
  });

  test('an answer too large for its topic becomes a dead letter, shortened where even that is too large', async () => {
    const t = await topics(1, { 'max.message.bytes': '20000' });
    const deadLetterTopic = await cluster.createTopic(`${t.group}-small`, 1, { 'max.message.bytes': '5000' });
    const values = ['small', 'x'.repeat(3_000), 'y'.repeat(9_000), 'small again'];
    await produce(
      cluster,
      t.topic,
      values.map((value, i) => ({ key: String(i), value })),
    );
    const processor = await start({
      ...t,
      deadLetterTopic,
      process: async ({ records }) => ({
        outputs: records.map((r) => answerTo(r, Buffer.concat(Array(r.value!.length > 100 ? 10 : 1).fill(r.value!)))),
        rejected: [],
      }),
    });
    await until(() => processor.counters.records === 4, '4 records');
    expect(processor.counters).toMatchObject({ oversized: 2, rejected: 2, aborts: 0 });
    expect((await readTopic(cluster, t.outputTopic)).map((s) => s.value)).toEqual(['small', 'small again']);
    const connection = { brokers: cluster.brokers };
    const report = await settleDeadLetters({ connection, deadLetterTopic, action: 'replayed', topic: t.outputTopic });
    expect(report).toEqual({ settled: 1, left: 0, unusable: 1, failed: [] });
    const letters = (await readTopic(cluster, deadLetterTopic)).filter((l) => !l.headers['sluice-desk']);
    expect(letters.map((l) => l.headers['sluice-error-code'])).toEqual(['output_too_large', 'output_too_large']);
    expect(letters[0]!.value).toBe(values[1]);
    expect(letters[1]!.headers['sluice-error-truncated-from']).toBe('9000');
    expect(letters[1]!.value).toMatch(/^y{4000,5000}$/);
  });

  test('many large answers are sent in batches the topic takes', async () => {
    const t = await topics(1, { 'max.message.bytes': '20000' });
    await produce(cluster, t.topic, numbered(500));
    const processor = await start({
      ...t,
      process: async ({ records }) => ({
        outputs: records.map((r) => answerTo(r, Buffer.alloc(900, 'z'))),
        rejected: [],
      }),
    });
    await until(() => processor.counters.records === 500, '500 records');
    expect(processor.counters).toMatchObject({ oversized: 0, aborts: 0 });
    expect((await readTopic(cluster, t.outputTopic)).map((s) => s.key)).toEqual(numbered(500).map((m) => m.key));
  });

  test('a limit that was lowered while running costs an attempt, not a record', async () => {
    const t = await topics();
    const processor = await start(t);
    const admin = await cluster.admin();
    const configEntries = [{ name: 'max.message.bytes', value: '10000' }];
    await admin.alterConfigs({ validateOnly: false, resources: [{ type: 2, name: t.outputTopic, configEntries }] });
    await produce(
      cluster,
      t.topic,
      numbered(100).map((m) => ({ ...m, value: 'w'.repeat(1_000) })),
    );
    await until(() => processor.counters.records === 100, '100 records');
    expect(await readTopic(cluster, t.outputTopic)).toHaveLength(100);
  });

  test('paused it keeps its membership and begins nothing; resumed it goes on', async () => {
    const t = await topics(2);
    const processor = await start({ ...t, sessionTimeoutMs: 4_000 });
    processor.pause('the model cannot be loaded');
    await produce(cluster, t.topic, numbered(20, 2));
    // Longer than the session, which the broker measures.
    await sleep(6_000);
    expect(processor.counters).toMatchObject({ records: 0, rebalances: 1 });
    processor.resume();
    await until(() => processor.counters.records === 20, '20 records');
    expect(processor.counters.rebalances).toBe(1);
  });

  test('a process slower than the session and the transaction time-out loses neither', async () => {
    const t = await topics();
    await produce(cluster, t.topic, numbered(10));
    const aborts: string[] = [];
    const processor = await start({
      ...t,
      observer: { onAbort: ({ reason }) => aborts.push(reason) },
      sessionTimeoutMs: 4_000,
      transactionTimeoutMs: 1_000,
      process: async (batch) => {
        // Longer than both, which the broker measures.
        await sleep(6_000);
        return echo(batch);
      },
    });
    await until(() => processor.counters.records === 10, '10 records');
    expect(aborts).toEqual([]);
    expect(processor.counters.rebalances).toBe(1);
  });

  test('bytes in flight are bounded', async () => {
    const t = await topics();
    await produce(
      cluster,
      t.topic,
      numbered(4_000).map((m) => ({ ...m, value: 'b'.repeat(5_000) })),
    );
    let largest = 0;
    let taken = 0;
    const lags: number[] = [];
    const processor = await start({
      ...t,
      batchRows: 50,
      transactionRows: 50,
      maxInFlightBytes: 1024 * 1024,
      fetchBytes: 256 * 1024,
      observer: { onLag: ({ lag }) => lags.push(4_000 - lag) },
      process: async (batch) => {
        taken += batch.records.length;
        largest = Math.max(largest, (lags.at(-1) ?? 0) - processor.counters.records);
        // Slower than the broker, so that records pile up.
        await sleep(5);
        return echo(batch);
      },
    });
    await until(() => processor.counters.records === 4_000, '4,000 records');
    expect(taken).toBe(4_000);
    // A megabyte is 210 records, a fetch about 50 (or one whole batch of the producer, about 200).
    expect(largest).toBeLessThan(450);
  });

  test('stop finishes what is in hand', async () => {
    const t = await topics();
    await produce(cluster, t.topic, numbered(1_000));
    const stopping = Promise.withResolvers<void>();
    let batches = 0;
    const processor = await start({
      ...t,
      batchRows: 100,
      process: async (batch) => {
        if (++batches > 1) await stopping.promise;
        return echo(batch);
      },
    });
    await until(() => processor.counters.records > 0 && batches > 1, 'the first transaction and a second batch');
    const stopped = processor.stop(PATIENCE_MS);
    stopping.resolve();
    const report = await stopped;
    expect(report.drained).toBe(true);
    expect(report.records % 100).toBe(0);
    expect(report.positions.get(0)).toBe(BigInt(report.records));
    await expect.poll(() => committed(cluster, t.group, t.topic)).toBe(report.records);
    expect(await readTopic(cluster, t.outputTopic)).toHaveLength(report.records);
    expect(await processor.stop(0)).toEqual(report);
    await processor.done;
  });

  test('stop gives up at the deadline what does not end, and the next member reads it again', async () => {
    const t = await topics();
    await produce(cluster, t.topic, numbered(10));
    let aborted = false;
    const taken = Promise.withResolvers<void>();
    const processor = await start({
      ...t,
      process: (_, signal) => {
        taken.resolve();
        signal.addEventListener('abort', () => {
          aborted = true;
        });
        return new Promise(() => {});
      },
    });
    await taken.promise;
    // Comes back at all: what is in hand never ends.
    const report = await processor.stop(500);
    expect(report).toMatchObject({ drained: false, records: 0 });
    expect(aborted).toBe(true);
    const next = await start(t);
    await until(() => next.counters.records === 10, '10 records');
  });

  test('an error of process ends the run; one that may pass is tried again', async () => {
    const { SluiceError } = await import('../../../src/core/errors.ts');
    const t = await topics();
    await produce(cluster, t.topic, numbered(5));
    let attempts = 0;
    const patient = await start({
      ...t,
      process: async (batch) => {
        if (++attempts < 3) throw new SluiceError('overloaded', 'later');
        return echo(batch);
      },
    });
    await until(() => patient.counters.records === 5, '5 records');
    expect(attempts).toBe(3);
    await patient.stop(1_000);
    // Only now: a member that stops may still answer what it finds.
    await produce(cluster, t.topic, numbered(1));
    const failing = await start({
      ...t,
      process: async () => {
        throw new SluiceError('model_failed', 'no');
      },
    });
    await expect(failing.done).rejects.toMatchObject({ code: 'model_failed' });
    await expect.poll(() => committed(cluster, t.group, t.topic)).toBe(5);
  });

  test('members that join and leave share the partitions, and nothing is doubled', async () => {
    const t = await topics(4);
    const members: TransactionalProcessor[] = [];
    const answered = () => members.reduce((sum, { counters }) => sum + counters.records, 0);
    let fed = 0;
    let feeding = true;
    // As fast as the members answer: each finds records while it joins, works and leaves.
    const feeder = (async () => {
      while (feeding) {
        await produce(cluster, t.topic, numbered(100, 4, fed));
        fed += 100;
        await until(() => !feeding || answered() >= fed - 100, 'the records before the last hundred');
      }
    })();
    const a = await start({ ...t });
    members.push(a);
    await until(() => a.counters.transactions > 0, 'the first member at work');
    const b = await start({ ...t });
    members.push(b);
    await until(() => b.counters.transactions > 3, 'the second member at work');
    await b.stop(2_000);
    feeding = false;
    await feeder;
    await until(async () => (await committed(cluster, t.group, t.topic)) === fed, 'everything read');
    expect(a.counters.rebalances).toBeGreaterThan(1);
    const seen = await readTopic(cluster, t.outputTopic);
    expect(seen).toHaveLength(fed);
    for (const partition of [0, 1, 2, 3]) {
      const ids = seen.filter((s) => s.partition === partition).map((s) => Number(s.headers.id));
      expect(ids).toEqual([...ids].sort((x, y) => x - y));
      expect(new Set(ids).size).toBe(fed / 4);
    }
  });

  test('partitions added while running are read', async () => {
    const t = await topics(2);
    const processor = await start(t);
    await produce(cluster, t.topic, numbered(20, 2));
    await until(() => processor.counters.records === 20, 'the first 20 records');
    await addPartitions(cluster, [t.outputTopic, t.topic], 5);
    await produce(cluster, t.topic, numbered(50, 5, 20));
    await until(() => processor.counters.records === 70, 'the records of the new partitions');
    const seen = await readTopic(cluster, t.outputTopic);
    expect(new Set(seen.map((s) => s.headers.id)).size).toBe(70);
    expect(new Set(seen.map((s) => s.partition)).size).toBe(5);
  });
});
