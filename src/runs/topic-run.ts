// From a topic of applications to a topic of predictions: micro-batches through the workers, answers, dead letters and the offset in
// one transaction.

import type { KafkaSink, KafkaSource } from '../config/pipeline-schema.ts';
import { sleep } from '../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../core/errors.ts';
import type { Held } from '../core/flow.ts';
import { faultFields, named, saysOf, type Word, withAction, words } from '../core/log.ts';
import { unlessAborted } from '../core/unless-aborted.ts';
import { keepLoaded } from '../engine/keep-loaded.ts';
import type { ModelHost } from '../engine/model-host.ts';
import { answerTo, type BatchResult, type IncomingRecord, type OutgoingRecord } from '../kafka/client/records.ts';
import { letterReasonOf } from '../kafka/dead-letters.ts';
import type { KafkaObserver } from '../kafka/observer.ts';
import { TransactionalProcessor } from '../kafka/processor.ts';
import type { ProcessorOptions } from '../kafka/processor-options.ts';
import { originalOf, type RetryPolicy, rejectedRecord } from '../kafka/retry-letters.ts';
import { type ParsedPrediction, parsePrediction } from '../kafka/schemas/prediction-schema.ts';
import { TopicDirectory } from '../kafka/topic-directory.ts';
import { TopicMembers } from '../kafka/topic-members.ts';
import { withBatchSpan } from './batch-span.ts';
import { newResult, type RunContext, type RunningPipeline, type RunResult } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { beginMeasuring } from './kafka-metrics.ts';
import { inWords, type KafkaPlaces, Teller } from './kafka-words.ts';
import type { Movement } from './movement.ts';
import { marksBy } from './prediction-headers.ts';
import { type RecordFormat, recordFormat, topicsOf, topicsWritten } from './record-format.ts';
import {
  type RecordAnswer,
  type RecordError,
  type RecordScorer,
  recordScorer,
  type ScoredRecords,
} from './record-scorer.ts';
import type { RunSpec } from './spec.ts';
import { patternWords, timeWords } from './topic-checks.ts';
import { retryGroupOf, retryPolicyOf, TopicRetries } from './topic-retries.ts';
import { instanceIdOf, kafkaPlacesOf, topicSource, topicsRead, watchOf } from './topic-source.ts';

/** Faults of the model, not of an application: processing is paused until they are gone. */
const MODEL_FAULTS = new Set<ErrorCode>([
  'model_not_found',
  'model_invalid',
  'model_hash_mismatch',
  'self_test_failed',
  'registry_unavailable',
  'interpretation_unavailable',
]);
const MAX_MODEL_WAIT_MS = 10_000;
/** Created once, so that it is recognised. */
const STOPPED = new SluiceError('cancelled', 'the run stopped while its model was unavailable');

export interface TopicRunSpec extends RunSpec {
  source: KafkaSource;
  sink: KafkaSink;
}

export async function startTopicRun(spec: TopicRunSpec, context: RunContext): Promise<RunningPipeline> {
  const run = new TopicRun(spec, context, await context.host(), await recordFormat(spec));
  return run.start();
}

class TopicRun {
  readonly #spec: TopicRunSpec;
  readonly #context: RunContext;
  readonly #host: ModelHost;
  readonly #scorer: RecordScorer;
  readonly #format: RecordFormat;
  /** Topics of decisions that have one of their own. */
  readonly #routes: ReadonlyMap<string, string>;
  readonly #teller: Teller;
  readonly #retry: RetryPolicy | null;
  /** Of each topic: whether it gets on, and who is told of it. */
  readonly #sources = new Map<string, { movement: Movement; observer: KafkaObserver }>();
  #members: TopicMembers | null = null;
  #retries: TopicRetries | null = null;
  /** Records put into the retry topic. */
  #postponed = 0;
  #waiting = false;
  readonly #stopping = new AbortController();

  constructor(spec: TopicRunSpec, context: RunContext, host: ModelHost, format: RecordFormat) {
    this.#spec = spec;
    this.#context = context;
    this.#host = host;
    this.#scorer = recordScorer(spec, host);
    this.#format = format;
    this.#teller = new Teller(context.log);
    this.#retry = retryPolicyOf(spec.dead_letter);
    this.#routes = new Map((spec.sink.routes ?? []).map((r) => [r.decision, r.topic]));
  }

  async start(): Promise<RunningPipeline> {
    const { source, kafka } = this.#spec;
    beginMeasuring(this.#context);
    const directory = new TopicDirectory(connectionOf(kafka));
    const reads: string[] = [];
    const places = kafkaPlacesOf(this.#spec, reads, topicsWritten(this.#spec));
    const worded = (error: unknown): never => {
      throw inWords(error, places);
    };
    let done: Promise<void>;
    try {
      const found = await topicsRead(this.#spec, directory).catch(worded);
      this.#notice(patternWords(this.#spec, found));
      reads.push(...found.topics);
      const members = this.#openMembers(reads, directory);
      this.#members = members;
      const retries = this.#retry && this.#retriesOf(this.#retry, places);
      this.#retries = retries;
      await retries?.prepare();
      await members.start().catch(worded);
      done = members.done.catch(worded);
      // Somebody listens later, when the retries have begun.
      done.catch(() => {});
      if (retries && source.until_caught_up) done = done.then(() => retries.finish());
      else if (retries) done = Promise.race([done, (await retries.start()).done]);
    } catch (error) {
      await this.#members?.stop(0);
      await directory.close();
      throw error;
    }
    const members = this.#members;
    const watch = watchOf(places, connectionOf(kafka), this.#context);
    // Before the first record asks for it: a pipeline whose model cannot be had is not ready.
    const model = keepLoaded(this.#host, [this.#spec.model]);
    const flow = this.#context.account.flow();
    flow.open();
    const release = flow.hold(() => heldBy([...members.members.values(), this.#retries?.processor]));
    const result: RunResult = newResult();
    return {
      progress: () => ({ counts: this.#context.account.totals, bytesRead: 0, totalBytes: null, lag: members.lag() }),
      ready: () => this.#gettingOn && watch.well && model.ready,
      done: done.then(() => result),
      stop: async (deadlineMs) => {
        this.#stopping.abort();
        await watch.stop();
        model.stop();
        release();
        await Promise.all([members.stop(deadlineMs), this.#retries?.stop(deadlineMs)]);
        await directory.close();
        this.#scorer.close();
      },
    };
  }

  get #gettingOn(): boolean {
    const moving = [...this.#sources.values()].every((s) => s.movement.ready);
    return moving && !this.#waiting && (this.#retries?.ready ?? true);
  }

  /** Lint has seen to it that there is one topic. */
  #retriesOf(policy: RetryPolicy, places: KafkaPlaces): TopicRetries {
    const { dead_letter, kafka, source } = this.#spec;
    const options = this.#processorOptions(source.topic!, topicSource(this.#spec, this.#context, source.topic!));
    const group = retryGroupOf(dead_letter, options.group);
    return new TopicRetries({
      policy,
      places: { ...places, group, reads: [policy.topic] },
      context: this.#context,
      postponed: () => this.#postponed,
      processor: {
        ...options,
        group,
        originTopic: options.topic,
        instanceId: instanceIdOf(kafka.instance_id, policy.topic, true),
        process: ({ records }, signal) => this.#process(records.map(originalOf), signal),
      },
    });
  }

  #notice(lines: readonly Word[]): void {
    for (const says of lines) this.#context.log('warn', 'topic_notice', says);
  }

  #openMembers(reads: string[], directory: TopicDirectory): TopicMembers {
    const { source } = this.#spec;
    const looks = source.topic_pattern !== undefined && !source.until_caught_up;
    return new TopicMembers({
      topics: [...reads],
      look: looks ? async () => (await topicsRead(this.#spec, directory)).topics : null,
      open: async (topic, late) => {
        const member = await this.#openMember(topic, late, reads.length + Number(late));
        if (late) reads.push(topic);
        return member;
      },
      onLeft: (topic) => {
        reads.splice(reads.indexOf(topic), 1);
        this.#sources.get(topic)?.observer.onAssigned?.({ partitions: [] });
        this.#sources.delete(topic);
      },
      onNotice: ({ about, message }) => this.#teller.tell(about, ['warn', 'topic_notice', message]),
    });
  }

  async #openMember(topic: string, late: boolean, of: number): Promise<TransactionalProcessor> {
    const source = topicSource(this.#spec, this.#context, topic, of);
    const processor = await TransactionalProcessor.start({
      ...this.#processorOptions(topic, source),
      ...(late ? { startAt: 'earliest' } : {}),
    });
    this.#sources.set(topic, source);
    this.#notice(await timeWords(this.#spec, topic, (name) => processor.facts(name)));
    return processor;
  }

  #processorOptions(topic: string, source: ReturnType<typeof topicSource>): ProcessorOptions {
    const { sink, dead_letter: letters, ...spec } = this.#spec;
    return {
      ...source,
      topic,
      outputTopic: sink.topic,
      routedTopics: topicsOf(sink).slice(1),
      letterTopics: this.#retry ? [this.#retry.topic] : [],
      partitioning: sink.partition ?? null,
      deadLetterTopic: letters?.type === 'kafka' ? letters.topic : null,
      process: ({ records }, signal) => this.#process(records, signal),
      delivery: spec.delivery,
      transactionRows: spec.transaction_rows,
      commitIntervalMs: spec.commit_interval_ms,
      transactionTimeoutMs: spec.transaction_timeout_ms,
      compression: sink.compression,
    };
  }

  async #process(records: readonly IncomingRecord[], signal: AbortSignal): Promise<BatchResult> {
    const flow = this.#context.account.flow();
    flow.begin('workers');
    try {
      return await withBatchSpan(this.#context.tracer, records, () => this.#answer(records, signal));
    } finally {
      flow.end('workers');
    }
  }

  async #answer(records: readonly IncomingRecord[], signal: AbortSignal): Promise<BatchResult> {
    const { tombstones } = this.#spec.source;
    const asked = tombstones === 'reject' ? records : records.filter((r) => r.value !== null);
    const { model, answers, tallies } = await this.#scoreOrWait(
      asked.map((r) => r.value),
      signal,
    );
    const outputs: OutgoingRecord[] = [];
    const rejected: OutgoingRecord[] = [];
    const marksOf = marksBy(model);
    let next = 0;
    for (const record of records) {
      const marks = marksOf(record);
      if (record.value === null && tombstones !== 'reject') {
        if (tombstones === 'forward') outputs.push(...this.#tombstonesOf(record, marks));
        continue;
      }
      const answer = answers[next++]!;
      if (answer.error && this.#spec.on_invalid !== 'report') rejected.push(this.#reject(record, answer.error));
      else outputs.push(this.#predictionOf(record, answer, marks));
    }
    const postponed = rejected.filter((r) => r.instead).map(letterReasonOf);
    const letters =
      this.#spec.dead_letter?.type === 'kafka' ? rejected.filter((r) => !r.instead).map(letterReasonOf) : [];
    const { metrics, name: pipeline } = this.#context;
    return {
      outputs,
      rejected,
      // Counted on commit: a batch that is given up before is scored again.
      committed: (oversized) => {
        const unit = this.#context.account.unit();
        for (const tally of tallies) unit.add(tally, model.ref);
        if (oversized > 0) unit.reject(oversized, 'output_too_large');
        for (const { code, column } of postponed) {
          unit.postpone(1, code, column);
          this.#postponed++;
          metrics?.retried.inc({ pipeline, code });
        }
        for (const { code } of letters) metrics?.deadLetters.inc({ pipeline, code });
        if (oversized > 0) metrics?.deadLetters.inc({ pipeline, code: 'output_too_large' }, oversized);
        unit.settle();
      },
    };
  }

  /**
   * Scores, or pauses (with a metric) until the model is available.
   * @throws SluiceError cancelled: the run stops while the model is unavailable; the records are read again by the next member
   */
  async #scoreOrWait(values: readonly (Buffer | null)[], signal: AbortSignal): Promise<ScoredRecords> {
    for (let wait = 250; ; wait = Math.min(MAX_MODEL_WAIT_MS, wait * 2)) {
      try {
        const scoring = this.#format.score(this.#scorer, values);
        // A registry that does not answer must not delay the stop.
        const scored = this.#waiting ? await unlessAborted(scoring, this.#stopping.signal) : await scoring;
        if (scored === null) throw STOPPED;
        this.#setWaiting(null);
        return scored;
      } catch (error) {
        if (error === STOPPED) throw error;
        const e = asSluiceError(error, 'internal_error');
        if (!MODEL_FAULTS.has(e.code)) {
          // The lease tries it again for a while, without a word of its own.
          if (e.entry.retryable)
            this.#teller.tell(e.code, ['warn', 'scoring_retried', words`${withAction(e)} It is tried again.`]);
          throw e;
        }
        this.#setWaiting(e);
        const waited = await unlessAborted(sleep(wait, { signal }), this.#stopping.signal);
        if (waited === null) throw STOPPED;
      }
    }
  }

  /** All partitions of a member wait together, because they share the model. */
  #setWaiting(cause: SluiceError | null): void {
    if (this.#waiting === (cause !== null)) return;
    this.#waiting = cause !== null;
    const { metrics, name, log } = this.#context;
    metrics?.modelUnavailable.set({ pipeline: name }, cause ? 1 : 0);
    for (const reading of [this.#members, this.#retries?.processor]) {
      if (cause) reading?.pause(`model: ${cause.code}`);
      else reading?.resume();
    }
    const model = named(this.#spec.model);
    if (cause) {
      const says = words`paused, ${model} cannot be used: ${saysOf(cause)}`;
      log('error', 'pipeline_paused', says, { ...faultFields(cause), model });
    } else log('info', 'pipeline_resumed', words`${model} is there again`, { model });
  }

  /** A prediction keeps key, headers and order of its application; its headers name the model and the source record. */
  #predictionOf(record: IncomingRecord, { value }: RecordAnswer, marks: Record<string, Buffer>): OutgoingRecord {
    const parsed = this.#routes.size > 0 ? parsePrediction(value) : undefined;
    const topic = parsed && this.#routes.get(decisionOf(parsed));
    return this.#outgoing(record, this.#format.encode(value, topic, parsed), marks, topic);
  }

  /** Wherever a prediction of this key may be. */
  #tombstonesOf(record: IncomingRecord, marks: Record<string, Buffer>): OutgoingRecord[] {
    return topicsOf(this.#spec.sink).map((topic) => this.#outgoing(record, null, marks, topic));
  }

  #outgoing(
    record: IncomingRecord,
    value: Buffer | null,
    marks: Record<string, Buffer>,
    topic: string | undefined,
  ): OutgoingRecord {
    const base = answerTo(record, value, { timestamp: this.#spec.sink.timestamp });
    return {
      ...base,
      ...(topic === undefined ? {} : { topic }),
      headers: { ...base.headers, ...marks, 'sluice-source-offset': Buffer.from(String(record.offset)) },
    };
  }

  #reject(record: IncomingRecord, error: RecordError): OutgoingRecord {
    if (this.#spec.on_invalid === 'fail') throw invalidRecord(record, error);
    return rejectedRecord(record, error, this.#context.name, this.#retry);
  }
}

/** The decision of a prediction; an empty text where it has none. */
const decisionOf = ({ decision }: ParsedPrediction): string => (decision as string | undefined) ?? '';

/** The error that ends a topic run with `on_invalid: fail`. */
export const invalidRecord = ({ partition, offset }: IncomingRecord, { column, code }: RecordError): SluiceError =>
  new SluiceError('invalid_row', `partition ${partition}, offset ${offset}: ${column ?? ''} ${code}`);

function heldBy(processors: readonly (TransactionalProcessor | null | undefined)[]): Held {
  const all = processors.flatMap((p) => (p ? [p.held] : []));
  return {
    bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
    budget: all.reduce((sum, { budget }) => sum + budget, 0),
  };
}
