// A consumer group member for one topic, using kafkajs. A failed consumer is replaced; every partition starts paused.
import type { Consumer, EachBatchPayload } from 'kafkajs';
import { inBackground, within } from '../../../core/async.ts';
import { monotonicMs, sleep, startInterval, stopTimer, type Timer } from '../../../core/clock.ts';
import { SluiceError } from '../../../core/errors.ts';
import { backoffMs, isHopeless } from '../client/failures.ts';
import type { GroupMember, MemberEvents, MemberOptions, MemberState } from '../client/kafka-client.ts';
import type { RecordHeaders } from '../client/records.ts';
import { assignerOf } from './assigner.ts';
import { type KafkajsHandle, kafkajsError, openKafkajs } from './connect.ts';
import type { ConsumerGroup, Membership } from './repairs.ts';

/** Number of restarts before a topic is reported as missing, because brokers that are starting may not list it yet. */
const TOPIC_MISSING_PATIENCE = 5;
/** Time without progress after which a fetch loop is replaced, ms. */
const STALL_MS = 120_000;
/** Maximum time for leaving the group, ms. Open requests are then aborted. */
const LEAVING_MS = 1_800;

interface Position {
  /** Required start offset of the next fetch. */
  next: bigint;
  /** A range of skipped records that did not start at `next`. It is accepted if kafkajs reports it a second time. */
  doubt: string | null;
}

/** One kafkajs consumer from creation to close. A member uses several consumers in succession. */
interface Attempt {
  readonly handle: KafkajsHandle;
  readonly consumer: Consumer;
  readonly membership: Membership;
}

/**
 * A group member with the states of `MemberState`. It calls kafkajs only while `#group` is not null. A crashed consumer
 * is discarded with all of its state except the member ID, with which the next consumer joins.
 */
export class KafkajsMember implements GroupMember {
  readonly identity = null;
  readonly #options: MemberOptions;
  readonly #events: MemberEvents;
  readonly #positions = new Map<number, Position>();
  readonly #stop = new AbortController();
  readonly #first = Promise.withResolvers<void>();
  #state: MemberState = 'connecting';
  #attempt: Attempt | null = null;
  #memberId: string | null = null;
  #failures = 0;
  #lastSign = 0;
  #watchdog: Timer | undefined;
  #stopped: Promise<void> | null = null;

  constructor(options: MemberOptions, events: MemberEvents) {
    this.#options = options;
    this.#events = events;
    this.#first.promise.catch(() => {});
  }

  get state(): MemberState {
    return this.#state;
  }

  async start(): Promise<void> {
    this.#watchdog = startInterval(() => this.#watch(), STALL_MS / 10);
    this.#watchdog.unref();
    const opened = this.#open();
    // A call of `stop` before the connection is established also ends this wait.
    await Promise.race([opened.then(() => this.#first.promise), this.#first.promise]).catch(async (error) => {
      await this.stop();
      throw error;
    });
  }

  startAt(partition: number, offset: bigint): void {
    if (this.#state !== 'joined') return;
    this.#positions.set(partition, { next: offset, doubt: null });
    this.#seek(partition, offset);
    this.resume([partition]);
  }

  pause(partitions: readonly number[]): void {
    if (partitions.length > 0) this.#group?.pause([{ topic: this.#options.topic, partitions: [...partitions] }]);
  }

  resume(partitions: readonly number[]): void {
    const known = partitions.filter((p) => this.#positions.has(p));
    if (known.length > 0) this.#group?.resume([{ topic: this.#options.topic, partitions: known }]);
  }

  async isMember(): Promise<boolean> {
    const group = this.#state === 'joined' ? this.#group : null;
    if (!group) return false;
    return group.heartbeat({ interval: this.#options.heartbeatIntervalMs }).then(
      () => this.#state === 'joined',
      () => false,
    );
  }

  async commit(offsets: ReadonlyMap<number, bigint>): Promise<void> {
    const { topic } = this.#options;
    const attempt = this.#attempt;
    if (this.#state !== 'joined' || !attempt) {
      throw new SluiceError('kafka_rebalanced', `${topic}: this member is not in its consumer group`);
    }
    try {
      await attempt.consumer.commitOffsets(
        [...offsets].map(([partition, offset]) => ({ topic, partition, offset: String(offset) })),
      );
    } catch (error) {
      throw kafkajsError(error, `committing offsets of ${topic} failed`);
    }
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#leave();
    return this.#stopped;
  }

  /** The group of the current consumer; null: no consumer has joined. */
  get #group(): ConsumerGroup | null {
    return this.#attempt?.membership.group ?? null;
  }

  #enter(state: MemberState, cause: SluiceError | null = null): void {
    if (this.#state === state || this.#state === 'stopped' || (this.#state === 'stopping' && state !== 'stopped'))
      return;
    this.#state = state;
    this.#events.state?.(state, cause);
  }

  async #leave(): Promise<void> {
    this.#enter('stopping');
    this.#stop.abort();
    stopTimer(this.#watchdog);
    this.#positions.clear();
    const attempt = this.#attempt;
    this.#attempt = null;
    if (attempt) await close(attempt);
    this.#enter('stopped');
    this.#first.resolve();
  }

  /** Creates a consumer and joins the group. @throws SluiceError if it cannot connect */
  async #open(): Promise<void> {
    const o = this.#options;
    this.#enter('connecting');
    const attempt = this.#newAttempt();
    this.#attempt = attempt;
    this.#lastSign = monotonicMs();
    const { consumer } = attempt;
    try {
      await consumer.connect();
      await consumer.subscribe({ topics: [o.topic], fromBeginning: true });
      if (this.#attempt !== attempt) return;
      await consumer.run({
        autoCommit: false,
        eachBatchAutoResolve: false,
        eachBatch: async (payload) => {
          if (this.#attempt === attempt) this.#take(payload);
        },
      });
    } catch (error) {
      if (this.#attempt !== attempt) return;
      this.#attempt = null;
      inBackground('closing a consumer', () => close(attempt));
      throw kafkajsError(error, `reading the topic ${o.topic} failed`);
    }
  }

  #newAttempt(): Attempt {
    const o = this.#options;
    const handle = openKafkajs(o.connection, this.#events.log?.bind(this.#events));
    const current = () => this.#attempt?.membership === membership && !this.#stop.signal.aborted;
    const membership: Membership = {
      instanceId: o.instanceId,
      memberId: this.#memberId,
      group: null,
      onJoining: () => {
        if (!current()) return;
        this.#positions.clear();
        if (this.#state === 'joined') this.#events.revoked(null);
        this.#enter('joining');
      },
      onCrash: (error) => {
        if (current()) inBackground('restarting a consumer', () => this.#restart(error));
      },
    };
    const consumer = handle.kafka.consumer({
      groupId: o.group,
      partitionAssigners: [assignerOf(membership)],
      sessionTimeout: o.sessionTimeoutMs,
      heartbeatInterval: o.heartbeatIntervalMs,
      rebalanceTimeout: o.rebalanceTimeoutMs,
      maxBytesPerPartition: o.fetchBytes,
      maxWaitTimeInMs: o.fetchWaitMs,
      metadataMaxAge: o.metadataMaxAgeMs,
      allowAutoTopicCreation: false,
      readUncommitted: false,
      ...(o.connection.rack ? { rackId: o.connection.rack } : {}),
    });
    const { events } = consumer;
    consumer.on(events.GROUP_JOIN, ({ payload }) => {
      if (current()) this.#joined(payload.memberAssignment[o.topic] ?? []);
    });
    consumer.on(events.START_BATCH_PROCESS, ({ payload }) => {
      if (current() && payload.batchSize === 0) this.#skip(payload.partition, payload.firstOffset, payload.lastOffset);
    });
    consumer.on(events.FETCH, () => {
      if (current()) this.#lastSign = monotonicMs();
    });
    return { handle, consumer, membership };
  }

  #joined(partitions: number[]): void {
    this.#positions.clear();
    this.#failures = 0;
    this.#memberId = this.#group?.memberId ?? null;
    // Partitions stay paused until their lease has fenced the previous owner and knows the start offset.
    this.pause(partitions);
    this.#enter('joined');
    this.#events.assigned({ added: partitions, kept: [] });
    this.#first.resolve();
  }

  #take({ batch, resolveOffset, isStale }: EachBatchPayload): void {
    const { partition } = batch;
    const position = this.#positions.get(partition);
    if (!position || isStale()) return;
    const from = BigInt((batch as unknown as { fetchedOffset: string }).fetchedOffset);
    if (from !== position.next) {
      // This is the response to an outdated fetch, so the position is corrected.
      this.#events.reset(partition, position.next);
      this.#seek(partition, position.next);
      return;
    }
    const last = batch.messages.at(-1)!.offset;
    resolveOffset(last);
    position.next = BigInt(batch.lastOffset()) + 1n;
    position.doubt = null;
    const { topic } = this.#options;
    const records = batch.messages.map((m) => ({
      topic,
      partition,
      offset: BigInt(m.offset),
      timestamp: Number(m.timestamp),
      key: m.key,
      value: m.value,
      headers: headersOf(m.headers),
    }));
    this.#events.records(partition, records, position.next, BigInt(batch.highWatermark));
  }

  #skip(partition: number, first: string | null, last: string): void {
    const position = this.#positions.get(partition);
    if (!position) return;
    const doubt = `${first}-${last}`;
    // Compaction may leave a gap in front of the skipped records. So a range that does not start at the position is
    // accepted when it is reported a second time.
    if (BigInt(first ?? last) !== position.next && position.doubt !== doubt) {
      position.doubt = doubt;
      this.#seek(partition, position.next);
      return;
    }
    position.next = BigInt(last) + 1n;
    position.doubt = null;
    this.#events.skipped(partition, position.next);
  }

  #seek(partition: number, offset: bigint): void {
    this.#group?.seek({ topic: this.#options.topic, partition, offset: String(offset) });
  }

  async #restart(cause: unknown): Promise<void> {
    const gone = this.#attempt;
    this.#attempt = null;
    this.#memberId = gone?.membership.group?.memberId ?? this.#memberId;
    this.#positions.clear();
    if (gone) inBackground('closing a consumer', () => close(gone));
    if (this.#state === 'joined') this.#events.revoked(null);
    for (let error = cause; !this.#stop.signal.aborted; ) {
      const failure = kafkajsError(error, `reading the topic ${this.#options.topic} failed`);
      this.#failures++;
      const patient = failure.code === 'kafka_topic_missing' && this.#failures <= TOPIC_MISSING_PATIENCE;
      // A lost offset is not fatal: it is handled when the next start offset is determined.
      if (isHopeless(failure) && !patient && failure.code !== 'kafka_offset_lost') return this.#fail(failure);
      this.#enter('gone', failure);
      this.#events.restarting(failure);
      // Without brokers, only this timer keeps the process alive.
      await sleep(backoffMs(this.#failures), { signal: this.#stop.signal }).catch(() => {});
      if (this.#stop.signal.aborted) return;
      try {
        return await this.#open();
      } catch (again) {
        error = again;
      }
    }
  }

  #fail(failure: SluiceError): void {
    this.#enter('failed', failure);
    this.#first.reject(failure);
    this.#events.failed(failure);
  }

  #watch(): void {
    if (!this.#attempt || monotonicMs() - this.#lastSign < STALL_MS) return;
    inBackground('restarting a consumer', () => this.#restart(new Error(`no fetch ended within ${STALL_MS} ms`)));
  }
}

/** Disconnects a consumer. Connections that kafkajs does not close in time are destroyed. Never throws. */
async function close({ handle, consumer }: Attempt): Promise<void> {
  await within(
    consumer.disconnect().catch(() => {}),
    LEAVING_MS,
  );
  handle.destroy();
}

/**
 * The headers of a record. If a header is named like a member of every object, such as `constructor`, kafkajs adds that
 * member to its values.
 */
export function headersOf(headers: Record<string, unknown> | undefined): RecordHeaders {
  const clean: Record<string, Buffer | null | (Buffer | null)[]> = Object.create(null);
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (Array.isArray(value)) {
      const values = value.filter((v): v is Buffer | null => v === null || Buffer.isBuffer(v));
      clean[name] = values.length === 1 ? values[0]! : values;
    } else clean[name] = value as Buffer | null;
  }
  return clean;
}
