// Implements the client interface with kafkajs, without transactions.
// This file has topic metadata and an idempotent writer.
// Members and scanners are in other files.
import type { Admin, Message, Producer, RecordMetadata, TopicMessages } from 'kafkajs';
import { inBackground, within } from '../../../core/async.ts';
import { monotonicMs, sleep } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { reasonOf } from '../client/failures.ts';
import type {
  BatchWriter,
  BrokerFeatures,
  KafkaClient,
  PartitionRange,
  PlannedBatch,
  PlannedRecord,
  Rounds,
  TopicAdmin,
  WriterSettings,
} from '../client/kafka-client.ts';
import { COMPRESSION_TYPES, type KafkajsHandle, kafkajsError, openKafkajs } from './connect.ts';
import { KafkajsMember } from './kafkajs-member.ts';
import { KafkajsScanner } from './kafkajs-scanner.ts';
import kafkajs from './repairs.ts';

export const kafkajsClient: KafkaClient = {
  name: 'kafkajs',
  cooperative: false,
  paced: false,
  admin: (connection) => new KafkajsAdmin(connection),
  member: (options, events) => new KafkajsMember(options, events),
  writer: (settings) => new KafkajsWriter(settings),
  transactionalWriter: null,
  scanner: (connection) => new KafkajsScanner(connection),
};

/** Errors while a coordinator is being created or moved. */
const UNSETTLED = /^(NOT_COORDINATOR_FOR_GROUP|GROUP_COORDINATOR_NOT_AVAILABLE|GROUP_LOAD_IN_PROGRESS)$/;
const UNSETTLED_PAUSE_MS = 20;
/** Maximum time to wait for a coordinator, ms. Callers retry after this time. */
const UNSETTLED_MS = 15_000;
/** Maximum attempts of a request whose connection was closed because another request failed. */
const ATTEMPTS = 3;
const TRIPPED_PAUSE_MS = 100;
/** Maximum time to wait until kafkajs has closed its connections, ms. Remaining connections are then destroyed. */
const CLOSING_MS = 1_000;

interface Opened {
  readonly handle: KafkajsHandle;
  readonly admin: Admin;
}

class KafkajsAdmin implements TopicAdmin {
  readonly #connection: KafkaConnection;
  #opened: Promise<Opened> | null = null;
  #closed = false;

  constructor(connection: KafkaConnection) {
    this.#connection = connection;
  }

  topics(): Promise<readonly string[]> {
    return this.#ask('querying the topics failed', ({ admin }) => admin.listTopics());
  }

  partitions(topic: string): Promise<number> {
    return this.#ask(`querying the topic ${topic} failed`, async ({ admin }) => {
      const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
      const partitions = topics[0]?.partitions.length ?? 0;
      if (partitions === 0) throw new SluiceError('kafka_topic_missing', `the topic ${topic} has no partitions`);
      return partitions;
    });
  }

  /** kafkajs supports no request with topic IDs. */
  async topicId(): Promise<null> {
    return null;
  }

  /** Returns null if this user lacks the permission to read settings, which is separate. */
  async settings(topic: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | null> {
    try {
      return await this.#ask(`querying the settings of ${topic} failed`, async ({ admin }) => {
        const { resources } = await admin.describeConfigs({
          includeSynonyms: false,
          resources: [{ type: kafkajs.ConfigResourceTypes.TOPIC, name: topic, configNames: [...names] }],
        });
        return new Map(resources[0]?.configEntries.map((e) => [e.configName, e.configValue]));
      });
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'kafka_not_authorized') return null;
      throw error;
    }
  }

  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>> {
    return this.#ask(`querying the offsets of ${topic} failed`, async ({ admin }) => {
      const found = await admin.fetchTopicOffsets(topic);
      // kafkajs cannot ask for the end of records of open transactions.
      return new Map(
        found.map(({ partition, low, high }) => {
          return [partition, { low: BigInt(low), high: BigInt(high), end: BigInt(high) }];
        }),
      );
    });
  }

  committed(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, bigint | null>> {
    return this.#ask(`querying the offsets of the group ${group} failed`, async ({ admin }) => {
      for (const end = monotonicMs() + UNSETTLED_MS; ; await sleep(UNSETTLED_PAUSE_MS)) {
        try {
          const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
          const wanted = found?.partitions.filter((p) => partitions.includes(p.partition)) ?? [];
          return new Map(wanted.map((p) => [p.partition, offsetOf(p.offset)]));
        } catch (error) {
          if (!UNSETTLED.test(reasonOf(error)) || this.#closed || monotonicMs() > end) throw error;
        }
      }
    });
  }

  note(group: string, topic: string, partition: number): Promise<string | null> {
    return this.#ask(`querying the offsets of the group ${group} failed`, async ({ admin }) => {
      const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] });
      return found?.partitions.find((p) => p.partition === partition)?.metadata || null;
    });
  }

  features(): Promise<BrokerFeatures> {
    return this.#ask('connecting failed', async () => ({ memberTransactions: false }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #drop(): Promise<void> {
    const opened = this.#opened;
    this.#opened = null;
    await opened?.then(closeAdmin, () => {});
  }

  /**
   * Runs a request. After a failure, the next request uses a new connection, because kafkajs never refreshes the
   * metadata of an admin client.
   */
  async #ask<T>(during: string, question: (opened: Opened) => Promise<T>): Promise<T> {
    this.#closed = false;
    for (let attempt = 1; ; attempt++) {
      this.#opened ??= this.#open();
      const asked = this.#opened;
      try {
        return await question(await asked);
      } catch (error) {
        // Another request failed and closed the connection, so this request is repeated with the new connection.
        if (this.#opened !== asked && !this.#closed && attempt < ATTEMPTS) continue;
        if (this.#opened === asked) inBackground('closing an admin', () => this.#drop());
        // kafkajs throws a TypeError if a response lacks a topic that was created just before.
        if (error instanceof TypeError && !this.#closed && attempt < ATTEMPTS) {
          await sleep(TRIPPED_PAUSE_MS);
          continue;
        }
        throw kafkajsError(error, during);
      }
    }
  }

  async #open(): Promise<Opened> {
    const handle = openKafkajs(this.#connection);
    const admin = handle.kafka.admin();
    try {
      await admin.connect();
    } catch (error) {
      handle.destroy();
      throw error;
    }
    return { handle, admin };
  }
}

const offsetOf = (text: string): bigint | null => (BigInt(text) < 0n ? null : BigInt(text));

const closeAdmin = ({ handle, admin }: Opened): Promise<void> => close(admin, handle);

/** Closes a client and destroys its connections. Never rejects. */
async function close(client: Pick<Admin | Producer, 'disconnect'>, handle: KafkajsHandle): Promise<void> {
  await within(
    client.disconnect().catch(() => {}),
    CLOSING_MS,
  );
  handle.destroy();
}

class KafkajsWriter implements BatchWriter {
  readonly #handle: KafkajsHandle;
  readonly #producer: Producer;
  readonly #compression: number;
  #discarded: Promise<void> | null = null;

  /** @throws SluiceError kafka_config */
  constructor({ connection, compression }: WriterSettings) {
    this.#compression = COMPRESSION_TYPES[compression];
    this.#handle = openKafkajs(connection);
    this.#producer = this.#handle.kafka.producer({
      idempotent: true,
      maxInFlightRequests: 1,
      allowAutoTopicCreation: false,
      metadataMaxAge: 30_000,
    });
  }

  async connect(): Promise<void> {
    await coded('connecting a producer failed', () => this.#producer.connect());
  }

  async write(rounds: Rounds): Promise<void> {
    await coded('writing failed', async () => {
      for (const round of rounds) {
        const batch = { acks: -1, compression: this.#compression, topicMessages: byTopic(round) };
        checkAcknowledged(round, await this.#producer.sendBatch(batch));
      }
    });
  }

  discard(): Promise<void> {
    this.#discarded ??= close(this.#producer, this.#handle);
    return this.#discarded;
  }
}

async function coded<T>(during: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw kafkajsError(error, during);
  }
}

/** The records of a round, grouped by topic. Each record has its partition. */
function byTopic(round: readonly PlannedBatch[]): TopicMessages[] {
  const topics = new Map<string, Message[]>();
  for (const { topic, partition, records } of round) {
    const messages = topics.get(topic) ?? [];
    topics.set(topic, messages);
    for (const record of records) messages.push(messageOf(record, partition));
  }
  return [...topics].map(([topic, messages]) => ({ topic, messages }));
}

const messageOf = ({ key, value, headers, timestamp }: PlannedRecord, partition: number): Message => ({
  key,
  value,
  partition,
  ...(headers ? { headers: headers as Record<string, Buffer | Buffer[]> } : {}),
  ...(timestamp === undefined ? {} : { timestamp: String(timestamp) }),
});

/**
 * Throws if a batch was not acknowledged. kafkajs silently omits partitions that are missing in its metadata, and
 * partitions whose leader moved during a retry. So a batch without an acknowledgement was not sent.
 */
function checkAcknowledged(round: readonly PlannedBatch[], acks: readonly RecordMetadata[]): void {
  const missing = new Set(round.map((b) => `${b.topic}/${b.partition}`));
  for (const { topicName, partition, errorCode } of acks) {
    if (errorCode === 0) missing.delete(`${topicName}/${partition}`);
  }
  if (missing.size > 0)
    throw new SluiceError('kafka_failed', `the broker did not acknowledge: ${[...missing].join(', ')}`);
}
