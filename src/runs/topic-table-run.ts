// From a topic to a table: rows, dead letters and the offset of a micro-batch in one transaction of the database.
import type { KafkaSource, PostgresSink } from '../config/pipeline-schema.ts';
import { monotonicMs, sleep } from '../core/clock.ts';
import { asSluiceError, SluiceError } from '../core/errors.ts';
import type { Flow } from '../core/flow.ts';
import { faultFields, saysOf, words } from '../core/log.ts';
import { keepLoaded } from '../engine/keep-loaded.ts';
import type { ModelHost } from '../engine/model-host.ts';
import type { IncomingRecord } from '../kafka/client/records.ts';
import { type PlacedBatch, TopicReader } from '../kafka/topic-reader.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import { Overtaken } from '../postgres/offset-table.ts';
import { letterRow, type RecordLayout, recordLayout } from '../postgres/record-rows.ts';
import { TableWriter } from '../postgres/table-writer.ts';
import type { UnitAccount } from './account.ts';
import { newResult, type RunContext, type RunningPipeline, type RunResult } from './context.ts';
import { beginMeasuring } from './kafka-metrics.ts';
import { inWords } from './kafka-words.ts';
import { type RecordFormat, recordFormat } from './record-format.ts';
import { type RecordAnswer, type RecordScorer, recordScorer } from './record-scorer.ts';
import { interpretationOf, type RunSpec } from './spec.ts';
import { invalidRecord } from './topic-run.ts';
import { kafkaPlacesOf, topicSource, totalLag, watchOf } from './topic-source.ts';

export interface TopicTableSpec extends RunSpec {
  source: KafkaSource;
  sink: PostgresSink;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

/** src/postgres/table-writer.ts has the protocol. */
export async function startTopicTableRun(spec: TopicTableSpec, context: RunContext): Promise<RunningPipeline> {
  const run = new TopicTableRun(spec, context, await context.host(), await recordFormat(spec));
  return run.start();
}

/** A partition since it was assigned, or read again. */
interface Position {
  /** What the database says of it. */
  stored: bigint | null;
  /** Where the next batch begins; null: reading has not started. */
  next: bigint | null;
}

interface Rows {
  rows: string[];
  letters: string[];
  /** Codes of those. */
  codes: string[];
  /** Answers the database has no text for. */
  unstorable: number;
}

class TopicTableRun {
  readonly #spec: TopicTableSpec;
  readonly #context: RunContext;
  readonly #host: ModelHost;
  readonly #scorer: RecordScorer;
  readonly #format: RecordFormat;
  readonly #writer: TableWriter;
  /** Of its own, because partitions are opened while rows are written. */
  readonly #asker: TableWriter;
  readonly #positions = new Map<number, Position>();
  readonly #stop = new AbortController();
  readonly #observer: ReturnType<typeof topicSource>['observer'];
  readonly #source: ReturnType<typeof topicSource>;
  #layout: { of: ModelPackage; layout: RecordLayout } | null = null;
  #down = false;
  #asking: Promise<unknown> = Promise.resolve();

  constructor(spec: TopicTableSpec, context: RunContext, host: ModelHost, format: RecordFormat) {
    this.#spec = spec;
    this.#context = context;
    this.#host = host;
    this.#scorer = recordScorer(spec, host);
    this.#format = format;
    // Lint has seen to it that there is one topic.
    this.#source = topicSource(spec, context, spec.source.topic!);
    this.#observer = this.#source.observer;
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
    this.#asker = new TableWriter(options);
  }

  get #passthrough(): readonly string[] {
    const { passthrough } = this.#spec.score;
    return passthrough === '*' ? [] : (passthrough ?? []);
  }

  get #flow(): Flow {
    return this.#context.account.flow();
  }

  async start(): Promise<RunningPipeline> {
    beginMeasuring(this.#context);
    const places = kafkaPlacesOf(this.#spec, [this.#source.topic], []);
    const inPlaces = (error: unknown): never => {
      throw error instanceof SluiceError ? inWords(error, places) : error;
    };
    const reader = await TopicReader.start({
      ...this.#source,
      offsets: {
        committed: (partition) => this.#committed(partition),
        begin: async (partition, stored, at) => {
          await this.#ask(() => this.#asker.begin(partition, stored, at));
          this.#positions.set(partition, { stored: at, next: null });
        },
        started: (partition, offset) => {
          const position = this.#positions.get(partition);
          if (position) position.next = offset;
        },
      },
    }).catch(inPlaces);
    const watch = watchOf(places, this.#source.connection, this.#context);
    const model = keepLoaded(this.#host, [this.#spec.model]);
    const done = this.#run(reader).catch(inPlaces);
    done.catch(() => {});
    return {
      progress: () => ({
        counts: this.#context.account.progress,
        bytesRead: 0,
        totalBytes: null,
        lag: totalLag(reader.lag()),
      }),
      ready: () => watch.well && this.#source.movement.ready && model.ready && !this.#down,
      done,
      stop: async () => {
        this.#stop.abort();
        await watch.stop();
        model.stop();
        await reader.stop();
        await done.catch(() => {});
      },
    };
  }

  /** One after the other: the asker has one connection. */
  #ask<T>(work: () => Promise<T>): Promise<T> {
    const asked = this.#asking.then(work, work);
    this.#asking = asked.catch(() => {});
    return asked;
  }

  async #committed(partition: number): Promise<bigint | null> {
    const stored = await this.#ask(() => this.#asker.committed(partition));
    this.#positions.set(partition, { stored, next: null });
    return stored;
  }

  async #run(reader: TopicReader): Promise<RunResult> {
    const release = this.#flow.hold(() => reader.held);
    try {
      let asked = monotonicMs();
      for await (const batch of reader) {
        this.#flow.waited('source', monotonicMs() - asked);
        if (this.#stop.signal.aborted) break;
        await this.#take(reader, batch);
        asked = monotonicMs();
      }
    } finally {
      release();
      await reader.stop();
      await Promise.all([this.#writer.close(), this.#asker.close()]);
      this.#scorer.close();
    }
    return newResult();
  }

  async #take(reader: TopicReader, batch: PlacedBatch): Promise<void> {
    const { partition } = batch;
    const position = this.#positions.get(partition);
    // Read by an assignment that is over: the partition has been looked at again since.
    if (!position || position.next !== batch.from) return reader.restart(partition);
    const { tombstones } = this.#spec.source;
    const records = tombstones === 'skip' ? batch.records.filter((r) => r.value !== null) : batch.records;
    const began = monotonicMs();
    const { model, answers, tallies } = await this.#format.score(this.#scorer, records.map((r) => r.value)); // biome-ignore format: one line
    const scored = monotonicMs();
    this.#flow.waited('workers', scored - began);
    const layout = this.#layoutOf(model);
    const made: Rows = { rows: [], letters: [], codes: [], unstorable: 0 };
    for (const [i, record] of records.entries()) this.#enter(made, layout, record, answers[i]!);
    const unit = this.#context.account.unit();
    for (const tally of tallies) unit.add(tally, model.ref);
    if (made.unstorable > 0) unit.reject(made.unstorable, 'invalid_character');
    if (!(await this.#write(reader, batch, position, layout, made, unit))) return;
    const ms = monotonicMs() - scored;
    this.#flow.waited('sink', ms);
    this.#observer.onTransaction?.({
      partitions: [
        { partition, records: batch.records.length, rejected: made.letters.length, oversized: 0, next: batch.next },
      ],
      retimed: new Map(),
      bytes: made.rows.reduce((sum, row) => sum + row.length, 0),
      ms,
    });
    const { metrics, name: pipeline } = this.#context;
    for (const code of made.codes) metrics?.deadLetters.inc({ pipeline, code });
    // The group's offset is for those who look at its lag; where reading goes on says the database.
    await reader.commit(new Map([[partition, batch.next]])).catch(() => {});
  }

  #layoutOf(model: ModelPackage): RecordLayout {
    if (this.#layout?.of !== model) {
      const layout = recordLayout(model.manifest, this.#passthrough, interpretationOf(this.#spec));
      this.#layout = { of: model, layout };
    }
    return this.#layout!.layout;
  }

  #enter(made: Rows, layout: RecordLayout, record: IncomingRecord, { value, error }: RecordAnswer): void {
    let reason = error;
    if (!reason) {
      const row = layout.row(record, value);
      if (typeof row === 'string') {
        made.rows.push(row);
        return;
      }
      made.unstorable++;
      reason = { code: 'invalid_character', column: row.column, message: 'holds a NUL character' };
    }
    if (this.#spec.on_invalid === 'fail') throw invalidRecord(record, reason);
    if (this.#letters) {
      made.letters.push(letterRow(record, record, reason));
      made.codes.push(reason.code);
    } else made.rows.push(layout.rejectedRow(record, value, reason));
  }

  get #letters(): boolean {
    return this.#spec.on_invalid === 'dead_letter' && this.#spec.dead_letter?.type === 'postgres';
  }

  /** false: nothing of the batch is certain, and its partition is read again at what the database says. */
  async #write(
    reader: TopicReader,
    { partition, next }: PlacedBatch,
    position: Position,
    { columns }: RecordLayout,
    { rows, letters }: Rows,
    unit: UnitAccount,
  ): Promise<boolean> {
    this.#observer.onCommitting?.({ begun: true });
    try {
      await this.#writer.write({
        partition,
        from: position.stored,
        to: next,
        columns,
        rows: rows.join(''),
        letters: letters.join(''),
      });
      position.stored = next;
      position.next = next;
      unit.settle();
      return true;
    } catch (error) {
      unit.drop();
      const failure = asSluiceError(error, 'internal_error');
      if (!failure.entry.retryable) throw failure;
      if (failure instanceof Overtaken) {
        this.#context.log('info', 'partition_overtaken', words`partition ${partition} goes on behind what another member wrote`, { partition }); // biome-ignore format: one line
      } else await this.#waitForDatabase(failure, partition);
      reader.restart(partition);
      return false;
    } finally {
      this.#observer.onCommitting?.({ begun: false });
    }
  }

  /** Until it can be asked again, or the run is stopped. @throws SluiceError what no other attempt helps against */
  async #waitForDatabase(failure: SluiceError, partition: number): Promise<void> {
    const { log } = this.#context;
    this.#observer.onAbort?.({ partition, reason: failure.code, message: saysOf(failure) });
    for (let pause = FIRST_PAUSE_MS; !this.#stop.signal.aborted; pause = Math.min(LONGEST_PAUSE_MS, pause * 2)) {
      try {
        await this.#writer.committed(partition);
        if (this.#down) log('info', 'database_up', words`the table is written to again`);
        this.#down = false;
        return;
      } catch (error) {
        const again = asSluiceError(error, 'internal_error');
        if (!again.entry.retryable) throw again;
        if (!this.#down)
          log('error', 'database_down', words`waiting for the database: ${saysOf(again)}`, faultFields(again));
        this.#down = true;
      }
      await sleep(pause, { signal: this.#stop.signal }).catch(() => {});
    }
  }
}
