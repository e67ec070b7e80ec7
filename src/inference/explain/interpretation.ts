// The interpretation of a micro-batch: requested effects, which are checked against the model, and reason codes with
// their texts.

import type { ColumnBatch } from '../../core/batch.ts';
import { ownValue } from '../../core/own-keys.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';
import { Interpreter } from '../evaluate/prediction.ts';
import type { ChosenExplainer } from './choose-explainer.ts';
import {
  type Effects,
  type Explainer,
  FAILED,
  INEXACT,
  NOT_ASKED,
  noInteractions,
  type OnExplained,
} from './explainer.ts';
import { type Answerer, Hybrids, modelAnswers, rowByRow } from './hybrids.ts';
import { ANSWER_TOLERANCE, answersOf, applyLink, distance } from './link.ts';
import { type Place, placesOf } from './scored-background.ts';
import { type StrongestPairs, strongestPairs } from './strongest-pairs.ts';

/** The interpretation that a stream requests. */
export interface InterpretationSpec {
  /** Whether the prediction includes the effects of columns. */
  effects: boolean;
  /** Number of largest effects to include; null for all. */
  top: number | null;
  /** Whether the prediction includes reason codes. Binary models only. */
  reasons: boolean;
  /** Interpret only rows with a probability (or value) below this limit; null for all rows. */
  below: number | null;
  /**
   * Maximum number of model evaluations per row. Applies in addition to the package's limit; absent or null for only
   * the package's limit.
   */
  maxEvaluations?: number | null;
  /** Number of strongest pairwise interactions to include. If absent, none are included. */
  interactions?: number;
}

interface Reason {
  code: string;
  column: string;
  text: string;
}

export interface BatchInterpretation {
  readonly explainer: Pick<Explainer, 'method' | 'space' | 'outputs' | 'base'>;
  readonly spec: InterpretationSpec;
  /** For each row of the batch: its position in `effects`, or NOT_ASKED, INEXACT or FAILED. */
  readonly at: Int32Array;
  /** Row-major: positions × outputs × columns. */
  readonly effects: Float64Array;
  /** Standard errors, by position; null if the method is exact. */
  readonly errors: Float64Array | null;
  /** Reason codes, by position; empty if not requested. */
  readonly reasons: readonly (readonly Reason[])[];
  /** The strongest interactions, by position and output; null if not requested. */
  readonly pairs: StrongestPairs | null;
  readonly explained: number;
  /** Number of rows whose requested interpretation is missing. */
  readonly inexact: number;
  /** Number of rows that the model scored for the effects. */
  readonly evaluations: number;
}

const DEFAULT_REASONS = 4;
/** Number of candidates in addition to the requested number of reason codes, because some candidates fail the check. */
const SPARE = 4;

export class Interpretations {
  readonly #chosen: ChosenExplainer;
  readonly #manifest: Manifest;
  readonly #interpreter: Interpreter;
  readonly #places: readonly (readonly Place[])[];
  readonly #typical: TypicalRow;
  readonly #hybrids: Hybrids;
  /**
   * Computes margins of mixed rows. Needed where a probability is so close to 0 or 1 that the prediction does not
   * change. Null if the method has no margins.
   */
  readonly #margins: Hybrids | null;

  constructor(
    chosen: ChosenExplainer,
    manifest: Manifest,
    evaluator: Evaluator,
    background: { inputs: readonly EncodedInput[]; rows: number },
  ) {
    this.#chosen = chosen;
    this.#manifest = manifest;
    this.#interpreter = new Interpreter(manifest);
    this.#places = placesOf(manifest.columns, manifest.inputs);
    this.#typical = new TypicalRow(background, this.#places, manifest.columns);
    const { inputs } = background;
    const { explainer } = chosen;
    this.#hybrids = new Hybrids(modelAnswers(evaluator, this.#interpreter), explainer.outputs, this.#places, inputs);
    const inMargins = explainer.space === 'log_odds' && explainer.questions === 0;
    this.#margins = inMargins ? new Hybrids(marginsOfRows(explainer), explainer.outputs, this.#places, inputs) : null;
  }

  /**
   * The explainer for a stream's request. @throws SluiceError interpretation_over_budget | interpretation_unavailable
   */
  within({ maxEvaluations, interactions }: InterpretationSpec): Explainer {
    const explainer = this.#chosen.within(maxEvaluations ?? null);
    if (interactions && !explainer.interactions) throw noInteractions(this.#manifest, explainer.method);
    return explainer;
  }

  /** Interprets a batch. `scores` must be a copy, because the model is evaluated again. */
  async of(
    batch: ColumnBatch,
    inputs: readonly EncodedInput[],
    scores: Scores,
    spec: InterpretationSpec,
    onExplained?: OnExplained,
  ): Promise<BatchInterpretation> {
    const explainer = this.within(spec);
    const rows = selectedRows(batch, scores, spec, this.#interpreter);
    const at = new Int32Array(batch.rows).fill(NOT_ASKED);
    for (const [i, r] of rows.entries()) at[r] = i;
    if (rows.length === 0) return noneExplained(explainer, spec, at);
    const wantsReasons = spec.reasons && this.#interpreter.task === 'binary';
    const explained = await explainer.explain(inputs, rows, onExplained);
    // Computing reason codes may call the explainer again, which overwrites its previous result.
    const { values, margins, errors, evaluations } =
      wantsReasons && this.#margins ? copyOf(explained, rows.length, explainer) : explained;
    let inexact = 0;
    for (const [i, r] of rows.entries()) {
      if (this.#addsUp(explainer, scores, r, { values, margins }, i)) continue;
      at[r] = INEXACT;
      inexact++;
    }
    const most = spec.interactions ?? 0;
    const asked = { explainer, inputs, rows, columns: this.#places.length, most };
    const pairs = most > 0 ? await strongestPairs(asked, onExplained) : null;
    const reasons = wantsReasons ? await this.#reasons(inputs, scores, rows, at, { values, margins }) : [];
    return {
      explainer,
      spec,
      at,
      effects: values,
      errors,
      reasons,
      pairs,
      explained: rows.length - inexact,
      inexact,
      evaluations,
    };
  }

  /** Whether base and effects add up to the sum inside the model, and this sum leads to the model's output. */
  #addsUp(
    { outputs, base, space }: Explainer,
    scores: Scores,
    r: number,
    { values, margins }: Pick<Effects, 'values' | 'margins'>,
    i: number,
  ): boolean {
    const columns = this.#places.length;
    const totals = new Float64Array(outputs);
    for (let o = 0; o < outputs; o++) {
      let sum = base[o]!;
      const from = (i * outputs + o) * columns;
      for (let c = 0; c < columns; c++) sum += values[from + c]!;
      const margin = margins[i * outputs + o]!;
      if (!(Math.abs(sum - margin) <= 1e-9 * Math.max(1, Math.abs(margin)))) return false;
      totals[o] = sum;
    }
    const want = new Float64Array(outputs);
    answersOf(this.#interpreter, scores, r, want);
    const got = new Float64Array(outputs);
    const kind = space !== 'log_odds' ? 'identity' : outputs === 1 ? 'logistic' : 'softmax';
    applyLink(kind, totals, 0, outputs, got);
    return distance(got, want) <= ANSWER_TOLERANCE;
  }

  /**
   * The columns that lowered the score most. Only columns whose typical value really raises the prediction are
   * included; if the prediction is at its limit, the margin is compared instead. Columns with equal effects keep their
   * order.
   */
  async #reasons(
    inputs: readonly EncodedInput[],
    scores: Scores,
    rows: readonly number[],
    at: Int32Array,
    { values, margins }: Pick<Effects, 'values' | 'margins'>,
  ): Promise<Reason[][]> {
    const { columns, reasons: named } = this.#manifest;
    const max = this.#manifest.reasons_max ?? DEFAULT_REASONS;
    const n = columns.length;
    const candidates = rows.map((r, i) => {
      if (at[r]! < 0) return [];
      const effects = values.subarray(i * n, (i + 1) * n);
      return columns
        .map((_, c) => c)
        .filter((c) => effects[c]! < 0 && ownValue(named, columns[c]!.name) !== 'none')
        .sort((a, b) => effects[a]! - effects[b]! || a - b)
        .slice(0, max + SPARE);
    });
    const holds = candidates.map((list) => list.map(() => false));
    const asked = candidates.flatMap((list, i) => list.map((column, k) => ({ i, k, column })));
    const answers = await this.#withTypical(this.#hybrids, inputs, rows, asked);
    const still = asked.filter(({ i, k }, n) => {
      const own = this.#interpreter.probability(scores, rows[i]!);
      holds[i]![k] = answers[n]! > own;
      return answers[n] === own;
    });
    if (this.#margins && still.length > 0) {
      const moved = await this.#withTypical(this.#margins, inputs, rows, still);
      for (const [n, { i, k }] of still.entries()) holds[i]![k] = moved[n]! > margins[i]!;
    }
    return candidates.map((list, i) =>
      list
        .filter((_, k) => holds[i]![k])
        .slice(0, max)
        .map((c) => {
          const { name } = columns[c]!;
          const known = ownValue(named, name);
          return typeof known === 'object'
            ? { code: known.code, column: name, text: known.text }
            : { code: name, column: name, text: name };
        }),
    );
  }

  /** The prediction for each row if one column is set to its typical value. */
  async #withTypical(
    hybrids: Hybrids,
    inputs: readonly EncodedInput[],
    rows: readonly number[],
    asked: readonly { i: number; column: number }[],
  ): Promise<Float64Array> {
    const answers = new Float64Array(asked.length * hybrids.outputs);
    const make = (n: number, to: number): void => {
      const { i, column } = asked[n]!;
      hybrids.row(inputs, rows[i]!, to);
      hybrids.column(column, this.#typical.inputs, this.#typical.of(column), to);
    };
    await hybrids.evaluate(asked.length, rowByRow(make), answers);
    return answers;
  }
}

/**
 * Indexes of the valid rows to interpret. Except for multiclass models, `below` excludes rows whose score is not below
 * this limit.
 */
function selectedRows(
  batch: ColumnBatch,
  scores: Scores,
  { below }: InterpretationSpec,
  interpreter: Interpreter,
): number[] {
  const rows: number[] = [];
  const { task, classes } = interpreter;
  const answer = new Float64Array(task === 'multiclass' ? classes.length : 1);
  for (let r = 0; r < batch.rows; r++) {
    if (batch.rejected[r] === 1) continue;
    if (below !== null) {
      answersOf(interpreter, scores, r, answer);
      if (!(answer[0]! < below) && task !== 'multiclass') continue;
    }
    rows.push(r);
  }
  return rows;
}

const noneExplained = (
  explainer: BatchInterpretation['explainer'],
  spec: InterpretationSpec,
  at: Int32Array,
  inexact = 0,
): BatchInterpretation => ({
  explainer,
  spec,
  at,
  effects: new Float64Array(0),
  errors: null,
  reasons: [],
  pairs: null,
  explained: 0,
  inexact,
  evaluations: 0,
});

/**
 * The interpretation of a batch that could not be interpreted. The rows keep their predictions; no explainer is opened.
 */
export function failedInterpretation(
  batch: ColumnBatch,
  scores: Scores,
  spec: InterpretationSpec,
  interpreter: Interpreter,
): BatchInterpretation {
  const rows = selectedRows(batch, scores, spec, interpreter);
  const at = new Int32Array(batch.rows).fill(NOT_ASKED);
  for (const r of rows) at[r] = FAILED;
  const none = { method: 'exact', space: 'probability', outputs: 1, base: new Float64Array(1) } as const;
  return noneExplained(none, spec, at, rows.length);
}

/** Creates an Answerer that returns the margins: the sums inside the model, before they become predictions. */
const marginsOfRows =
  (explainer: Explainer): Answerer =>
  async (inputs, n) => {
    const all = () => Array.from({ length: n }, (_, r) => r);
    const margins = explainer.margins?.(inputs, n) ?? (await explainer.explain(inputs, all())).margins;
    return (r, out) => out.set(margins.subarray(r * out.length, (r + 1) * out.length));
  };

function copyOf({ values, margins, errors, evaluations }: Effects, rows: number, { outputs }: Explainer): Effects {
  const columns = values.length / margins.length;
  return {
    values: values.slice(0, rows * outputs * columns),
    margins: margins.slice(0, rows * outputs),
    errors,
    evaluations,
  };
}

/**
 * For each column, a background row that has the column's typical value: the median of numbers, the most frequent one
 * of other values. A single row provides the whole value of a column, because parts from different rows could form a
 * value that never occurs.
 */
class TypicalRow {
  readonly inputs: readonly EncodedInput[];
  readonly #rows: readonly number[];

  constructor(
    background: { inputs: readonly EncodedInput[]; rows: number },
    places: readonly (readonly Place[])[],
    columns: Manifest['columns'],
  ) {
    this.inputs = background.inputs;
    const isNumber = (c: number) => columns[c]!.kind === 'number';
    this.#rows = places.map((list, c) => (list.length === 0 ? 0 : typicalOf(background, list, isNumber(c))));
  }

  /** The background row with the typical value of `column`. */
  of(column: number): number {
    return this.#rows[column]!;
  }
}

/**
 * The background row whose value at these places is typical of the column. The kind of the column decides, not the
 * encoded value: the median of category codes would have no meaning.
 */
export function typicalOf(
  { inputs, rows }: { inputs: readonly EncodedInput[]; rows: number },
  places: readonly Place[],
  isNumber: boolean,
): number {
  const cellsOf = (row: number) => places.map(({ input, at }) => inputs[input]!.data[row * inputs[input]!.width + at]!);
  const all = Array.from({ length: rows }, (_, r) => cellsOf(r));
  const first = new Map<string, { row: number; count: number }>();
  for (const [row, cells] of all.entries()) {
    const known = first.get(cells.join('\0'));
    if (known) known.count++;
    else first.set(cells.join('\0'), { row, count: 1 });
  }
  const missing = (cell: unknown): boolean => typeof cell === 'number' && Number.isNaN(cell);
  const numbers = all.flatMap(([cell], row) => (typeof cell === 'number' && !missing(cell) ? [{ cell, row }] : []));
  // If most rows have no value, missing is the typical value.
  if (isNumber && numbers.length * 2 > rows) {
    return numbers.sort((a, b) => a.cell - b.cell || a.row - b.row)[(numbers.length - 1) >> 1]!.row;
  }
  return [...first.values()].reduce((best, one) => (one.count > best.count ? one : best)).row;
}

/** Columns for which the lender has defined no reason. A letter to the applicant would show the name of the column. */
export function unmappedReasons(manifest: Manifest): string[] {
  if (manifest.task !== 'binary' || !manifest.reasons) return [];
  return manifest.columns.map((c) => c.name).filter((n) => manifest.reasons![n] === undefined);
}
