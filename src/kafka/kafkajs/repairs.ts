// The pinned kafkajs, repaired from outside: the only place that loads it.
import { createRequire } from 'node:module';
import type { Socket } from 'node:net';
import type * as Kafkajs from 'kafkajs';
import type { MemberIdentity } from '../client/kafka-client.ts';
import { type BatchHead, type BatchRecord, encodeRecordBatch, MAGIC } from '../client/record-batch.ts';
import { withoutAborted } from './aborted.ts';
import { flexible } from './flexible-requests.ts';
import { repairCoordinator } from './repair-coordinator.ts';
import { repairLogin } from './repair-login.ts';

interface RequestQueue {
  throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  pending: unknown[];
  checkPendingRequests(): void;
}

interface Broker {
  connectionPool: { socketFactory: object };
  versions: ApiVersions | null;
  lookupRequest(apiKey: number, definition: unknown): (args: object) => unknown;
}

interface Connection {
  readonly socketFactory: object;
  socket?: Socket;
  connecting?: Promise<unknown> | null;
  isConnected(): boolean;
}

/** What kafkajs knows of one membership, where a member can be asked and steered without going through a state that throws. */
export interface ConsumerGroup {
  memberId: string | null;
  readonly generationId: number | null;
  preferredReadReplicasPerTopicPartition: Record<string, Record<number, unknown> | undefined>;
  heartbeat(options: { interval: number }): Promise<void>;
  seek(target: { topic: string; partition: number; offset: string }): void;
  pause(targets: { topic: string; partitions: number[] }[]): void;
  resume(targets: { topic: string; partitions: number[] }[]): void;
}

/** What a consumer of kafkajs is told of its place in the group, and tells; it hangs on the assigner (`assigner.ts`). */
export interface Membership {
  readonly instanceId: string | null;
  /** The member of an earlier consumer of ours: who comes back as itself leaves no ghost that the group waits for. */
  readonly memberId: string | null;
  group: ConsumerGroup | null;
  onJoining(): void;
  onCrash(error: unknown): void;
}

/** The brokers of a client of kafkajs, where one can be asked beside what kafkajs keeps of its own questions. */
export interface MetadataPool {
  withBroker<T>(
    ask: (of: { broker: { metadata(topics: string[]): Promise<TopicsMetadata> } }) => Promise<T>,
  ): Promise<T>;
}

interface TopicsMetadata {
  topicMetadata: { partitionMetadata: { partitionId: number }[] }[];
}

export interface Cluster {
  findGroupCoordinator(of: { groupId: string }): Promise<{
    offsetFetch(of: { groupId: string; topics: { topic: string; partitions: { partition: number }[] }[] }): Promise<{
      responses: { topic: string; partitions: { partition: number; offset: string }[] }[];
    }>;
  }>;
}

export type AdminWithCluster = Kafkajs.Admin & { readonly cluster: Cluster };

export type ApiVersions = Readonly<Record<number, { minVersion: number; maxVersion: number } | undefined>>;

interface Grouping {
  topic: string;
  partitionMetadata: readonly Kafkajs.PartitionMetadata[];
  messages: readonly Kafkajs.Message[];
  partitioner: (args: { topic: string; partitionMetadata: unknown; message: Kafkajs.Message }) => number;
}

/** Recheck of requests that wait for their turn, ms; as in kafkajs. */
const CHECK_INTERVAL_MS = 10;
export const OFFSET_LOST = 'SluiceOffsetLost';

const require = createRequire(import.meta.url);

/**
 * 1. `scheduleCheckPendingRequests` re-arms itself with a negative delay whenever nothing waits: a timer every
 *    millisecond and connection (some percent of a core when idle) and Node's TimeoutNegativeWarning. Here a timer is set
 *    only while requests wait or the broker throttles.
 * 2. `recoverFromOffsetOutOfRange` commits "earliest" or "latest" over the lost offset and goes on. Here it throws an error
 *    named {@link OFFSET_LOST}, which ends the consumer; whoever owns it decides.
 * 3. Records to be produced are grouped by copying the list once a record, and encoded into a buffer of 512 bytes for each
 *    record and each header. Here they are grouped by appending and encoded by `record-batch.ts`: the same bytes.
 * 4. Two callers of one `Connection.connect` open two sockets, and one is never ended: a process would not end after SIGTERM.
 *    Here they share one, `disconnect` destroys a socket that is being connected, and one closed early rejects.
 * 5. Static membership is in the protocol files but nothing passes the name on, every consumer joins as somebody new, and a
 *    crashed one is unusable before anybody is told. Here {@link Membership} has the say.
 * 6. Offsets of a transaction go without the member's generation, and are read while a transaction may still move them. Here by
 *    `flexible-requests.ts`, where the broker knows these versions; {@link AdminWithCluster} asks for some partitions only,
 *    because those of others are hardly ever without an open transaction.
 * 7. Of several aborted transactions that began before a fetch only one a record is noticed, so that records of the others are
 *    handed out as if they were committed; and a record whose key is four zero bytes ends one. Here by `aborted.ts`.
 * 8. Logins are renewed too late for short sessions, and requests get in between their messages. Here by `repair-login.ts`.
 */
function load(): typeof Kafkajs {
  // Modules whose functions others import must be patched before those are loaded.
  replace('kafkajs/src/consumer/filterAbortedMessages', withoutAborted);
  replace('kafkajs/src/producer/groupMessagesPerPartition', grouped);
  replace('kafkajs/src/protocol/recordBatch/record/v0', (record: BatchRecord) => record);
  replace('kafkajs/src/protocol/recordBatch/v0', { RecordBatch: recordBatch, MAGIC_BYTE: MAGIC });
  replace('kafkajs/src/consumer/consumerGroup', groupWithMembership());
  replace('kafkajs/src/consumer/runner', runnerWithMembership());
  const createAdmin = require('kafkajs/src/admin');
  replace('kafkajs/src/admin', (options: { cluster: Cluster }) =>
    Object.assign(createAdmin(options), { cluster: options.cluster }),
  );
  const kafkajs = require('kafkajs') as typeof Kafkajs;
  const { requests } = require('kafkajs/src/protocol/requests');
  Object.assign(requests, flexible(require, requests, { memberOf: memberOfOffsets, stable: stableOffsets }));
  repairTimer();
  repairConnection(kafkajs);
  repairBroker();
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

/** What kafkajs takes for an encoder that was written to. */
async function recordBatch({ records, ...head }: BatchHead & { records: BatchRecord[] }) {
  const buf = await encodeRecordBatch(records, head, (plain) => {
    const { lookupCodec } = require('kafkajs/src/protocol/message/compression');
    return lookupCodec(head.compression).compress({ buffer: plain });
  });
  return { buf, buffer: buf, size: () => buf.length };
}

/** Lists of topics in `sendOffsets` → whose they are. */
export const memberOfOffsets = new WeakMap<object, MemberIdentity>();

/** Lists of topics in `offsetFetch` whose offsets must be out of any transaction's reach. */
export const stableOffsets = new WeakSet<object>();

/** Clients that open no connection any more, by their socket factory. */
export const closedClients = new WeakSet<object>();

/** Versions of the requests that the brokers of a client know, by its socket factory, once it was connected. */
export const apiVersionsOf = new WeakMap<object, ApiVersions>();

/** Requests that name the instance: JoinGroup, Heartbeat, LeaveGroup, SyncGroup. */
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

/** The broker, but requests of members carry the name. */
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
        // Any other error is tried again for seconds, which keeps the process alive.
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

function repairBroker(): void {
  const broker = require('kafkajs/src/broker').prototype;
  const { connect } = broker;
  broker.connect = async function (this: Broker): Promise<void> {
    await connect.call(this);
    if (this.versions) apiVersionsOf.set(this.connectionPool.socketFactory, this.versions);
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
      // A follower may only be behind: the leader has the last word.
      delete replicas[e.partition];
      return;
    }
    const lost = new kafkajs.KafkaJSNonRetriableError(`offset out of range in partition ${e.partition} of ${e.topic}`);
    throw Object.assign(lost, { name: OFFSET_LOST });
  };
}

const kafkajs = load();
export default kafkajs;
