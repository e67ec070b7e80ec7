// From a topic to files: one file at a time a partition, named by its first offset; the offset is committed when the file is there.
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { FileSink, KafkaSource } from '../config/pipeline-schema.ts';
import { epochMs, monotonicMs, startInterval, stopTimer } from '../core/clock.ts';
import { SluiceError } from '../core/errors.ts';
import type { Flow } from '../core/flow.ts';
import { words } from '../core/log.ts';
import { keepLoaded } from '../engine/keep-loaded.ts';
import type { ModelHost } from '../engine/model-host.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import { compressedSink } from '../io/sink/compressed-sink.ts';
import { openFileSink } from '../io/sink/file-sink.ts';
import { writeError } from '../io/sink/file-target.ts';
import type { MicroBatch, OutgoingRecord } from '../kafka/client/records.ts';
import { deadLetter, letterReasonOf } from '../kafka/dead-letters.ts';
import { TopicReader } from '../kafka/topic-reader.ts';
import { TopicWriter } from '../kafka/topic-writer.ts';
import type { UnitAccount } from './account.ts';
import { newResult, type RunContext, type RunningPipeline, type RunResult } from './context.ts';
import { endpoint } from './endpoints.ts';
import { connectionOf } from './kafka-connection.ts';
import { inWords } from './kafka-words.ts';
import { type RecordFormat, recordFormat } from './record-format.ts';
import { type RecordScorer, recordScorer } from './record-scorer.ts';
import type { RunSpec } from './spec.ts';
import { RECORD_MEMBER, topicLine } from './topic-lines.ts';
import { invalidRecord } from './topic-run.ts';
import { kafkaPlacesOf, topicSource, totalLag, watchOf } from './topic-source.ts';

export interface TopicFilesSpec extends RunSpec {
  source: KafkaSource;
  sink: FileSink;
}

interface OpenFile {
  sink: ByteSink;
  account: UnitAccount;
  rows: number;
  opened: number;
  next: bigint;
}

/**
 * A file holds what lies between two committed offsets of one partition. After a crash the records of an unfinished file
 * are read again and the file begins anew under the same name, so nothing is lost and nothing is there twice.
 */
export async function startTopicFilesRun(spec: TopicFilesSpec, context: RunContext): Promise<RunningPipeline> {
  const letters =
    spec.dead_letter?.type === 'kafka'
      ? await TopicWriter.open({ connection: connectionOf(spec.kafka), topic: spec.dead_letter.topic })
      : null;
  const run = new TopicFilesRun(spec, context, await context.host(), await recordFormat(spec), letters);
  return run.start();
}

class TopicFilesRun {
  readonly #spec: TopicFilesSpec;
  readonly #context: RunContext;
  readonly #host: ModelHost;
  readonly #scorer: RecordScorer;
  readonly #format: RecordFormat;
  readonly #letters: TopicWriter | null;
  readonly #files = new Map<number, OpenFile>();
  #reader: TopicReader | null = null;
  #stopping = false;
  /** Serialises the work: a file that is being finished takes no rows. */
  #turn: Promise<void> = Promise.resolve();

  constructor(
    spec: TopicFilesSpec,
    context: RunContext,
    host: ModelHost,
    format: RecordFormat,
    letters: TopicWriter | null,
  ) {
    this.#spec = spec;
    this.#context = context;
    this.#host = host;
    this.#scorer = recordScorer(spec, host, [RECORD_MEMBER]);
    this.#format = format;
    this.#letters = letters;
  }

  get #flow(): Flow {
    return this.#context.account.flow();
  }

  async start(): Promise<RunningPipeline> {
    // A pipeline into files reads one topic.
    const topic = this.#spec.source.topic!;
    const source = topicSource(this.#spec, this.#context, topic);
    const places = kafkaPlacesOf(
      this.#spec,
      [topic],
      this.#spec.dead_letter?.type === 'kafka' ? [this.#spec.dead_letter.topic] : [],
    );
    const inPlaces = (error: unknown) => {
      throw error instanceof SluiceError ? inWords(error, places) : error;
    };
    const reader = await TopicReader.start(source).catch(inPlaces);
    this.#reader = reader;
    const watch = watchOf(places, source.connection, this.#context);
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
      ready: () => watch.well && source.movement.ready && model.ready,
      done,
      stop: async () => {
        await watch.stop();
        model.stop();
        this.#stopping = true;
        // Open files are finished before the group is left: `#finish` needs the membership.
        for (const p of [...this.#files.keys()]) await this.#inTurn(() => this.#finish(p)).catch(() => {});
        await reader.stop();
        await done.catch(() => {});
      },
    };
  }

  async #run(reader: TopicReader): Promise<RunResult> {
    const { roll_ms } = this.#spec.sink;
    const timer = startInterval(() => this.#finishDue(), Math.min(1000, roll_ms));
    const release = this.#flow.hold(() => reader.held);
    try {
      let asked = monotonicMs();
      for await (const batch of reader) {
        this.#flow.waited('source', monotonicMs() - asked);
        if (this.#stopping) break;
        await this.#inTurn(() => this.#take(batch));
        asked = monotonicMs();
      }
      for (const partition of [...this.#files.keys()]) await this.#inTurn(() => this.#finish(partition));
    } finally {
      stopTimer(timer);
      release();
      for (const { sink, account } of this.#files.values()) {
        await sink.abort();
        account.drop();
      }
      await this.#letters?.close();
      await reader.stop();
      this.#scorer.close();
    }
    return newResult();
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#turn = this.#turn.then(work);
    return this.#turn;
  }

  #finishDue(): void {
    const now = epochMs();
    for (const [partition, file] of this.#files) {
      if (now - file.opened >= this.#spec.sink.roll_ms) this.#inTurn(() => this.#finish(partition)).catch(() => {});
    }
  }

  async #finish(partition: number): Promise<void> {
    const file = this.#files.get(partition);
    if (!file) return;
    this.#files.delete(partition);
    const began = monotonicMs();
    await file.sink.commit();
    const lost = await this.#reader!.commit(new Map([[partition, file.next]]));
    this.#flow.waited('sink', monotonicMs() - began);
    if (lost.length === 0) file.account.settle();
    else {
      file.account.drop();
      const says = words`partition ${partition} was taken away: its last file is written again by its new owner`;
      this.#context.log('info', 'file_taken_over', says, { partition });
    }
  }

  async #take(batch: MicroBatch): Promise<void> {
    const { on_invalid, sink, source } = this.#spec;
    const records = source.tombstones === 'skip' ? batch.records.filter((r) => r.value !== null) : batch.records;
    const values = records.map((r) => r.value);
    const flow = this.#flow;
    const began = monotonicMs();
    const { model, answers, tallies } = await this.#format.score(this.#scorer, values);
    const scored = monotonicMs();
    flow.waited('workers', scored - began);
    const lines: Buffer[] = [];
    const rejected: OutgoingRecord[] = [];
    answers.forEach(({ value, error }, i) => {
      const record = records[i]!;
      if (error && on_invalid === 'fail') throw invalidRecord(record, error);
      if (error && this.#letters && on_invalid === 'dead_letter')
        rejected.push(deadLetter(record, error, this.#context.name));
      else lines.push(topicLine(record, value));
    });
    let file = this.#files.get(batch.partition);
    if (!file) {
      file = await this.#open(batch.partition, batch.records[0]!.offset);
      this.#files.set(batch.partition, file);
    }
    await file.sink.write(Buffer.concat(lines));
    if (this.#letters && rejected.length > 0) await this.#letters.write(rejected);
    flow.waited('sink', monotonicMs() - scored);
    const { metrics, name: pipeline } = this.#context;
    for (const { code } of rejected.map(letterReasonOf)) metrics?.deadLetters.inc({ pipeline, code });
    for (const tally of tallies) file.account.add(tally, model.ref);
    file.rows += batch.records.length;
    file.next = batch.next;
    if (file.rows >= sink.roll_rows) await this.#finish(batch.partition);
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
