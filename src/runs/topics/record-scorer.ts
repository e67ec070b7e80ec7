// Scores records of a topic. The bytes of the records form a block without being parsed first, and the answer to each
// record is one line of JSON.

import { RECORD_OK, RECORD_TOO_LONG } from '../../core/block.ts';
import { type ErrorCode, SluiceError } from '../../core/errors.ts';
import type { InputDeclaration } from '../../core/input-declaration.ts';
import type { Tally } from '../../engine/counts.ts';
import type { ModelHost } from '../../engine/model-host.ts';
import type { StreamSpec } from '../../engine/protocol.ts';
import { columnLimit } from '../../engine/stream-spec.ts';
import type { StreamHandle, WorkerPool } from '../../engine/worker-pool.ts';
import { checkDeclaration, declaredParts } from '../../formats/declared-parts.ts';
import { InputNames } from '../../formats/decode/input-names.ts';
import { rejectedJson } from '../../formats/json/json-formatter.ts';
import { MODEL_KEYS } from '../../formats/schemas/prediction-schema.ts';
import type { WriteJson } from '../../formats/schemas/value-codec.ts';
import { ANSWER_KEYS, refuseHidden } from '../../formats/write/prediction-fields.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ModelPackage } from '../../model/package/model-package.ts';
import type { Pipeline } from '../../pipeline/pipeline-schema.ts';
import { declaredBy, interpretationOf } from '../spec.ts';

export interface RecordError {
  code: ErrorCode;
  column?: string;
  message: string;
}

export interface RecordAnswer {
  /** A JSON object with model, version, passthrough columns, and either the prediction or the error. */
  value: Buffer;
  error: RecordError | null;
}

export interface ScoredRecords {
  model: ModelPackage;
  /** One answer per record, in order. */
  answers: RecordAnswer[];
  /** The counts of the answers, for the account. */
  tallies: Tally[];
}

interface RecordScorerOptions {
  host: ModelHost;
  /** Reference of the model, which is resolved again for every micro-batch. */
  model: string;
  interpretation: InterpretationSpec | null;
  passthrough: readonly string[] | '*';
  maxRecordBytes: number;
  maxColumns?: number;
  /** Format declaration of the records. Default: none. */
  declared?: InputDeclaration | null;
  /** Names of the members that the sink adds to answers. Default: none. */
  added?: readonly string[];
}

/** The answer to a record that cannot be decoded. None of its columns are known. */
export const rejectedAnswer = (model: ModelPackage['manifest'], error: RecordError): RecordAnswer => ({
  value: Buffer.from(rejectedJson(model, { ...error, column: error.column ?? null })),
  error,
});

interface OpenStream {
  readonly pool: WorkerPool;
  readonly stream: StreamHandle;
  /** Names that the records have for the columns of the model. */
  readonly fields: ReadonlySet<string>;
}

const LF = 0x0a;
/** Members of an answer that is delivered on its own. */
const RECORD_KEYS = [...ANSWER_KEYS, ...MODEL_KEYS];

/** The scorer for the records of a pipeline. `added`: names of the members that the sink adds to answers. */
export const recordScorer = (
  spec: Pick<Pipeline, 'model' | 'score' | 'source'>,
  host: ModelHost,
  added: readonly string[] = [],
): RecordScorer =>
  new RecordScorer({
    host,
    model: spec.model,
    interpretation: interpretationOf(spec),
    passthrough: spec.score.passthrough ?? '*',
    maxRecordBytes: spec.score.record_bytes,
    maxColumns: spec.score.max_columns,
    declared: declaredBy(spec.source),
    added,
  });

/**
 * Scores records through a stream of the worker pool. The stream is reused while the reference resolves to the same
 * pool.
 */
export class RecordScorer {
  readonly #options: RecordScorerOptions;
  #open: OpenStream | null = null;

  constructor(options: RecordScorerOptions) {
    this.#options = options;
  }

  /**
   * Scores JSON values. A null value is rejected as an empty record. A function writes the value for the fields that
   * the model reads.
   * @throws SluiceError model_* | worker_failed | interpretation_unavailable
   */
  async score(values: readonly (Buffer | WriteJson | null)[]): Promise<ScoredRecords> {
    const hosted = await this.#options.host.use(this.#options.model);
    try {
      const { model, pool } = hosted;
      const { stream, fields } = this.#stream(pool, model);
      const texts = values.map((value) => (typeof value === 'function' ? value(fields) : value));
      const parts = await stream.score(blockOf(texts, this.#options.maxRecordBytes));
      const answers: RecordAnswer[] = [];
      for (const part of parts) {
        // The text is copied, because the answers are slices of it and the buffer returns to a worker.
        const text = Buffer.from(new Uint8Array(part.output, 0, part.length));
        const first = answers.length;
        for (let from = 0; from < text.length; ) {
          const end = text.indexOf(LF, from);
          answers.push({ value: text.subarray(from, end), error: null });
          from = end + 1;
        }
        for (const { index, code, column, message } of part.rejections) {
          answers[first + index]!.error = column === null ? { code, message } : { code, column, message };
        }
        pool.recycle(part.output);
      }
      // With one answer too many or too few, all later answers would belong to the wrong records.
      if (answers.length !== values.length) {
        throw new SluiceError('count_mismatch', `${values.length} records have ${answers.length} answers`);
      }
      return { model, answers, tallies: parts };
    } finally {
      hosted.release();
    }
  }

  close(): void {
    this.#open?.stream.close();
    this.#open = null;
  }

  #stream(pool: WorkerPool, model: ModelPackage): OpenStream {
    if (this.#open?.pool === pool) return this.#open;
    this.#open?.stream.close();
    const { passthrough, interpretation, declared = null, added = [] } = this.#options;
    const reserved = [...RECORD_KEYS, ...added];
    // JSON libraries treat duplicate member names differently, so passthrough columns must not repeat other members.
    if (passthrough !== '*') refuseHidden(passthrough, reserved, 'member of the output');
    if (declared) checkDeclaration(declared, model.manifest, passthrough);
    const outcome = model.manifest.outcome ?? null;
    const maxColumns = columnLimit(model.manifest, this.#options.maxColumns);
    const names = declared?.columns ? { declared: declared.columns } : {};
    const spec: StreamSpec = {
      input: {
        format: 'json',
        layout: { passthrough, reserved, outcome, maxColumns, ...names },
        ...declaredParts(declared ?? undefined),
      },
      output: {
        format: 'ndjson',
        delimiter: ',',
        passthrough: passthrough === '*' ? ['*'] : passthrough,
        passthroughIsJson: true,
        identity: 'model',
        interpretation,
      },
      records: true,
    };
    const inRecords = new InputNames(declared?.columns ?? undefined);
    const fields = new Set(model.manifest.columns.map(({ name }) => inRecords.inInput(name)));
    this.#open = { pool, stream: pool.open(spec), fields };
    return this.#open;
  }
}

/** Writes values as the records of one block into shared memory. */
function blockOf(values: readonly (Buffer | null)[], maxRecordBytes: number) {
  const n = values.length;
  const length = values.reduce((sum, v) => sum + (v?.length ?? 0), 0);
  const slab = new SharedArrayBuffer(Math.max(1, length));
  const bytes = new Uint8Array(slab);
  const spans = new Int32Array(n * 2);
  const faults = new Uint8Array(n);
  let at = 0;
  values.forEach((v, i) => {
    spans[i * 2] = at;
    if (v) bytes.set(v, at);
    at += v?.length ?? 0;
    spans[i * 2 + 1] = at;
    faults[i] = v && v.length > maxRecordBytes ? RECORD_TOO_LONG : RECORD_OK;
  });
  const lines = Int32Array.from({ length: n }, (_, i) => i + 1);
  return { seq: 0, slab, spans, faults, firstRow: 1, lines, firstByte: 0, length, inputEnd: length };
}
