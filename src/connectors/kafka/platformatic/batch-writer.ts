// Writes record batches idempotently, or in transactions that also commit offsets.
// Each partition leader gets one request at a time.

import { epochMs } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { type PackedCompression, packBatch } from '../client/codecs.ts';
import type {
  BatchWriter,
  OffsetsToCommit,
  PlannedBatch,
  PlannedRecord,
  Rounds,
  TransactionalWriter,
  TransactionPlaces,
  TransactionSettings,
} from '../client/kafka-client.ts';
import { type BatchRecord, encodeRecordBatch } from '../client/record-batch.ts';
import { BrokerCluster } from './broker-cluster.ts';
import { failure, hasMoved, NoConnection, Refusal } from './broker-failures.ts';
import { isPending, lastDecision, unfinished } from './forgotten-markers.ts';
import {
  addOffsetsToTxnV3,
  addPartitionsToTxnV3,
  endTxnV3,
  errorName,
  initProducerIdV3,
  produceV8,
  txnOffsetCommitV3,
} from './kafka-protocol.ts';
import { markedOffsets } from './offset-marks.ts';

const CODEC_NUMBERS = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const;
/** Time limit for writing batches and for ending transactions, ms. */
const PATIENCE_MS = 30_000;
const ABORT_PATIENCE_MS = 3_000;
const ALL_REPLICAS = -1;
/** Sequence numbers wrap around at this value, as on the broker. */
const SEQUENCES = 2 ** 31;

interface Producer {
  id: bigint;
  epoch: number;
}

/** Settings of a writer. `transactionalId` is null for idempotent writes without transactions. */
type Settings = Omit<TransactionSettings, 'transactionalId'> & { readonly transactionalId: string | null };

export class PlatformaticWriter implements BatchWriter, TransactionalWriter {
  readonly #settings: Settings;
  readonly #cluster: BrokerCluster;
  readonly #sequences = new Map<string, number>();
  #producer: Promise<Producer> | null = null;
  #failed: SluiceError | null = null;
  /** Whether to query the outcome of the last transaction before fencing makes the broker discard it. */
  #looksBack = false;
  #decided: boolean | null = null;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#cluster = new BrokerCluster(settings.connection);
  }

  async connect(): Promise<void> {
    await this.#guarded('connecting a writer failed', () => this.#cluster.any());
  }

  async fence(places?: TransactionPlaces): Promise<void> {
    await this.#guarded(`taking over ${this.#name} failed`, async () => {
      this.#looksBack = places !== undefined;
      const producer = await this.#identity();
      if (places && this.#decided !== null) await this.#settle(places, producer, this.#decided);
    });
  }

  /**
   * Ends a hanging transaction according to its recorded outcome: sends markers of this producer to all partitions that
   * may lack them.
   */
  async #settle(places: TransactionPlaces, producer: Producer, committed: boolean): Promise<void> {
    const [hanging, pending] = await this.#cluster.patiently(PATIENCE_MS, () =>
      Promise.all([unfinished(this.#cluster, places.writes), isPending(this.#cluster, places)]),
    );
    if (hanging.size === 0 && !pending) return;
    await this.#addPartitions(hanging, producer);
    if (pending) await this.#addGroup(places.group, producer);
    await this.#end(producer, committed, PATIENCE_MS);
  }

  async write(rounds: Rounds): Promise<void> {
    await this.#guarded('writing failed', async () => {
      const producer = await this.#identity();
      await this.#produceAll(rounds, producer);
    });
  }

  async writeTransaction(rounds: Rounds, offsets: OffsetsToCommit | null): Promise<void> {
    const transaction = this.#settings.transactionalId;
    if (transaction === null)
      throw new SluiceError('kafka_config', 'a writer without a transactional id has no transactions');
    let open: Producer | null = null;
    try {
      await this.#guarded(`the transaction ${transaction} failed`, async () => {
        const producer = await this.#identity();
        open = producer;
        await this.#addPartitions(partitionsOf(rounds), producer);
        // Different brokers process these requests concurrently. All of them are awaited even after a failure, so that
        // no request is sent after this method has returned.
        const parts = [this.#produceAll(rounds, producer), offsets && this.#addOffsets(offsets, producer)];
        for (const part of await Promise.allSettled(parts)) if (part.status === 'rejected') throw part.reason;
        await this.#end(producer, true, PATIENCE_MS);
      });
    } catch (error) {
      // The transaction is aborted now. Otherwise readers would have to wait until the next writer fences this one.
      if (open) await this.#end(open, false, ABORT_PATIENCE_MS).catch(() => {});
      throw error;
    }
  }

  async discard(): Promise<void> {
    this.#failed ??= new SluiceError('kafka_failed', 'the writer is closed');
    this.#cluster.destroy();
  }

  get #name(): string {
    const { transactionalId } = this.#settings;
    return transactionalId === null ? 'an idempotent writer' : `the transactional id ${transactionalId}`;
  }

  /**
   * Runs `work` unless the writer has failed. After a failure the writer rejects every call, because the state of its
   * requests in flight is unknown.
   */
  async #guarded<T>(during: string, work: () => Promise<T>): Promise<T> {
    if (this.#failed) throw this.#failed;
    try {
      return await work();
    } catch (error) {
      this.#failed ??= failure(error, during);
      throw this.#failed;
    }
  }

  /**
   * The ID and epoch of this producer, requested once. The broker responds when the open transactions of older writers
   * have ended.
   */
  #identity(): Promise<Producer> {
    this.#producer ??= this.#initProducer();
    return this.#producer;
  }

  async #initProducer(): Promise<Producer> {
    const { transactionalId, transactionTimeoutMs } = this.#settings;
    const args = [transactionalId, transactionTimeoutMs, -1n, -1] as [string | null, number, bigint, number];
    const answer =
      transactionalId === null
        ? await this.#cluster.patiently(PATIENCE_MS, async () =>
            (await this.#cluster.any()).call(initProducerIdV3.api, args),
          )
        : await this.#transactional(
            transactionTimeoutMs + PATIENCE_MS,
            async (broker) => {
              if (this.#looksBack) this.#decided = await lastDecision(broker, transactionalId);
              return await broker.call(initProducerIdV3.api, args);
            },
            () => true,
          );
    return { id: answer.producerId, epoch: answer.producerEpoch };
  }

  async #transactional<T>(
    patienceMs: number,
    ask: (broker: Awaited<ReturnType<BrokerCluster['any']>>) => Promise<T>,
    again: (error: unknown) => boolean = wasAnswered,
  ): Promise<T> {
    const id = this.#settings.transactionalId!;
    return await this.#cluster.patiently(
      patienceMs,
      async () => ask(await this.#cluster.coordinator('transaction', id)),
      (error) => {
        if (hasMoved(error) || error instanceof NoConnection) this.#cluster.forgetCoordinator('transaction', id);
        return again(error);
      },
    );
  }

  async #addPartitions(wanted: ReadonlyMap<string, Iterable<number>>, { id, epoch }: Producer): Promise<void> {
    if (wanted.size === 0) return;
    const topics = [...wanted].map(([name, partitions]) => ({ name, partitions: [...partitions] }));
    const transactionalId = this.#settings.transactionalId!;
    const transaction = { transactionalId, producerId: id, producerEpoch: epoch, verifyOnly: false, topics };
    await this.#transactional(PATIENCE_MS, async (broker) => {
      try {
        await broker.call(addPartitionsToTxnV3.api, [[transaction]]);
      } catch (error) {
        throw aboutTopics(error, ({ resultsByTransaction }: AddedPartitions) =>
          resultsByTransaction.flatMap(({ topicResults }) =>
            topicResults.map((t) => [t.name, t.resultsByPartition.map((p) => p.partitionErrorCode)] as const),
          ),
        );
      }
    });
  }

  async #addGroup(group: string, { id, epoch }: Producer): Promise<void> {
    const transaction = this.#settings.transactionalId!;
    await this.#transactional(PATIENCE_MS, (broker) =>
      broker.call(addOffsetsToTxnV3.api, [transaction, id, epoch, group]),
    );
  }

  async #addOffsets(offsets: OffsetsToCommit, producer: Producer): Promise<void> {
    const { group, topic, next, topicIds, note, member } = offsets;
    const { id, epoch } = producer;
    const transaction = this.#settings.transactionalId!;
    await this.#addGroup(group, producer);
    const { memberId, generation, instanceId } = member ?? { memberId: '', generation: -1, instanceId: null };
    await this.#cluster.patiently(
      PATIENCE_MS,
      async () => {
        const topics = [{ name: topic, partitions: await markedOffsets(this.#cluster, next, topicIds, note) }];
        const broker = await this.#cluster.coordinator('group', group);
        await broker.call(txnOffsetCommitV3.api, [
          transaction,
          group,
          id,
          epoch,
          generation,
          memberId,
          instanceId,
          topics,
        ]);
      },
      (error) => {
        if (hasMoved(error)) this.#cluster.forgetCoordinator('group', group);
        return wasAnswered(error);
      },
    );
  }

  async #end({ id, epoch }: Producer, commit: boolean, patienceMs: number): Promise<void> {
    const transaction = this.#settings.transactionalId!;
    await this.#transactional(patienceMs, (broker) => broker.call(endTxnV3.api, [transaction, id, epoch, commit]));
  }

  async #produceAll(rounds: Rounds, producer: Producer): Promise<void> {
    for (const round of rounds) await this.#produce(round, producer);
  }

  /** Sends one batch per partition. Requests to different leaders are concurrent. */
  async #produce(round: readonly PlannedBatch[], producer: Producer): Promise<void> {
    const waiting = new Map<string, Encoded>();
    for (const batch of round) {
      const key = `${batch.topic}/${batch.partition}`;
      const sequence = this.#sequences.get(key) ?? 0;
      if (waiting.has(key)) throw new Error('a round holds two batches of one partition');
      const bytes = await this.#encode(batch.records, producer, sequence);
      waiting.set(key, { topic: batch.topic, partition: batch.partition, bytes });
      this.#sequences.set(key, (sequence + batch.records.length) % SEQUENCES);
    }
    const topics = new Set(round.map((batch) => batch.topic));
    // If a batch is sent twice, the broker recognizes its sequence number and writes it once.
    await this.#cluster.patiently(
      PATIENCE_MS,
      () => this.#send(waiting),
      () => {
        for (const topic of topics) this.#cluster.forget(topic);
        return true;
      },
    );
  }

  /** Sends the batches in `waiting`. Removes batches from `waiting` that brokers acknowledged. */
  async #send(waiting: Map<string, Encoded>): Promise<void> {
    const byLeader = new Map<number, Encoded[]>();
    for (const one of waiting.values()) {
      const { leaders } = await this.#cluster.layout(one.topic);
      const leader = leaders[one.partition];
      if (leader === undefined) throw new Refusal('Produce', ['UNKNOWN_TOPIC_OR_PARTITION'], null, [one.topic]);
      if (leader < 0) throw new Refusal('Metadata', ['LEADER_NOT_AVAILABLE'], null, [one.topic]);
      const list = byLeader.get(leader);
      if (list) list.push(one);
      else byLeader.set(leader, [one]);
    }
    const sent = await Promise.allSettled(
      [...byLeader].map(([leader, batches]) => this.#sendTo(leader, batches, waiting)),
    );
    const failures = sent.flatMap((s) => (s.status === 'rejected' ? [s.reason as unknown] : []));
    if (failures.length > 0) throw failures.find((error) => !(error instanceof NoConnection)) ?? failures[0];
    if (waiting.size > 0) throw new Refusal('Produce', ['NETWORK_EXCEPTION']);
  }

  async #sendTo(leader: number, batches: readonly Encoded[], waiting: Map<string, Encoded>): Promise<void> {
    const broker = await this.#cluster.node(leader);
    const payload = produceBody(this.#settings.transactionalId, PATIENCE_MS, batches);
    type Answer = Exclude<Awaited<ReturnType<typeof produceV8.api.async>>, boolean>;
    let answer: Answer | null;
    let refused: Refusal | null = null;
    try {
      answer = (await broker.call(produceV8.api, [ALL_REPLICAS, PATIENCE_MS, [], {}], { payload })) as Answer;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      answer = error.response as Answer | null;
      refused = aboutTopics(error, ({ responses }: Answer) =>
        responses.map((t) => [t.name, t.partitionResponses.map((p) => p.errorCode)] as const),
      );
    }
    for (const { name, partitionResponses } of answer?.responses ?? []) {
      for (const p of partitionResponses) {
        // A duplicate sequence number means that an earlier attempt succeeded and only its response was lost.
        if (p.errorCode === 0 || p.errorCode === DUPLICATE_SEQUENCE_NUMBER) waiting.delete(`${name}/${p.index}`);
      }
    }
    if (refused && refused.type !== 'DUPLICATE_SEQUENCE_NUMBER') throw refused;
  }

  async #encode(records: readonly PlannedRecord[], { id, epoch }: Producer, firstSequence: number): Promise<Buffer> {
    const { transactionalId, compression } = this.#settings;
    const now = epochMs();
    const first = records[0]?.timestamp ?? now;
    let maxTimestamp = first;
    const encoded: BatchRecord[] = records.map(({ key, value, headers, timestamp = now }, offsetDelta) => {
      maxTimestamp = Math.max(maxTimestamp, timestamp);
      return { offsetDelta, timestampDelta: timestamp - first, key, value, headers: headers ?? {} };
    });
    const head = {
      firstTimestamp: first,
      maxTimestamp,
      producerId: id,
      producerEpoch: epoch,
      firstSequence,
      transactional: transactionalId !== null,
      lastOffsetDelta: records.length - 1,
      compression: CODEC_NUMBERS[compression],
    };
    return await encodeRecordBatch(encoded, head, (plain) => packBatch(plain, compression as PackedCompression));
  }
}

/**
 * Whether the broker answered. If an answer was lost, the request must not be repeated: the first copy may arrive
 * during the next transaction and end that transaction, or add old offsets to it (KIP-890). The writer fails instead,
 * and the fence of the next writer makes the broker reject both copies.
 */
const wasAnswered = (error: unknown): boolean => !(error instanceof NoConnection);

const DUPLICATE_SEQUENCE_NUMBER = 46;

type AddedPartitions = Awaited<ReturnType<typeof addPartitionsToTxnV3.api.async>>;

function partitionsOf(rounds: Rounds): Map<string, Set<number>> {
  const partitions = new Map<string, Set<number>>();
  for (const { topic, partition } of rounds.flat()) {
    const known = partitions.get(topic);
    if (known) known.add(partition);
    else partitions.set(topic, new Set([partition]));
  }
  return partitions;
}

/** Adds the names of the rejected topics to the error, if the response lists them. */
function aboutTopics<E, A>(error: E, codesOf: (answer: A) => readonly (readonly [string, readonly number[]])[]): E {
  if (!(error instanceof Refusal) || !error.response) return error;
  const refused = codesOf(error.response as A).filter(([, codes]) => codes.some((c) => errorName(c) === error.type));
  return error.about(refused.map(([topic]) => topic)) as Refusal & E;
}

interface Encoded {
  topic: string;
  partition: number;
  bytes: Buffer;
}

/** The body of a Produce request, version 8. Batches are not copied. */
function produceBody(transactionalId: string | null, timeoutMs: number, batches: readonly Encoded[]): Buffer[] {
  const byTopic = Map.groupBy(batches, (batch) => batch.topic);
  const id = transactionalId === null ? null : Buffer.from(transactionalId);
  const head = Buffer.alloc(2 + (id?.length ?? 0) + 10);
  head.writeInt16BE(id?.length ?? -1, 0);
  id?.copy(head, 2);
  const at = 2 + (id?.length ?? 0);
  head.writeInt16BE(ALL_REPLICAS, at);
  head.writeInt32BE(timeoutMs, at + 2);
  head.writeInt32BE(byTopic.size, at + 6);
  const parts: Buffer[] = [head];
  for (const [topic, some] of byTopic) {
    const name = Buffer.from(topic);
    const start = Buffer.alloc(2 + name.length + 4);
    start.writeInt16BE(name.length, 0);
    name.copy(start, 2);
    start.writeInt32BE(some.length, 2 + name.length);
    parts.push(start);
    for (const { partition, bytes } of some) {
      const place = Buffer.alloc(8);
      place.writeInt32BE(partition, 0);
      place.writeInt32BE(bytes.length, 4);
      parts.push(place, bytes);
    }
  }
  return parts;
}
