// `npm run kafka:clients`: every Kafka client reads a topic, copies it at least once, copies it in transactions where it has them, and
// idles: records a second, CPU seconds and memory. Each measurement is a process of its own, in turns.
import { execFileSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { kafkaClient, openTransactionalWriter } from '../../../../src/connectors/kafka/choose-client.ts';
import type {
  GroupMember,
  MemberEvents,
  PlannedBatch,
  Rounds,
} from '../../../../src/connectors/kafka/client/kafka-client.ts';
import type { IncomingRecord } from '../../../../src/connectors/kafka/client/records.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { fill } from './fill.ts';

const { values } = parseArgs({
  options: {
    records: { type: 'string', default: '200000' },
    rounds: { type: 'string', default: '2' },
    /** Set for the processes that are measured. */
    measure: { type: 'string' },
    broker: { type: 'string', default: '' },
    output: { type: 'string', default: '' },
  },
});
const CLIENTS = ['kafkajs', 'platformatic'] as const;
const PARTITIONS = 4;
const INPUT = 'clients-in';
const MAX_BATCH = 4_000;
const records = Number(values.records);
const connection = { brokers: [values.broker] };

/** A member that gives what it reads to `take`. */
async function join(take: MemberEvents['records']) {
  const group = `clients-${process.pid}`;
  const ignore = () => {};
  const member = kafkaClient().member(
    {
      ...{ connection, topic: INPUT, group, instanceId: null, sessionTimeoutMs: 30_000, heartbeatIntervalMs: 3_000 },
      ...{
        rebalanceTimeoutMs: 30_000,
        fetchBytes: 1024 * 1024,
        fetchWaitMs: 250,
        fetchPaceMs: 0,
        metadataMaxAgeMs: 30_000,
      },
    },
    {
      assigned: ({ added }) => {
        setImmediate(() => {
          for (const partition of added) member.startAt(partition, 0n);
        });
      },
      records: take,
      ...{ revoked: ignore, skipped: ignore, reset: ignore, restarting: ignore },
      failed: (error) => {
        throw error;
      },
    },
  );
  await member.start();
  return { member, group };
}

async function read(): Promise<void> {
  let seen = 0;
  const all = Promise.withResolvers<void>();
  const { member } = await join((_partition, some) => {
    seen += some.length;
    if (seen >= records) all.resolve();
  });
  await all.promise;
  await member.stop();
}

/** Writes what was read, and commits the offsets behind it. */
type Write = (rounds: Rounds, next: ReadonlyMap<number, bigint>) => Promise<void>;

async function copy(): Promise<void> {
  const writer = kafkaClient().writer({ connection, compression: 'none' });
  await writer.connect();
  await copyBy((member) => async (rounds, next) => {
    await writer.write(rounds);
    await member.commit(next);
  });
  await writer.discard();
}

async function transactions(): Promise<void> {
  const transactionalId = `clients-${process.pid}`;
  const writer = openTransactionalWriter({
    connection,
    transactionalId,
    transactionTimeoutMs: 10_000,
    compression: 'none',
  });
  await writer.connect();
  await writer.fence();
  await copyBy((member, group) => (rounds, next) => {
    return writer.writeTransaction(rounds, { group, topic: INPUT, next, member: member.identity });
  });
  await writer.discard();
}

async function copyBy(writing: (member: GroupMember, group: string) => Write): Promise<void> {
  const waiting = new Map<number, { records: IncomingRecord[]; next: bigint }>();
  let arrived = Promise.withResolvers<void>();
  const { member, group } = await join((partition, some, next) => {
    member.pause([partition]);
    waiting.set(partition, { records: [...(waiting.get(partition)?.records ?? []), ...some], next });
    arrived.resolve();
  });
  const write = writing(member, group);
  for (let copied = 0; copied < records; ) {
    await arrived.promise;
    arrived = Promise.withResolvers();
    const taken = [...waiting];
    waiting.clear();
    const rounds: PlannedBatch[][] = [];
    for (const [partition, { records: some }] of taken) {
      for (let i = 0; i * MAX_BATCH < some.length; i++) {
        rounds[i] ??= [];
        rounds[i]!.push({ topic: values.output, partition, records: some.slice(i * MAX_BATCH, (i + 1) * MAX_BATCH) });
      }
      copied += some.length;
    }
    member.resume(taken.map(([partition]) => partition));
    await write(rounds, new Map(taken.map(([partition, one]) => [partition, one.next])));
  }
  await member.stop();
}

async function idle(): Promise<void> {
  const { member } = await join(() => {});
  await sleep(2_000);
  const before = process.cpuUsage();
  await sleep(10_000);
  const { user, system } = process.cpuUsage(before);
  console.error(`idle: ${((user + system) / 1e5).toFixed(2)} % of a core`);
  await member.stop();
}

const MEASURES = { read, copy, transactions, idle } as const;
const WITH_TRANSACTIONS: readonly string[] = ['platformatic'];

if (values.measure) {
  const begun = performance.now();
  await MEASURES[values.measure as keyof typeof MEASURES]();
  const seconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage();
  const cpu = (user + system) / 1e6;
  const memory = process.resourceUsage().maxRSS / 1024;
  const rate = values.measure === 'idle' ? '' : `${Math.round(records / seconds)} records/s, `;
  console.log(`${kafkaClient().name} ${values.measure}: ${rate}${cpu.toFixed(2)} CPU s, ${memory.toFixed(0)} MB`);
  process.exit(0);
}

await using cluster = await KafkaCluster.start();
await fill(cluster, { name: INPUT, partitions: PARTITIONS, records });
for (let round = 1; round <= Number(values.rounds); round++) {
  for (const measure of Object.keys(MEASURES)) {
    if (measure === 'idle' && round > 1) continue;
    for (const client of round % 2 === 0 ? CLIENTS.toReversed() : CLIENTS) {
      if (measure === 'transactions' && !WITH_TRANSACTIONS.includes(client)) continue;
      const output = await cluster.createTopic(`clients-out-${measure}-${client}-${round}`, PARTITIONS);
      const given = ['--broker', cluster.brokers[0]!, '--output', output, '--records', String(records)];
      execFileSync(process.execPath, [import.meta.filename, '--measure', measure, ...given], {
        stdio: 'inherit',
        env: { ...process.env, SLUICE_KAFKA_CLIENT: client },
      });
    }
  }
}
