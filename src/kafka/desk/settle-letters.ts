// Puts letters back, or drops them: each once, whatever was selected before, whoever is killed, and whoever works at it besides.
//
// 1. Fence: every other desk of the topic is refused from now on, and the broker finishes or aborts what it had open. (A desk is a
//    transactional id of the dead letter topic, because that is what the fence goes by.)
// 2. Survey: read all markers up to the end, that of open transactions of pipelines included, because one of them may stand before a
//    marker. What is open now is open until this desk settles it, because of 1.
// 3. In a transaction: the records put back, and markers of the letters they were. Killed before its end, there is neither; after it, both.
// A failure ends the desk, because only a new survey says what became of the last transaction.
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import { openTransactionalWriter, requireTransactions } from '../choose-client.ts';
import type { BatchCompression } from '../client/codecs.ts';
import type { KafkaConnection } from '../client/connection.ts';
import { kafkaError, reasonOf } from '../client/failures.ts';
import type { TransactionalWriter } from '../client/kafka-client.ts';
import { type OutgoingRecord, weightOf } from '../client/records.ts';
import { SendPlanner } from '../send-plan.ts';
import type { TopicFacts } from '../topic-directory.ts';
import { restored, whyUnusable } from './letter.ts';
import { earlierGroup, type FoundLetter, LetterTopic, type PartitionState } from './letter-topic.ts';
import { markersOf, type SettledAs } from './markers.ts';
import { OffsetRanges } from './offset-ranges.ts';
import { type LetterSelection, selects } from './selection.ts';

export interface SettleOptions {
  connection: KafkaConnection;
  deadLetterTopic: string;
  action: 'replayed' | 'dropped';
  selection?: LetterSelection;
  /** Where to put them; default: the topic each record came from. */
  topic?: string | undefined;
  /**
   * Of what is put back. Default: now, because retention goes by time: an old record would be removed before anybody has read it.
   */
  timestamp?: 'now' | 'original' | undefined;
  /** Settles at most this many. */
  limit?: number | undefined;
  /** Takes those as open that an earlier release's replay passed. */
  reopen?: boolean | undefined;
  /** Fences nobody and writes nothing. */
  dryRun?: boolean | undefined;
  /** Of what is put back; default: none. */
  compression?: BatchCompression | undefined;
  /** Most letters of one transaction. Default 2,000. */
  transactionLetters?: number | undefined;
  signal?: AbortSignal | undefined;
  onWait?: ((partition: number, ms: number) => void) | undefined;
}

export interface SettleReport {
  /** Put back or dropped; in a dry run: that would be. */
  settled: number;
  /** Open letters that were not selected. null: the limit was reached before all were looked at. */
  left: number | null;
  /** Selected, but only the beginning of the value is left, or nothing says where it came from. */
  unusable: number;
  /** Selected, but their topic does not take them. */
  failed: { topic: string; code: ErrorCode; letters: number }[];
}

const TRANSACTION_TIMEOUT_MS = 15_000;
const MAX_LETTERS = 2_000;
/** Records of one transaction, and of all that are being gathered, bytes. */
const MAX_BYTES = 4 * 1024 * 1024;
const FENCED: readonly string[] = ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH'];
/** Faults of the topic to which letters go back: the others are not kept from theirs. */
const TOPIC_FAULTS: readonly ErrorCode[] = ['kafka_topic_missing', 'kafka_not_authorized', 'kafka_record_too_large'];

/**
 * Settles what is selected of the letters that are there now.
 * @throws SluiceError usage (into the dead letter topic itself) | cancelled | dead_letters_taken_over | kafka_config (the client has no
 *   transactions) | kafka_*
 */
export async function settleLetters(options: SettleOptions): Promise<SettleReport> {
  if (options.topic === options.deadLetterTopic) {
    throw new SluiceError(
      'usage',
      'dead letters would become records without origin among themselves: another topic is needed',
    );
  }
  if (!options.dryRun) requireTransactions('dead_letters');
  const refused = new Map<string, ErrorCode>();
  let settled = 0;
  for (;;) {
    const limit = options.limit === undefined ? undefined : options.limit - settled;
    await using desk = new Desk({ ...options, limit }, refused);
    try {
      const report = await desk.run();
      return { ...report, settled: report.settled + settled };
    } catch (error) {
      settled += desk.settled;
      if (error instanceof TopicRefused) refused.set(error.topic, error.code);
      else throw options.signal?.aborted ? cancelled(settled, options) : error;
    }
  }
}

/** A topic turned out not to take records: the desk begins anew without it. */
class TopicRefused extends SluiceError {
  readonly topic: string;
  constructor(topic: string, { code, message }: SluiceError) {
    super(code, message);
    this.topic = topic;
  }
}

/** Letters that are settled in one transaction: those that go to one topic, so that a refusal has a name. */
interface Gathered {
  topic: string | null;
  planner: SendPlanner;
  settled: Map<number, OffsetRanges>;
  letters: number;
  bytes: number;
}

class Desk implements AsyncDisposable {
  settled = 0;
  readonly #options: SettleOptions;
  readonly #letters: LetterTopic;
  /** Found by writing to them, in an earlier pass. */
  readonly #refused: ReadonlyMap<string, ErrorCode>;
  /** Found by asking for them. */
  readonly #faults = new Map<string, ErrorCode>();
  readonly #failed = new Map<string, SettleReport['failed'][number]>();
  readonly #gathered = new Map<string | null, Gathered>();
  #writer: TransactionalWriter | null = null;
  #planned = 0;

  constructor(options: SettleOptions, refused: ReadonlyMap<string, ErrorCode>) {
    this.#options = options;
    this.#refused = refused;
    const { connection, deadLetterTopic: topic, signal, onWait } = options;
    this.#letters = new LetterTopic({ connection, topic, signal, onWait });
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
    // The name that the group of the replay had before: where it was permitted by a prefix, so is this.
    const transactionalId = earlierGroup(deadLetterTopic);
    const settings = { connection, compression, transactionalId, transactionTimeoutMs: TRANSACTION_TIMEOUT_MS };
    this.#writer = openTransactionalWriter(settings);
    try {
      await this.#writer.connect();
      await this.#writer.fence();
    } catch (error) {
      throw this.#failure(error, `opening the desk (transactional id ${transactionalId}) failed`);
    }
  }

  /** What an earlier release passed is written down, because the offsets of a group expire. */
  async #adopt(survey: ReadonlyMap<number, PartitionState>): Promise<void> {
    const gathered = this.#begin(null);
    for (const [partition, { toAdopt }] of survey) if (toAdopt) gathered.settled.set(partition, toAdopt);
    if (gathered.settled.size > 0) await this.#write(gathered, 'adopted');
  }

  async #gather({ letter, record, first }: FoundLetter): Promise<void> {
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

  /** All that is gathered, for however many topics, stays within the limit of one transaction. */
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

  /** Step 3. */
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
      const failure = this.#failure(error, `asking for the topic ${topic} failed`);
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
      `another command took the dead letters of ${deadLetterTopic} over after ${this.settled} were settled by this one`,
      { cause: error },
    );
  }
}

/** Adds the record to what is sent; false: its topic does not take one as large. */
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
  new SluiceError('cancelled', `stopped after ${settled} letters were ${action}`);
