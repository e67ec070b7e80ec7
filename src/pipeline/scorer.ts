// The work of one worker: blocks of records through decode → encode → score → format, a micro-batch at a time.
import type { ColumnBatch, ColumnData } from '../core/batch.ts';
import type { ErrorDetail } from '../core/errors.ts';
import { createDecoder } from '../decode/create.ts';
import { type Decoder, reject } from '../decode/decoder.ts';
import type { BatchInterpretation, InterpretationSpec, Interpretations } from '../explain/interpretation.ts';
import { ByteWriter } from '../format/byte-writer.ts';
import { createFormatter } from '../format/create.ts';
import type { Formatter } from '../format/formatter.ts';
import { rejectLine } from '../format/rejects.ts';
import { type ColumnReader, columnReaders } from '../model/column-reader.ts';
import { Encoder } from '../model/encoder.ts';
import { type ModelPackage, readModelBytes } from '../model/model-file.ts';
import type { EnginePolicy, Known } from '../score/choose.ts';
import type { Evaluator, Scores } from '../score/evaluator.ts';
import { openNative } from '../score/native/evaluator.ts';
import { Interpreter } from '../score/prediction.ts';
import { MAX_DETAILS, type ScoredPart, type ScoreJob, type StreamSpec } from './protocol.ts';

/** What is kept ready for streams of a kind. */
interface Kind {
  decoder: Decoder;
  formatter: Formatter;
  batch: ColumnBatch;
  interpretation: InterpretationSpec | null;
}

export class Scorer {
  readonly model: ModelPackage;
  readonly evaluator: Evaluator;
  readonly #readers: ColumnReader[];
  readonly #encoder: Encoder;
  readonly #interpreter: Interpreter;
  readonly #columns: ColumnData[];
  readonly #capacity: number;
  readonly #kinds = new Map<number, Kind>();
  readonly #writer = new ByteWriter(0);
  #interpretations: Promise<Interpretations> | null = null;

  private constructor(model: ModelPackage, evaluator: Evaluator, batchRows: number) {
    this.model = model;
    this.evaluator = evaluator;
    this.#capacity = batchRows;
    this.#readers = columnReaders(model.manifest);
    this.#encoder = new Encoder(
      model.manifest,
      this.#readers.map((r) => r.kind),
      batchRows,
    );
    this.#interpreter = new Interpreter(model.manifest);
    this.#columns = this.#readers.map((r) => ({
      kind: r.kind,
      numbers: new Float64Array(r.kind === 'number' ? batchRows : 0),
      codes: new Int32Array(r.kind === 'boolean' || r.kind === 'category' ? batchRows : 0),
      texts: r.kind === 'text' ? new Array<string | null>(batchRows).fill(null) : [],
    }));
  }

  /** Opens the compiled model, or loads the model file. @throws SluiceError model_invalid | model_hash_mismatch */
  static async open(
    model: ModelPackage,
    batchRows: number,
    policy: EnginePolicy = 'onnxruntime',
    { verdict, plan }: Known = { verdict: null, plan: null },
  ): Promise<Scorer> {
    if (plan) return new Scorer(model, openNative(plan), batchRows);
    // Loaded only where it is needed, as is all that explains.
    const { chooseEvaluator } = await import('../score/choose.ts');
    const bytes = await readModelBytes(model);
    const { evaluator } = await chooseEvaluator(bytes, model.manifest, policy, { verdict });
    return new Scorer(model, evaluator, batchRows);
  }

  forget(kind: number): void {
    this.#kinds.delete(kind);
  }

  /** Scores the records of one job. @throws SluiceError model_failed */
  async score(job: ScoreJob): Promise<ScoredPart> {
    const began = performance.now();
    const { decoder, formatter, batch, interpretation: wanted } = this.#kind(job.kind, job.spec);
    const out = this.#writer;
    if (job.recycled) out.reuse(job.recycled);
    const rows = job.faults.length;
    const rejectedByCode: ScoredPart['rejectedByCode'] = {};
    const details: ErrorDetail[] = [];
    let rejects = '';
    let rejected = 0;
    let explained = 0;
    let inexact = 0;
    for (let from = 0; from < rows; from += this.#capacity) {
      const to = Math.min(rows, from + this.#capacity);
      decoder.decode(job, from, to, batch);
      let scores = await this.#evaluate(batch);
      let interpretation: BatchInterpretation | null = null;
      if (scores && wanted) {
        // The model is asked again while effects are computed, and would write over its scores.
        scores = { values: scores.values.slice(), width: scores.width };
        interpretation = await (await this.#explaining()).of(batch, this.#encoder.inputs, scores, wanted);
        explained += interpretation.explained;
        inexact += interpretation.inexact;
      }
      formatter.write(out, batch, scores, job.firstRow + from, interpretation);
      for (const r of batch.rejections) {
        const i = from + r.index;
        const row = job.firstRow + i;
        rejected++;
        rejectedByCode[r.code] = (rejectedByCode[r.code] ?? 0) + 1;
        rejects += rejectLine(row, job.lines[i]!, job.firstByte + job.spans[i * 2]!, r);
        if (details.length < MAX_DETAILS) {
          details.push({ code: r.code, message: r.message, row, ...(r.column === null ? {} : { column: r.column }) });
        }
      }
    }
    const { buffer, length } = out.detach();
    return {
      rows,
      scored: rows - rejected,
      rejected,
      output: buffer,
      length,
      rejects,
      rejectedByCode,
      explained,
      inexact,
      details,
      workMs: performance.now() - began,
    };
  }

  /** Made when it is first asked for: predictions alone must not pay for it. */
  #explaining(): Promise<Interpretations> {
    this.#interpretations ??= this.#makeExplaining();
    return this.#interpretations;
  }

  async #makeExplaining(): Promise<Interpretations> {
    const { openInterpretations } = await import('./explaining.ts');
    return openInterpretations(this.model, this.evaluator);
  }

  async #evaluate(batch: ColumnBatch): Promise<Scores | null> {
    if (batch.rejections.length === batch.rows) return null;
    const scores = await this.evaluator.score(this.#encoder.encode(batch), batch.rows);
    for (let r = 0; r < batch.rows; r++) {
      if (batch.rejected[r] !== 0) continue;
      if (!this.#interpreter.finite(scores, r)) {
        reject(batch, r, 'not_finite', null, 'the model answered with NaN or infinity');
      } else if (!this.#interpreter.isProbability(scores, r)) {
        reject(batch, r, 'not_a_probability', null, 'the model answered with raw scores where probabilities are due');
      }
    }
    return scores;
  }

  /** Jobs of a worker run one after the other, so streams of a kind can share what is made here. */
  #kind(id: number, spec: StreamSpec | null): Kind {
    let kind = this.#kinds.get(id);
    if (!kind) {
      if (!spec) throw new Error(`kind ${id} was never described`);
      kind = this.#makeKind(spec);
      this.#kinds.set(id, kind);
    }
    return kind;
  }

  #makeKind(spec: StreamSpec): Kind {
    return {
      decoder: createDecoder(this.#readers, spec.input, spec.decoder ?? 'fast'),
      formatter: createFormatter(spec.output, this.model.manifest),
      interpretation: spec.output.interpretation,
      batch: {
        capacity: this.#capacity,
        rows: 0,
        columns: this.#columns,
        rejected: new Uint8Array(this.#capacity),
        rejections: [],
        passthrough: spec.output.passthrough.map(() => new Array<string | null>(this.#capacity).fill(null)),
      },
    };
  }
}
