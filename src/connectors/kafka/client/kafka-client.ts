// The interface of a Kafka client. Every implementation passes test/connectors/kafka/client/conformance.ts.
// All errors are SluiceErrors with a kafka_* code. If a broker rejected a request, a cause has the Kafka protocol's
// error name as its `type`.
import type { SluiceError } from '../../../core/errors.ts';
import type { BatchCompression } from './codecs.ts';
import type { KafkaConnection } from './connection.ts';
import type { IncomingRecord, RecordHeaders } from './records.ts';

/** A client library behind this interface. None of these functions connects. */
export interface KafkaClient {
  readonly name: string;
  /** Whether members keep a partition during a rebalance that assigns it to them again. */
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
  /**
   * Broker address, topic, partition and similar values; never keys, values or passwords of records and connections.
   */
  detail: Readonly<Record<string, string | number | boolean>>;
}

// --- Facts ---------------------------------------------------------------------------------------------------------------------

export interface PartitionRange {
  /** Offset of the first record that still exists. */
  readonly low: bigint;
  /** Offset behind the last record that readers of committed records can see. */
  readonly high: bigint;
}

/** An administrative connection. It opens with the first request and reopens after a failure. `close` is idempotent. */
export interface TopicAdmin {
  /** Names of all topics that this user may see, including Kafka's internal topics. */
  topics(): Promise<readonly string[]>;
  /** Number of partitions. @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable | kafka_authentication */
  partitions(topic: string): Promise<number>;
  /**
   * The topic's settings by name, including defaults but not settings unknown to the broker; null: no permission to
   * read them.
   */
  settings(topic: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | null>;
  /** First and last offset of every partition. */
  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>>;
  /**
   * Committed offsets of the group: null without a commit, undefined for partitions that do not exist. A client with
   * transactions waits some seconds until no open transaction can move an offset (KIP-447, `require_stable`), if the
   * broker supports it. It requests only these partitions, because partitions of other members nearly always have an
   * open transaction.
   */
  committed(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, bigint | null>>;
  features(): Promise<BrokerFeatures>;
  close(): Promise<void>;
}

export interface BrokerFeatures {
  /**
   * Whether broker and client fence transactions by the member's generation, so that one transaction may cover several
   * partitions.
   */
  readonly memberTransactions: boolean;
}

// --- Reading without a group ---------------------------------------------------------------------------------------------------

export interface OffsetBounds {
  /** Offset of the first record that still exists. */
  readonly low: bigint;
  /** Offset behind the last record of any kind, including records of open transactions. */
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
  /** Maximum bytes of one fetch. A larger record is fetched nevertheless. */
  readonly fetchBytes?: number;
  /**
   * Called repeatedly while a transaction that began before `end` is open, because later records cannot be read until
   * it ends.
   */
  readonly onWait?: (partition: number, ms: number) => void;
}

/** Reads offset ranges of partitions without committing. Needs only READ permission on the topic. */
export interface PartitionScanner {
  /**
   * Bounds of all partitions, in order. @throws SluiceError kafka_topic_missing | kafka_not_authorized |
   * kafka_unreachable
   */
  bounds(topic: string): Promise<ReadonlyMap<number, OffsetBounds>>;
  /**
   * Yields committed records in order, one fetch at a time. If retention deleted some, continues at the first remaining
   * record.
   */
  scan(range: ScanRange, options?: ScanOptions): AsyncGenerator<IncomingRecord[]>;
  /** Idempotent. */
  close(): Promise<void>;
}

// --- Membership ----------------------------------------------------------------------------------------------------------------

export interface MemberOptions {
  readonly connection: KafkaConnection;
  readonly topic: string;
  readonly group: string;
  /**
   * Static membership (KIP-345): a member that returns under the same name within the session timeout gets its
   * partitions back without a rebalance. null: dynamic membership.
   */
  readonly instanceId: string | null;
  /** The group removes a member that sends no heartbeat for this long, ms. */
  readonly sessionTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  /** Longest time the group waits for a member in a rebalance, ms. */
  readonly rebalanceTimeoutMs: number;
  /** Maximum bytes of one fetch from one partition. */
  readonly fetchBytes: number;
  /** Longest time a fetch waits for records, ms. */
  readonly fetchWaitMs: number;
  /**
   * Minimum time between fetches that return few records, ms. Records then arrive in batches; after a quiet period they
   * arrive at once.
   */
  readonly fetchPaceMs: number;
  /** Maximum age of metadata, ms. New partitions are noticed within this time. */
  readonly metadataMaxAgeMs: number;
}

/**
 * connecting → joining → joined ⇄ joining (during a rebalance). From each of these states: → gone (broker or membership
 * lost; the client reconnects with growing pauses) and → stopping → stopped. `failed`: no retry can help.
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
   * A new generation began. `added` partitions are newly assigned and stay paused until `startAt`. `kept` partitions
   * continue without interruption; the list is always empty if the library rebalances eagerly. All other partitions are
   * lost.
   */
  assigned(partitions: { readonly added: readonly number[]; readonly kept: readonly number[] }): void;
  /** Another member may read these partitions from now on; null: all of them, because the membership is uncertain. */
  revoked(partitions: readonly number[] | null): void;
  records(partition: number, records: IncomingRecord[], next: bigint, highWatermark: bigint): void;
  /** Up to `next`, the partition has only control records and aborted records. */
  skipped(partition: number, next: bigint): void;
  /** The client started reading at another offset than requested and corrects this. */
  reset(partition: number, offset: bigint): void;
  /** The client restarts by itself. */
  restarting(error: SluiceError): void;
  /** An error that no restart can fix. Reported once. */
  failed(error: SluiceError): void;
  log?(entry: KafkaLogEntry): void;
}

/**
 * One member of a group that reads one topic. Calls that do not apply to the current state (pausing a member that is
 * gone, seeking a lost partition) do nothing instead of throwing.
 */
export interface GroupMember {
  readonly state: MemberState;
  /** null while the member is not joined, and always in a client without transactions. */
  readonly identity: MemberIdentity | null;
  /**
   * Resolves when the member has joined for the first time. @throws SluiceError an error that no retry can fix, or the
   * first failure to connect
   */
  start(): Promise<void>;
  /** Starts or continues reading at `offset`. */
  startAt(partition: number, offset: bigint): void;
  pause(partitions: readonly number[]): void;
  resume(partitions: readonly number[]): void;
  /** Whether the coordinator listed this member at the last heartbeat. Never rejects. */
  isMember(): Promise<boolean>;
  /** Commits outside of transactions. @throws SluiceError kafka_rebalanced when this member's generation has ended */
  commit(offsets: ReadonlyMap<number, bigint>): Promise<void>;
  /**
   * Leaves the group, even a static member: its name may never return, for example after a pod is replaced, and its
   * partitions would stay unread for the session timeout. Idempotent; ends within 2 s whatever the broker does.
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

/** Rounds are written in order. Each holds at most one batch per partition. */
export type Rounds = readonly (readonly PlannedBatch[])[];

export interface OffsetsToCommit {
  readonly group: string;
  readonly topic: string;
  /** Partition → offset to commit: one past the last record. */
  readonly next: ReadonlyMap<number, bigint>;
  /** null: no fencing by generation, because the transactional ID alone identifies the partition's owner. */
  readonly member: MemberIdentity | null;
}

/** Everything that transactions of one ID can touch: offsets of a group and topics. */
export interface TransactionPlaces {
  readonly group: string;
  /** Topic whose offsets are committed. */
  readonly topic: string;
  /** null: any partition of the topic. */
  readonly partitions: readonly number[] | null;
  /** Topics to which the transactions write. */
  readonly writes: readonly string[];
}

/** A writer is discarded after its first failure, because the library's state is then unreliable. */
interface Writer {
  connect(): Promise<void>;
  /** Never throws and does not wait for an unreachable broker. Idempotent. */
  discard(): Promise<void>;
}

/** An idempotent producer: repeated requests do not duplicate records. */
export interface BatchWriter extends Writer {
  /** Resolves when all in-sync replicas have acknowledged every batch. */
  write(rounds: Rounds): Promise<void>;
}

export interface TransactionalWriter extends Writer {
  /**
   * Fences every older writer of this transactional ID. Before it responds, the broker finishes or aborts their open
   * transactions, so offsets read afterwards are final. A restarted broker may have ended the last transaction without
   * notifying its partitions. If the client can detect this, it notifies the partitions in `places`.
   */
  fence(places?: TransactionPlaces): Promise<void>;
  /** Writes records and offsets atomically. @throws SluiceError kafka_*; the transaction is aborted if possible */
  writeTransaction(rounds: Rounds, offsets: OffsetsToCommit | null): Promise<void>;
}
