// Writes answers from topics to topics. Predictions, dead letters and the offset are in one transaction; each source
// topic has its own group member.

import {
  answerTo,
  type BatchResult,
  type IncomingRecord,
  type OutgoingRecord,
} from '../../connectors/kafka/client/records.ts';
import { connectionOf } from '../../connectors/kafka/connection-settings.ts';
import {
  letterReasonOf,
  originalOf,
  type RetryPolicy,
  rejectedRecord,
} from '../../connectors/kafka/dlq/dead-letter.ts';
import { LogThrottle } from '../../connectors/kafka/kafka-error-messages.ts';
import type { KafkaSink } from '../../connectors/kafka/kafka-options.ts';
import { type ProcessorOptions, TransactionalProcessor } from '../../connectors/kafka/processor.ts';
import { patternNotices, retentionNotices } from '../../connectors/kafka/topic-checks.ts';
import { TopicDirectory } from '../../connectors/kafka/topic-directory.ts';
import { TopicMembers } from '../../connectors/kafka/topic-members.ts';
import { predictionHeaders } from '../../connectors/kafka/topic-sink.ts';
import { topicsOf, topicsRead, topicsWritten } from '../../connectors/kafka/topics.ts';
import type { Held } from '../../core/flow.ts';
import type { Word } from '../../core/log.ts';
import type { RunContext } from '../context.ts';
import { type AnswerRecords, countLetters, type TopicSpec } from './answer-records.ts';
import type { TopicReading } from './answer-sink.ts';
import type { RecordAnswer } from './record-scorer.ts';
import { retryGroupOf, retryPolicyOf, TopicRetries } from './topic-retries.ts';
import { TopicRoutes } from './topic-routes.ts';
import { instanceIdOf, kafkaPlacesOf, topicSource } from './topic-source.ts';

export class TransactionalReading implements TopicReading {
  readonly reads: string[] = [];
  readonly #spec: TopicSpec<KafkaSink>;
  readonly #context: RunContext;
  readonly #answers: AnswerRecords;
  readonly #directory: TopicDirectory;
  readonly #routes: TopicRoutes;
  readonly #log: LogThrottle;
  readonly #retry: RetryPolicy | null;
  readonly #sources = new Map<string, ReturnType<typeof topicSource>>();
  #members: TopicMembers | null = null;
  #retries: TopicRetries | null = null;
  /** Number of records written to the retry topic. */
  #postponed = 0;

  constructor(spec: TopicSpec<KafkaSink>, context: RunContext, answers: AnswerRecords) {
    this.#spec = spec;
    this.#context = context;
    this.#answers = answers;
    this.#directory = new TopicDirectory(connectionOf(spec.kafka));
    this.#log = new LogThrottle(context.log);
    this.#retry = retryPolicyOf(spec.dead_letter);
    this.#routes = new TopicRoutes(spec.sink);
  }

  async start(): Promise<{ done: Promise<void> }> {
    try {
      const found = await topicsRead(this.#spec, this.#directory);
      this.#notice(patternNotices(this.#spec, found));
      this.reads.push(...found.topics);
      this.#members = this.#openMembers();
      this.#retries = this.#retry && this.#openRetries(this.#retry);
      await this.#retries?.prepare();
      await this.#members.start();
      const { done } = this.#members;
      if (this.#retries === null) return { done };
      const retries = this.#retries;
      if (this.#spec.source.until_caught_up) return { done: done.then(() => retries.finish()) };
      return { done: Promise.race([done, (await retries.start()).done]) };
    } catch (error) {
      await this.#members?.stop(0);
      await this.#directory.close();
      throw error;
    }
  }

  lag(): number {
    return this.#members?.lag() ?? 0;
  }

  get ready(): boolean {
    return [...this.#sources.values()].every((s) => s.liveness.ready) && (this.#retries?.ready ?? true);
  }

  get held(): Held {
    const processors = [...(this.#members?.members.values() ?? []), this.#retries?.processor];
    const all = processors.flatMap((p) => (p ? [p.held] : []));
    return {
      bytes: all.reduce((sum, { bytes }) => sum + bytes, 0),
      budget: all.reduce((sum, { budget }) => sum + budget, 0),
    };
  }

  pause(reason: string | null): void {
    for (const reading of [this.#members, this.#retries?.processor]) {
      if (reason === null) reading?.resume();
      else reading?.pause(reason);
    }
  }

  async stop(deadlineMs: number): Promise<void> {
    await Promise.all([this.#members?.stop(deadlineMs), this.#retries?.stop(deadlineMs)]);
    await this.#directory.close();
  }

  /** Opens the retries, which the lint of pipelines permits only for a single source topic. */
  #openRetries(policy: RetryPolicy): TopicRetries {
    const { dead_letter, kafka, source } = this.#spec;
    const options = this.#processorOptions(source.topic!, topicSource(this.#spec, this.#context, source.topic!));
    const group = retryGroupOf(dead_letter, options.group);
    const places = kafkaPlacesOf(this.#spec, [policy.topic], topicsWritten(this.#spec));
    return new TopicRetries({
      policy,
      places: { ...places, group },
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

  #notice(notices: readonly Word[]): void {
    for (const notice of notices) this.#context.log('warn', 'topic_notice', notice);
  }

  #openMembers(): TopicMembers {
    const { source } = this.#spec;
    const looks = source.topic_pattern !== undefined && !source.until_caught_up;
    return new TopicMembers({
      topics: [...this.reads],
      look: looks ? async () => (await topicsRead(this.#spec, this.#directory)).topics : null,
      open: async (topic, late) => {
        const member = await this.#openMember(topic, late, this.reads.length + Number(late));
        if (late) this.reads.push(topic);
        return member;
      },
      onLeft: (topic) => {
        this.reads.splice(this.reads.indexOf(topic), 1);
        this.#sources.get(topic)?.observer.onAssigned?.({ partitions: [] });
        this.#sources.delete(topic);
      },
      onNotice: ({ about, message }) => this.#log.write(about, ['warn', 'topic_notice', message]),
    });
  }

  async #openMember(topic: string, late: boolean, topics: number): Promise<TransactionalProcessor> {
    const source = topicSource(this.#spec, this.#context, topic, topics);
    const processor = await TransactionalProcessor.start({
      ...this.#processorOptions(topic, source),
      ...(late ? { startAt: 'earliest' } : {}),
    });
    this.#sources.set(topic, source);
    this.#notice(await retentionNotices(this.#spec, topic, (name) => processor.facts(name)));
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
    const answers = await this.#answers.answer(records, signal);
    this.#routes.check(answers.model);
    const headersOf = predictionHeaders(answers.model.manifest, answers.model.sha256);
    const outputs: OutgoingRecord[] = [];
    for (const { record, answer } of answers.answered) {
      const headers = headersOf(record);
      if (answer) outputs.push(this.#predictionOf(record, answer, headers));
      else outputs.push(...this.#tombstonesOf(record, headers));
    }
    const { name: pipeline, metrics, account } = this.#context;
    const rejected = answers.deadLetters.map((r) => rejectedRecord(r.record, r.error, pipeline, this.#retry));
    return {
      outputs,
      rejected,
      // Rows are counted on commit, because an aborted batch is scored again.
      committed: (oversized, replaced) => {
        const isPostponed = (r: OutgoingRecord) => r.instead !== undefined && !replaced.has(r);
        const postponed = rejected.filter(isPostponed).map(letterReasonOf);
        const letters = rejected.filter((r) => !isPostponed(r)).map((r) => letterReasonOf(r).code);
        const unit = account.unit();
        answers.countInto(unit);
        if (oversized > 0) unit.reject(oversized, 'output_too_large');
        for (const { code, column } of postponed) {
          unit.postpone(1, code, column);
          this.#postponed++;
          metrics?.retried.inc({ pipeline, code });
        }
        countLetters(this.#context, letters);
        if (oversized > 0) metrics?.deadLetters.inc({ pipeline, code: 'output_too_large' }, oversized);
        unit.settle();
      },
    };
  }

  /**
   * A prediction keeps the key, the headers and the order of its application. Additional headers name the model and the
   * source record.
   */
  #predictionOf(record: IncomingRecord, { value }: RecordAnswer, headers: Record<string, Buffer>): OutgoingRecord {
    const { topic, parsed } = this.#routes.of(value);
    return this.#outgoing(record, this.#answers.encode(value, topic, parsed), headers, topic);
  }

  /** Tombstones for every topic that may contain a prediction with this key. */
  #tombstonesOf(record: IncomingRecord, headers: Record<string, Buffer>): OutgoingRecord[] {
    return topicsOf(this.#spec.sink).map((topic) => this.#outgoing(record, null, headers, topic));
  }

  #outgoing(
    record: IncomingRecord,
    value: Buffer | null,
    headers: Record<string, Buffer>,
    topic: string | undefined,
  ): OutgoingRecord {
    const base = answerTo(record, value, { timestamp: this.#spec.sink.timestamp });
    return {
      ...base,
      ...(topic === undefined ? {} : { topic }),
      headers: { ...base.headers, ...headers, 'sluice-source-offset': Buffer.from(String(record.offset)) },
    };
  }
}
