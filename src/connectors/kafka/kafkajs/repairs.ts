// Loads the pinned version of kafkajs and patches its defects at runtime.
// All other code imports kafkajs from this file.
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type * as Kafkajs from 'kafkajs';
import { type BatchHead, type BatchRecord, encodeRecordBatch, MAGIC } from '../client/record-batch.ts';

interface RequestQueue {
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  pending: unknown[];
  checkPendingRequests(): void;
}

interface Broker {
  lookupRequest(apiKey: number, definition: unknown): (args: object) => unknown;
}

interface Connection {
  readonly socketFactory: object;
  socket?: Socket;
  connecting?: Promise<unknown> | null;
  isConnected(): boolean;
}

/**
 * The internal group object of kafkajs. Its methods can be called in every state; the public methods of a consumer
 * would throw in some states.
 */
export interface ConsumerGroup {
  memberId: string | null;
  preferredReadReplicasPerTopicPartition: Record<string, Record<number, unknown> | undefined>;
  heartbeat(options: { interval: number }): Promise<void>;
  seek(target: { topic: string; partition: number; offset: string }): void;
  pause(targets: { topic: string; partitions: number[] }[]): void;
  resume(targets: { topic: string; partitions: number[] }[]): void;
}

/**
 * The hooks of Sluice into the group membership of a kafkajs consumer. They are attached to the assigner
 * (`assigner.ts`).
 */
export interface Membership {
  readonly instanceId: string | null;
  /**
   * Member ID of the previous consumer. If the next consumer joins with this ID, the group does not wait for a stale
   * member.
   */
  readonly memberId: string | null;
  group: ConsumerGroup | null;
  onJoining(): void;
  onCrash(error: unknown): void;
}

/** The brokers of a kafkajs client, for queries that bypass its metadata cache. */
export interface MetadataPool {
  withBroker<T>(
    ask: (of: { broker: { metadata(topics: string[]): Promise<TopicsMetadata> } }) => Promise<T>,
  ): Promise<T>;
}

interface TopicsMetadata {
  topicMetadata: { partitionMetadata: { partitionId: number }[] }[];
}

interface Grouping {
  topic: string;
  partitionMetadata: readonly Kafkajs.PartitionMetadata[];
  messages: readonly Kafkajs.Message[];
  partitioner: (args: { topic: string; partitionMetadata: unknown; message: Kafkajs.Message }) => number;
}

/** Interval for checking waiting requests, ms. The same value as in kafkajs. */
const CHECK_INTERVAL_MS = 10;
export const OFFSET_LOST = 'SluiceOffsetLost';

const require = createRequire(import.meta.url);

/**
 * 1. `scheduleCheckPendingRequests` sets a timer with a negative delay even if no request waits. This causes one timer
 *    per millisecond and connection (some percent of an idle core), and a TimeoutNegativeWarning. The patch sets a
 *    timer only while requests wait or the broker throttles.
 * 2. `recoverFromOffsetOutOfRange` replaces a lost offset by "earliest" or "latest", commits this offset, and
 *    continues. The patch throws an error named {@link OFFSET_LOST}, which ends the consumer. The owner of the consumer
 *    decides how to continue.
 * 3. kafkajs copies the list of records once per record to group them, and allocates 512 bytes for every record and
 *    header. The patch appends records to groups. `record-batch.ts` encodes them to the same bytes.
 * 4. Two concurrent calls of `Connection.connect` open two sockets, of which one is never closed. The process then does
 *    not exit after SIGTERM. With the patch, both calls share one socket. `disconnect` destroys a socket that is still
 *    connecting, and `connect` rejects if the socket closes early.
 * 5. The protocol files of kafkajs support static membership, but the instance name is never passed to them. Every
 *    consumer joins as a new member, and a crashed consumer becomes unusable before its owner is notified. With the
 *    patch, {@link Membership} controls both.
 * 6. If a fetch contains several aborted transactions, kafkajs drops the records of only one of them and delivers the
 *    rest. It also treats a record whose key is four zero bytes as the end of a transaction. {@link withoutAborted}
 *    replaces this filter, because producers of an input topic may use transactions.
 * 7. kafkajs renews logins too late for short sessions, and sends other requests between the messages of a login. See
 *    {@link repairLogin}.
 * 8. kafkajs loses the error if the request for a coordinator is rejected. See {@link repairCoordinator}.
 */
function load(): typeof Kafkajs {
  // A module must be patched before other modules import its functions.
  replace('kafkajs/src/consumer/filterAbortedMessages', withoutAborted);
  replace('kafkajs/src/producer/groupMessagesPerPartition', grouped);
  replace('kafkajs/src/protocol/recordBatch/record/v0', (record: BatchRecord) => record);
  replace('kafkajs/src/protocol/recordBatch/v0', { RecordBatch: recordBatch, MAGIC_BYTE: MAGIC });
  replace('kafkajs/src/consumer/consumerGroup', groupWithMembership());
  replace('kafkajs/src/consumer/runner', runnerWithMembership());
  const kafkajs = require('kafkajs') as typeof Kafkajs;
  repairTimer();
  repairConnection(kafkajs);
  repairOffsetReset(kafkajs);
  const { KafkaJSGroupCoordinatorNotFound } = require('kafkajs/src/errors');
  repairLogin(kafkajs.KafkaJSConnectionError as unknown as new (message: string) => Error);
  repairCoordinator(require('kafkajs/src/cluster').prototype, KafkaJSGroupCoordinatorNotFound);
  return kafkajs;
}

function replace(id: string, exports: unknown): void {
  require(id);
  require.cache[require.resolve(id)]!.exports = exports;
}

function grouped({ topic, partitionMetadata, messages, partitioner }: Grouping): Record<number, Kafkajs.Message[]> {
  const groups: Record<number, Kafkajs.Message[]> = {};
  if (partitionMetadata.length === 0) return groups;
  for (const message of messages) {
    const partition = partitioner({ topic, partitionMetadata, message });
    groups[partition] ??= [];
    groups[partition].push(message);
  }
  return groups;
}

/** Encodes a batch; returns the object that kafkajs expects from an encoder. */
async function recordBatch({ records, ...head }: BatchHead & { records: BatchRecord[] }) {
  const buf = await encodeRecordBatch(records, head, (plain) => {
    const { lookupCodec } = require('kafkajs/src/protocol/message/compression');
    return lookupCodec(head.compression).compress({ buffer: plain });
  });
  return { buf, buffer: buf, size: () => buf.length };
}

/** The socket factories of closed clients. A closed client must not open connections. */
export const closedClients = new WeakSet<object>();

/** API keys of requests that carry the instance name: JoinGroup, Heartbeat, LeaveGroup, SyncGroup. */
const OF_MEMBERS = [11, 12, 13, 14];

function groupWithMembership() {
  const Original = require('kafkajs/src/consumer/consumerGroup');
  return class extends Original {
    membership: Membership | undefined;

    constructor(options: { assigners: readonly { membership?: Membership }[] }) {
      super(options);
      this.membership = options.assigners.find((a) => a.membership)?.membership;
      if (!this.membership) return;
      this.membership.group = this as unknown as ConsumerGroup;
      this.memberId = this.membership.memberId;
      const { instanceId } = this.membership;
      if (instanceId === null) return;
      let coordinator: Broker | null = null;
      Object.defineProperty(this, 'coordinator', {
        get: () => coordinator,
        set: (broker: Broker | null) => {
          coordinator = broker && namingInstance(broker, instanceId);
        },
      });
    }

    async joinAndSync() {
      this.membership?.onJoining();
      await super.joinAndSync();
    }
  };
}

/** A wrapper of a broker that adds the instance name to the requests of a group member. */
function namingInstance(broker: Broker, groupInstanceId: string): Broker {
  return Object.assign(Object.create(broker) as Broker, {
    lookupRequest(apiKey: number, definition: unknown) {
      const make = broker.lookupRequest(apiKey, definition);
      return OF_MEMBERS.includes(apiKey) ? (args: object) => make({ ...args, groupInstanceId }) : make;
    },
  });
}

function runnerWithMembership() {
  const Original = require('kafkajs/src/consumer/runner');
  return class extends Original {
    constructor(options: { consumerGroup: { membership?: Membership } }) {
      const { membership } = options.consumerGroup;
      super(membership ? { ...options, onCrash: async (error: unknown) => membership.onCrash(error) } : options);
    }
  };
}

function repairConnection(kafkajs: typeof Kafkajs): void {
  const connection = require('kafkajs/src/network/connection').prototype;
  const { connect, disconnect } = connection;
  connection.connect = function (this: Connection): Promise<unknown> {
    this.connecting ??= new Promise((resolve, reject) => {
      connect.call(this).then(resolve, (error: unknown) => {
        // kafkajs would retry any other error for seconds, which would keep the process alive.
        const closed = closedClients.has(this.socketFactory);
        reject(closed ? new kafkajs.KafkaJSNonRetriableError('the client is closed') : error);
      });
      this.socket?.once('close', () => reject(new kafkajs.KafkaJSConnectionError('the connection was closed')));
    }).finally(() => {
      this.connecting = null;
    });
    return this.connecting;
  };
  connection.disconnect = async function (this: Connection): Promise<unknown> {
    if (!this.isConnected()) this.socket?.destroy();
    return disconnect.call(this);
  };
}

function repairTimer(): void {
  const queue = require('kafkajs/src/network/requestQueue').prototype;
  queue.scheduleCheckPendingRequests = function (this: RequestQueue): void {
    if (this.throttleCheckTimeoutId) return;
    const throttled = this.throttledUntil - Date.now();
    if (this.pending.length === 0 && throttled <= 0) return;
    this.throttleCheckTimeoutId = setTimeout(
      () => {
        this.throttleCheckTimeoutId = null;
        this.checkPendingRequests();
      },
      throttled > 0 ? throttled : CHECK_INTERVAL_MS,
    );
  };
}

function repairOffsetReset(kafkajs: typeof Kafkajs): void {
  const group = require('kafkajs/src/consumer/consumerGroup').prototype;
  group.recoverFromOffsetOutOfRange = async function (
    this: ConsumerGroup,
    e: { topic: string; partition: number },
  ): Promise<void> {
    const replicas = this.preferredReadReplicasPerTopicPartition[e.topic];
    if (replicas?.[e.partition] !== undefined) {
      // A follower may only be behind the leader, so the leader is asked before an offset is reported as lost.
      delete replicas[e.partition];
      return;
    }
    const lost = new kafkajs.KafkaJSNonRetriableError(`offset out of range in partition ${e.partition} of ${e.topic}`);
    throw Object.assign(lost, { name: OFFSET_LOST });
  };
}

interface FetchedMessage {
  offset: string;
  isControlRecord?: boolean;
  batchContext?: { producerId: string | { toString(): string }; inTransaction: boolean };
}

export interface AbortedTransaction {
  producerId: string;
  firstOffset: string;
}

/**
 * Removes the messages of aborted transactions and keeps control records. `abortedTransactions` has the arbitrary order
 * of the broker. Several transactions may have begun before the first message.
 */
export function withoutAborted<M extends FetchedMessage>({
  messages,
  abortedTransactions,
}: {
  messages: readonly M[];
  abortedTransactions?: readonly AbortedTransaction[] | null;
}): M[] {
  const coming = (abortedTransactions ?? []).map((t) => ({ ...t, first: BigInt(t.firstOffset) }));
  if (coming.length === 0) return [...messages];
  coming.sort((a, b) => (a.first < b.first ? -1 : 1));
  const aborted = new Set<string>();
  let next = 0;
  return messages.filter(({ offset, isControlRecord, batchContext }) => {
    while (next < coming.length && coming[next]!.first <= BigInt(offset)) aborted.add(coming[next++]!.producerId);
    if (!batchContext?.inTransaction) return true;
    const producerId = String(batchContext.producerId);
    // A control record ends a transaction with a commit or an abort. Later records of the same producer belong to
    // another transaction.
    if (isControlRecord) aborted.delete(producerId);
    return isControlRecord === true || !aborted.has(producerId);
  });
}

interface CoordinatorCluster {
  brokerPool: { withBroker(ask: (at: { broker: CoordinatorBroker }) => Promise<unknown>): Promise<object | null> };
  retrier(work: (bail: (error: unknown) => void) => Promise<unknown>): Promise<unknown>;
}

interface CoordinatorBroker {
  findGroupCoordinator(of: object): Promise<object>;
}

type Refusal = Error & { type?: string };

/**
 * kafkajs asks one broker after the other for a coordinator and discards the errors of the brokers. So it reports a
 * missing permission as "Failed to find group coordinator" and retries forever. `prototype`: prototype of the kafkajs
 * cluster. `notFound`: the error that kafkajs throws if no broker knows the coordinator.
 */
function repairCoordinator(prototype: object, notFound: new (message: string) => Error): void {
  async function findGroupCoordinatorMetadata(this: CoordinatorCluster, of: object): Promise<object> {
    let refusal: Refusal | null = null;
    const found = await this.brokerPool.withBroker(({ broker }) =>
      this.retrier(async (bail) => {
        try {
          return await broker.findGroupCoordinator(of);
        } catch (error) {
          refusal = error as Refusal;
          if (refusal.type === 'GROUP_COORDINATOR_NOT_AVAILABLE') throw error;
          bail(error);
          return null;
        }
      }),
    );
    if (found) return found;
    const last = refusal as Refusal | null;
    throw last?.type?.endsWith('_AUTHORIZATION_FAILED') ? last : new notFound('Failed to find group coordinator');
  }
  Object.assign(prototype, { findGroupCoordinatorMetadata });
}

interface LoginConnection {
  authenticatedAt: [number, number] | null;
  sessionLifetime: { toString(): string };
  requestQueue: HoldingQueue;
  sasl: { prepare?: () => Promise<void> };
  isConnected(): boolean;
}

interface Pushed {
  entry: { apiKey: number; reject(error: Error): void };
}

interface HoldingQueue {
  /** Requests that wait for the end of a login; null: no login is in progress. */
  held?: Pushed[] | null;
  push(pushed: Pushed): void;
}

/** API keys of SaslHandshake and SaslAuthenticate. */
const OF_LOGINS = [17, 36];
/** Fraction of a session's lifetime after which the login is renewed. */
const RENEWED_AFTER = 0.8;

/**
 * kafkajs renews a login (KIP-368) ten seconds before the session ends. If sessions are shorter, it logs in before
 * every request. It also sends other requests between the two messages of a login, which makes the broker close the
 * connection. `ConnectionError`: the error class of kafkajs whose errors it retries.
 */
function repairLogin(ConnectionError: new (message: string) => Error): void {
  const connection = require('kafkajs/src/network/connection').prototype;
  connection.isAuthenticated = function (this: LoginConnection): boolean {
    if (this.authenticatedAt === null) return false;
    const lifetimeMs = Number(this.sessionLifetime.toString());
    if (lifetimeMs === 0) return true;
    const [seconds, nanoseconds] = process.hrtime(this.authenticatedAt);
    return seconds * 1000 + nanoseconds / 1e6 < lifetimeMs * RENEWED_AFTER;
  };

  const queue = require('kafkajs/src/network/requestQueue').prototype;
  const { push } = queue;
  queue.push = function (this: HoldingQueue, pushed: Pushed): void {
    if (this.held && !OF_LOGINS.includes(pushed.entry.apiKey)) this.held.push(pushed);
    else push.call(this, pushed);
  };

  const authenticator = require('kafkajs/src/broker/saslAuthenticator').prototype;
  const { authenticate } = authenticator;
  authenticator.authenticate = async function (this: { connection: LoginConnection }): Promise<void> {
    const { connection } = this;
    await connection.sasl.prepare?.();
    const { requestQueue } = connection;
    requestQueue.held = [];
    try {
      await authenticate.call(this);
    } finally {
      const { held } = requestQueue;
      requestQueue.held = null;
      for (const pushed of held) {
        if (connection.isConnected()) requestQueue.push(pushed);
        else pushed.entry.reject(new ConnectionError('the connection was closed'));
      }
    }
  };
}

const kafkajs = load();
export default kafkajs;
