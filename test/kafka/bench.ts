// `npm run kafka:bench`: the processor with an echo, and a whole pipeline with a light model, against a bare transactional copy of
// the same applications: rate, memory and idle CPU.
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import type { Producer } from 'kafkajs';
import { parsePipeline } from '../../src/config/pipeline-config.ts';
import { generatePortfolio } from '../../src/demo/generate.ts';
import { kafkaClient } from '../../src/kafka/connection.ts';
import { TransactionalProcessor } from '../../src/kafka/processor.ts';
import { answerTo } from '../../src/kafka/records.ts';
import { Metrics } from '../../src/monitor/metrics.ts';
import { ModelHost } from '../../src/pipeline/model-host.ts';
import { FolderRegistry } from '../../src/registry/folder.ts';
import { startPipeline } from '../../src/run/run.ts';
import { KafkaCluster } from '../support/kafka/cluster.ts';

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '300000' },
    rounds: { type: 'string', default: '2' },
    /** bare, ours or scored: for memory, which one process cannot tell apart for both. */
    only: { type: 'string' },
    'idle-seconds': { type: 'string', default: '20' },
  },
});
const records = Number(values.records);
const PARTITIONS = 4;
await using cluster = await KafkaCluster.start();
const connection = { brokers: cluster.brokers };

const input = await cluster.createTopic('bench-in', PARTITIONS);
const producer = cluster.client().producer();
await producer.connect();
const [names, ...lines] = Buffer.concat([...generatePortfolio({ rows: 1000, seed: 7, dirty: false })])
  .toString()
  .trimEnd()
  .split('\n')
  .map((l) => l.split(','));
/** Applications of about 500 bytes. */
const applications = lines.map((cells) =>
  JSON.stringify(Object.fromEntries(names!.map((n, i) => [n, cells[i] || null]))),
);
for (let i = 0; i < records; i += 1000) {
  const messages = Array.from({ length: 1000 }, (_, j) => ({
    key: String(i + j),
    value: applications[j]!,
    headers: { id: String(i + j) },
  }));
  await producer.send({ topic: input, messages: messages.map((m) => ({ ...m, partition: (i / 1000) % PARTITIONS })) });
}
await producer.disconnect();

interface Result {
  recordsPerSecond: number;
  cpuSeconds: number;
  peakRssMb: number;
  /** Mean of each quarter of the run: flat when memory does not depend on how much flows through. */
  rssMbByQuarter: number[];
}

/** Resource use of `work`, told when all records are through by `through`. */
async function measure(work: (through: () => void) => Promise<() => Promise<unknown>>): Promise<Result> {
  const done = Promise.withResolvers<void>();
  let peak = 0;
  const samples: number[] = [];
  const sampling = setInterval(() => {
    samples.push(process.memoryUsage.rss());
    peak = Math.max(peak, samples.at(-1)!);
  }, 50);
  const cpu = process.cpuUsage();
  const began = performance.now();
  const stop = await work(done.resolve);
  await done.promise;
  const seconds = (performance.now() - began) / 1000;
  const used = process.cpuUsage(cpu);
  clearInterval(sampling);
  await stop();
  return {
    recordsPerSecond: Math.round(records / seconds),
    cpuSeconds: Math.round((used.user + used.system) / 1e4) / 100,
    peakRssMb: Math.round(peak / 2 ** 20),
    rssMbByQuarter: [0, 1, 2, 3].map((q) => {
      const some = samples.slice((samples.length * q) / 4, (samples.length * (q + 1)) / 4);
      return Math.round(some.reduce((sum, rss) => sum + rss, 0) / some.length / 2 ** 20);
    }),
  };
}

/** What one writes with kafkajs alone: a producer a partition, a transaction a fetch. */
const bare = (output: string) => async (through: () => void) => {
  const producers = new Map<number, Producer>();
  for (let p = 0; p < PARTITIONS; p++) {
    const transactionalId = `${output}-${p}`;
    const one = kafkaClient(connection).producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
    await one.connect();
    producers.set(p, one);
  }
  const retry = { retries: 40, restartOnFailure: async () => true };
  const consumer = kafkaClient(connection).consumer({ groupId: output, maxWaitTimeInMs: 100, retry });
  await consumer.connect();
  await consumer.subscribe({ topics: [input], fromBeginning: true });
  let copied = 0;
  await consumer.run({
    autoCommit: false,
    partitionsConsumedConcurrently: PARTITIONS,
    eachBatch: async ({ batch, heartbeat }) => {
      const { partition } = batch;
      const transaction = await producers.get(partition)!.transaction();
      for (let i = 0; i < batch.messages.length; i += 1000) {
        const messages = batch.messages.slice(i, i + 1000);
        await transaction.send({
          topic: output,
          messages: messages.map((m) => ({ key: m.key, value: m.value, headers: m.headers!, partition })),
        });
      }
      const offset = String(BigInt(batch.lastOffset()) + 1n);
      const topics = [{ topic: input, partitions: [{ partition, offset }] }];
      await transaction.sendOffsets({ consumerGroupId: output, topics });
      await transaction.commit();
      await heartbeat();
      copied += batch.messages.length;
      if (copied >= records) through();
    },
  });
  return async () => {
    await consumer.disconnect();
    for (const one of producers.values()) await one.disconnect();
  };
};

const ours = (output: string) => async (through: () => void) => {
  const processor = await TransactionalProcessor.start({
    connection,
    topic: input,
    group: output,
    outputTopic: output,
    deadLetterTopic: null,
    process: async (batch) => ({ outputs: batch.records.map((r) => answerTo(r, r.value)), rejected: [] }),
    observer: {
      onTransaction: () => {
        if (processor?.counters.records >= records) through();
      },
    },
  });
  if (processor.counters.records >= records) through();
  return async () => {
    const { counters } = processor;
    console.error(`${Math.round(counters.records / counters.transactions)} records a transaction`);
    await processor.stop(5_000);
  };
};

/** A pipeline as `sluice run` starts it, with the logistic model of the tests. */
const scored = (output: string) => async (through: () => void) => {
  const metrics = new Metrics();
  const host = new ModelHost({ registry: new FolderRegistry(['test/fixtures/packages']), workers: 2, max: 1 });
  const text = `model: credit-columns
source: { type: kafka, topic: ${input}, group: ${output} }
sink: { type: kafka, topic: ${output} }
kafka: { brokers: ["${cluster.brokers[0]}"] }
`;
  const parsed = parsePipeline('bench.yaml', text);
  if (!parsed.ok) throw new Error(parsed.problems.map((p) => p.message).join());
  const running = await startPipeline(parsed.value, { name: 'bench', host, metrics, tell: () => {} });
  const timer = setInterval(() => {
    if (running.totals.rows >= records) through();
  }, 20);
  return async () => {
    clearInterval(timer);
    await running.stop(5_000);
    await host.close();
  };
};

for (let round = 1; round <= Number(values.rounds); round++) {
  for (const [name, copy] of Object.entries({ bare, ours, scored })) {
    if (values.only && values.only !== name) continue;
    const output = await cluster.createTopic(`bench-${name}-${round}`, PARTITIONS);
    console.log(JSON.stringify({ name, round, ...(await measure(copy(output))) }));
  }
}

const processor = await TransactionalProcessor.start({
  connection,
  topic: await cluster.createTopic('bench-idle', PARTITIONS),
  group: 'idle',
  outputTopic: await cluster.createTopic('bench-idle-out', PARTITIONS),
  deadLetterTopic: null,
  process: async () => ({ outputs: [], rejected: [] }),
});
await sleep(3_000);
const cpu = process.cpuUsage();
const idleMs = Number(values['idle-seconds']) * 1000;
await sleep(idleMs);
const { user, system } = process.cpuUsage(cpu);
console.log(JSON.stringify({ name: 'idle', percentOfACore: Math.round((user + system) / idleMs) / 10 }));
await processor.stop(1_000);
