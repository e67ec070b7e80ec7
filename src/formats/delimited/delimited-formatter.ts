// Writes predictions as CSV or TSV rows: passthrough columns, the prediction, then the error columns.
import type { ColumnBatch, Rejection } from '../../core/batch.ts';
import type { Scores } from '../../inference/evaluate/evaluator.ts';
import type { Interpreter } from '../../inference/evaluate/prediction.ts';
import { pairsTold } from '../../inference/explain/explainer.ts';
import type { BatchInterpretation } from '../../inference/explain/interpretation.ts';
import type { ColumnSpec } from '../../model/package/manifest.ts';
import { ANSWER_KERNEL_AFTER, PlainAnswers } from '../write/answer-kernel.ts';
import { type ByteWriter, type Fragment, fragment } from '../write/byte-writer.ts';
import type { Formatter, OutputSpec } from '../write/formatter.ts';
import { writeFloat32, writeFloat64, writeWhole } from '../write/number.ts';
import {
  answerColumns,
  bySize,
  interpretationColumns,
  interpretationFault,
  predictionColumns,
  textOfToken,
} from '../write/prediction-fields.ts';

/**
 * Spreadsheet programs interpret a cell that begins with these characters as a formula, unless it is a plain number.
 */
const FORMULA = /^[=+\-@\t\r]/;
const PLAIN_NUMBER = /^[+-]?\d+(\.\d+)?([eE][+-]?\d+)?$/;

const inQuotes = (text: string): string => `"${text.replaceAll('"', '""')}"`;

/** Formats text as a CSV field, quoted if RFC 4180 requires it. */
export function quoteField(text: string, delimiter: string): string {
  return text.includes(delimiter) || /["\r\n]/.test(text) ? inQuotes(text) : text;
}

/** Like `quoteField`, for untrusted text: an apostrophe in front of the text prevents its evaluation as a formula. */
export function neutralField(text: string, delimiter: string): string {
  return quoteField(FORMULA.test(text) && !PLAIN_NUMBER.test(text) ? `'${text}` : text, delimiter);
}

/** Reverses `neutralField`, given its result without quotes. */
export function plainField(field: string): string {
  const text = field.startsWith("'") ? field.slice(1) : field;
  return FORMULA.test(text) && !PLAIN_NUMBER.test(text) ? text : field;
}

export class DelimitedFormatter implements Formatter {
  readonly #spec: OutputSpec;
  readonly #interpreter: Interpreter;
  readonly #delimiter: number;
  readonly #columns: readonly ColumnSpec[];
  /** Column names as fields. */
  readonly #names: readonly string[];
  /** `true` and `false` with delimiters around them. `#classes`, `#decisions`: their texts as fields. */
  readonly #true: Fragment;
  readonly #false: Fragment;
  readonly #classes: readonly Fragment[];
  readonly #decisions: ReadonlyMap<string, Fragment>;
  /** The text that follows the prediction in a row without interpretation. */
  readonly #end: Fragment;
  /** The empty fields between `row` and the error columns in a rejected row. */
  readonly #gap: string;

  readonly #plainAnswers: PlainAnswers | null;
  /** Formats an untrusted text as a field. */
  readonly #field: (text: string, delimiter: string) => string;

  /** `kernelAfter`: number of rows after which the kernel is used. */
  constructor(
    spec: OutputSpec,
    interpreter: Interpreter,
    columns: readonly ColumnSpec[],
    kernelAfter = ANSWER_KERNEL_AFTER,
  ) {
    this.#spec = spec;
    this.#interpreter = interpreter;
    this.#delimiter = spec.delimiter.charCodeAt(0);
    this.#columns = columns;
    const d = spec.delimiter;
    const pieces = { beforeRow: '', whenTrue: `${d}true${d}`, whenFalse: `${d}false${d}`, end: `${d.repeat(3)}\n` };
    this.#true = fragment(pieces.whenTrue);
    this.#false = fragment(pieces.whenFalse);
    const plain = spec.passthrough.length === 0 && spec.interpretation === null;
    this.#plainAnswers = plain ? PlainAnswers.of(pieces, interpreter, kernelAfter) : null;
    this.#field = spec.copy === true ? quoteField : neutralField;
    this.#names = columns.map(({ name }) => this.#field(name, d));
    this.#classes = interpreter.classes.map((c) => fragment(`${d}${this.#field(String(c), d)}${d}`));
    this.#decisions = new Map(interpreter.decisions.map((name) => [name, fragment(quoteField(name, d))]));
    this.#end = fragment(pieces.end);
    const between = answerColumns(interpreter).length;
    this.#gap = spec.delimiter.repeat(between + 1);
  }

  static header(spec: OutputSpec, i: Interpreter, columns: readonly ColumnSpec[]): string {
    const names = [...spec.passthrough, ...predictionColumns(i, spec.interpretation, columns).map((c) => c.name)].map(
      (n) => neutralField(n, spec.delimiter),
    );
    return `${names.join(spec.delimiter)}\n`;
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
      if (kernel) r = kernel.write(out, r);
      if (r === batch.rows) break;
      for (const texts of batch.passthrough) this.#passthrough(out, texts[r] ?? null);
      out.unsigned(firstRow + r);
      if (batch.rejected[r] === 1 || !scores) this.#error(out, batch.rejections[next++]!);
      else {
        this.#answer(out, scores, r);
        if (this.#spec.interpretation) this.#after(out, interpretation, r, scores);
        else out.fragment(this.#end);
      }
    }
  }

  #passthrough(out: ByteWriter, token: string | null): void {
    const isJson = this.#spec.passthroughIsJson;
    const text = isJson ? textOfToken(token) : token;
    if (text !== null) {
      out.utf8(this.#spec.copy === true ? inQuotes(text) : neutralField(text, this.#spec.delimiter));
    }
    out.byte(this.#delimiter);
  }

  #error(out: ByteWriter, e: Rejection): void {
    const d = this.#spec.delimiter;
    out.ascii(this.#gap);
    out.utf8(`${e.code}${d}${this.#field(e.column ?? '', d)}${d}${quoteField(e.message, d)}`);
    const { interpretation } = this.#spec;
    const after = interpretationColumns(interpretation, this.#columns).length;
    out.ascii(`${d.repeat(after)}\n`);
  }

  #answer(out: ByteWriter, scores: Scores, r: number): void {
    const i = this.#interpreter;
    const d = this.#delimiter;
    const number = scores.values instanceof Float32Array ? writeFloat32 : writeFloat64;
    if (i.task === 'binary') {
      const p = i.probability(scores, r);
      out.fragment(p > 0.5 ? this.#true : this.#false);
      number(out, p);
      if (i.hasPoints) {
        out.byte(d);
        writeWhole(out, i.points(p));
      }
      if (i.hasDecisions) {
        out.byte(d);
        out.fragment(this.#decisions.get(i.decision(p, scores))!);
      }
    } else if (i.task === 'multiclass') {
      const top = i.top(scores, r);
      out.fragment(this.#classes[top]!);
      number(out, scores.values[r * scores.width + top]!);
      for (let c = 0; c < scores.width; c++) {
        out.byte(d);
        number(out, scores.values[r * scores.width + c]!);
      }
    } else {
      out.byte(d);
      number(out, scores.values[r]!);
    }
  }

  /** Writes the error columns of a scored row, and its interpretation. */
  #after(out: ByteWriter, x: BatchInterpretation | null, r: number, scores: Scores): void {
    const d = this.#delimiter;
    const at = x?.at[r] ?? -1;
    out.byte(d);
    const fault = interpretationFault(at);
    if (fault) {
      out.ascii(fault.code);
      out.byte(d);
      out.byte(d);
      out.ascii(fault.message);
    } else for (let k = 0; k < 2; k++) out.byte(d);
    const spec = this.#spec.interpretation;
    if (spec?.effects) {
      const columns = this.#columns.length;
      const output = x && x.explainer.outputs > 1 ? this.#interpreter.top(scores, r) : 0;
      const from = x ? (at * x.explainer.outputs + output) * columns : 0;
      const shown = x && at >= 0 && spec.top !== null ? new Set(bySize(x, from, columns)) : null;
      out.byte(d);
      if (x && at >= 0) writeFloat64(out, x.explainer.base[output]!);
      for (let c = 0; c < columns; c++) {
        out.byte(d);
        if (x && at >= 0 && (shown === null || shown.has(c))) writeFloat64(out, x.effects[from + c]!);
      }
    }
    if (spec?.reasons) {
      out.byte(d);
      const codes = at >= 0 ? (x?.reasons[at] ?? []).map((reason) => reason.code).join(';') : '';
      out.utf8(this.#field(codes, this.#spec.delimiter));
    }
    if (spec?.interactions) this.#interactions(out, x, at, r, scores);
    out.byte(10);
  }

  /** Writes the interactions of the row by rank. Fields without an interaction stay empty. */
  #interactions(out: ByteWriter, x: BatchInterpretation | null, at: number, r: number, scores: Scores): void {
    const ranks = pairsTold(this.#spec.interpretation?.interactions, this.#columns.length);
    const pairs = at >= 0 ? (x?.pairs ?? null) : null;
    const output = x && x.explainer.outputs > 1 ? this.#interpreter.top(scores, r) : 0;
    const of = x ? at * x.explainer.outputs + output : 0;
    for (let k = 0; k < ranks; k++) {
      const from = pairs && k < pairs.counts[of]! ? of * pairs.most + k : -1;
      for (const columns of [pairs?.first, pairs?.second]) {
        out.byte(this.#delimiter);
        if (columns && from >= 0) out.utf8(this.#names[columns[from]!]!);
      }
      out.byte(this.#delimiter);
      if (pairs && from >= 0) writeFloat64(out, pairs.effects[from]!);
    }
  }
}

/** A passthrough value as plain text; null: the row has no value, or the value could not be read. */
export function passthroughText(batch: ColumnBatch, column: number, row: number, isJson: boolean): string | null {
  const token = batch.passthrough[column]?.[row] ?? null;
  return isJson ? textOfToken(token) : token;
}
