// Writes predictions as columns.
// The values are those that a reader of the JSON output would get, but no text is written.
import type { ColumnBatch } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { Interpreter } from '../../inference/evaluate/prediction.ts';
import { pairsTold } from '../../inference/explain/explainer.ts';
import type { BatchInterpretation } from '../../inference/explain/interpretation.ts';
import type { StrongestPairs } from '../../inference/explain/strongest-pairs.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { ByteWriter } from '../write/byte-writer.ts';
import type { Formatter, OutputSpec } from '../write/formatter.ts';
import { decimalOfFloat32 } from '../write/number.ts';
import {
  answerColumns,
  bySize,
  ERROR_COLUMNS,
  interpretationColumns,
  interpretationFault,
  outputColumns,
  textOfToken,
} from '../write/prediction-fields.ts';
import { FrameWriter, layoutOf } from './column-frames.ts';

type Answers = Int32Array | Float64Array | Uint8Array;

export class ColumnsFormatter implements Formatter {
  readonly #spec: OutputSpec;
  readonly #interpreter: Interpreter;
  readonly #manifest: Manifest;
  readonly #layout: number;
  /** Word indexes of the classes, and of the decisions, in the word lists of their columns. */
  readonly #classWords: readonly number[];
  readonly #decisionWords: ReadonlyMap<string, number>;
  #rows = new Int32Array(0);
  #lengths = new Int32Array(0);
  #scored = new Uint8Array(0);
  /** The cells of each prediction column, in the order of `answerColumns`. */
  #answers: Answers[] = [];
  #base = new Float64Array(0);
  #explained = new Uint8Array(0);
  /** 1 for each effect that is reported; all effects of a row are adjacent. */
  #told = new Uint8Array(0);
  #effect = new Float64Array(0);
  #outputs = new Int32Array(0);

  constructor(spec: OutputSpec, interpreter: Interpreter, manifest: Manifest) {
    this.#spec = spec;
    this.#interpreter = interpreter;
    this.#manifest = manifest;
    const wordsOf = (name: string) => outputColumns(manifest, [], null).find((c) => c.name === name)?.words ?? [];
    this.#layout = layoutOf(outputColumns(manifest, spec.passthrough, spec.interpretation));
    const classes = wordsOf('prediction');
    this.#classWords = interpreter.classes.map((c) => classes.indexOf(String(c)));
    this.#decisionWords = new Map(wordsOf('decision').map((word, i) => [word, i]));
  }

  write(
    out: ByteWriter,
    batch: ColumnBatch,
    scores: Scores | null,
    firstRow: number,
    interpretation: BatchInterpretation | null,
  ): void {
    const { rows } = batch;
    if (rows === 0) return;
    if (this.#rows.length < rows) this.#reserve(batch.capacity);
    const frame = new FrameWriter(out, rows, this.#layout, this.#lengths);
    const { passthroughIsJson } = this.#spec;
    for (const texts of batch.passthrough) {
      frame.texts((r) => (passthroughIsJson ? textOfToken(texts[r] ?? null) : (texts[r] ?? null)));
    }
    for (let r = 0; r < rows; r++) this.#rows[r] = firstRow + r;
    frame.cells(this.#rows, null);
    this.#answered(frame, batch, scores);
    this.#errors(frame, batch, scores, interpretation);
    if (this.#spec.interpretation) this.#interpreted(frame, batch, scores, interpretation);
    frame.end();
  }

  #reserve(capacity: number): void {
    this.#rows = new Int32Array(capacity);
    this.#lengths = new Int32Array(capacity);
    this.#scored = new Uint8Array(capacity);
    this.#answers = answerColumns(this.#interpreter).map(({ kind }) =>
      kind === 'number'
        ? new Float64Array(capacity)
        : kind === 'boolean'
          ? new Uint8Array(capacity)
          : new Int32Array(capacity),
    );
    if (!this.#spec.interpretation) return;
    this.#base = new Float64Array(capacity);
    this.#effect = new Float64Array(capacity);
    this.#explained = new Uint8Array(capacity);
    this.#outputs = new Int32Array(capacity);
    this.#told = new Uint8Array(capacity * this.#manifest.columns.length);
  }

  /** Writes the columns between `row` and the error columns. */
  #answered(frame: FrameWriter, { rows, rejected, rejections }: ColumnBatch, scores: Scores | null): void {
    const answers = this.#answers;
    if (!scores) {
      for (const _ of answers) frame.nothing();
      return;
    }
    const { task } = this.#interpreter;
    if (task === 'binary') this.#binary(scores, rows);
    else if (task === 'multiclass') this.#multiclass(scores, rows);
    else this.#values(scores, rows);
    if (rejections.length === 0) {
      for (const cells of answers) frame.cells(cells, null);
      return;
    }
    for (let r = 0; r < rows; r++) this.#scored[r] = rejected[r] === 1 ? 0 : 1;
    for (const cells of answers) {
      for (const { index } of rejections) cells[index] = 0;
      frame.cells(cells, this.#scored);
    }
  }

  #binary(scores: Scores, rows: number): void {
    const i = this.#interpreter;
    const number = numberOf(scores);
    const [prediction, probability, third, fourth] = this.#answers as [Uint8Array, Float64Array, Answers?, Answers?];
    const points = i.hasPoints ? third! : null;
    const decisions = i.hasDecisions ? (points ? fourth! : third!) : null;
    for (let r = 0; r < rows; r++) {
      const p = i.probability(scores, r);
      prediction[r] = p > 0.5 ? 1 : 0;
      probability[r] = number(p);
      if (points) points[r] = i.points(p);
      if (decisions) decisions[r] = this.#decisionWords.get(i.decision(p, scores))!;
    }
  }

  #multiclass(scores: Scores, rows: number): void {
    const { values, width } = scores;
    const number = numberOf(scores);
    const [prediction, probability, ...ofClass] = this.#answers;
    for (let r = 0; r < rows; r++) {
      const top = this.#interpreter.top(scores, r);
      prediction![r] = this.#classWords[top]!;
      probability![r] = number(values[r * width + top]!);
      for (let c = 0; c < ofClass.length; c++) ofClass[c]![r] = number(values[r * width + c]!);
    }
  }

  #values(scores: Scores, rows: number): void {
    const number = numberOf(scores);
    const value = this.#answers[0]!;
    for (let r = 0; r < rows; r++) value[r] = number(scores.values[r]!);
  }

  #errors(
    frame: FrameWriter,
    { rejections, rejected }: ColumnBatch,
    scores: Scores | null,
    interpretation: BatchInterpretation | null,
  ): void {
    const inexact = interpretation && interpretation.inexact > 0 ? interpretation.at : null;
    if (rejections.length === 0 && !inexact) {
      for (const _ of ERROR_COLUMNS) frame.nothing();
      return;
    }
    for (const part of ['code', 'column', 'message'] as const) {
      let next = 0;
      frame.texts((r) => {
        if (rejected[r] === 1 || !scores) return rejections[next++]![part];
        const fault = inexact && interpretationFault(inexact[r]!);
        return fault && part !== 'column' ? fault[part] : null;
      });
    }
  }

  /** Writes the interpretation. If the model has several classes, the interpretation explains the predicted class. */
  #interpreted(frame: FrameWriter, { rows }: ColumnBatch, scores: Scores | null, x: BatchInterpretation | null): void {
    const { effects, reasons, interactions } = this.#spec.interpretation!;
    const { columns } = this.#manifest;
    if (!x || !scores) {
      for (const _ of interpretationColumns(this.#spec.interpretation, columns)) frame.nothing();
      return;
    }
    if (effects) this.#effects(frame, rows, scores, x);
    if (reasons) {
      frame.texts((r) => {
        const at = x.at[r]!;
        return at < 0 ? null : (x.reasons[at] ?? []).map((reason) => reason.code).join(';');
      });
    }
    if (x.pairs) this.#interactions(frame, rows, scores, x, x.pairs);
    // The batch has no interpreted row.
    else for (let c = 0; c < 3 * pairsTold(interactions, columns.length); c++) frame.nothing();
  }

  #interactions(
    frame: FrameWriter,
    rows: number,
    scores: Scores,
    { at, explainer: { outputs } }: BatchInterpretation,
    { most, counts, first, second, effects }: StrongestPairs,
  ): void {
    for (let r = 0; r < rows; r++) {
      this.#outputs[r] = at[r]! * outputs + (outputs > 1 ? this.#interpreter.top(scores, r) : 0);
    }
    const word = new Int32Array(rows);
    for (let k = 0; k < most; k++) {
      for (let r = 0; r < rows; r++) this.#explained[r] = at[r]! >= 0 && k < counts[this.#outputs[r]!]! ? 1 : 0;
      for (const columns of [first, second]) {
        for (let r = 0; r < rows; r++) word[r] = this.#explained[r] === 1 ? columns[this.#outputs[r]! * most + k]! : 0;
        frame.cells(word, this.#explained);
      }
      for (let r = 0; r < rows; r++) {
        this.#effect[r] = this.#explained[r] === 1 ? effects[this.#outputs[r]! * most + k]! : 0;
      }
      frame.cells(this.#effect, this.#explained);
    }
  }

  #effects(frame: FrameWriter, rows: number, scores: Scores, x: BatchInterpretation): void {
    const columns = this.#manifest.columns.length;
    const { outputs, base } = x.explainer;
    const told = this.#told;
    told.fill(x.spec.top === null ? 1 : 0, 0, rows * columns);
    for (let r = 0; r < rows; r++) {
      const at = x.at[r]!;
      this.#explained[r] = at < 0 ? 0 : 1;
      const output = at >= 0 && outputs > 1 ? this.#interpreter.top(scores, r) : 0;
      this.#outputs[r] = at * outputs + output;
      this.#base[r] = at < 0 ? 0 : base[output]! + 0;
      if (at < 0) told.fill(0, r * columns, (r + 1) * columns);
      else if (x.spec.top !== null) {
        for (const c of bySize(x, this.#outputs[r]! * columns, columns)) told[r * columns + c] = 1;
      }
    }
    frame.cells(this.#base, this.#explained);
    for (let c = 0; c < columns; c++) {
      for (let r = 0; r < rows; r++) {
        const has = told[r * columns + c]!;
        this.#explained[r] = has;
        this.#effect[r] = has === 1 ? x.effects[this.#outputs[r]! * columns + c]! + 0 : 0;
      }
      frame.cells(this.#effect, this.#explained);
    }
  }
}

/** Returns the value that a reader of the decimal text of a score gets, without negative zero. */
const numberOf = ({ values }: Scores): ((value: number) => number) =>
  values instanceof Float32Array ? decimalOfFloat32 : (value) => value + 0;
