// Scores the blocks of one worker: decode → encode → score → format, one micro-batch at a time.
import { type ColumnBatch, type ColumnData, newColumns } from '../core/batch.ts';
import { SluiceError } from '../core/errors.ts';
import type { Explained } from '../core/explained-work.ts';
import { faultOf } from '../core/log.ts';
import { DRIFT_KERNEL_AFTER, type DriftCounter, openDrift } from '../drift/drift-counter.ts';
import { reject } from '../formats/decode/decoder.ts';
import { decoderOverride } from '../formats/decode/decoder-override.ts';
import { ByteWriter } from '../formats/write/byte-writer.ts';
import { type ColumnReader, columnReaders } from '../inference/encode/column-reader.ts';
import type { Encoder } from '../inference/encode/encoder.ts';
import type { EnginePolicy, Known } from '../inference/evaluate/choose-evaluator.ts';
import type { Evaluator, Scores } from '../inference/evaluate/evaluator.ts';
import { openNative } from '../inference/evaluate/native/native-evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import type { BatchInterpretation, Interpretations } from '../inference/explain/interpretation.ts';
import { type ModelPackage, readModelBytes } from '../model/package/model-package.ts';
import { JobRun, type Kind, streamKind } from './job-run.ts';
import type { ScoredPart, ScoreJob, StreamSpec } from './protocol.ts';

/** Called before each micro-batch, and repeatedly while effects are computed. */
type BatchStep = (explained: Explained) => void | Promise<void>;

/** Out-of-memory messages of ONNX Runtime and of the C++ library. */
const OUT_OF_MEMORY = /bad_alloc|alloc|out of memory/i;

/**
 * Number of model evaluations for interpretations between two checks for cancellation: about a second of work for most
 * models.
 */
const QUESTIONS_AT_ONCE = 100_000;
/** No effects were computed. */
const PLAIN: Explained = { rows: 0, evaluations: 0 };

const rowsAtOnce = (questions: number, capacity: number): number =>
  Math.max(1, Math.min(capacity, Math.floor(QUESTIONS_AT_ONCE / Math.max(1, questions))));

/** An error of the evaluator is a failure of the model; any other error of a job is an error of Sluice. */
function throwModelFailed(error: unknown): never {
  throw error instanceof SluiceError ? error : new SluiceError('model_failed', faultOf(error), { cause: error });
}

export class Scorer {
  readonly model: ModelPackage;
  readonly evaluator: Evaluator;
  readonly #readers: ColumnReader[];
  readonly #names: ReadonlySet<string>;
  readonly #encoder: Encoder;
  readonly #interpreter: Interpreter;
  readonly #columns: ColumnData[];
  readonly #drift: DriftCounter | null;
  readonly #capacity: number;
  readonly #kinds = new Map<number, Kind>();
  readonly #writer = new ByteWriter(0);
  #interpretations: Promise<Interpretations> | null = null;
  /** Micro-batch size with interpretation in rows; 1 until the cost of a row is known. */
  #explainedRows = 1;

  private constructor(model: ModelPackage, evaluator: Evaluator, batchRows: number) {
    this.model = model;
    this.evaluator = evaluator;
    this.#capacity = batchRows;
    this.#readers = columnReaders(model.manifest);
    this.#names = new Set(model.manifest.columns.map(({ name }) => name));
    const kinds = this.#readers.map((r) => r.kind);
    this.#interpreter = new Interpreter(model.manifest);
    this.#columns = newColumns(kinds, batchRows);
    // The reference path uses no kernels.
    const kernelAfter = decoderOverride() === 'reference' ? Infinity : DRIFT_KERNEL_AFTER;
    const interpreter = this.#interpreter;
    const opened = openDrift(model.manifest, { kinds, capacity: batchRows, interpreter, kernelAfter });
    this.#encoder = opened.encoder;
    this.#drift = opened.drift;
  }

  /**
   * Opens the compiled model; if there is none, loads the model file.
   * @throws SluiceError model_invalid | model_hash_mismatch
   */
  static async open(
    model: ModelPackage,
    batchRows: number,
    policy: EnginePolicy = 'onnxruntime',
    { verdict, plan }: Known = { verdict: null, plan: null },
  ): Promise<Scorer> {
    if (plan) return new Scorer(model, openNative(plan), batchRows);
    // Imported on demand, because compiled models do not need it.
    const { chooseEvaluator } = await import('../inference/evaluate/choose-evaluator.ts');
    const bytes = await readModelBytes(model);
    const { evaluator } = await chooseEvaluator(bytes, model.manifest, policy, { verdict });
    return new Scorer(model, evaluator, batchRows);
  }

  forget(kind: number): void {
    this.#kinds.delete(kind);
  }

  /**
   * Runs an uncompiled model once, on an example application. Before the model is served, this detects graphs that
   * never finish or take too much memory. Other errors of this application are ignored.
   * @throws SluiceError model_invalid
   */
  async tryOut(): Promise<void> {
    if (this.evaluator.scoreNow) return;
    const { manifest } = this.model;
    const { encodeRows, sampleRow } = await import('../inference/encode/encode-rows.ts');
    const { inputs, rejected } = encodeRows(
      manifest,
      [sampleRow(manifest)],
      manifest.columns.map((_, i) => i),
    );
    if (rejected.size > 0) return;
    await this.evaluator.score(inputs, 1).catch((cause: unknown) => {
      if (!OUT_OF_MEMORY.test(String(cause))) return;
      throw new SluiceError(
        'model_invalid',
        `${this.model.ref}: the model needs more memory than allowed for its size`,
        {
          cause,
        },
      );
    });
  }

  /**
   * Scores the records of a job. Jobs must not overlap. `step` is called before every micro-batch; it may wait, and an
   * error thrown by it ends the job.
   * @throws SluiceError model_failed
   */
  async score(job: ScoreJob, step: BatchStep = () => {}): Promise<ScoredPart> {
    const run = this.#begin(job);
    const { batch, interpretation: wanted } = run.kind;
    if (this.evaluator.scoreNow && !wanted) return this.#finish(run, this.evaluator.scoreNow, step);
    // Rejects unsupported interactions before a row is scored.
    if (wanted?.interactions && !job.uninterpreted) (await this.#explaining()).within(wanted);
    const done = { rows: 0, evaluations: 0 };
    for (;;) {
      await step(done);
      if (!run.next(wanted ? this.#explainedRows : undefined)) break;
      const before = done.rows;
      let scores = run.hasRows
        ? await this.evaluator.score(this.#encoder.encode(batch), batch.rows).catch(throwModelFailed)
        : null;
      this.#check(batch, scores);
      if (scores) this.#drift?.add(batch, scores);
      let interpretation: BatchInterpretation | null = null;
      if (scores && wanted && job.uninterpreted) {
        const { failedInterpretation } = await import('../inference/explain/interpretation.ts');
        interpretation = failedInterpretation(batch, scores, wanted, this.#interpreter);
      } else if (scores && wanted) {
        // The scores are copied, because computing effects evaluates the model again and overwrites them.
        scores = { values: scores.values.slice(), width: scores.width };
        const explaining = await this.#explaining();
        this.#explainedRows = rowsAtOnce(explaining.within(wanted).questions, this.#capacity);
        interpretation = await explaining.of(batch, this.#encoder.inputs, scores, wanted, (rows, evaluations) => {
          done.rows += rows;
          done.evaluations += evaluations;
          return step(done);
        });
      }
      run.write(scores, interpretation);
      done.rows = before + batch.rows;
    }
    return run.end();
  }

  /**
   * Scores a job synchronously. Requires an evaluator with `scoreNow` and a job without interpretation.
   * @throws SluiceError model_failed
   */
  scoreNow(job: ScoreJob): ScoredPart {
    return this.#finish(this.#begin(job), this.evaluator.scoreNow!);
  }

  #finish(run: JobRun, scoreNow: NonNullable<Evaluator['scoreNow']>, step: BatchStep = () => {}): ScoredPart {
    const { batch } = run.kind;
    for (;;) {
      step(PLAIN);
      if (!run.next()) break;
      const inputs = run.hasRows ? this.#encoder.encode(batch) : null;
      let scores: Scores | null = null;
      try {
        scores = inputs && scoreNow(inputs, batch.rows);
      } catch (error) {
        throwModelFailed(error);
      }
      this.#check(batch, scores);
      if (scores) this.#drift?.add(batch, scores);
      run.write(scores, null);
    }
    return run.end();
  }

  #begin(job: ScoreJob): JobRun {
    if (job.recycled) this.#writer.reuse(job.recycled);
    // Discards what a failed job has written.
    else this.#writer.length = 0;
    return new JobRun(job, this.#kind(job.kind, job.spec), this.#writer, this.#capacity, this.#drift);
  }

  /**
   * Whether effects are computed quickly and without evaluating the model. @throws SluiceError
   * interpretation_unavailable | model_hash_mismatch
   */
  async explainsAlone(): Promise<boolean> {
    const explaining = await this.#explaining();
    const { questions, lengthy } = explaining.within({ effects: true, top: null, reasons: false, below: null });
    return questions === 0 && !lengthy;
  }

  /** Created on first use, so that plain predictions start faster. */
  #explaining(): Promise<Interpretations> {
    this.#interpretations ??= this.#makeExplaining();
    return this.#interpretations;
  }

  async #makeExplaining(): Promise<Interpretations> {
    const { openInterpretations } = await import('./explaining.ts');
    return openInterpretations(this.model, this.evaluator);
  }

  /** Rejects rows with an invalid score. */
  #check(batch: ColumnBatch, scores: Scores | null): void {
    if (!scores) return;
    const { rows } = batch;
    const interpreter = this.#interpreter;
    for (let r = interpreter.nextInvalid(scores, 0, rows); r < rows; r = interpreter.nextInvalid(scores, r + 1, rows)) {
      if (batch.rejected[r] !== 0) continue;
      if (!interpreter.finite(scores, r)) {
        reject(batch, r, 'not_finite', null, 'the model returned NaN or infinity');
      } else {
        reject(batch, r, 'not_a_probability', null, 'the model returned raw scores instead of probabilities');
      }
    }
  }

  /** The jobs of a worker run one at a time, so streams of the same kind can share a decoder and a formatter. */
  #kind(id: number, spec: StreamSpec | null): Kind {
    let kind = this.#kinds.get(id);
    if (!kind) {
      if (!spec) throw new Error(`kind ${id} was never described`);
      kind = streamKind(spec, {
        manifest: this.model.manifest,
        readers: this.#readers,
        names: this.#names,
        columns: this.#columns,
        capacity: this.#capacity,
        encoder: this.#encoder,
      });
      this.#kinds.set(id, kind);
    }
    return kind;
  }
}
