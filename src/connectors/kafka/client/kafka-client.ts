// The interface of a Kafka client. Every implementation passes test/connectors/kafka/client/conformance.ts. All errors are SluiceErrors with a kafka_*
// code; where a broker refused a request, a cause has the protocol's name of the error as its `type`.
import type { SluiceError } from '../../../core/errors.ts';
import type { BatchCompression } from './codecs.ts';
import type { KafkaConnection } from './connection.ts';
import type { IncomingRecord, RecordHeaders } from './records.ts';

/** A library behind the interface. None of its functions connects. */
export interface KafkaClient {
  readonly name: string;
  /** Whether its members keep partitions through a rebalance that gives them back. */
  readonly cooperative: boolean;
  /** Whether its members keep `fetchPaceMs`. */
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
  /** Component of the client that logs. */
  source: string;
  message: string;
  /** Broker address, topic, partition and such; never keys, values or passwords. */
  detail: Readonly<Record<string, string | number | boolean>>;
}

// --- Facts ---------------------------------------------------------------------------------------------------------------------

export interface PartitionRange {
  /** Offset of the first record that is still there. */
  readonly low: bigint;
  /** Offset behind the last one that readers of committed records may read. */
  readonly high: bigint;
}

/** One administrative connection, opened by the first question and again after a failure. `close` is idempotent. */
export interface TopicAdmin {
  /** Names of the topics this user may see, the brokers' own among them. */
  topics(): Promise<readonly string[]>;
  /** Number of partitions. @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable | kafka_authentication */
  partitions(topic: string): Promise<number>;
  /** Settings of the topic by name, defaults included, those left out that the broker does not know; null: they may not be read. */
  settings(topic: string, names: readonly string[]): Promise<ReadonlyMap<string, string> | null>;
  /** First and last offset of every partition. */
  ranges(topic: string): Promise<ReadonlyMap<number, PartitionRange>>;
  /**
   * Committed offsets of the group, null where it has none, undefined for partitions that do not exist. A client with transactions waits
   * some seconds until no open transaction can move one of them (KIP-447, `require_stable`) where the broker allows it. It requests these
   * partitions only, because those of other members hardly ever have no open transaction.
   */
  committed(group: string, topic: string, partitions: readonly number[]): Promise<ReadonlyMap<number, bigint | null>>;
  features(): Promise<BrokerFeatures>;
  close(): Promise<void>;
}

export interface BrokerFeatures {
  /** Broker and client fence transactions by the generation of the member, so one transaction may hold several partitions. */
  readonly memberTransactions: boolean;
}

// --- Reading without a group ---------------------------------------------------------------------------------------------------

export interface OffsetBounds {
  /** Offset of the first record that is still there. */
  readonly low: bigint;
  /** Offset behind the last record of any kind, those of transactions included that are still open. */
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
  /** Most bytes of one fetch; a larger record comes nevertheless. */
  readonly fetchBytes?: number;
  /** Called repeatedly while a transaction that began before `end` is open: later records cannot be read yet. */
  readonly onWait?: (partition: number, ms: number) => void;
}

/** Reads partitions from offset to offset and commits nothing: all it needs is READ on the topic. */
export interface PartitionScanner {
  /** Of every partition, in order. @throws SluiceError kafka_topic_missing | kafka_not_authorized | kafka_unreachable */
  bounds(topic: string): Promise<ReadonlyMap<number, OffsetBounds>>;
  /** Committed records in order, one fetch at a time; continues at the first remaining one if retention deleted some. */
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
   * Static membership (KIP-345): a member that returns under the same name within the session gets its partitions back
   * without a rebalance. null: dynamic membership.
   */
  readonly instanceId: string | null;
  /** A member without heartbeats for this long loses its partitions, ms. */
  readonly sessionTimeoutMs: number;
  readonly heartbeatIntervalMs: number;
  /** Longest time the group waits for a member in a rebalance, ms. */
  readonly rebalanceTimeoutMs: number;
  /** Maximum bytes of one fetch from one partition. */
  readonly fetchBytes: number;
  /** Longest time a fetch waits for records, ms. */
  readonly fetchWaitMs: number;
  /** Least time between two fetches that bring little, ms: records come in batches, and those after a quiet time at once. */
  readonly fetchPaceMs: number;
  /** New partitions are noticed after this time, ms. */
  readonly metadataMaxAgeMs: number;
}

/**
 * connecting → joining → joined ⇄ joining (a rebalance), and from each of them: → gone (the broker, or the membership, is lost; it
 * connects again by itself after a pause that grows) and → stopping → stopped. `failed` is where no retry helps.
 */
export type MemberState = 'connecting' | 'joining' | 'joined' | 'gone' | 'failed' | 'stopping' | 'stopped';

/** Identifies a member to the coordinator, which fences its transactions by generation (KIP-447). */
export interface MemberIdentity {
  readonly memberId: string;
  readonly generation: number;
  readonly instanceId: string | null;
}

/** Called on the event loop; must not throw. */
export interface MemberEvents {
  state?(state: MemberState, cause: SluiceError | null): void;
  /**
   * A new generation. `added` are this member's from now, and paused until `startAt`; `kept` were before and read on undisturbed (always
   * empty where the library rebalances eagerly); all others are lost.
   */
  assigned(partitions: { readonly added: readonly number[]; readonly kept: readonly number[] }): void;
  /** These partitions may be read by another member from now; null: all of them, the membership is in doubt. */
  revoked(partitions: readonly number[] | null): void;
  records(partition: number, records: IncomingRecord[], next: bigint, highWatermark: bigint): void;
  /** Nothing but control records and aborted ones up to `next`. */
  skipped(partition: number, next: bigint): void;
  /** Reading started at another offset than requested, and is corrected. */
  reset(partition: number, offset: bigint): void;
  /** It starts over, by itself. */
  restarting(error: SluiceError): void;
  /** A failure that no restart can fix. Reported once. */
  failed(error: SluiceError): void;
  log?(entry: KafkaLogEntry): void;
}

/**
 * One member of a group, reading one topic. No call throws for the state it is in: what makes no sense now (pausing a member that is
 * gone, seeking a partition that was taken away) does nothing.
 */
export interface GroupMember {
  readonly state: MemberState;
  /** null while it is not joined, and always in a client without transactions. */
  readonly identity: MemberIdentity | null;
  /** Resolves when it is joined for the first time. @throws SluiceError what no retry can fix, or the first failure to connect */
  start(): Promise<void>;
  /** Reads on from `offset`. */
  startAt(partition: number, offset: bigint): void;
  pause(partitions: readonly number[]): void;
  resume(partitions: readonly number[]): void;
  /** Whether the coordinator still knows this member, as of the last heartbeat interval. Never rejects. */
  isMember(): Promise<boolean>;
  /** Commits outside of transactions. @throws SluiceError kafka_rebalanced when this member's generation has ended */
  commit(offsets: ReadonlyMap<number, bigint>): Promise<void>;
  /**
   * Leaves, a static member too: its name may never come back, as that of a pod which is replaced, and its partitions would be silent for
   * the session. Idempotent; ends within 2 s whatever the broker does.
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

/** What goes to one partition as one record batch. */
export interface PlannedBatch {
  readonly topic: string;
  readonly partition: number;
  readonly records: readonly PlannedRecord[];
}

/** In order; each round holds at most one batch a partition. */
export type Rounds = readonly (readonly PlannedBatch[])[];

export interface OffsetsToCommit {
  readonly group: string;
  readonly topic: string;
  /** Partition → offset behind the last record. */
  readonly next: ReadonlyMap<number, bigint>;
  /** null: no fencing by generation, because the transactional id alone defines the owner of the partition. */
  readonly member: MemberIdentity | null;
}

/** The content of transactions of one id in addition to records. */
export interface TransactionPlaces {
  readonly group: string;
  /** Of the offsets that are committed with it. */
  readonly topic: string;
  /** null: any of the topic. */
  readonly partitions: readonly number[] | null;
  /** Topics that it writes to. */
  readonly writes: readonly string[];
}

/** Used until its first failure, then discarded: the state that a library keeps after a failure is unreliable. */
interface Writer {
  connect(): Promise<void>;
  /** Never throws, and does not wait for a broker that is unreachable. Idempotent. */
  discard(): Promise<void>;
}

/** Idempotent: requests that are repeated do not double records. */
export interface BatchWriter extends Writer {
  /** Resolves when every batch is acknowledged by all replicas in sync. */
  write(rounds: Rounds): Promise<void>;
}

export interface TransactionalWriter extends Writer {
  /**
   * Fences every older writer of this transactional id. The broker finishes or aborts their open transactions before it
   * responds, so offsets read afterwards are final. A restarted broker may have ended the last one without informing
   * the partitions; where the client can detect that, it informs those of `places`.
   */
  fence(places?: TransactionPlaces): Promise<void>;
  /** Records and offsets, all or nothing. @throws SluiceError kafka_* ; the transaction is aborted if that can be done */
  writeTransaction(rounds: Rounds, offsets: OffsetsToCommit | null): Promise<void>;
}
