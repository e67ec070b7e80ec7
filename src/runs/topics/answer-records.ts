// Computes the answers to records of a topic for every sink: scores micro-batches, waits for unavailable models,
// applies `on_invalid` and `tombstones`, and counts rows.

import type { FileSink } from '../../connectors/file/file-options.ts';
import type { IncomingRecord } from '../../connectors/kafka/client/records.ts';
import { headerText } from '../../connectors/kafka/dlq/dead-letter.ts';
import { LogThrottle } from '../../connectors/kafka/kafka-error-messages.ts';
import type { KafkaSink, KafkaSource } from '../../connectors/kafka/kafka-options.ts';
import type { PostgresSink } from '../../connectors/postgres/postgres-options.ts';
import { unlessAborted } from '../../core/async.ts';
import { sleep } from '../../core/clock.ts';
import { asSluiceError, type ErrorCode, SluiceError } from '../../core/errors.ts';
import { faultFields, named, saysOf, withAction, words } from '../../core/log.ts';
import { parseTraceparent, TRACE_HEADER, type TraceParent, type Tracer } from '../../core/tracing.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { UnitAccount } from '../account.ts';
import type { RunContext } from '../context.ts';
import type { RunSpec } from '../spec.ts';
import { type RecordFormat, recordFormat } from './record-format.ts';
import {
  type RecordAnswer,
  type RecordError,
  type RecordScorer,
  recordScorer,
  type ScoredRecords,
} from './record-scorer.ts';

export interface TopicSpec<S = KafkaSink | FileSink | PostgresSink> extends RunSpec {
  source: KafkaSource;
  sink: S & RunSpec['sink'];
}

/** Errors of the model, not of an application. Processing pauses until the model can be loaded. */
const MODEL_ERRORS = new Set<ErrorCode>([
  'model_not_found',
  'model_invalid',
  'model_hash_mismatch',
  'self_test_failed',
  'registry_unavailable',
  'interpretation_unavailable',
]);
const FIRST_MODEL_WAIT_MS = 250;
const MAX_MODEL_WAIT_MS = 10_000;
/** Trace collectors accept at most 128 links per span. */
const MAX_LINKS = 128;
/** There is only one instance, so that it can be recognised by identity. */
const STOPPED = new SluiceError('cancelled', 'the run stopped while its model was unavailable');

/** Whether the run was stopped while it waited for its model. The next group member reads the records again. */
export const isStoppedPause = (error: unknown): boolean => error === STOPPED;

interface AnsweredRecord {
  readonly record: IncomingRecord;
  /** Null for a tombstone, which is forwarded. */
  readonly answer: RecordAnswer | null;
}

interface RejectedRecord {
  readonly record: IncomingRecord;
  readonly error: RecordError;
}

/** The answers to one micro-batch, after `on_invalid` was applied. */
export class AnsweredBatch {
  readonly model: ModelPackage;
  /** In the order of the records. Includes rejected records with `on_invalid: report`. */
  readonly answered: AnsweredRecord[] = [];
  /** In the order of the records. */
  readonly deadLetters: RejectedRecord[] = [];
  /** Tombstones that were skipped or forwarded. */
  tombstones = 0;
  readonly #spec: TopicSpec;
  readonly #tallies: ScoredRecords['tallies'];

  constructor(spec: TopicSpec, { model, tallies }: Pick<ScoredRecords, 'model' | 'tallies'>) {
    this.model = model;
    this.#spec = spec;
    this.#tallies = tallies;
  }

  /**
   * Rejects a record. Returns false if the caller must report the error among the answers.
   * @throws SluiceError invalid_row with `on_invalid: fail`
   */
  reject(record: IncomingRecord, error: RecordError): boolean {
    const { on_invalid } = this.#spec;
    if (on_invalid === 'fail') {
      const { column = '', code } = error;
      const at = `partition ${record.partition}, offset ${record.offset}:`;
      // The record may name the column.
      throw new SluiceError('invalid_row', `${at} ${column} ${code}`, { logMessage: `${at} ${code}` });
    }
    if (on_invalid === 'report') return false;
    this.deadLetters.push({ record, error });
    return true;
  }

  /** Adds the rows of the batch to `unit`. */
  countInto(unit: UnitAccount): void {
    for (const tally of this.#tallies) unit.add(tally, this.model.ref);
    unit.skip(this.tombstones);
  }
}

/** Counts dead letters that were written, by their error codes. */
export function countLetters({ metrics, name: pipeline }: RunContext, codes: readonly ErrorCode[]): void {
  for (const code of codes) metrics?.deadLetters.inc({ pipeline, code });
}

interface AnswerRecordsOptions {
  /** Called with the reason when the model becomes unavailable, and with null when it becomes available. */
  onPause: (reason: string | null) => void;
  /**
   * Names of the members that the sink adds to answers. Passthrough columns must not have these names. Default: none.
   */
  added?: readonly string[];
}

/**
 * Answers micro-batches. Batches of different partitions can be in progress at the same time. `stop` ends a pause;
 * `close` releases the workers.
 */
export class AnswerRecords {
  readonly #spec: TopicSpec;
  readonly #context: RunContext;
  readonly #scorer: RecordScorer;
  readonly #format: RecordFormat;
  readonly #log: LogThrottle;
  readonly #onPause: AnswerRecordsOptions['onPause'];
  readonly #stopping = new AbortController();
  #paused = false;

  private constructor(
    spec: TopicSpec,
    context: RunContext,
    { onPause, added }: AnswerRecordsOptions,
    host: ModelHost,
    format: RecordFormat,
  ) {
    this.#spec = spec;
    this.#context = context;
    this.#scorer = recordScorer(spec, host, added);
    this.#format = format;
    this.#log = new LogThrottle(context.log);
    this.#onPause = onPause;
  }

  /** @throws SluiceError schema_registry_unavailable | kafka_config */
  static async open(spec: TopicSpec, context: RunContext, options: AnswerRecordsOptions): Promise<AnswerRecords> {
    return new AnswerRecords(spec, context, options, await context.host(), await recordFormat(spec));
  }

  /** Whether the run is waiting for its model. */
  get paused(): boolean {
    return this.#paused;
  }

  /** Encodes a prediction (JSON) in the format of the sink. */
  get encode(): RecordFormat['encode'] {
    return this.#format.encode;
  }

  /**
   * Scores a batch. Apart from a pause, the method has no side effects, so a batch can be answered again after a
   * failure.
   * @throws SluiceError any scoring error; `isStoppedPause`: the run was stopped while its model was unavailable
   */
  async answer(records: readonly IncomingRecord[], signal?: AbortSignal): Promise<AnsweredBatch> {
    const flow = this.#context.account.flow();
    flow.begin('workers');
    try {
      return await withBatchSpan(this.#context.tracer, records, () => this.#answer(records, signal));
    } finally {
      flow.end('workers');
    }
  }

  /** Ends a pause. */
  stop(): void {
    this.#stopping.abort();
  }

  close(): void {
    this.#scorer.close();
  }

  async #answer(records: readonly IncomingRecord[], signal: AbortSignal | undefined): Promise<AnsweredBatch> {
    const { tombstones } = this.#spec.source;
    const scorable = tombstones === 'reject' ? records : records.filter((r) => r.value !== null);
    const scored = await this.#scoreOrWait(
      scorable.map((r) => r.value),
      signal,
    );
    const batch = new AnsweredBatch(this.#spec, scored);
    let next = 0;
    for (const record of records) {
      if (record.value === null && tombstones !== 'reject') {
        batch.tombstones++;
        if (tombstones === 'forward') batch.answered.push({ record, answer: null });
        continue;
      }
      const answer = scored.answers[next++]!;
      if (answer.error === null || !batch.reject(record, answer.error)) batch.answered.push({ record, answer });
    }
    return batch;
  }

  /** Scores the values. While the model is unavailable, pauses and sets a metric. */
  async #scoreOrWait(values: readonly (Buffer | null)[], signal: AbortSignal | undefined): Promise<ScoredRecords> {
    for (let wait = FIRST_MODEL_WAIT_MS; ; wait = Math.min(MAX_MODEL_WAIT_MS, wait * 2)) {
      try {
        const scoring = this.#format.score(this.#scorer, values);
        // Stopping must not wait for an unresponsive registry.
        const scored = this.#paused ? await unlessAborted(scoring, this.#stopping.signal) : await scoring;
        if (scored === null) throw STOPPED;
        this.#setPaused(null);
        return scored;
      } catch (error) {
        if (error === STOPPED) throw error;
        const e = asSluiceError(error, 'internal_error');
        if (!MODEL_ERRORS.has(e.code)) {
          // The exactly-once processor retries the batch but logs nothing, so the error is logged here.
          if (e.entry.retryable)
            this.#log.write(e.code, ['warn', 'scoring_retried', words`${withAction(e)} Scoring is retried.`]);
          throw e;
        }
        this.#setPaused(e);
        const waited = await unlessAborted(sleep(wait, signal ? { signal } : {}), this.#stopping.signal);
        if (waited === null) throw STOPPED;
      }
    }
  }

  /** Pauses all partitions, because they share the model. */
  #setPaused(cause: SluiceError | null): void {
    if (this.#paused === (cause !== null)) return;
    this.#paused = cause !== null;
    const { metrics, name, log } = this.#context;
    metrics?.modelUnavailable.set({ pipeline: name }, cause ? 1 : 0);
    this.#onPause(cause && `model: ${cause.code}`);
    const model = named(this.#spec.model);
    if (cause) {
      const message = words`paused because ${model} cannot be used: ${saysOf(cause)}`;
      log('error', 'pipeline_paused', message, { ...faultFields(cause), model });
    } else log('info', 'pipeline_resumed', words`${model} is available again`, { model });
  }
}

/** Runs `work` in a span that links to the traces of its records. Without a tracer, just runs `work`. */
export async function withBatchSpan<T>(
  tracer: Tracer | null,
  records: readonly IncomingRecord[],
  work: () => Promise<T>,
): Promise<T> {
  if (tracer === null) return work();
  const span = tracer.begin(words`micro-batch`, { kind: 'consumer', links: linksOf(records) });
  const [first] = records;
  const fields = {
    rows: records.length,
    ...(first ? { topic: named(first.topic), partition: first.partition, offset: Number(first.offset) } : {}),
  };
  try {
    const result = await work();
    span.end(fields);
    return result;
  } catch (error) {
    span.end(fields, error);
    throw error;
  }
}

/** The distinct traces of the records, at most MAX_LINKS. */
export function linksOf(records: readonly IncomingRecord[]): TraceParent[] {
  const links = new Map<string, TraceParent>();
  for (const { headers } of records) {
    if (links.size === MAX_LINKS) break;
    const trace = parseTraceparent(headerText(headers, TRACE_HEADER));
    if (trace && !links.has(trace.traceId)) links.set(trace.traceId, trace);
  }
  return [...links.values()];
}
