// The interface of a Kafka client. Every implementation passes test/connectors/kafka/client/conformance.ts.
// All errors are SluiceErrors with a kafka_* code. If a broker rejected a request, a cause has the Kafka protocol's
// error name as its `type`.
import { SluiceError } from '../../../core/errors.ts';
import type { BatchCompression } from './codecs.ts';
import type { KafkaConnection } from './connection.ts';
import type { IncomingRecord, RecordHeaders } from './records.ts';

/** A client library, wrapped in this interface. None of these functions connects to a broker. */
export interface KafkaClient {
  readonly name: string;
  /** Whether members continue to read a partition during a rebalance that assigns the partition to them again. */
  readonly cooperative: boolean;
  /** Whether members respect `fetchPaceMs`. */
  readonly paced: boolean;
  admin(connection: KafkaConnection): TopicAdmin;
  member(options: MemberOptions, events: MemberEvents): GroupMember;
  writer(settings: WriterSettings): BatchWriter;
  /** null: the client has no transactions, so it delivers at least once only. */
  readonly transactionalWriter: ((settings: TransactionSettings) => TransactionalWriter) | null;
  scanner(connection: KafkaConnection): PartitionScanner;
}

export interface KafkaLogEntry {
  level: 'error' | 'warn' | 'info' | 'debug';
  /** The client component that logged the entry. */
  source: string;
  message: string;
  /** Broker address, topic, partition and similar values. Never contains keys or values of records, or passwords. */
  detail: Readonly<Record<string, string | number | boolean>>;
}

// --- Metadata
// ---------------------------------------------------------------------------------------------------------------------

export interface PartitionRange {
  /** Offset of the first record that still exists. */
  readonly low: bigint;
  /** One past the offset of the last record that readers of committed records can see. */
  readonly high: bigint;
  /**
   * One past the offset of the last record, including records of open transactions. A transaction stays open for a short
   * time after the broker has confirmed its commit to the producer. A client that cannot query this offset returns `high`.
   */
  readonly end: bigint;
}

/**
 * An administrative connection. It is opened by the first request, and opened again after a failure. `close` is
 * idempotent.
 */
export interface TopicAdmin {
  /** Names of all topics that this user may see, including Kafka's internal topics. */
  topics(): Promise<readonly string[]>;
  /**
   * Number of partitions of a topic.
   * @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable | kafka_authentication
   */
  partitions(topic: string): Promise<number>;
  /**
   * The settings of a topic by name, including defaults, without settings that the broker does not know. null: this
   * user may not read settings.
   */
  settings(topic: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | null>;
  /** First and last offset of every partition. */
  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>>;
  /**
   * The ID of the topic, which a topic that is created again does not share. null: the brokers or the client do not
   * verify topic IDs when they read (Kafka 3.1 and later).
   */
  topicId(topic: string): Promise<string | null>;
  /**
   * Committed offsets of the group by partition. null: the partition has no committed offset. 0: the offset was
   * committed for an earlier topic with the same name. Partitions that do not exist are missing. A client with
   * transactions waits some seconds until no open transaction can change an offset (KIP-447, `require_stable`), if the
   * broker supports this. Only the given partitions are requested, because partitions of other members nearly always
   * have an open transaction.
   */
  committed(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, bigint | null>>;
  /** The note that was committed with the offset of a partition; null: none. */
  note(group: string, topic: string, partition: number): Promise<string | null>;
  features(): Promise<BrokerFeatures>;
  close(): Promise<void>;
}

export interface BrokerFeatures {
  /**
   * Whether broker and client fence transactions by the generation of the member. One transaction may then cover
   * several partitions.
   */
  readonly memberTransactions: boolean;
}

// --- Reading without a group ---------------------------------------------------------------------------------------------------

export interface OffsetBounds {
  /** Offset of the first record that still exists. */
  readonly low: bigint;
  /** One past the offset of the last record, including records of open transactions and control records. */
  readonly end: bigint;
}

export interface ScanRange {
  readonly topic: string;
  readonly partition: number;
  readonly from: bigint;
  /** The first offset that is not read. */
  readonly end: bigint;
}

export interface ScanOptions {
  readonly signal?: AbortSignal;
  /** Maximum bytes of one fetch. A single record that is larger is fetched nevertheless. */
  readonly fetchBytes?: number;
  /**
   * Called repeatedly while a transaction is open that began before `end`, because later records cannot be read until
   * this transaction ends.
   */
  readonly onWait?: (partition: number, ms: number) => void;
}

/**
 * Reads offset ranges of partitions without a group and without committing. Needs only READ permission on the topic.
 */
export interface PartitionScanner {
  /**
   * The offset bounds of all partitions, in the order of their numbers.
   * @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable
   */
  bounds(topic: string): Promise<ReadonlyMap<number, OffsetBounds>>;
  /**
   * Yields committed records in order, one fetch at a time. If retention deleted some of the records, continues at the
   * first remaining record.
   */
  scan(range: ScanRange, options?: ScanOptions): AsyncGenerator<IncomingRecord[]>;
  /** Closes all connections. A scan in progress, and every later call, throws `cancelled`. Idempotent. */
  close(): Promise<void>;
}

export const scannerClosed = (): SluiceError => new SluiceError('cancelled', 'the scanner was closed');

// --- Membership ----------------------------------------------------------------------------------------------------------------

export interface MemberOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  readonly group: string;
  /**
   * Name for static membership (KIP-345). A member that returns with the same name within the session timeout gets its
   * partitions back without a rebalance. null: dynamic membership.
   */
  readonly instanceId: string | null;
  /** Time without a heartbeat after which the group removes a member, ms. */
  readonly sessionTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  /** Maximum time that the group waits for a member in a rebalance, ms. */
  readonly rebalanceTimeoutMs: number;
  /** Maximum bytes of one fetch from one partition. */
  readonly fetchBytes: number;
  /** Maximum time that a fetch waits for records, ms. */
  readonly fetchWaitMs: number;
  /**
   * Minimum time between fetches that return few records, ms. Records then arrive in batches. After a period without
   * records, the next record arrives immediately.
   */
  readonly fetchPaceMs: number;
  /** Maximum age of topic metadata, ms. New partitions are detected within this time. */
  readonly metadataMaxAgeMs: number;
}

/**
 * Transitions: connecting → joining → joined ⇄ joining (during a rebalance). Each of these states can change to `gone`:
 * the broker or the membership was lost, and the client reconnects with growing pauses. It can also change to stopping
 * → stopped. `failed`: no retry can succeed.
 */
export type MemberState = 'connecting' | 'joining' | 'joined' | 'gone' | 'failed' | 'stopping' | 'stopped';

/** Identifies a member to the group coordinator, which fences the member's transactions by generation (KIP-447). */
export interface MemberIdentity {
  readonly memberId: string;
  readonly generation: number;
  readonly instanceId: string | null;
}

/** Called on the event loop; must not throw. */
export interface MemberEvents {
  state?(state: MemberState, cause: SluiceError | null): void;
  /**
   * A new generation began. `added`: newly assigned partitions, which stay paused until `startAt`. `kept`: partitions
   * that continue without interruption; always empty if the library rebalances eagerly. The member has lost all other
   * partitions.
   */
  assigned(partitions: { readonly added: readonly number[]; readonly kept: readonly number[] }): void;
  /**
   * Another member may read these partitions from now on; null: all partitions, because the membership is uncertain.
   */
  revoked(partitions: readonly number[] | null): void;
  records(partition: number, records: IncomingRecord[], next: bigint, highWatermark: bigint): void;
  /** The partition has only control records and aborted records before offset `next`. */
  skipped(partition: number, next: bigint): void;
  /** The client started to read at another offset than requested, and corrects this. */
  reset(partition: number, offset: bigint): void;
  /** The client restarts without being asked to. */
  restarting(error: SluiceError): void;
  /** The client failed with an error that no restart can fix. Called at most once. */
  failed(error: SluiceError): void;
  log?(entry: KafkaLogEntry): void;
}

/**
 * One member of a group that reads one topic. A call that does not apply to the current state does nothing instead of
 * throwing: for example, pausing a member that has left the group, or seeking in a lost partition.
 */
export interface GroupMember {
  readonly state: MemberState;
  /** null: the member is not joined, or the client has no transactions. */
  readonly identity: MemberIdentity | null;
  /**
   * Resolves when the member has joined for the first time.
   * @throws SluiceError an error that no retry can fix, or a failure of the first connection
   */
  start(): Promise<void>;
  /**
   * Starts or continues reading at `offset`. If `topicId` is given, and the topic with this ID was deleted and created
   * again, the partition is revoked and assigned again.
   */
  startAt(partition: number, offset: bigint, topicId?: string | null): void;
  pause(partitions: readonly number[]): void;
  resume(partitions: readonly number[]): void;
  /** Whether the coordinator confirmed this member at the last heartbeat. Never rejects. */
  isMember(): Promise<boolean>;
  /**
   * Commits offsets outside of transactions. `topicIds`: the topics that the offsets belong to.
   * @throws SluiceError kafka_rebalanced if the generation of this member has ended
   */
  commit(offsets: ReadonlyMap<number, bigint>, topicIds?: TopicIds): Promise<void>;
  /**
   * Leaves the group. A static member leaves too: its name may never return, for example after a pod is replaced, and
   * its partitions would stay unread for the session timeout. Idempotent. Ends within 2 s even if the broker does not
   * respond.
   */
  stop(): Promise<void>;
}

// --- Writing -------------------------------------------------------------------------------------------------------------------

export interface WriterSettings {
  readonly connection: KafkaConnection;
  readonly compression: BatchCompression;
}

export interface TransactionSettings extends WriterSettings {
  readonly transactionalId: string;
  readonly transactionTimeoutMs: number;
}

export interface PlannedRecord {
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers?: RecordHeaders;
  /** ms since 1970; default: now. */
  readonly timestamp?: number;
}

/** Records for one partition, written as one record batch. */
export interface PlannedBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly PlannedRecord[];
}

/** Rounds are written in order. A round has at most one batch per partition. */
export type Rounds = readonly (readonly PlannedBatch[])[];

/** The ID of the topic that the offset of a partition belongs to, by partition; null: unknown. */
export type TopicIds = ReadonlyMap<number, string | null>;

export interface OffsetsToCommit {
  readonly group: string;
  readonly topic: string;
  /** Offset to commit by partition: one past the last record. */
  readonly next: ReadonlyMap<number, bigint>;
  readonly topicIds?: TopicIds;
  /** Text to store with the offsets of partitions without a known topic ID. Brokers accept 4,096 bytes by default. */
  readonly note?: string;
  /**
   * null: offsets are not fenced by generation, because the transactional ID alone identifies the owner of the
   * partition.
   */
  readonly member: MemberIdentity | null;
}

/** The group offsets and topics that transactions of one transactional ID can change. */
export interface TransactionPlaces {
  readonly group: string;
  /** Topic whose offsets are committed. */
  readonly topic: string;
  /** null: any partition of the topic. */
  readonly partitions: readonly number[] | null;
  /** Topics to which the transactions write. */
  readonly writes: readonly string[];
}

/** A writer. It must be discarded after its first failure, because the state of the library is then unreliable. */
interface Writer {
  connect(): Promise<void>;
  /** Closes the writer without waiting for an unreachable broker. Never throws. Idempotent. */
  discard(): Promise<void>;
}

/** An idempotent producer: repeated requests do not duplicate records. */
export interface BatchWriter extends Writer {
  /** Resolves when all in-sync replicas have acknowledged every batch. */
  write(rounds: Rounds): Promise<void>;
}

export interface TransactionalWriter extends Writer {
  /**
   * Fences every older writer of this transactional ID. Before the broker responds, it completes or aborts their open
   * transactions, so offsets that are read afterwards are final. A restarted broker may have ended the last transaction
   * without notifying its partitions. If the client can detect this, it notifies the partitions in `places`.
   */
  fence(places?: TransactionPlaces): Promise<void>;
  /** Writes records and offsets atomically. @throws SluiceError kafka_*; the transaction is aborted if possible */
  writeTransaction(rounds: Rounds, offsets: OffsetsToCommit | null): Promise<void>;
}
