// Drives two members of a group through kills, stops and broken brokers while records flow, then counts every record.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaCounters } from '../../../../src/connectors/kafka/observer.ts';
import { someApplications } from '../../../support/kafka/applications.ts';
import type { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { addPartitions } from '../../../support/kafka/topics.ts';
import { PATIENCE_MS } from '../../../support/patience.ts';
import { until } from '../../../support/until.ts';
import { Crew } from './crew.ts';
import { feed } from './feed.ts';
import { countAnswers, type Tally } from './tally.ts';
import type { WorkerSettings } from './worker.ts';

export interface ChaosOptions {
  seed: number;
  records: number;
  /** kill -9 of a member; another takes its place at once. */
  kills?: number;
  /** SIGSTOP of a member for longer than its session, then SIGCONT. */
  stops?: number;
  /** Members that join, work for a moment and leave again. */
  visits?: number;
  /** A member told to end, and one of the other client in its place, as a deployment rolls; every second one goes back. */
  rolls?: number;
  /** Brokers killed and started again, in turn. Wants three. */
  brokerKills?: number;
  /** The only broker killed under load and started again after 0.2 to 10 s. Wants one. */
  outages?: number;
  /** Partitions added while records flow, to both topics. */
  addPartitions?: number;
  partitions?: number;
  /** Time a member takes for a batch, ms. */
  workMs?: number;
  batchRows?: number;
  sessionTimeoutMs?: number;
  transactionTimeoutMs?: number;
  /** false shows what happens without. */
  fencing?: boolean;
  /** The processor with an echo (default), or `sluice run` with a model: each record is then an application. */
  member?: 'echo' | 'pipeline';
  /** Which Kafka client the members begin with; default: the one of this process. */
  client?: string;
  /** Static members, each with a name of its own. */
  named?: boolean;
  delivery?: 'exactly_once' | 'at_least_once';
  /** Longest time for the group to finish after the last event, ms. */
  patienceMs?: number;
  log?: (line: string) => void;
}

export interface ChaosReport extends Tally {
  records: number;
  kills: number;
  stops: number;
  visits: number;
  rolls: number;
  brokerKills: number;
  outages: number;
  /**
   * Longest time from the broker's return until every partition was answered again, ms. The broker forgets how long a
   * member has been silent: if one was killed just before, its session timeout is not counted.
   */
  slowestReturnMs: number;
  /** Members that ended without being told to. */
  exits: number;
  /** Longest time a member took to end after SIGTERM, ms. */
  slowestEndMs: number;
  /** Summed over all members that lived long enough to tell. */
  counters: Partial<KafkaCounters>;
  seconds: number;
  finished: boolean;
}

type Event = 'kill' | 'stop' | 'visit' | 'roll' | 'broker' | 'outage' | 'partitions';

/** mulberry32: the same moments for the same seed. */
function randomOf(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Event → mean time it takes, ms: records are fed over the sum of these. */
const MEAN_MS: Record<Event, number> = {
  kill: 1_700,
  stop: 6_000,
  visit: 1_500,
  roll: 2_500,
  broker: 9_000,
  outage: 16_000,
  partitions: 3_000,
};
const WARM_UP_MS = 2_500;

export async function runChaos(cluster: KafkaCluster, options: ChaosOptions): Promise<ChaosReport> {
  const { records, seed, log = () => {} } = options;
  const random = randomOf(seed);
  const began = performance.now();
  let partitions = options.partitions ?? 4;
  const name = `chaos-${seed}-${crypto.randomUUID().slice(0, 8)}`;
  const [input, output] = [`${name}-in`, `${name}-out`];
  await cluster.createTopic(input, partitions);
  await cluster.createTopic(output, partitions);
  const sessionTimeoutMs = options.sessionTimeoutMs ?? 3_000;
  const settings: WorkerSettings = {
    connection: { brokers: cluster.brokers, requestTimeoutMs: 5_000 },
    topic: input,
    group: name,
    outputTopic: output,
    deadLetterTopic: null,
    sessionTimeoutMs,
    rebalanceTimeoutMs: 6_000,
    metadataMaxAgeMs: 1_000,
    batchRows: options.batchRows ?? 100,
    transactionRows: options.batchRows ?? 100,
    transactionTimeoutMs: options.transactionTimeoutMs ?? 20_000,
    fencing: options.fencing ?? true,
    delivery: options.delivery ?? 'exactly_once',
    workMs: options.workMs ?? 60,
  };
  const applications = options.member === 'pipeline' ? someApplications() : [{}];
  const [meanMs, warmUpMs] =
    options.member === 'pipeline' ? [{ ...MEAN_MS, kill: 4_000 }, 6_000] : [MEAN_MS, WARM_UP_MS];
  const events: Event[] = [
    ...Array<Event>(options.kills ?? 0).fill('kill'),
    ...Array<Event>(options.stops ?? 0).fill('stop'),
    ...Array<Event>(options.visits ?? 0).fill('visit'),
    ...Array<Event>(options.rolls ?? 0).fill('roll'),
    ...Array<Event>(options.brokerKills ?? 0).fill('broker'),
    ...Array<Event>(options.outages ?? 0).fill('outage'),
    ...(options.addPartitions ? (['partitions'] as const) : []),
  ];
  for (let i = events.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [events[i], events[j]] = [events[j]!, events[i]!];
  }

  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-chaos-'));
  const { member = 'echo', named = false } = options;
  const crew = new Crew({ settings, member, named, folder });
  for (const name of ['A', 'B']) crew.hire(name, options.client);
  const feedMs = warmUpMs + events.reduce((sum, event) => sum + meanMs[event], 0);
  const fed = feed(cluster, input, applications, records, feedMs, () => partitions);
  fed.catch(() => {});
  await sleep(warmUpMs);
  let brokers = 0;
  let slowestReturnMs = 0;
  let killed = Number.NEGATIVE_INFINITY;
  for (const [i, event] of events.entries()) {
    const who = random() < 0.5 ? 'A' : 'B';
    log(`${((performance.now() - began) / 1000).toFixed(1)} s  ${i + 1}/${events.length} ${event} ${who}`);
    if (event === 'kill') {
      crew.kill(who);
      killed = performance.now();
      await sleep(200 + random() * 600);
      crew.hire(who);
      await sleep(meanMs.kill - MEAN_MS.kill + 600 + random() * 1_200);
    } else if (event === 'stop') {
      crew.signal(who, 'SIGSTOP');
      await sleep(sessionTimeoutMs + 1_200 + random() * 1_000);
      crew.signal(who, 'SIGCONT');
      await sleep(800 + random() * 800);
    } else if (event === 'visit') {
      const visitor = `visitor-${i}`;
      crew.hire(visitor, options.client);
      await sleep(600 + random() * 1_200);
      await crew.dismiss(visitor);
      await sleep(random() * 400);
    } else if (event === 'roll') {
      const other = crew.clientOf(who) === 'platformatic' ? 'kafkajs' : 'platformatic';
      await crew.dismiss(who);
      crew.hire(who, other);
      await sleep(1_500 + random() * 1_500);
    } else if (event === 'broker') {
      const node = (brokers++ % cluster.brokers.length) + 1;
      await cluster.killNode(node);
      await sleep(1_500 + random() * 1_500);
      await cluster.startNode(node);
      await cluster.ready();
      await sleep(2_000 + random() * 1_000);
    } else if (event === 'outage') {
      // A member that starts while the broker is away ends, which is no fault. Pipelines tell no counters.
      if (member === 'echo') await until(() => crew.hasStarted, 'the members');
      const expiryMs = performance.now() - killed < sessionTimeoutMs ? sessionTimeoutMs : 0;
      const ms = await outage(cluster, name, input, 200 + random() ** 2 * 9_800);
      log(`answered again after ${Math.round(ms)} ms`);
      slowestReturnMs = Math.max(slowestReturnMs, ms - expiryMs);
      await sleep(500 + random() * 1_000);
    } else {
      partitions += options.addPartitions!;
      await addPartitions(cluster, [output, input], partitions);
      await sleep(2_000);
    }
  }
  await fed;
  const finished = await untilRead(cluster, name, input, records, options.patienceMs ?? PATIENCE_MS);
  await crew.dismissAll();
  rmSync(folder, { recursive: true, force: true });
  const tally = await countAnswers(cluster, input, output, records);
  const count = (event: Event) => events.filter((e) => e === event).length;
  return {
    ...tally,
    records,
    kills: count('kill'),
    stops: count('stop'),
    visits: count('visit'),
    rolls: count('roll'),
    brokerKills: count('broker'),
    outages: count('outage'),
    slowestReturnMs: Math.round(slowestReturnMs),
    exits: crew.exits,
    slowestEndMs: crew.slowestEndMs,
    counters: crew.counters(),
    seconds: Math.round((performance.now() - began) / 100) / 10,
    finished,
  };
}

/** The broker is gone for `ms`; gives the time from its return until every partition was answered again, ms. */
async function outage(cluster: KafkaCluster, group: string, topic: string, ms: number): Promise<number> {
  await cluster.killNode(1);
  await sleep(ms);
  await cluster.startNode(1);
  await cluster.ready();
  const back = performance.now();
  let before: readonly number[] | null = null;
  for (const end = back + PATIENCE_MS; performance.now() < end; await sleep(100)) {
    const now = await committedOf(cluster, group, topic).catch(() => null);
    if (now === null) continue;
    before ??= now;
    const open = now.flatMap((offset, partition) => (offset > (before![partition] ?? 0) ? [] : [partition]));
    if (open.length === 0) return performance.now() - back;
    const ends = await (await cluster.admin()).fetchTopicOffsets(topic).catch(() => []);
    // On a busy machine the last outages may come when every record is answered.
    const answered = (partition: number) => ends.some((e) => e.partition === partition && +e.high <= now[partition]!);
    if (ends.length > 0 && now.length === ends.length && open.every(answered)) return performance.now() - back;
  }
  throw new Error(
    `not every partition goes on after the broker is back: ${await whereItStands(cluster, group, topic)}`,
  );
}

/** Whether records are missing, or those who answer them. */
async function whereItStands(cluster: KafkaCluster, group: string, topic: string): Promise<string> {
  const admin = cluster.client().admin();
  await admin.connect();
  const [offsets, ends, { groups }] = await Promise.all([
    admin.fetchOffsets({ groupId: group, topics: [topic] }),
    admin.fetchTopicOffsets(topic),
    admin.describeGroups([group]),
  ]);
  await admin.disconnect();
  const committed = offsets[0]!.partitions.map((p) => `${p.partition}:${p.offset}`);
  const [{ state, members }] = groups as [(typeof groups)[number]];
  return `committed ${committed}; ends ${ends.map((p) => `${p.partition}:${p.offset}`)}; group ${state} of ${members.length}`;
}

/** Records the group has committed, by partition. */
async function committedOf(cluster: KafkaCluster, group: string, topic: string): Promise<number[]> {
  const [answer] = await (await cluster.admin()).fetchOffsets({ groupId: group, topics: [topic] });
  const offsets: number[] = [];
  for (const { partition, offset } of answer!.partitions) offsets[partition] = Math.max(0, Number(offset));
  return offsets;
}

/** Whether the group has committed everything within `ms`. */
async function untilRead(
  cluster: KafkaCluster,
  group: string,
  topic: string,
  records: number,
  ms: number,
): Promise<boolean> {
  for (const end = performance.now() + ms; performance.now() < end; await sleep(300)) {
    try {
      const committed = await committedOf(cluster, group, topic);
      if (committed.reduce((a, b) => a + b, 0) >= records) return true;
    } catch {
      // A broker is on its way back.
    }
  }
  return false;
}
