// The measure of `npm run kafka:bench`: a transactional copy with kafkajs as it is published. Imports nothing of src, which repairs it.
import { parseArgs } from 'node:util';
import kafkajs, { type Producer } from 'kafkajs';
import { measure } from './measure.ts';

const { values } = parseArgs({
  options: {
    broker: { type: 'string' },
    topic: { type: 'string' },
    output: { type: 'string' },
    records: { type: 'string' },
  },
  strict: false,
});
const records = Number(values.records);
const PARTITIONS = 4;
const input = String(values.topic);
const client = () => new kafkajs.Kafka({ brokers: [String(values.broker)], logLevel: kafkajs.logLevel.NOTHING });

/** What one writes with kafkajs alone: a producer a partition, a transaction a fetch. */
const bare = (output: string) => async (through: () => void) => {
  const producers = new Map<number, Producer>();
  for (let p = 0; p < PARTITIONS; p++) {
    const transactionalId = `${output}-${p}`;
    const one = client().producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 });
    await one.connect();
    producers.set(p, one);
  }
  const retry = { retries: 40, restartOnFailure: async () => true };
  const consumer = client().consumer({ groupId: output, maxWaitTimeInMs: 100, retry });
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

console.log(JSON.stringify(await measure(records, bare(String(values.output)))));
