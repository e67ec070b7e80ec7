// Writes answers from a topic to files. Each partition has one open file, named by its first offset. The offset is
// committed after the file is published.
import { isUtf8 } from 'node:buffer';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { FileSink } from '../../connectors/file/file-options.ts';
import type { IncomingRecord, MicroBatch } from '../../connectors/kafka/client/records.ts';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import { deadLetter } from '../../connectors/kafka/dlq/dead-letter.ts';
import type { TopicReader } from '../../connectors/kafka/topic-reader.ts';
import { TopicWriter } from '../../connectors/kafka/topic-writer.ts';
import { epochMs, startInterval, stopTimer } from '../../core/clock.ts';
import { words } from '../../core/log.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import { compressedSink } from '../../io/sink/compressed-sink.ts';
import { openFileSink } from '../../io/sink/file-sink.ts';
import { writeError } from '../../io/sink/file-target.ts';
import type { UnitAccount } from '../account.ts';
import type { RunContext } from '../context.ts';
import { endpoint } from '../endpoint-specs.ts';
import type { AnsweredBatch, TopicSpec } from './answer-records.ts';
import type { AnswerSink } from './answer-sink.ts';

/** Name of the member that holds the position of the record. */
const RECORD_MEMBER = 'record';

interface OpenFile {
  sink: ByteSink;
  account: UnitAccount;
  rows: number;
  /** ms since 1970. */
  opened: number;
  next: bigint;
}

/**
 * A file holds the answers between two committed offsets of one partition. After a crash, the records of an unfinished
 * file are read again. The answers to these records go to a file with the same name, so no answer is lost or
 * duplicated.
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
        ? await TopicWriter.open({ connection: connectionOf(spec.kafka), topic: spec.dead_letter.topic })
        : null;
    return new FileAnswers(spec, context, letters);
  }

  begin(reader: TopicReader): void {
    this.#reader = reader;
  }

  accepts(): boolean {
    return true;
  }

  deliver(batch: MicroBatch, answers: AnsweredBatch): Promise<void> {
    return this.#inTurn(() => this.#write(batch, answers));
  }

  async finish(): Promise<void> {
    for (const partition of [...this.#files.keys()]) await this.#inTurn(() => this.#publish(partition));
  }

  async close(): Promise<void> {
    stopTimer(this.#timer);
    for (const { sink, account } of this.#files.values()) {
      await sink.abort();
      account.drop();
    }
    this.#files.clear();
    await this.#letters?.close();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work);
    return this.#turn;
  }

  #publishDue(): void {
    const now = epochMs();
    for (const [partition, file] of this.#files) {
      if (now - file.opened >= this.#spec.sink.roll_ms) this.#inTurn(() => this.#publish(partition)).catch(() => {});
    }
  }

  async #write({ partition, records, next }: MicroBatch, answers: AnsweredBatch): Promise<void> {
    let file = this.#files.get(partition);
    if (!file) {
      file = await this.#open(partition, records[0]!.offset);
      this.#files.set(partition, file);
    }
    const lines = answers.answered.map(({ record, answer }) => topicLine(record, answer!.value));
    await file.sink.write(Buffer.concat(lines));
    const letters = answers.deadLetters.map(({ record, error }) => deadLetter(record, error, this.#context.name));
    if (letters.length > 0) await this.#letters!.write(letters);
    answers.countLetters();
    answers.countInto(file.account);
    file.rows += records.length;
    file.next = next;
    if (file.rows >= this.#spec.sink.roll_rows) await this.#publish(partition);
  }

  async #publish(partition: number): Promise<void> {
    const file = this.#files.get(partition);
    if (!file) return;
    this.#files.delete(partition);
    await file.sink.commit();
    const lost = await this.#reader!.commit(new Map([[partition, file.next]]));
    if (lost.length === 0) file.account.settle();
    else {
      file.account.drop();
      const message = words`partition ${partition} was reassigned; its new member writes the last file again`;
      this.#context.log('info', 'file_taken_over', message, { partition });
    }
  }

  async #open(partition: number, offset: bigint): Promise<OpenFile> {
    const { sink } = this.#spec;
    const name = sink.path
      .replaceAll('{partition}', String(partition))
      .replaceAll('{offset}', String(offset).padStart(20, '0'))
      .replaceAll('{name}', 'topic');
    await mkdir(path.dirname(name), { recursive: true }).catch((cause: unknown) => {
      throw writeError(name, cause, 'output_unwritable');
    });
    const { compression } = endpoint(name, sink, 'ndjson');
    return {
      sink: compressedSink(await openFileSink(name), compression),
      account: this.#context.account.unit(),
      rows: 0,
      opened: epochMs(),
      next: offset,
    };
  }
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
