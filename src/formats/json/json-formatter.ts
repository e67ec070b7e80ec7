// Writes predictions as JSON objects: comma-separated inside a response array, or one per line (NDJSON).
import type { ColumnBatch, Rejection } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { Interpreter } from '../../inference/evaluate/prediction.ts';
import type { BatchInterpretation } from '../../inference/explain/interpretation.ts';
import type { ColumnSpec, Manifest } from '../../model/package/manifest.ts';
import { ANSWER_KERNEL_AFTER, PlainAnswers } from '../write/answer-kernel.ts';
import { type ByteWriter, type Fragment, fragment } from '../write/byte-writer.ts';
import type { Formatter, OutputSpec } from '../write/formatter.ts';
import { writeFloat32, writeFloat64, writeWhole } from '../write/number.ts';
import { applicationValue, bySize, interpretationFault, textOfToken } from '../write/prediction-fields.ts';

const ROW = fragment('"row":');
const TRUE_TEXT = ',"prediction":true,"probability":';
const FALSE_TEXT = ',"prediction":false,"probability":';
const TRUE = fragment(TRUE_TEXT);
const FALSE = fragment(FALSE_TEXT);
const PROBABILITIES = fragment(',"probabilities":{');
const POINTS = fragment(',"points":');
const VALUE = fragment(',"value":');

/** The passthrough column that contains all keys outside the model, as a fragment of JSON members. */
const EVERYTHING = '*';

export class JsonFormatter implements Formatter {
  readonly #spec: OutputSpec;
  readonly #interpreter: Interpreter;
  /** `{"modelId":…,"modelVersion":…`, with which each prediction starts if predictions are independent records. */
  readonly #head: Fragment | null;
  readonly #keys: readonly string[];
  readonly #classes: readonly string[];
  /** For each class: the start of a prediction of this class. `#classKeys`: its key among the probabilities. */
  readonly #predictions: readonly Fragment[];
  readonly #classKeys: readonly Fragment[];
  /** The JSON member for each decision. */
  readonly #decisions: ReadonlyMap<string, Fragment>;
  readonly #lines: boolean;
  readonly #columns: readonly ColumnSpec[];
  /** The text `{"column":…,"value":` for each column. */
  readonly #effectHeads: readonly string[];

  readonly #plainAnswers: PlainAnswers | null;

  /** `kernelAfter`: number of rows after which the kernel is used. */
  constructor(
    spec: OutputSpec,
    interpreter: Interpreter,
    { id, version, columns }: Manifest,
    kernelAfter = ANSWER_KERNEL_AFTER,
  ) {
    this.#spec = spec;
    this.#interpreter = interpreter;
    this.#head = spec.identity === 'model' ? fragment(`{${modelKeys({ id, version })}`) : null;
    this.#keys = spec.passthrough.map((n) => (n === EVERYTHING ? n : `${JSON.stringify(n)}:`));
    this.#classes = interpreter.classes.map((c) => JSON.stringify(c));
    this.#predictions = this.#classes.map((c) => fragment(`,"prediction":${c},"probability":`));
    this.#classKeys = interpreter.classes.map((c, i) => fragment(`${i > 0 ? ',' : ''}${JSON.stringify(String(c))}:`));
    this.#decisions = new Map(interpreter.decisions.map((d) => [d, fragment(`,"decision":${JSON.stringify(d)}`)]));
    this.#lines = spec.format === 'ndjson';
    this.#columns = columns;
    const plain = this.#head === null && spec.passthrough.length === 0 && spec.interpretation === null;
    const [before, end] = this.#lines ? ['{"row":', '}\n'] : [',{"row":', '}'];
    const pieces = { beforeRow: before, whenTrue: TRUE_TEXT, whenFalse: FALSE_TEXT, end };
    this.#plainAnswers = plain ? PlainAnswers.of(pieces, interpreter, kernelAfter) : null;
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
    const kernel = this.#plainAnswers?.begin(batch, scores, firstRow) ? this.#plainAnswers : null;
    for (let r = 0; r < batch.rows; r++) {
      // The first object of an array has no preceding comma, so the kernel cannot write it.
      if (kernel && (this.#lines || out.length > 0)) r = kernel.write(out, r);
      if (r === batch.rows) break;
      if (!this.#lines && out.length > 0) out.byte(44);
      const scored = batch.rejected[r] !== 1 && scores !== null;
      if (this.#head) {
        out.fragment(this.#head);
        this.#passthrough(out, batch, r, ',', '');
      } else {
        out.byte(123);
        this.#passthrough(out, batch, r, '', ',');
        out.fragment(ROW);
        out.unsigned(firstRow + r);
      }
      if (!scored) out.utf8(`,"error":${errorOf(batch.rejections[next++]!)}`);
      else {
        this.#answer(out, scores, r);
        if (interpretation) this.#interpretation(out, batch, scores, r, interpretation);
      }
      out.byte(125);
      if (this.#lines) out.byte(10);
    }
  }

  /** Writes the members of the row's passthrough columns, each between `before` and `after`. */
  #passthrough(out: ByteWriter, batch: ColumnBatch, r: number, before: string, after: string): void {
    const isJson = this.#spec.passthroughIsJson;
    for (let p = 0; p < this.#keys.length; p++) {
      const key = this.#keys[p]!;
      const given = batch.passthrough[p]![r] ?? null;
      if (given === null && isJson) continue;
      const token = this.#token(given);
      if (key !== EVERYTHING) out.utf8(`${before}${key}${token}${after}`);
      else if (token !== '') out.utf8(`${before}${token}${after}`);
    }
  }

  #token(given: string | null): string {
    const { passthroughIsJson, cells } = this.#spec;
    if (given === null || !passthroughIsJson) return JSON.stringify(given);
    if (cells) return JSON.stringify(textOfToken(given));
    return this.#lines ? onOneLine(given) : given;
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
      if (i.hasDecisions) out.fragment(this.#decisions.get(i.decision(p, scores))!);
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
    const fault = interpretationFault(at);
    if (fault) {
      out.ascii(`,"interpretation":{"error":{"code":"${fault.code}","message":"${fault.message}"}}`);
      return;
    }
    if (at < 0) return;
    const { outputs, space, method } = x.explainer;
    // If there are several classes, the interpretation of the predicted class comes first.
    const top = outputs > 1 ? this.#interpreter.top(scores, r) : 0;
    out.ascii(`,"interpretation":{"space":"${space}","method":"${method}"`);
    if (outputs > 1) out.utf8(`,"class":${this.#classes[top]}`);
    this.#effects(out, batch, r, x, at, top);
    if (outputs > 1) {
      out.ascii(',"classes":[');
      for (let o = 0; o < outputs; o++) {
        out.utf8(`${o > 0 ? ',' : ''}{"class":${this.#classes[o]}`);
        this.#effects(out, batch, r, x, at, o);
        this.#interactions(out, x, at, o);
        out.byte(125);
      }
      out.byte(93);
    }
    if (x.errors) {
      out.ascii(',"standard_error":');
      writeFloat64(out, x.errors[at]!);
    }
    if (x.spec.reasons) out.utf8(`,"reasons":${JSON.stringify(x.reasons[at] ?? [])}`);
    this.#interactions(out, x, at, top);
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

  #interactions(out: ByteWriter, { pairs, explainer }: BatchInterpretation, at: number, output: number): void {
    if (!pairs) return;
    const of = at * explainer.outputs + output;
    out.ascii(',"interactions":[');
    for (let k = 0; k < pairs.counts[of]!; k++) {
      const from = of * pairs.most + k;
      const names = [this.#columns[pairs.first[from]!]!.name, this.#columns[pairs.second[from]!]!.name];
      out.utf8(`${k > 0 ? ',' : ''}{"columns":${JSON.stringify(names)},"effect":`);
      writeFloat64(out, pairs.effects[from]!);
      out.byte(125);
    }
    out.byte(93);
  }
}

/** Replaces line breaks by spaces. In valid JSON, line breaks are only white space between tokens. */
const onOneLine = (json: string): string =>
  json.includes('\n') || json.includes('\r') ? json.replace(/[\r\n]+/g, ' ') : json;

/** JSON members with the model's ID and version. */
export const modelKeys = ({ id, version }: Pick<Manifest, 'id' | 'version'>): string =>
  `"modelId":${JSON.stringify(id)},"modelVersion":${JSON.stringify(String(version))}`;

/**
 * JSON for a rejected application that could not be read. It has the same members in the same order as the output of
 * `JsonFormatter`.
 */
export const rejectedJson = (model: Pick<Manifest, 'id' | 'version'>, error: Omit<Rejection, 'index'>): string =>
  `{${modelKeys(model)},"error":${errorOf(error)}}`;

function errorOf(e: Omit<Rejection, 'index'>): string {
  const column = e.column === null ? '' : `,"column":${JSON.stringify(e.column)}`;
  return `{"code":"${e.code}"${column},"message":${JSON.stringify(e.message)}}`;
}
