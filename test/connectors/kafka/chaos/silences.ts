// `npm run chaos:silences -- --kills 20`: static members under a steady load on every partition, killed and started again at once.
// How long is each partition without an answer? Exits 1 when one of the killed member's own is for more than 5 s, another for more than 1 s.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import kafkajs from 'kafkajs';
import { someApplications } from '../../../support/kafka/applications.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { until } from '../../../support/until.ts';
import { Crew } from './crew.ts';
import { feed } from './feed.ts';
import { countAnswers, type Tally } from './tally.ts';
import type { WorkerSettings } from './worker.ts';

export interface SilenceOptions {
  kills: number;
  members?: number;
  partitions?: number;
  /** Records a second, all partitions together. */
  rate?: number;
  member?: 'echo' | 'pipeline';
  /** Which Kafka client the members use; default: the one of this process. */
  client?: string;
  /** Default: exactly_once. */
  delivery?: WorkerSettings['delivery'];
  /** false: members without names, for comparison. */
  named?: boolean;
  log?: (line: string) => void;
}

export interface SilenceReport extends Tally {
  kills: number;
  records: number;
  exits: number;
  /** Longest time without a committed answer: of a partition of the killed member, and of all others, ms, by kill. */
  own: number[];
  others: number[];
}

/** A kill is watched for this long at least, ms, and until every partition goes on. */
const WATCH_MS = 4_000;
const POLL_MS = 25;

export async function runSilences(cluster: KafkaCluster, options: SilenceOptions): Promise<SilenceReport> {
  const { kills, members = 4, partitions = 12, rate = 120, member = 'echo', named = true, log = () => {} } = options;
  const name = `silences-${crypto.randomUUID().slice(0, 8)}`;
  const [input, output] = [`${name}-in`, `${name}-out`];
  for (const topic of [input, output]) await cluster.createTopic(topic, partitions);
  const settings: WorkerSettings = {
    connection: { brokers: cluster.brokers },
    topic: input,
    group: name,
    outputTopic: output,
    deadLetterTopic: null,
    delivery: options.delivery ?? 'exactly_once',
    sessionTimeoutMs: 30_000,
    batchRows: 100,
    transactionRows: 100,
    transactionTimeoutMs: 10_000,
    workMs: 1,
  };
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-silences-'));
  const crew = new Crew({ settings, member, named, folder });
  const names = Array.from({ length: members }, (_, i) => `member-${i}`);
  for (const one of names) crew.hire(one, options.client);
  const shares = () => sharesOf(cluster, name);
  const even = async () => [...(await shares()).values()].filter((p) => p.length === partitions / members).length;
  await until(async () => (await even()) === members, 'every member has its share');
  const records = Math.ceil(((kills + 1) * (WATCH_MS + 1_000) * rate) / 1_000);
  const applications = member === 'pipeline' ? someApplications() : [{}];
  const fed = feed(cluster, input, applications, records, (records / rate) * 1_000, () => partitions);
  fed.catch(() => {});
  const answers = new Answers(cluster, name, input, partitions);
  await until(() => answers.all(0), 'every partition is answered');
  const own: number[] = [];
  const others: number[] = [];
  for (let n = 0; n < kills; n++) {
    const dying = names[n % members]!;
    const its = new Set((await shares()).get(dying));
    await sleep(300 + Math.random() * 500);
    const killed = performance.now();
    crew.kill(dying);
    crew.hire(dying);
    await sleep(WATCH_MS);
    await until(() => answers.all(killed + 500), 'every partition goes on');
    const silences = answers.since(killed);
    own.push(Math.round(Math.max(...silences.filter((_, p) => its.has(p)))));
    others.push(Math.round(Math.max(...silences.filter((_, p) => !its.has(p)))));
    log(`${n + 1}/${kills} ${dying} with ${its.size}: its own ${own.at(-1)} ms, others ${others.at(-1)} ms`);
  }
  await fed;
  await until(() => answers.total >= records, 'every record is answered');
  await answers.stop();
  await crew.dismissAll();
  rmSync(folder, { recursive: true, force: true });
  return { ...(await countAnswers(cluster, input, output, records)), kills, records, exits: crew.exits, own, others };
}

/** Partitions by the names of the clients that have them. */
async function sharesOf(cluster: KafkaCluster, group: string): Promise<Map<string, number[]>> {
  const { groups } = await (await cluster.admin()).describeGroups([group]);
  return new Map(
    (groups[0]?.members ?? []).map(({ clientId, memberAssignment }) => {
      const decoded = kafkajs.AssignerProtocol.MemberAssignment.decode(memberAssignment);
      return [clientId, Object.values(decoded?.assignment ?? {}).flat()];
    }),
  );
}

/** When the group's committed offset of each partition moved: its answers are committed with it. */
class Answers {
  /** Moments of each partition, performance.now(). */
  readonly #moved: number[][];
  readonly #offsets: number[];
  readonly #polling: Promise<void>;
  #over = false;

  constructor(cluster: KafkaCluster, group: string, topic: string, partitions: number) {
    this.#moved = Array.from({ length: partitions }, () => []);
    this.#offsets = Array<number>(partitions).fill(0);
    this.#polling = this.#poll(cluster, group, topic);
  }

  get total(): number {
    return this.#offsets.reduce((a, b) => a + b, 0);
  }

  /** Whether each partition moved after that. */
  all(after: number): boolean {
    return this.#moved.every((moments) => (moments.at(-1) ?? 0) > after);
  }

  /** The longest gap of each partition that ended later than `from`. */
  since(from: number): number[] {
    return this.#moved.map((moments) => {
      let longest = 0;
      for (let i = 1; i < moments.length; i++) {
        if (moments[i]! > from) longest = Math.max(longest, moments[i]! - moments[i - 1]!);
      }
      return longest;
    });
  }

  stop(): Promise<void> {
    this.#over = true;
    return this.#polling;
  }

  async #poll(cluster: KafkaCluster, group: string, topic: string): Promise<void> {
    const admin = await cluster.admin();
    for (; !this.#over; await sleep(POLL_MS)) {
      const [answer] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
      const now = performance.now();
      for (const { partition, offset } of answer!.partitions) {
        if (Number(offset) <= this.#offsets[partition]!) continue;
        this.#offsets[partition] = Number(offset);
        this.#moved[partition]!.push(now);
      }
    }
  }
}

const OWN_MS = 5_000;
const OTHERS_MS = 1_000;

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      kills: { type: 'string', default: '20' },
      members: { type: 'string', default: '4' },
      partitions: { type: 'string', default: '12' },
      rate: { type: 'string', default: '120' },
      member: { type: 'string', default: 'echo' },
      /** Shows what the names are good for. */
      'without-names': { type: 'boolean', default: false },
    },
  });
  await using cluster = await KafkaCluster.start();
  const report = await runSilences(cluster, {
    kills: Number(values.kills),
    members: Number(values.members),
    partitions: Number(values.partitions),
    rate: Number(values.rate),
    member: values.member === 'pipeline' ? 'pipeline' : 'echo',
    named: !values['without-names'],
    log: (line) => console.error(line),
  });
  console.log(JSON.stringify(report));
  const { lost, doubled, disordered, exits } = report;
  const silent = Math.max(...report.own) > OWN_MS || Math.max(...report.others) > OTHERS_MS;
  if (silent || lost + doubled + disordered + exits > 0) process.exitCode = 1;
}
