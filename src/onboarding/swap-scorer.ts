// Scores rows of the training table with a manifest and with variants of it.
// Only rows whose inputs differ are scored again.
import { SluiceError } from '../core/errors.ts';
import { encodeRead, type ReadRows, readRows } from '../inference/encode/encode-rows.ts';
import type { EncodedInput } from '../inference/encode/encoder.ts';
import type { Scores } from '../inference/evaluate/evaluator.ts';
import { Interpreter } from '../inference/evaluate/prediction.ts';
import { scoreRows, takeRows } from '../inference/sandbox/sample-scorer.ts';
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import type { Predictions } from './fit-loss.ts';
import type { Swap } from './swaps.ts';

// The code below creates model inputs with a typical value in each cell that a variant of the manifest would change.

/**
 * Number of distinct values above which the median of a column is its typical value. Otherwise its most frequent value
 * is typical.
 */
const MOST_LEVELS = 50;

/**
 * Copies `given`, with typical values in the cells in which it differs from `other`. Both have `rows` rows. `whole`: if
 * any cell of a column differs, replaces all cells of the column.
 */
function typicalWhereChanged(
  given: readonly EncodedInput[],
  other: readonly EncodedInput[],
  rows: number,
  whole: boolean,
): readonly EncodedInput[] {
  return given.map((input, i): EncodedInput => {
    const { width } = input;
    const data = input.data.slice() as EncodedInput['data'];
    for (let j = 0; j < width; j++) {
      const changed = Array.from({ length: rows }, (_, r) => r * width + j).filter(
        (at) => !Object.is(input.data[at], other[i]!.data[at]),
      );
      if (changed.length === 0) continue;
      const typical = typicalAt(input, j, rows);
      if (whole) for (let r = 0; r < rows; r++) (data as unknown[])[r * width + j] = typical;
      else for (const at of changed) (data as unknown[])[at] = typical;
    }
    return { ...input, data };
  });
}

function typicalAt({ data, width }: EncodedInput, place: number, rows: number): unknown {
  const cells = Array.from({ length: rows }, (_, r) => data[r * width + place]!);
  const present = cells.filter((v) => typeof v !== 'number' || !Number.isNaN(v));
  const counts = [...Map.groupBy(present, (v) => v)].map(([value, of]) => ({ value, n: of.length }));
  if (counts.length <= MOST_LEVELS) return counts.sort((a, b) => b.n - a.n)[0]?.value ?? cells[0];
  return (present as number[]).sort((a, b) => a - b)[present.length >> 1];
}

type Change = Pick<Swap, 'apply' | 'alter'>;

interface Rescored extends Predictions {
  /** Number of rows whose inputs differ from the given registration. */
  readonly changed: number;
}

export class SwapScorer {
  readonly given: Predictions;
  /** Number of rows that the model has evaluated so far. */
  evaluated = 0;
  readonly #draft: Draft;
  /** The given registration. */
  readonly #manifest: Manifest;
  readonly #read: ReadRows;
  readonly #inputs: readonly EncodedInput[];

  private constructor(draft: Draft, manifest: Manifest, { read, inputs, given }: ScoredRows) {
    this.#draft = draft;
    this.#manifest = manifest;
    this.#read = read;
    this.#inputs = inputs;
    this.given = given;
    this.evaluated = read.batch.rows;
  }

  /**
   * Creates a scorer. `kept`: positions of the rows that are accepted and have a finite score. The scorer contains only
   * these rows.
   */
  static async open(
    draft: Draft,
    manifest: Manifest,
    rows: readonly (readonly string[])[],
  ): Promise<{ scorer: SwapScorer; kept: readonly number[] }> {
    const first = await scoredRows(draft, manifest, rows);
    const width = first.given.values.length / Math.max(1, rows.length);
    const finite = (r: number) => first.given.values.subarray(r * width, (r + 1) * width).every(Number.isFinite);
    const kept = rows.map((_, r) => r).filter((r) => !first.read.rejected.has(r) && finite(r));
    if (kept.length === rows.length) return { scorer: new SwapScorer(draft, manifest, first), kept };
    const left = await scoredRows(
      draft,
      manifest,
      kept.map((r) => rows[r]!),
    );
    return { scorer: new SwapScorer(draft, manifest, left), kept };
  }

  /** Scores the rows with a swap; null: no row changes, or the model cannot score a changed row. */
  async rescore(swap: Change): Promise<Rescored | null> {
    const [manifest, inputs] = this.#changed(swap);
    return this.#score(manifest, inputs, changedRows(this.#inputs, inputs, this.#read.batch.rows));
  }

  /**
   * Scores the rows with typical values in all cells that a swap would change (`whole`: in all cells of the columns
   * concerned). The difference in the scores shows the contribution of the given values.
   */
  async withoutChanged(swap: Change, whole: boolean): Promise<Rescored | null> {
    const { rows } = this.#read.batch;
    const [manifest, other] = this.#changed(swap);
    const inputs = typicalWhereChanged(this.#inputs, other, rows, whole);
    return this.#score(manifest, inputs, changedRows(this.#inputs, inputs, rows));
  }

  #changed({ apply, alter }: Change): [Manifest, readonly EncodedInput[]] {
    const manifest = apply(this.#manifest);
    // A swap of inputs keeps the manifest, so the rows need not be encoded again.
    const inputs = manifest === this.#manifest ? this.#inputs : encodeRead(manifest, this.#read);
    return [manifest, alter ? alter(inputs) : inputs];
  }

  async #score(
    manifest: Manifest,
    inputs: readonly EncodedInput[],
    changed: readonly number[],
  ): Promise<Rescored | null> {
    const { rows } = this.#read.batch;
    if (changed.length === 0) return null;
    const all = changed.length > rows / 2;
    const asked = all ? rows : changed.length;
    const scores = await scoreRows(this.#draft.probe, manifest, {
      inputs: all ? inputs : takeRows(inputs, changed),
      rows: asked,
      rejected: new Map(),
    }).catch((cause) => {
      // If the graph rejects a category or code, it was not part of the training.
      if (cause instanceof SluiceError && cause.code === 'model_failed') return null;
      throw cause;
    });
    if (scores === null) return null;
    this.evaluated += asked;
    const part = asPredictions(manifest, scores, asked);
    if (!part.values.every(Number.isFinite)) return null;
    if (all) return { ...part, changed: changed.length };
    const { width } = part;
    const values = this.given.values.slice();
    for (const [i, r] of changed.entries()) values.set(part.values.subarray(i * width, (i + 1) * width), r * width);
    return { values, width, changed: changed.length };
  }
}

interface ScoredRows {
  readonly read: ReadRows;
  readonly inputs: readonly EncodedInput[];
  readonly given: Predictions;
}

async function scoredRows(draft: Draft, manifest: Manifest, rows: readonly (readonly string[])[]): Promise<ScoredRows> {
  const read = readRows(manifest, rows, draft.fields);
  const inputs = encodeRead(manifest, read);
  const scores = await scoreRows(draft.probe, manifest, { inputs, rows: rows.length, rejected: read.rejected });
  return { read, inputs, given: asPredictions(manifest, scores, rows.length) };
}

/** Converts scores to probabilities of the positive class, probabilities of each class, or values. */
function asPredictions(manifest: Manifest, scores: Scores, rows: number): Predictions {
  const interpreter = new Interpreter(manifest);
  if (manifest.task === 'multiclass')
    return { values: Float64Array.from(scores.values.subarray(0, rows * scores.width)), width: scores.width };
  const one =
    manifest.task === 'binary'
      ? (r: number) => interpreter.probability(scores, r)
      : (r: number) => interpreter.value(scores, r);
  return { values: Float64Array.from({ length: rows }, (_, r) => one(r)), width: 1 };
}

function changedRows(before: readonly EncodedInput[], after: readonly EncodedInput[], rows: number): number[] {
  const changed: number[] = [];
  for (let r = 0; r < rows; r++) {
    const differs = before.some((input, i) => {
      const other = after[i]!.data;
      for (let at = r * input.width; at < (r + 1) * input.width; at++)
        if (!Object.is(input.data[at], other[at])) return true;
      return false;
    });
    if (differs) changed.push(r);
  }
  return changed;
}
