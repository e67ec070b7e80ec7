// Writes answers from a topic to files. Each partition has one open file, named by its first offset. The offset is
// committed after the file is published.
import { isUtf8 } from 'node:buffer';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { FileSink } from '../../connectors/file/file-options.ts';
import {
  type IncomingRecord,
  isList,
  type OutgoingRecord,
  type RecordHeaders,
  weightOf,
} from '../../connectors/kafka/client/records.ts';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import { deadLetter, letterReasonOf } from '../../connectors/kafka/dlq/dead-letter.ts';
import type { PlacedBatch, TopicReader } from '../../connectors/kafka/topic-reader.ts';
import { TopicWriter } from '../../connectors/kafka/topic-writer.ts';
import { epochMs, startInterval, stopTimer } from '../../core/clock.ts';
import { asSluiceError } from '../../core/errors.ts';
import { words } from '../../core/log.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import { compressedSink } from '../../io/sink/compressed-sink.ts';
import { openFileSink } from '../../io/sink/file-sink.ts';
import { writeError } from '../../io/sink/file-target.ts';
import type { UnitAccount } from '../account.ts';
import type { RunContext } from '../context.ts';
import { endpoint } from '../endpoint-specs.ts';
import { type AnsweredBatch, countLetters, type TopicSpec } from './answer-records.ts';
import type { AnswerSink } from './answer-sink.ts';

/** Name of the member that holds the position of the record. */
const RECORD_MEMBER = 'record';

/** Size of the dead letters of a file, in bytes, at which the file is published early. */
const MOST_LETTER_BYTES = 8 * 1024 * 1024;

interface OpenFile {
  partition: number;
  /** The assignment that the rows were read in. */
  assignment: object;
  sink: ByteSink;
  account: UnitAccount;
  rows: number;
  /** ms since 1970. */
  opened: number;
  /** Offsets before the first record, which is committed, and after the last one. */
  from: bigint;
  next: bigint;
  /** Dead letters, which are written when the file is published. */
  letters: OutgoingRecord[];
  letterBytes: number;
}

/**
 * A file holds the answers between two committed offsets of one partition, and is named after the first of them. After
 * a crash or a rebalance, the records of an unpublished file are read again, and the answers go to a file with the same
 * name. Only the member that owns the partition publishes: it has the coordinator of the group confirm its membership
 * right before, so that a member that was suspended does not replace a file of its successor.
 */
export class FileAnswers implements AnswerSink {
  readonly added = [RECORD_MEMBER];
  readonly ready = true;
  readonly #spec: TopicSpec<FileSink>;
  readonly #context: RunContext;
  readonly #letters: TopicWriter | null;
  readonly #files = new Map<number, OpenFile>();
  readonly #timer: ReturnType<typeof startInterval>;
  #reader: TopicReader | null = null;
  /**
   * The end of the previous operation. Operations run one at a time, because a file must not receive rows while it is
   * published.
   */
  #turn: Promise<void> = Promise.resolve();

  private constructor(spec: TopicSpec<FileSink>, context: RunContext, letters: TopicWriter | null) {
    this.#spec = spec;
    this.#context = context;
    this.#letters = letters;
    this.#timer = startInterval(() => this.#publishDue(), Math.min(1000, spec.sink.roll_ms));
  }

  /** Opens the sink and its dead-letter topic. @throws SluiceError kafka_* */
  static async open(spec: TopicSpec<FileSink>, context: RunContext): Promise<FileAnswers> {
    const letters =
      spec.dead_letter?.type === 'kafka'
        ? await TopicWriter.open({
            connection: connectionOf(spec.kafka),
            topic: spec.dead_letter.topic,
            as: 'dead_letter',
          })
        : null;
    return new FileAnswers(spec, context, letters);
  }

  begin(reader: TopicReader): void {
    this.#reader = reader;
  }

  accepts(batch: PlacedBatch): boolean {
    return this.#reader!.isCurrent(batch);
  }

  deliver(batch: PlacedBatch, answers: AnsweredBatch): Promise<void> {
    return this.#inTurn(() => this.#write(batch, answers));
  }

  async finish(): Promise<void> {
    for (const partition of [...this.#files.keys()]) await this.#inTurn(() => this.#publish(partition));
  }

  async close(): Promise<void> {
    stopTimer(this.#timer);
    for (const file of [...this.#files.values()]) await this.#discard(file);
    await this.#letters?.close();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work);
    return this.#turn;
  }

  #publishDue(): void {
    const now = epochMs();
    for (const [partition, file] of this.#files) {
      const isDue = now - file.opened >= this.#spec.sink.roll_ms;
      if (!isDue && this.#reader!.isCurrent(file)) continue;
      // The next batch would report the error too, but it may arrive much later.
      this.#inTurn(() => this.#publish(partition)).catch((error: unknown) =>
        this.#reader!.fail(asSluiceError(error, 'internal_error')),
      );
    }
  }

  async #write(batch: PlacedBatch, answers: AnsweredBatch): Promise<void> {
    const { partition, records, next } = batch;
    let file = this.#files.get(partition);
    if (file && file.assignment !== batch.assignment) {
      await this.#giveUp(file);
      file = undefined;
    }
    if (!file) {
      file = await this.#open(batch);
      this.#files.set(partition, file);
    }
    const lines = answers.answered.map(({ record, answer }) => topicLine(record, answer!.value));
    await file.sink.write(Buffer.concat(lines));
    for (const { record, error } of answers.deadLetters) {
      const letter = deadLetter(copyOf(record), error, this.#context.name);
      file.letters.push(letter);
      file.letterBytes += weightOf(letter);
    }
    answers.countInto(file.account);
    file.rows += records.length;
    file.next = next;
    const isFull = file.rows >= this.#spec.sink.roll_rows || file.letterBytes >= MOST_LETTER_BYTES;
    if (isFull) await this.#publish(partition);
  }

  async #publish(partition: number): Promise<void> {
    const file = this.#files.get(partition);
    if (!file) return;
    if (!(await this.#owns(file))) return this.#giveUp(file);
    if (file.letters.length > 0) await this.#letters!.write(file.letters);
    await file.sink.commit();
    this.#files.delete(partition);
    const lost = await this.#reader!.commit(new Map([[partition, file.next]]));
    if (lost.length > 0) {
      file.account.drop();
      return this.#logTakenOver(partition);
    }
    countLetters(
      this.#context,
      file.letters.map((letter) => letterReasonOf(letter).code),
    );
    file.account.settle();
  }

  /** Whether the partition still belongs to this member. The coordinator confirms it by accepting a commit. */
  async #owns(file: OpenFile): Promise<boolean> {
    const reader = this.#reader!;
    return reader.isCurrent(file) && (await reader.commit(new Map([[file.partition, file.from]]))).length === 0;
  }

  /** Removes the file of an ended assignment. The member that owns the partition reads its records again. */
  async #giveUp(file: OpenFile): Promise<void> {
    await this.#discard(file);
    this.#logTakenOver(file.partition);
  }

  async #discard(file: OpenFile): Promise<void> {
    this.#files.delete(file.partition);
    file.account.drop();
    await file.sink.abort();
  }

  #logTakenOver(partition: number): void {
    const message = words`partition ${partition} was reassigned; its member reads the records of the last file again`;
    this.#context.log('info', 'file_taken_over', message, { partition });
  }

  async #open({ partition, from, assignment }: PlacedBatch): Promise<OpenFile> {
    const { sink } = this.#spec;
    const name = sink.path
      .replaceAll('{partition}', String(partition))
      .replaceAll('{offset}', String(from).padStart(20, '0'))
      .replaceAll('{name}', 'topic');
    await mkdir(path.dirname(name), { recursive: true }).catch((cause: unknown) => {
      throw writeError(name, cause, 'output_unwritable');
    });
    const { compression } = endpoint(name, sink, 'ndjson');
    return {
      partition,
      assignment,
      sink: compressedSink(await openFileSink(name), compression),
      account: this.#context.account.unit(),
      rows: 0,
      opened: epochMs(),
      from,
      next: from,
      letters: [],
      letterBytes: 0,
    };
  }
}

/** The record with bytes of its own. Those of a record are part of the response that it was fetched in. */
function copyOf(record: IncomingRecord): IncomingRecord {
  const copy = <T extends Buffer | null>(bytes: T) => (bytes && Buffer.from(bytes)) as T;
  const headers = Object.entries(record.headers).map(([name, value]): [string, RecordHeaders[string]] => [
    name,
    isList(value) ? value.map(copy) : copy(value),
  ]);
  return { ...record, key: copy(record.key), value: copy(record.value), headers: Object.fromEntries(headers) };
}

/** The answer (a JSON object with at least one member) as a line, with the position of its record added. */
function topicLine({ topic, partition, offset, key }: IncomingRecord, answer: Buffer): Buffer {
  const place = `"topic":${JSON.stringify(topic)},"partition":${partition},"offset":${offset}`;
  const tail = `,"${RECORD_MEMBER}":{${place},${keyMember(key)}}}\n`;
  return Buffer.concat([answer.subarray(0, answer.length - 1), Buffer.from(tail)]);
}

/** Uses the same two member names as the dead letters printed by `sluice dlq`. */
function keyMember(key: Buffer | null): string {
  if (key === null) return '"key":null';
  return isUtf8(key)
    ? `"key":${JSON.stringify(key.toString('utf8'))}`
    : `"key_base64":${JSON.stringify(key.toString('base64'))}`;
}
