// Writes answers from a topic to a table. One database transaction contains the rows, the dead letters and the offset
// of a micro-batch; src/connectors/postgres/table-writer.ts describes the protocol.

import type { KafkaObserver } from '../../connectors/kafka/observer.ts';
import type { OffsetKeeper, TopicOffset } from '../../connectors/kafka/reading-options.ts';
import type { PlacedBatch, TopicReader } from '../../connectors/kafka/topic-reader.ts';
import { Overtaken } from '../../connectors/postgres/offset-table.ts';
import type { PostgresSink } from '../../connectors/postgres/postgres-options.ts';
import { letterRow, type RecordLayout, recordLayout } from '../../connectors/postgres/record-rows.ts';
import { TableWriter } from '../../connectors/postgres/table-writer.ts';
import { monotonicMs, sleep } from '../../core/clock.ts';
import { asSluiceError, type ErrorCode, type SluiceError } from '../../core/errors.ts';
import { faultFields, saysOf, words } from '../../core/log.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { RunContext } from '../context.ts';
import { interpretationOf } from '../spec.ts';
import { type AnsweredBatch, countLetters, type TopicSpec } from './answer-records.ts';
import type { AnswerSink } from './answer-sink.ts';

const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 10_000;

/** Position in a partition since the partition was assigned or restarted. */
interface Position {
  /** Offset stored in the database. */
  stored: TopicOffset | null;
  /** Offset of the next batch; null if reading has not started. */
  next: bigint | null;
  /** The topic that is read; null: unknown. */
  topicId: string | null;
}

export class TableAnswers implements AnswerSink {
  readonly offsets: OffsetKeeper;
  readonly #spec: TopicSpec<PostgresSink>;
  readonly #context: RunContext;
  readonly #writer: TableWriter;
  /** Uses its own connection, because a partition may be opened while rows are written. */
  readonly #offsetReader: TableWriter;
  readonly #positions = new Map<number, Position>();
  #reader: TopicReader | null = null;
  #observer: KafkaObserver = {};
  #layout: { of: ModelPackage; layout: RecordLayout } | null = null;
  #down = false;
  #warned = false;
  #asking: Promise<unknown> = Promise.resolve();

  constructor(spec: TopicSpec<PostgresSink>, context: RunContext) {
    this.#spec = spec;
    this.#context = context;
    const { sink, dead_letter: letters } = spec;
    const options = {
      database: sink,
      table: sink.table,
      mode: sink.mode === 'merge' ? sink.mode : ('append' as const),
      key: sink.key ?? [],
      letters: letters?.type === 'postgres' ? letters.table : null,
      group: spec.source.group,
      topic: spec.source.topic!,
      transactionTimeoutMs: spec.transaction_timeout_ms,
    };
    this.#writer = new TableWriter(options);
    this.#offsetReader = new TableWriter(options);
    this.offsets = {
      committed: async (partition) => {
        const stored = await this.#ask(() => this.#offsetReader.committed(partition));
        this.#positions.set(partition, { stored, next: null, topicId: null });
        this.#warnWithoutTopicIds();
        return stored;
      },
      begin: async (partition, stored, at) => {
        await this.#ask(() => this.#offsetReader.begin(partition, stored, at));
        this.#positions.set(partition, { stored: at, next: null, topicId: null });
      },
      started: (partition, { offset, topicId }) => {
        const position = this.#positions.get(partition);
        if (position) Object.assign(position, { next: offset, topicId });
      },
    };
  }

  get ready(): boolean {
    return !this.#down;
  }

  begin(reader: TopicReader, observer: KafkaObserver): void {
    this.#reader = reader;
    this.#observer = observer;
  }

  /**
   * Rejects a batch of an ended assignment. After a restart of the partition, such a batch can be of an earlier topic, or
   * does not start at the current position.
   */
  accepts(batch: PlacedBatch): boolean {
    const { partition, from } = batch;
    if (!this.#reader!.isCurrent(batch)) return false;
    if (this.#positions.get(partition)?.next === from) return true;
    this.#reader!.restart(partition);
    return false;
  }

  async deliver(batch: PlacedBatch, answers: AnsweredBatch, signal: AbortSignal): Promise<void> {
    const { partition, next } = batch;
    const began = monotonicMs();
    const { columns, rows, unstorable } = this.#rowsOf(answers);
    const letters = answers.deadLetters.map(({ record, error }) => letterRow(record, record, error));
    const unit = this.#context.account.unit();
    answers.countInto(unit);
    if (unstorable > 0) unit.reject(unstorable, 'invalid_character');
    const position = this.#positions.get(partition)!;
    try {
      const to = { offset: next, topicId: position.topicId };
      await this.#writer.write({ partition, from: position.stored, to, columns, rows, letters }); // biome-ignore format: one line
      position.stored = to;
      position.next = next;
      unit.settle();
      this.#observer.onTransaction?.({
        partitions: [{ partition, records: batch.records.length, rejected: letters.length, oversized: 0, next }],
        retimed: new Map(),
        bytes: rows.reduce((sum, row) => sum + row.length, 0),
        ms: monotonicMs() - began,
      });
    } catch (error) {
      unit.drop();
      await this.#recover(asSluiceError(error, 'internal_error'), partition, signal);
      return;
    }
    countLetters(
      this.#context,
      answers.deadLetters.map(({ error }) => error.code),
    );
    // The database holds the authoritative offset. The offset of the group only serves tools that show the group's lag.
    await this.#reader!.commit(new Map([[partition, next]])).catch(() => {});
  }

  async finish(): Promise<void> {}

  async close(): Promise<void> {
    await Promise.all([this.#writer.close(), this.#offsetReader.close()]);
  }

  #warnWithoutTopicIds(): void {
    if (this.#warned || this.#offsetReader.storesTopicIds) return;
    this.#warned = true;
    const message = words`sluice_offsets has no column topic_id and this role may not add it; a topic that is created again would lose records`;
    this.#context.log('warn', 'offsets_without_topic', message);
  }

  /** Queries on the shared connection run one at a time. */
  #ask<T>(work: () => Promise<T>): Promise<T> {
    const asked = this.#asking.then(work, work);
    this.#asking = asked.catch(() => {});
    return asked;
  }

  /** `unstorable`: number of scored rows whose text PostgreSQL cannot store. */
  #rowsOf(answers: AnsweredBatch): { columns: RecordLayout['columns']; rows: string[]; unstorable: number } {
    const layout = this.#layoutOf(answers.model);
    const rows: string[] = [];
    let unstorable = 0;
    for (const { record, answer } of answers.answered) {
      const { value, error } = answer!;
      if (error) {
        rows.push(layout.rejectedRow(record, value, error));
        continue;
      }
      const row = layout.row(record, value);
      if (typeof row === 'string') {
        rows.push(row);
        continue;
      }
      unstorable++;
      const reason = {
        code: 'invalid_character' as ErrorCode,
        column: row.column,
        message: 'contains a NUL character',
      };
      if (!answers.reject(record, reason)) rows.push(layout.rejectedRow(record, value, reason));
    }
    return { columns: layout.columns, rows, unstorable };
  }

  #layoutOf(model: ModelPackage): RecordLayout {
    if (this.#layout?.of !== model) {
      const { passthrough = [] } = this.#spec.score;
      const columns = passthrough === '*' ? [] : passthrough;
      this.#layout = { of: model, layout: recordLayout(model.manifest, columns, interpretationOf(this.#spec)) };
    }
    return this.#layout!.layout;
  }

  /** Restarts the partition at the offset in the database. @throws SluiceError if a retry cannot help */
  async #recover(failure: SluiceError, partition: number, signal: AbortSignal): Promise<void> {
    if (!failure.entry.retryable) throw failure;
    if (failure instanceof Overtaken) {
      const message = words`another member already wrote rows of partition ${partition}; continuing after them`;
      this.#context.log('info', 'partition_overtaken', message, { partition });
    } else await this.#waitForDatabase(failure, partition, signal);
    this.#reader!.restart(partition);
  }

  /** Retries until the database responds or the run is stopped. @throws SluiceError if a retry cannot help */
  async #waitForDatabase(failure: SluiceError, partition: number, signal: AbortSignal): Promise<void> {
    const { log } = this.#context;
    this.#observer.onAbort?.({ partition, reason: failure.code, message: saysOf(failure) });
    for (let wait = FIRST_WAIT_MS; !signal.aborted; wait = Math.min(MAX_WAIT_MS, wait * 2)) {
      try {
        await this.#writer.committed(partition);
        if (this.#down) log('info', 'database_up', words`the table is writable again`);
        this.#down = false;
        return;
      } catch (error) {
        const again = asSluiceError(error, 'internal_error');
        if (!again.entry.retryable) throw again;
        if (!this.#down)
          log(
            'error',
            'database_down',
            words`the table cannot be written; the write is retried: ${saysOf(again)}`,
            faultFields(again),
          );
        this.#down = true;
      }
      await sleep(wait, { signal }).catch(() => {});
    }
  }
}
