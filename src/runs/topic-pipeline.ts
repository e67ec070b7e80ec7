// From a topic of applications to a topic of predictions: micro-batches through the workers, answers, dead letters and the offset in
// one transaction.
import { setTimeout as sleep } from 'node:timers/promises';
import type { KafkaSink, KafkaSource, Pipeline } from '../config/pipeline-config.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../core/errors.ts';
import { deadLetter } from '../kafka/dead-letters.ts';
import { TransactionalProcessor } from '../kafka/processor.ts';
import {
  answerTo,
  type BatchResult,
  type IncomingRecord,
  type MicroBatch,
  type OutgoingRecord,
} from '../kafka/records.ts';
import type { ModelPackage } from '../model/package/model-package.ts';
import type { RunContext, RunningPipeline, RunTotals } from './context.ts';
import { connectionOf } from './kafka-connection.ts';
import { observerOf } from './kafka-metrics.ts';
import { type RecordFormat, recordFormat } from './record-format.ts';
import { type RecordAnswer, RecordScorer, type ScoredRecords } from './record-scorer.ts';
import { interpretationOf } from './spec.ts';

/** While one of these stands in the way nothing is read: it is the model's fault, not the application's. */
const MODEL_FAULTS = new Set<ErrorCode>([
  'model_not_found',
  'model_invalid',
  'model_hash_mismatch',
  'self_test_failed',
  'registry_unavailable',
  'interpretation_unavailable',
]);
const MAX_MODEL_WAIT_MS = 10_000;

export async function startTopicPipeline(pipeline: Pipeline, context: RunContext): Promise<RunningPipeline> {
  const source = pipeline.source as KafkaSource;
  const sink = pipeline.sink as KafkaSink;
  const { metrics, host, tell } = context;
  const scorer = new RecordScorer({
    host,
    model: pipeline.model,
    interpretation: interpretationOf(pipeline),
    passthrough: pipeline.score.passthrough ?? '*',
    maxRecordBytes: pipeline.score.record_bytes,
  });
  const format = await recordFormat(pipeline);
  const totals: RunTotals = { rows: 0, scored: 0, rejected: 0 };
  const labels = { pipeline: context.name };
  // The batches of all partitions meet one stream: the workers serve them in turn.
  let waiting: Promise<void> | null = null;

  /** Scores, or waits for the model: paused with a metric, neither spinning nor losing. */
  const scoreOrWait = async (values: readonly (Buffer | null)[], signal: AbortSignal): Promise<ScoredRecords> => {
    for (let wait = 250; ; wait = Math.min(MAX_MODEL_WAIT_MS, wait * 2)) {
      try {
        const scored = await format.score(scorer, values);
        if (waiting) {
          waiting = null;
          metrics.modelUnavailable.set(labels, 0);
          processor.resume();
          tell(`${pipeline.model} is there again`);
        }
        return scored;
      } catch (error) {
        const e = asSluiceError(error, 'worker_failed');
        if (!MODEL_FAULTS.has(e.code)) throw e;
        if (!waiting) {
          waiting = Promise.resolve();
          metrics.modelUnavailable.set(labels, 1);
          processor.pause(`model: ${e.code}`);
          tell(`paused, ${pipeline.model} cannot be used: ${e.message} [${e.code}]`);
        }
        await sleep(wait, undefined, { signal });
      }
    }
  };

  const process = async (batch: MicroBatch, signal: AbortSignal): Promise<BatchResult> => {
    const began = performance.now();
    const { model, answers } = await scoreOrWait(
      batch.records.map((r) => r.value),
      signal,
    );
    const outputs: OutgoingRecord[] = [];
    const rejected: OutgoingRecord[] = [];
    const marks = marksOf(model, batch);
    for (const [i, record] of batch.records.entries()) {
      const answer = answers[i]!;
      if (answer.error && pipeline.on_invalid !== 'report') rejected.push(reject(pipeline, record, answer.error));
      else outputs.push(predictionOf(record, answer, model, sink, format, marks));
    }
    metrics.scoring.observe({ model: model.ref }, (performance.now() - began) / 1000);
    metrics.rows.inc({ model: model.ref, outcome: 'scored' }, outputs.length);
    if (rejected.length > 0) metrics.rows.inc({ model: model.ref, outcome: 'rejected' }, rejected.length);
    for (const { error } of answers) if (error) metrics.rejected.inc({ model: model.ref, code: error.code });
    return { outputs, rejected };
  };

  const processor = await TransactionalProcessor.start({
    connection: connectionOf(pipeline.kafka),
    topic: source.topic,
    group: source.group,
    outputTopic: sink.topic,
    deadLetterTopic: pipeline.dead_letter?.type === 'kafka' ? pipeline.dead_letter.topic : null,
    process,
    delivery: pipeline.delivery,
    batchRows: pipeline.score.batch_rows,
    batchWaitMs: pipeline.score.batch_wait_ms,
    transactionRows: pipeline.transaction_rows,
    transactionTimeoutMs: pipeline.transaction_timeout_ms,
    maxInFlightBytes: source.in_flight_bytes,
    fetchBytes: source.fetch_bytes,
    compression: sink.compression,
    startAt: source.start_at,
    onOffsetLost: source.on_offset_lost,
    untilCaughtUp: source.until_caught_up,
    sessionTimeoutMs: pipeline.kafka.session_timeout_ms,
    observer: observerOf(context, (report) => {
      totals.rows += report.records;
      totals.rejected += report.rejected;
      totals.scored += report.records - report.rejected;
    }),
  });
  return {
    totals,
    lag: () => [...processor.lag().values()].reduce((a, b) => a + b, 0),
    done: processor.done,
    stop: async (deadlineMs) => {
      await processor.stop(deadlineMs);
      scorer.close();
    },
  };
}

/** Headers that are the same for all predictions of a micro-batch. */
const marksOf = ({ manifest }: ModelPackage, { topic, partition }: MicroBatch) => ({
  'sluice-model-id': Buffer.from(manifest.id),
  'sluice-model-version': Buffer.from(String(manifest.version)),
  'sluice-model-sha256': Buffer.from(manifest.onnx.sha256),
  'sluice-source-topic': Buffer.from(topic),
  'sluice-source-partition': Buffer.from(String(partition)),
});

/** A prediction keeps key, headers and order of its application and says which model made it, from which record. */
function predictionOf(
  record: IncomingRecord,
  answer: RecordAnswer,
  model: ModelPackage,
  sink: KafkaSink,
  format: RecordFormat,
  marks: ReturnType<typeof marksOf>,
): OutgoingRecord {
  const { manifest } = model;
  const value =
    answer.value ??
    Buffer.from(JSON.stringify({ modelId: manifest.id, modelVersion: String(manifest.version), error: answer.error }));
  const base = answerTo(record, format.encode(value), { timestamp: sink.timestamp });
  return {
    ...base,
    headers: { ...base.headers, ...marks, 'sluice-source-offset': Buffer.from(String(record.offset)) },
  };
}

function reject(pipeline: Pipeline, record: IncomingRecord, error: NonNullable<RecordAnswer['error']>): OutgoingRecord {
  if (pipeline.on_invalid === 'fail') {
    throw new SluiceError(
      'invalid_row',
      `partition ${record.partition}, offset ${record.offset}: ${error.column ?? ''} ${error.code}`,
    );
  }
  return deadLetter(record, error);
}
