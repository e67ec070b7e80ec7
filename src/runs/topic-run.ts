// From a topic of applications to a topic of predictions: micro-batches through the workers, answers, dead letters and the offset in
// one transaction.
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaSink, KafkaSource } from '../config/pipeline-schema.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../core/errors.ts';
import type { ModelHost } from '../engine/model-host.ts';
import {
  answerTo,
  type BatchResult,
  type IncomingRecord,
  type MicroBatch,
  type OutgoingRecord,
} from '../kafka/client/records.ts';
import { deadLetter } from '../kafka/dead-letters.ts';
import { TransactionalProcessor } from '../kafka/processor.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { RunContext, RunningPipeline, RunResult } from './context.ts';
import { type RecordFormat, recordFormat } from './record-format.ts';
import {
  type RecordAnswer,
  type RecordError,
  type RecordScorer,
  recordScorer,
  type ScoredRecords,
} from './record-scorer.ts';
import type { RunSpec } from './spec.ts';
import { topicSource, totalLag } from './topic-source.ts';

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
  readonly #scorer: RecordScorer;
  readonly #format: RecordFormat;
  #processor: TransactionalProcessor | null = null;
  #waiting = false;

  constructor(spec: TopicRunSpec, context: RunContext, host: ModelHost, format: RecordFormat) {
    this.#spec = spec;
    this.#context = context;
    this.#scorer = recordScorer(spec, host);
    this.#format = format;
  }

  async start(): Promise<RunningPipeline> {
    const { sink, ...spec } = this.#spec;
    const processor = await TransactionalProcessor.start({
      ...topicSource(this.#spec, this.#context),
      outputTopic: sink.topic,
      deadLetterTopic: spec.dead_letter?.type === 'kafka' ? spec.dead_letter.topic : null,
      process: (batch, signal) => this.#process(batch, signal),
      delivery: spec.delivery,
      transactionRows: spec.transaction_rows,
      transactionTimeoutMs: spec.transaction_timeout_ms,
      compression: sink.compression,
    });
    this.#processor = processor;
    const result: RunResult = { by: null, bytesRead: 0, bytesWritten: 0, outputs: [], rejectLists: [] };
    return {
      progress: () => ({
        counts: this.#context.account.totals,
        bytesRead: 0,
        totalBytes: null,
        lag: totalLag(processor.lag()),
      }),
      done: processor.done.then(() => result),
      stop: async (deadlineMs) => {
        await processor.stop(deadlineMs);
        this.#scorer.close();
      },
    };
  }

  async #process(batch: MicroBatch, signal: AbortSignal): Promise<BatchResult> {
    const values = batch.records.map((r) => r.value);
    const { model, answers, tallies } = await this.#scoreOrWait(values, signal);
    const outputs: OutgoingRecord[] = [];
    const rejected: OutgoingRecord[] = [];
    const marks = marksOf(model, batch);
    for (const [i, record] of batch.records.entries()) {
      const answer = answers[i]!;
      if (answer.error && this.#spec.on_invalid !== 'report') rejected.push(this.#reject(record, answer.error));
      else outputs.push(this.#predictionOf(record, answer, model, marks));
    }
    return {
      outputs,
      rejected,
      // Counted on commit: a batch that is given up before is scored again.
      committed: (oversized) => {
        const unit = this.#context.account.unit();
        for (const tally of tallies) unit.add(tally, model.ref);
        if (oversized > 0) unit.reject(oversized, 'output_too_large');
        unit.settle();
      },
    };
  }

  /** Scores, or pauses (with a metric) until the model is available. */
  async #scoreOrWait(values: readonly (Buffer | null)[], signal: AbortSignal): Promise<ScoredRecords> {
    for (let wait = 250; ; wait = Math.min(MAX_MODEL_WAIT_MS, wait * 2)) {
      try {
        const scored = await this.#format.score(this.#scorer, values);
        this.#setWaiting(null);
        return scored;
      } catch (error) {
        const e = asSluiceError(error, 'internal_error');
        if (!MODEL_FAULTS.has(e.code)) throw e;
        this.#setWaiting(e);
        await sleep(wait, undefined, { signal });
      }
    }
  }

  /** All partitions of a member wait together, because they share the model. */
  #setWaiting(cause: SluiceError | null): void {
    if (this.#waiting === (cause !== null)) return;
    this.#waiting = cause !== null;
    const { metrics, name, log } = this.#context;
    metrics?.modelUnavailable.set({ pipeline: name }, cause ? 1 : 0);
    if (cause) this.#processor?.pause(`model: ${cause.code}`);
    else this.#processor?.resume();
    const { model } = this.#spec;
    log(cause ? `paused, ${model} cannot be used: ${cause.message} [${cause.code}]` : `${model} is there again`);
  }

  /** A prediction keeps key, headers and order of its application; its headers name the model and the source record. */
  #predictionOf(
    record: IncomingRecord,
    answer: RecordAnswer,
    { manifest }: ModelPackage,
    marks: Record<string, Buffer>,
  ): OutgoingRecord {
    const value =
      answer.value ??
      Buffer.from(
        JSON.stringify({ modelId: manifest.id, modelVersion: String(manifest.version), error: answer.error }),
      );
    const base = answerTo(record, this.#format.encode(value), { timestamp: this.#spec.sink.timestamp });
    return {
      ...base,
      headers: { ...base.headers, ...marks, 'sluice-source-offset': Buffer.from(String(record.offset)) },
    };
  }

  #reject(record: IncomingRecord, error: RecordError): OutgoingRecord {
    if (this.#spec.on_invalid === 'fail') throw invalidRecord(record, error);
    return deadLetter(record, error, this.#context.name);
  }
}

/** The error that ends a topic run with `on_invalid: fail`. */
export const invalidRecord = ({ partition, offset }: IncomingRecord, { column, code }: RecordError): SluiceError =>
  new SluiceError('invalid_row', `partition ${partition}, offset ${offset}: ${column ?? ''} ${code}`);

/** Headers that are the same for all predictions of a micro-batch. */
const marksOf = ({ manifest }: ModelPackage, { topic, partition }: MicroBatch): Record<string, Buffer> => ({
  'sluice-model-id': Buffer.from(manifest.id),
  'sluice-model-version': Buffer.from(String(manifest.version)),
  'sluice-model-sha256': Buffer.from(manifest.onnx.sha256),
  'sluice-source-topic': Buffer.from(topic),
  'sluice-source-partition': Buffer.from(String(partition)),
});
