// Predictions as JSON objects, comma-separated (inside the array of an answer) or one a line (NDJSON).
import type { ColumnBatch, Rejection } from '../core/batch.ts';
import { type BatchInterpretation, INEXACT } from '../explain/interpretation.ts';
import type { ColumnSpec } from '../model/manifest.ts';
import type { Scores } from '../score/evaluator.ts';
import type { Interpreter } from '../score/prediction.ts';
import { type ByteWriter, type Fragment, fragment } from './byte-writer.ts';
import type { Formatter, OutputSpec } from './formatter.ts';
import { applicationValue, bySize, INEXACT_CODE, INEXACT_MESSAGE } from './interpretation.ts';
import { writeFloat32, writeFloat64, writeWhole } from './number.ts';

const ROW = fragment('"row":');
const TRUE = fragment(',"prediction":true,"probability":');
const FALSE = fragment(',"prediction":false,"probability":');
const PROBABILITIES = fragment(',"probabilities":{');
const POINTS = fragment(',"points":');
const VALUE = fragment(',"value":');

/** The passthrough column that stands for all keys outside the model: its text is a fragment of JSON members. */
const EVERYTHING = `${JSON.stringify('*')}:`;

/** Keys of a prediction; a passthrough column of the same name would hide one of them. */
export const ANSWER_KEYS = [
  'row',
  'prediction',
  'probability',
  'probabilities',
  'points',
  'decision',
  'value',
  'error',
  'interpretation',
];

export class JsonFormatter implements Formatter {
  readonly #spec: OutputSpec;
  readonly #interpreter: Interpreter;
  readonly #keys: readonly string[];
  readonly #classes: readonly string[];
  /** Per class: how an answer that predicts it begins, and its key among the probabilities. */
  readonly #predictions: readonly Fragment[];
  readonly #classKeys: readonly Fragment[];
  /** Per decision. */
  readonly #decisions: ReadonlyMap<string, Fragment>;
  readonly #lines: boolean;
  readonly #columns: readonly ColumnSpec[];
  /** `{"column":…,"value":` of each column. */
  readonly #effectHeads: readonly string[];

  constructor(spec: OutputSpec, interpreter: Interpreter, columns: readonly ColumnSpec[]) {
    this.#spec = spec;
    this.#interpreter = interpreter;
    this.#keys = spec.passthrough.map((n) => `${JSON.stringify(n)}:`);
    this.#classes = interpreter.classes.map((c) => JSON.stringify(c));
    this.#predictions = this.#classes.map((c) => fragment(`,"prediction":${c},"probability":`));
    this.#classKeys = interpreter.classes.map((c, i) => fragment(`${i > 0 ? ',' : ''}${JSON.stringify(String(c))}:`));
    this.#decisions = new Map(interpreter.decisions.map((d) => [d, fragment(`,"decision":${JSON.stringify(d)}`)]));
    this.#lines = spec.format === 'ndjson';
    this.#columns = columns;
    this.#effectHeads = columns.map((c) => `{"column":${JSON.stringify(c.name)},"value":`);
  }

  write(
    out: ByteWriter,
    batch: ColumnBatch,
    scores: Scores | null,
    firstRow: number,
    interpretation: BatchInterpretation | null,
  ): void {
    let next = 0;
    for (let r = 0; r < batch.rows; r++) {
      if (!this.#lines && out.length > 0) out.byte(44);
      out.byte(123);
      for (let p = 0; p < this.#keys.length; p++)
        this.#passthrough(out, this.#keys[p]!, batch.passthrough[p]![r] ?? null);
      out.fragment(ROW);
      out.unsigned(firstRow + r);
      if (batch.rejected[r] === 1 || !scores) out.utf8(errorOf(batch.rejections[next++]!));
      else {
        this.#answer(out, scores, r);
        if (interpretation) this.#interpretation(out, batch, scores, r, interpretation);
      }
      out.byte(125);
      if (this.#lines) out.byte(10);
    }
  }

  #passthrough(out: ByteWriter, key: string, token: string | null): void {
    if (token === null && this.#spec.passthroughIsJson) return;
    if (key === EVERYTHING) {
      if (token !== '') out.utf8(`${token},`);
      return;
    }
    out.utf8(`${key}${token === null ? 'null' : this.#spec.passthroughIsJson ? token : JSON.stringify(token)},`);
  }

  #answer(out: ByteWriter, scores: Scores, r: number): void {
    const i = this.#interpreter;
    const number = scores.values instanceof Float32Array ? writeFloat32 : writeFloat64;
    if (i.task === 'binary') {
      const p = i.probability(scores, r);
      out.fragment(p > 0.5 ? TRUE : FALSE);
      number(out, p);
      if (i.hasPoints) {
        out.fragment(POINTS);
        writeWhole(out, i.points(p));
      }
      if (i.hasDecisions) out.fragment(this.#decisions.get(i.decision(p))!);
    } else if (i.task === 'multiclass') {
      const { values, width } = scores;
      const top = i.top(scores, r);
      out.fragment(this.#predictions[top]!);
      number(out, values[r * width + top]!);
      out.fragment(PROBABILITIES);
      for (let c = 0; c < width; c++) {
        out.fragment(this.#classKeys[c]!);
        number(out, values[r * width + c]!);
      }
      out.byte(125);
    } else {
      out.fragment(VALUE);
      number(out, scores.values[r]!);
    }
  }

  #interpretation(out: ByteWriter, batch: ColumnBatch, scores: Scores, r: number, x: BatchInterpretation): void {
    const at = x.at[r]!;
    if (at === INEXACT) {
      out.ascii(`,"interpretation":{"error":{"code":"${INEXACT_CODE}","message":"${INEXACT_MESSAGE}"}}`);
      return;
    }
    if (at < 0) return;
    const { outputs, space, method } = x.explainer;
    // Of several classes, what is told first is about the one predicted.
    const top = outputs > 1 ? this.#interpreter.top(scores, r) : 0;
    out.ascii(`,"interpretation":{"space":"${space}","method":"${method}"`);
    if (outputs > 1) out.utf8(`,"class":${this.#classes[top]}`);
    this.#effects(out, batch, r, x, at, top);
    if (outputs > 1) {
      out.ascii(',"classes":[');
      for (let o = 0; o < outputs; o++) {
        out.utf8(`${o > 0 ? ',' : ''}{"class":${this.#classes[o]}`);
        this.#effects(out, batch, r, x, at, o);
        out.byte(125);
      }
      out.byte(93);
    }
    if (x.errors) {
      out.ascii(',"standard_error":');
      writeFloat64(out, x.errors[at]!);
    }
    if (x.spec.reasons) out.utf8(`,"reasons":${JSON.stringify(x.reasons[at] ?? [])}`);
    out.byte(125);
  }

  #effects(out: ByteWriter, batch: ColumnBatch, r: number, x: BatchInterpretation, at: number, output: number): void {
    if (!x.spec.effects) return;
    const columns = this.#columns.length;
    const from = (at * x.explainer.outputs + output) * columns;
    out.ascii(',"base":');
    writeFloat64(out, x.explainer.base[output]!);
    out.ascii(',"effects":[');
    bySize(x, from, columns).forEach((c, k) => {
      if (k > 0) out.byte(44);
      out.utf8(this.#effectHeads[c]!);
      out.utf8(JSON.stringify(applicationValue(this.#columns[c]!, batch.columns[c]!, r)));
      out.ascii(',"effect":');
      writeFloat64(out, x.effects[from + c]!);
      out.byte(125);
    });
    out.byte(93);
  }
}

function errorOf(e: Rejection): string {
  const column = e.column === null ? '' : `,"column":${JSON.stringify(e.column)}`;
  return `,"error":{"code":"${e.code}"${column},"message":${JSON.stringify(e.message)}}`;
}
