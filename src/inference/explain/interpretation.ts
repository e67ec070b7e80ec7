// The interpretation of a micro-batch: effects where they are wanted, checked against the model, with reasons in words.
import type { ColumnBatch } from '../../core/batch.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { type EncodedInput, type InputArray, paddedRows } from '../encode/encoder.ts';
import type { Evaluator, Scores } from '../evaluate/evaluator.ts';
import { Interpreter } from '../evaluate/prediction.ts';
import type { ChosenExplainer } from './choose-explainer.ts';
import { type Answerer, Hybrids, modelAnswers } from './coalitions.ts';
import { type Effects, type Explainer, INEXACT, NOT_ASKED } from './explainer.ts';
import { ANSWER_TOLERANCE, answersOf, applyLink, distance } from './link.ts';
import { type Place, placesOf } from './scored-background.ts';

/** What a stream asks for. */
export interface InterpretationSpec {
  /** Effects of the columns are part of the answer. */
  effects: boolean;
  /** Only so many, the largest; null: all. */
  top: number | null;
  /** Reasons are part of the answer (binary models). */
  reasons: boolean;
  /** Only rows whose probability (or value) is below this; null: all. */
  below: number | null;
}

export interface Reason {
  code: string;
  column: string;
  text: string;
}

export interface BatchInterpretation {
  readonly explainer: Explainer;
  readonly spec: InterpretationSpec;
  /** Per row of the batch: its position in `effects`, NOT_ASKED or INEXACT. */
  readonly at: Int32Array;
  /** Row-major: positions × outputs × columns. */
  readonly effects: Float64Array;
  /** Standard errors by position; null: exact. */
  readonly errors: Float64Array | null;
  /** Reasons by position; empty if none are asked for. */
  readonly reasons: readonly (readonly Reason[])[];
  readonly explained: number;
  readonly inexact: number;
}

const DEFAULT_REASONS = 4;
/** Candidates beyond the number of reasons wanted, because some fail the check. */
const SPARE = 4;

export class Interpretations {
  readonly explainer: Explainer;
  readonly #manifest: Manifest;
  readonly #interpreter: Interpreter;
  readonly #places: readonly (readonly Place[])[];
  readonly #hybrids: Hybrids;
  /** Asked where a probability is so near 0 or 1 that the model's answer does not move; null: there are no margins. */
  readonly #margins: Hybrids | null;

  constructor(
    chosen: ChosenExplainer,
    manifest: Manifest,
    evaluator: Evaluator,
    background: { inputs: readonly EncodedInput[]; rows: number },
  ) {
    this.explainer = chosen.explainer;
    this.#manifest = manifest;
    this.#interpreter = new Interpreter(manifest);
    this.#places = placesOf(manifest.columns, manifest.inputs);
    const typical = typicalRow(background);
    const { explainer } = chosen;
    this.#hybrids = new Hybrids(modelAnswers(evaluator, this.#interpreter), explainer.outputs, this.#places, typical);
    const inMargins = explainer.space === 'log_odds' && explainer.questions === 0;
    this.#margins = inMargins ? new Hybrids(marginsOfRows(explainer), explainer.outputs, this.#places, typical) : null;
  }

  /** `scores` must stay as they are while this runs: the model is asked again. */
  async of(
    batch: ColumnBatch,
    inputs: readonly EncodedInput[],
    scores: Scores,
    spec: InterpretationSpec,
  ): Promise<BatchInterpretation> {
    const at = new Int32Array(batch.rows).fill(NOT_ASKED);
    const rows: number[] = [];
    const answer = new Float64Array(this.explainer.outputs);
    for (let r = 0; r < batch.rows; r++) {
      if (batch.rejected[r] === 1) continue;
      if (spec.below !== null) {
        answersOf(this.#interpreter, scores, r, answer);
        if (!(answer[0]! < spec.below) && this.#interpreter.task !== 'multiclass') continue;
      }
      at[r] = rows.length;
      rows.push(r);
    }
    if (rows.length === 0) {
      return {
        explainer: this.explainer,
        spec,
        at,
        effects: new Float64Array(0),
        errors: null,
        reasons: [],
        explained: 0,
        inexact: 0,
      };
    }
    const wantsReasons = spec.reasons && this.#interpreter.task === 'binary';
    const explained = await this.explainer.explain(inputs, rows);
    // Reasons may ask the explainer once more, which overwrites what it gave.
    const { values, margins, errors } =
      wantsReasons && this.#margins ? copyOf(explained, rows.length, this.explainer) : explained;
    let inexact = 0;
    for (const [i, r] of rows.entries()) {
      if (this.#addsUp(scores, r, values, margins, i)) continue;
      at[r] = INEXACT;
      inexact++;
    }
    const reasons = wantsReasons ? await this.#reasons(inputs, scores, rows, at, { values, margins }) : [];
    return {
      explainer: this.explainer,
      spec,
      at,
      effects: values,
      errors,
      reasons,
      explained: rows.length - inexact,
      inexact,
    };
  }

  /** base + effects = the sum inside the model, and that sum is what the model answers. */
  #addsUp(scores: Scores, r: number, values: Float64Array, margins: Float64Array, i: number): boolean {
    const { outputs, base, space } = this.explainer;
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
   * The columns that pulled the score down most, and of these only those whose typical value really raises it: in the answer, or in
   * the margin where the answer is at its end. Equal effects stand in the order of the columns.
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
        .filter((c) => effects[c]! < 0 && named?.[columns[c]!.name] !== 'none')
        .sort((a, b) => effects[a]! - effects[b]! || a - b)
        .slice(0, max + SPARE);
    });
    const holds = candidates.map((list) => list.map(() => false));
    const still: [i: number, k: number, column: number][] = [];
    for (const [i, r] of rows.entries()) {
      const own = this.#interpreter.probability(scores, r);
      for (const [k, column] of candidates[i]!.entries()) {
        await this.#hybrids.ask(
          inputs,
          r,
          0,
          (c) => c !== column,
          (answer) => {
            holds[i]![k] = answer[0]! > own;
            if (answer[0] === own) still.push([i, k, column]);
          },
        );
      }
    }
    await this.#hybrids.flush();
    for (const [i, k, column] of this.#margins ? still : []) {
      await this.#margins!.ask(
        inputs,
        rows[i]!,
        0,
        (c) => c !== column,
        (margin) => {
          holds[i]![k] = margin[0]! > margins[i]!;
        },
      );
    }
    await this.#margins?.flush();
    return candidates.map((list, i) =>
      list
        .filter((_, k) => holds[i]![k])
        .slice(0, max)
        .map((c) => {
          const { name } = columns[c]!;
          const known = named?.[name];
          return typeof known === 'object'
            ? { code: known.code, column: name, text: known.text }
            : { code: name, column: name, text: name };
        }),
    );
  }
}

/** What the sums inside the model come to, before they are made an answer. */
const marginsOfRows =
  (explainer: Explainer): Answerer =>
  async (inputs, n) => {
    const { margins } = await explainer.explain(
      inputs,
      Array.from({ length: n }, (_, r) => r),
    );
    return (r, out) => out.set(margins.subarray(r * out.length, (r + 1) * out.length));
  };

function copyOf({ values, margins, errors }: Effects, rows: number, { outputs }: Explainer): Effects {
  const columns = values.length / margins.length;
  return { values: values.slice(0, rows * outputs * columns), margins: margins.slice(0, rows * outputs), errors };
}

/** One row of typical cells of the background: medians of numbers, most frequent values of the others. */
function typicalRow(background: { inputs: readonly EncodedInput[]; rows: number }): readonly EncodedInput[] {
  return background.inputs.map((input) => {
    const { data, width } = input;
    const cells = Array.from({ length: width }, (_, k) => {
      const all = Array.from({ length: background.rows }, (_, r) => data[r * width + k]!);
      const counts = new Map<unknown, number>();
      for (const cell of all) counts.set(cell, (counts.get(cell) ?? 0) + 1);
      const numbers = all.filter((v): v is number => typeof v === 'number' && !Number.isNaN(v));
      // Few distinct values are codes or flags: their middle would be a value nobody has.
      if (numbers.length > 0 && counts.size > background.rows / 5) {
        return numbers.sort((a, b) => a - b)[(numbers.length - 1) >> 1]!;
      }
      return [...counts].reduce((best, entry) => (entry[1] > best[1] ? entry : best))[0];
    });
    if (Array.isArray(data)) return { ...input, data: cells as string[] };
    const Kind = data.constructor as new (n: number) => Exclude<InputArray, string[]>;
    const copy = new Kind(width * paddedRows(1));
    for (let k = 0; k < width; k++) (copy as Float32Array)[k] = cells[k] as number;
    return { ...input, data: copy };
  });
}

/** Columns the lender has given no reason for: their own names would stand in a letter. */
export function unmappedReasons(manifest: Manifest): string[] {
  if (manifest.task !== 'binary' || !manifest.reasons) return [];
  return manifest.columns.map((c) => c.name).filter((n) => manifest.reasons![n] === undefined);
}
