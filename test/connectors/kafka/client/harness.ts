// What the conformance suite shares: one broker with a secured listener, and a member that writes down everything it is told.
import { expect } from 'vitest';
import type { KafkaConnection } from '../../../../src/connectors/kafka/client/connection.ts';
import type {
  GroupMember,
  KafkaClient,
  MemberOptions,
  MemberState,
  PlannedRecord,
  Rounds,
  TransactionalWriter,
  TransactionSettings,
  WriterSettings,
} from '../../../../src/connectors/kafka/client/kafka-client.ts';
import type { IncomingRecord } from '../../../../src/connectors/kafka/client/records.ts';
import { type ErrorCode, SluiceError } from '../../../../src/core/errors.ts';
import { KafkaCluster } from '../../../support/kafka/cluster.ts';
import { CutLink } from '../../../support/kafka/cut-link.ts';
import { PASSWORD, type SecuredConnection, SecuredListener } from '../../../support/kafka/secured.ts';
import { until } from '../../../support/until.ts';

/** Declares one behaviour of the suite. */
export type Behaves = (name: string, run: () => Promise<void>) => void;

/** A client and the broker it is held against. */
export class Bench {
  readonly client: KafkaClient;
  readonly cluster: KafkaCluster;
  /** Over TLS, with a login by SCRAM. */
  readonly secured: SecuredConnection;
  /** A way to the broker on which answers can be lost. */
  readonly link: CutLink;
  #names = 0;

  private constructor(client: KafkaClient, cluster: KafkaCluster, secured: SecuredConnection, link: CutLink) {
    this.link = link;
    this.client = client;
    this.cluster = cluster;
    this.secured = secured;
  }

  static async open(client: KafkaClient): Promise<Bench> {
    const listener = await SecuredListener.open();
    const link = await CutLink.open();
    const cluster = await KafkaCluster.start({
      settings: (own) => {
        const secured = listener.settings(own);
        return { ...secured, ...link.settings({ ...own, ...secured }) };
      },
    });
    return new Bench(client, cluster, await listener.connection(cluster), link);
  }

  /** Ends the broker and the link. */
  async close(): Promise<void> {
    await this.cluster.stop();
    await this.link[Symbol.asyncDispose]();
  }

  get connection(): KafkaConnection {
    return { brokers: this.cluster.brokers };
  }

  /** A name nobody else has. */
  name(word: string): string {
    return `${word}-${++this.#names}`;
  }

  topic(partitions = 1, settings: Record<string, string> = {}): Promise<string> {
    return this.cluster.createTopic(this.name('topic'), partitions, settings);
  }

  watch(topic: string, more: Partial<MemberOptions> & { from?: bigint | null } = {}): WatchedMember {
    const { from = 0n, ...options } = more;
    return new WatchedMember(this.client, from, { ...this.memberOptions(topic), ...options });
  }

  memberOptions(topic: string): MemberOptions {
    return {
      connection: this.connection,
      topic,
      group: `g-${topic}`,
      instanceId: null,
      sessionTimeoutMs: 10_000,
      heartbeatIntervalMs: 200,
      rebalanceTimeoutMs: 10_000,
      fetchBytes: 1024 * 1024,
      fetchWaitMs: 100,
      fetchPaceMs: 0,
      metadataMaxAgeMs: 1_000,
    };
  }

  writerSettings(more: Partial<WriterSettings> = {}): WriterSettings {
    return { connection: this.connection, compression: 'none', ...more };
  }

  /** Opens a transactional writer; default: of an id of its own. */
  transactions(more: Partial<TransactionSettings> = {}): TransactionalWriter {
    const usual = { transactionalId: this.name('id'), transactionTimeoutMs: 30_000 };
    return this.client.transactionalWriter!({ ...this.writerSettings(), ...usual, ...more });
  }

  /** Written and acknowledged, by a writer of the client. */
  async write(
    topic: string,
    partition: number,
    records: readonly PlannedRecord[],
    more: Partial<WriterSettings> = {},
  ): Promise<void> {
    const writer = this.client.writer(this.writerSettings(more));
    await writer.connect();
    await writer.write([[{ topic, partition, records }]]);
    await writer.discard();
  }
}

/** `count` records with the values from, from + 1 … */
export const counted = (count: number, from = 0): PlannedRecord[] =>
  Array.from({ length: count }, (_, i) => ({ key: Buffer.from(`k${from + i}`), value: Buffer.from(`${from + i}`) }));

export const valuesOf = (records: readonly { value: Buffer | null }[]): string[] => records.map((r) => String(r.value));

/** The error of the catalogue a call fails with, whatever the library calls it. */
export async function failureOf(work: Promise<unknown>): Promise<SluiceError> {
  const error: unknown = await work.then(
    () => new Error('nothing failed'),
    (e: unknown) => e,
  );
  expect(error).toBeInstanceOf(SluiceError);
  expect((error as SluiceError).message).not.toContain(PASSWORD);
  return error as SluiceError;
}

/** Writes to three topics, of which the second does not exist: the failure names that one only. */
export async function namesMissingTopic(bench: Bench, write: (rounds: Rounds) => Promise<void>): Promise<void> {
  const [first, last] = [await bench.topic(3), await bench.topic(3)];
  const round = [first, 'gone-from-here', last].flatMap((topic) =>
    [0, 1].map((partition) => ({ topic, partition, records: counted(1) })),
  );
  const { code, message } = await failureOf(write([round]));
  expect([code, message]).toEqual(['kafka_topic_missing', expect.stringMatching(/topic gone-from-here\b/)]);
  for (const topic of [first, last]) expect(message).not.toContain(topic);
}

export const codeOf = async (work: Promise<unknown>): Promise<ErrorCode> => (await failureOf(work)).code;

/** Starts each partition it is given at `from`, or where its own reading had come to. null: the test starts them. */
export class WatchedMember implements AsyncDisposable {
  readonly member: GroupMember;
  readonly records: IncomingRecord[] = [];
  readonly states: MemberState[] = [];
  readonly restarts: SluiceError[] = [];
  readonly failures: SluiceError[] = [];
  /** Records that came twice, or out of order. */
  readonly faults: string[] = [];
  /** Partitions of each event, to be counted. */
  readonly assigned: { added: readonly number[]; kept: readonly number[] }[] = [];
  readonly revoked: (readonly number[] | null)[] = [];
  /** Called when partitions are taken away, before the member goes on. */
  onRevoked: (() => void) | null = null;
  readonly owned = new Set<number>();
  /** Behind the last record or control record. */
  readonly positions = new Map<number, bigint>();

  constructor(client: KafkaClient, from: bigint | null, options: MemberOptions) {
    const moved = (partition: number, next: bigint) => this.positions.set(partition, next);
    this.member = client.member(options, {
      state: (state) => this.states.push(state),
      assigned: ({ added, kept }) => {
        this.assigned.push({ added, kept });
        this.owned.clear();
        for (const p of [...added, ...kept]) this.owned.add(p);
        // Whoever owns a partition asks where to start first.
        if (from !== null)
          setImmediate(() => {
            for (const p of added) this.member.startAt(p, this.positions.get(p) ?? from);
          });
      },
      revoked: (partitions) => {
        this.revoked.push(partitions);
        this.onRevoked?.();
        for (const p of partitions ?? [...this.owned]) this.owned.delete(p);
      },
      records: (partition, records, next) => {
        const offsets = [(this.positions.get(partition) ?? 0n) - 1n, ...records.map((r) => r.offset), next];
        const disorder = offsets.findIndex((offset, i) => i > 0 && offset <= offsets[i - 1]! && i < offsets.length - 1);
        if (disorder >= 0 || next <= records.at(-1)!.offset) this.faults.push(`partition ${partition}: ${offsets}`);
        this.records.push(...records);
        moved(partition, next);
      },
      skipped: (partition, next) => moved(partition, next),
      reset: () => {},
      restarting: (error) => this.restarts.push(error),
      failed: (error) => this.failures.push(error),
    });
  }

  async joined(partitions: number): Promise<this> {
    await this.member.start();
    await this.owns(partitions);
    return this;
  }

  async owns(partitions: number): Promise<void> {
    await until(() => this.owned.size === partitions && this.member.state === 'joined', `${partitions} partitions`);
  }

  async read(count: number): Promise<IncomingRecord[]> {
    await until(() => this.records.length >= count, `${count} records, ${this.records.length} came`);
    return this.records;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.member.stop();
    expect(this.faults).toEqual([]);
  }
}
