// Interfaces between a topic run and its destinations, and the reading for sinks that need batches in order.

import type { KafkaObserver } from '../../connectors/kafka/observer.ts';
import type { OffsetKeeper } from '../../connectors/kafka/reading-options.ts';
import { type PlacedBatch, TopicReader } from '../../connectors/kafka/topic-reader.ts';
import type { Held } from '../../core/flow.ts';
import type { RunContext } from '../context.ts';
import { type AnsweredBatch, type AnswerRecords, isStoppedPause, type TopicSpec } from './answer-records.ts';
import { topicSource, totalLag } from './topic-source.ts';

/** Reads the topics of a run and delivers their answers. Call `start` and `stop` only once. */
export interface TopicReading {
  /** Names of the topics. The list may grow during the run. */
  readonly reads: readonly string[];
  /**
   * Starts to read. Resolves once reading has started; `done` settles when reading ends.
   * @throws SluiceError kafka_*
   */
  start(): Promise<{ done: Promise<void> }>;
  /** Number of records not yet committed. */
  lag(): number;
  /** Whether records are being read and answers delivered. */
  readonly ready: boolean;
  /** Size of the records in memory, in bytes. */
  readonly held: Held;
  /** Pauses reading for the given reason; null resumes reading. */
  pause(reason: string | null): void;
  /** Finishes work in progress within `deadlineMs`, or aborts it. */
  stop(deadlineMs: number): Promise<void>;
}

/** Delivers answers in order, one batch at a time. */
export interface AnswerSink {
  /** Where offsets are stored. Default: in the consumer group. */
  readonly offsets?: OffsetKeeper;
  /** Names of the members that the sink adds to answers. */
  readonly added?: readonly string[];
  readonly ready: boolean;
  /** Called before the first batch. */
  begin(reader: TopicReader, observer: KafkaObserver): void;
  /**
   * Whether to deliver a batch; false if the assignment of its partition has ended. Called before and after scoring.
   */
  accepts(batch: PlacedBatch): boolean;
  deliver(batch: PlacedBatch, answers: AnsweredBatch, signal: AbortSignal): Promise<void>;
  /** Publishes all delivered answers while the reader is still a member of the group. */
  finish(): Promise<void>;
  /** Discards unpublished output. */
  close(): Promise<void>;
}

/** Reads one topic and delivers its batches in order. The lint of pipelines rejects several topics. */
export class OrderedReading implements TopicReading {
  readonly reads: readonly string[];
  readonly #context: RunContext;
  readonly #answers: AnswerRecords;
  readonly #sink: AnswerSink;
  readonly #source: ReturnType<typeof topicSource>;
  readonly #stopping = new AbortController();
  #reader: TopicReader | null = null;
  #done: Promise<void> = Promise.resolve();
  /** The batch in progress. */
  #current: Promise<void> = Promise.resolve();

  constructor(spec: TopicSpec, context: RunContext, answers: AnswerRecords, sink: AnswerSink) {
    this.#context = context;
    this.#answers = answers;
    this.#sink = sink;
    this.#source = topicSource(spec, context, spec.source.topic!);
    this.reads = [spec.source.topic!];
  }

  async start(): Promise<{ done: Promise<void> }> {
    const { offsets } = this.#sink;
    try {
      this.#reader = await TopicReader.start({ ...this.#source, ...(offsets ? { offsets } : {}) });
    } catch (error) {
      await this.#sink.close();
      throw error;
    }
    this.#sink.begin(this.#reader, this.#source.observer);
    this.#done = this.#read(this.#reader);
    this.#done.catch(() => {});
    return { done: this.#done };
  }

  lag(): number {
    return this.#reader ? totalLag(this.#reader.lag()) : 0;
  }

  get ready(): boolean {
    return this.#source.liveness.ready && this.#sink.ready;
  }

  get held(): Held {
    return this.#reader?.held ?? { bytes: 0, budget: 0 };
  }

  pause(reason: string | null): void {
    this.#source.observer.onPaused?.({ reason });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#current.catch(() => {});
    // Must run before the reader leaves the group, because only members can commit offsets.
    await this.#sink.finish().catch(() => {});
    await this.#reader?.stop();
    await this.#done.catch(() => {});
  }

  async #read(reader: TopicReader): Promise<void> {
    try {
      for await (const batch of reader) {
        if (this.#stopping.signal.aborted) break;
        this.#current = this.#take(batch);
        await this.#current;
      }
      await this.#sink.finish();
    } catch (error) {
      if (!isStoppedPause(error)) throw error;
    } finally {
      await this.#sink.close();
      await reader.stop();
    }
  }

  async #take(batch: PlacedBatch): Promise<void> {
    if (!this.#sink.accepts(batch)) return;
    const answers = await this.#answers.answer(batch.records);
    // The assignment may have ended while the batch was scored.
    if (!this.#sink.accepts(batch)) return;
    const flow = this.#context.account.flow();
    flow.begin('sink');
    try {
      await this.#sink.deliver(batch, answers, this.#stopping.signal);
    } finally {
      flow.end('sink');
    }
  }
}
