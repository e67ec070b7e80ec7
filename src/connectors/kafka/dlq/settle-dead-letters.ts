// Replays or drops dead letters, each exactly once, even if selections overlap, processes are killed, or processes run concurrently.
//
// 1. Fence: the broker completes or aborts the transaction of every other settlement of the topic, and rejects these
//    settlements from now on. They share a transactional ID, which is derived from the name of the dead letter topic.
// 2. Survey: read all markers up to the end of the topic. This waits for open transactions of pipelines, because they
//    can precede a marker. Because of step 1, a dead letter that is open now stays open until this settlement settles
//    it.
// 3. Write the replayed records and the markers of their dead letters in one transaction. If the process is killed
//    before the transaction commits, neither exists. After the commit, both exist.
//
// A failure ends the settlement, because only a new survey shows the outcome of the last transaction.
import { type ErrorCode, SluiceError } from '../../../core/errors.ts';
import { openTransactionalWriter, requireTransactions } from '../choose-client.ts';
import type { BatchCompression } from '../client/codecs.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { kafkaError, reasonOf } from '../client/failures.ts';
import type { TransactionalWriter } from '../client/kafka-client.ts';
import { type OutgoingRecord, weightOf } from '../client/records.ts';
import { SendPlanner } from '../send-plan.ts';
import type { TopicFacts } from '../topic-directory.ts';
import { type DeadLetterSelection, restored, type SettledAs, selects, whyUnusable } from './dead-letter.ts';
import { DeadLetterTopic, earlierGroup, type FoundDeadLetter, type PartitionState } from './dead-letter-topic.ts';
import { markersOf } from './markers.ts';
import { OffsetRanges } from './offset-ranges.ts';

export interface SettleOptions {
  connection: KafkaConnection;
  deadLetterTopic: string;
  action: 'replayed' | 'dropped';
  selection?: DeadLetterSelection;
  /** Topic to replay to; default: the original topic of each record. */
  topic?: string | undefined;
  /**
   * Timestamp of replayed records. Default: now, because retention depends on timestamps and could delete an old record
   * before it is read.
   */
  timestamp?: 'now' | 'original' | undefined;
  /** Maximum number of dead letters to settle. */
  limit?: number | undefined;
  /** Also settle dead letters that a replay by an earlier release passed. */
  reopen?: boolean | undefined;
  /** Only count: neither fence nor write. */
  dryRun?: boolean | undefined;
  /** Compression of replayed records; default: none. */
  compression?: BatchCompression | undefined;
  /** Maximum number of dead letters in one transaction. Default: 2,000. */
  transactionLetters?: number | undefined;
  signal?: AbortSignal | undefined;
  onWait?: ((partition: number, ms: number) => void) | undefined;
}

export interface SettleReport {
  /** Number of dead letters replayed or dropped; in a dry run, the number that would be settled. */
  settled: number;
  /**
   * Number of open dead letters that were not selected. null: unknown, because the limit was reached before all were
   * read.
   */
  left: number | null;
  /** Number of selected dead letters that are truncated or have no known origin. */
  unusable: number;
  /** Selected dead letters whose target topic rejected them. */
  failed: { topic: string; code: ErrorCode; letters: number }[];
}

const TRANSACTION_TIMEOUT_MS = 15_000;
const MAX_LETTERS = 2_000;
/** Maximum bytes of the records in one transaction, and of all records that are gathered in memory. */
const MAX_BYTES = 4 * 1024 * 1024;
const FENCED: readonly string[] = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH'];
/** Errors that concern a single topic, so that replays to other topics continue. */
const TOPIC_FAULTS: readonly ErrorCode[] = ['kafka_topic_missing', 'kafka_not_authorized', 'kafka_record_too_large'];

/**
 * Settles the selected dead letters among those that exist now.
 * @throws SluiceError usage (replay into the dead letter topic itself) | cancelled | dead_letters_taken_over |
 * kafka_config (the client has no transactions) | kafka_*
 */
export async function settleDeadLetters(options: SettleOptions): Promise<SettleReport> {
  if (options.topic === options.deadLetterTopic) {
    throw new SluiceError('usage', 'dead letters cannot be replayed into their own topic: use another topic');
  }
  if (!options.dryRun) requireTransactions('dead_letters');
  const refused = new Map<string, ErrorCode>();
  let settled = 0;
  for (;;) {
    const limit = options.limit === undefined ? undefined : options.limit - settled;
    await using settlement = new Settlement({ ...options, limit }, refused);
    try {
      const report = await settlement.run();
      return { ...report, settled: report.settled + settled };
    } catch (error) {
      settled += settlement.settled;
      if (error instanceof TopicRefused) refused.set(error.topic, error.code);
      else throw options.signal?.aborted ? cancelled(settled, options) : error;
    }
  }
}

/** The error if a topic rejects records. The settlement then restarts without this topic. */
class TopicRefused extends SluiceError {
  readonly topic: string;
  constructor(topic: string, { code, message }: SluiceError) {
    super(code, message);
    this.topic = topic;
  }
}

/**
 * Dead letters to settle in one transaction. All of them are replayed to the same topic, so that a rejection identifies
 * the topic.
 */
interface Gathered {
  topic: string | null;
  planner: SendPlanner;
  settled: Map<number, OffsetRanges>;
  letters: number;
  bytes: number;
}

class Settlement implements AsyncDisposable {
  settled = 0;
  readonly #options: SettleOptions;
  readonly #letters: DeadLetterTopic;
  /** Topics that rejected records in an earlier pass. */
  readonly #refused: ReadonlyMap<string, ErrorCode>;
  /** Topics whose metadata could not be read. */
  readonly #faults = new Map<string, ErrorCode>();
  readonly #failed = new Map<string, SettleReport['failed'][number]>();
  readonly #gathered = new Map<string | null, Gathered>();
  #writer: TransactionalWriter | null = null;
  #planned = 0;

  constructor(options: SettleOptions, refused: ReadonlyMap<string, ErrorCode>) {
    this.#options = options;
    this.#refused = refused;
    const { connection, deadLetterTopic: topic, signal, onWait } = options;
    this.#letters = new DeadLetterTopic({ connection, topic, signal, onWait });
  }

  async run(): Promise<SettleReport> {
    const { selection = {}, limit = Number.POSITIVE_INFINITY, dryRun, reopen } = this.#options;
    await this.#letters.directory.connect();
    if (!dryRun) await this.#fence();
    const survey = await this.#letters.survey();
    if (!dryRun) await this.#adopt(survey);
    let left: number | null = 0;
    let unusable = 0;
    for await (const found of this.#letters.letters(survey)) {
      const { letter, state, record } = found;
      if (state !== 'open' && !(reopen && state === 'adopted')) continue;
      if (this.#planned >= limit) {
        left = null;
        break;
      }
      if (!selects(selection, letter, record.key)) left++;
      else if (this.#options.action === 'replayed' && whyUnusable(letter, this.#options.topic)) unusable++;
      else await this.#gather(found);
    }
    for (const gathered of this.#gathered.values()) await this.#write(gathered);
    return { settled: dryRun ? this.#planned : this.settled, left, unusable, failed: [...this.#failed.values()] };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#writer?.discard(), this.#letters.close()]);
  }

  async #fence(): Promise<void> {
    const { connection, deadLetterTopic, compression = 'none' } = this.#options;
    // Earlier releases used this name as the group of their replays, so existing permissions for its prefix also cover
    // the transactional ID.
    const transactionalId = earlierGroup(deadLetterTopic);
    const settings = { connection, compression, transactionalId, transactionTimeoutMs: TRANSACTION_TIMEOUT_MS };
    this.#writer = openTransactionalWriter(settings);
    try {
      await this.#writer.connect();
      await this.#writer.fence();
    } catch (error) {
      throw this.#failure(error, `fencing other replays (transactional id ${transactionalId}) failed`);
    }
  }

  /**
   * Writes markers for dead letters that a replay by an earlier release passed. The committed offsets, which record
   * this so far, expire.
   */
  async #adopt(survey: ReadonlyMap<number, PartitionState>): Promise<void> {
    const gathered = this.#begin(null);
    for (const [partition, { toAdopt }] of survey) if (toAdopt) gathered.settled.set(partition, toAdopt);
    if (gathered.settled.size > 0) await this.#write(gathered, 'adopted');
  }

  async #gather({ letter, record, first }: FoundDeadLetter): Promise<void> {
    const topic = this.#options.action === 'dropped' ? null : (this.#options.topic ?? letter.from!.topic);
    let gathered = this.#gathered.get(topic) ?? this.#begin(topic);
    let bytes = 0;
    if (topic !== null) {
      const facts = await this.#factsOf(topic);
      if (typeof facts === 'string') return this.#fail(topic, facts);
      const output = restored(
        record,
        letter,
        { topic, partitions: facts.partitions },
        this.#options.timestamp ?? 'now',
      );
      bytes = weightOf(output);
      if (gathered.letters > 0 && gathered.bytes + bytes > MAX_BYTES) {
        await this.#write(gathered);
        gathered = this.#begin(topic);
      }
      if (!(await fits(gathered.planner, output))) return this.#fail(topic, 'kafka_record_too_large');
    }
    const { partition, offset } = letter;
    if (!gathered.settled.has(partition)) gathered.settled.set(partition, new OffsetRanges());
    gathered.settled.get(partition)!.add(first, Number(offset));
    gathered.letters++;
    gathered.bytes += bytes;
    this.#planned++;
    this.#gathered.set(topic, gathered);
    if (gathered.letters >= (this.#options.transactionLetters ?? MAX_LETTERS)) await this.#write(gathered);
    else await this.#keepSmall();
  }

  /** Writes the largest group if the gathered records of all topics exceed the limit of one transaction. */
  async #keepSmall(): Promise<void> {
    const all = [...this.#gathered.values()];
    if (all.reduce((sum, g) => sum + g.bytes, 0) <= MAX_BYTES) return;
    await this.#write(all.reduce((a, b) => (b.bytes > a.bytes ? b : a)));
  }

  #begin(topic: string | null): Gathered {
    const { compression = 'none' } = this.#options;
    const { directory } = this.#letters;
    const planner = new SendPlanner({ directory, compression, outputTopic: null, deadLetterTopic: null });
    return { topic, planner, settled: new Map(), letters: 0, bytes: 0 };
  }

  /** Performs step 3 for dead letters that have the same target topic. */
  async #write(gathered: Gathered, as: SettledAs = this.#options.action): Promise<void> {
    const { topic, planner, settled, letters } = gathered;
    const { deadLetterTopic, dryRun, signal } = this.#options;
    this.#gathered.delete(topic);
    if (dryRun) return;
    signal?.throwIfAborted();
    try {
      const { maxBatchBytes } = await this.#letters.directory.facts(deadLetterTopic);
      for (const [partition, offsets] of settled) {
        await planner.add(markersOf(as, { topic: deadLetterTopic, partition }, offsets, maxBatchBytes), 'output');
      }
      await this.#writer!.writeTransaction(planner.finish().rounds, null);
    } catch (error) {
      const failure = this.#failure(error, `writing to ${topic ?? deadLetterTopic} failed`);
      throw topic !== null && TOPIC_FAULTS.includes(failure.code) ? new TopicRefused(topic, failure) : failure;
    }
    this.settled += letters;
  }

  async #factsOf(topic: string): Promise<TopicFacts | ErrorCode> {
    const refused = this.#refused.get(topic) ?? this.#faults.get(topic);
    if (refused !== undefined) return refused;
    try {
      return await this.#letters.directory.facts(topic);
    } catch (error) {
      const failure = this.#failure(error, `querying the topic ${topic} failed`);
      if (!TOPIC_FAULTS.includes(failure.code)) throw failure;
      this.#faults.set(topic, failure.code);
      return failure.code;
    }
  }

  #fail(topic: string, code: ErrorCode): void {
    const key = `${topic} ${code}`;
    const failed = this.#failed.get(key) ?? { topic, code, letters: 0 };
    failed.letters++;
    this.#failed.set(key, failed);
  }

  #failure(error: unknown, during: string): SluiceError {
    if (!FENCED.includes(reasonOf(error))) return kafkaError(error, during);
    const { deadLetterTopic } = this.#options;
    return new SluiceError(
      'dead_letters_taken_over',
      `another command took over the dead letters of ${deadLetterTopic} after this command processed ${this.settled}`,
      { cause: error },
    );
  }
}

/** Adds the record to the plan. Returns false if the record is too large for its topic. */
async function fits(planner: SendPlanner, record: OutgoingRecord): Promise<boolean> {
  try {
    await planner.add([record], 'output');
    return true;
  } catch (error) {
    if (error instanceof SluiceError && error.code === 'kafka_record_too_large') return false;
    throw error;
  }
}

const cancelled = (settled: number, { action }: SettleOptions): SluiceError =>
  new SluiceError('cancelled', `stopped after ${settled} dead letters were ${action}`);
