// Recomputes interpretations by brute force: Shapley values and interactions over every subset of columns, and the reasons they lead to.
//
// Each subset takes 2^columns × background rows evaluations, so the model has to be small. Nothing is shared with `src`.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { answer, OracleModel } from './oracle.ts';

type Features = (number | string)[];

export interface ExpectedInterpretation {
  base: number;
  /** In the order of the columns. */
  effects: number[];
  /** By the two columns, joined by a space; pairs without an interaction are listed too. */
  interactions: Map<string, number>;
  /** Codes of the reasons, in order; null: two candidates are too close for their order to be certain. */
  reasons: string[] | null;
}

interface ReasonSpec {
  code: string;
  text: string;
}

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));

/** Differences below this are within the rounding of 32-bit probabilities. */
const ROUNDING = 2e-5;

/** What the oracle says of an undeclared CSV file that has nothing but the columns of the model. */
export const answerCsv = (model: OracleModel, bytes: Buffer) =>
  answer({
    model,
    input: { format: 'delimited', bytes, delimiter: ',' },
    declared: {},
    passthrough: [],
    failOnInvalid: false,
    allowEmpty: true,
    reserved: [],
    names: 'by the input',
    refusesOutcome: false,
  });

export class InterpretationOracle {
  readonly #model: OracleModel;
  readonly #background: Features[];
  readonly #cached = new Map<string, ExpectedInterpretation>();

  private constructor(model: OracleModel, background: Features[]) {
    this.#model = model;
    this.#background = background;
  }

  static async open(folder: string): Promise<InterpretationOracle> {
    const model = await OracleModel.open(folder);
    const rows = await answerCsv(model, readFileSync(path.join(folder, 'background.csv')));
    if ('refused' in rows) throw new Error('the background cannot be read');
    return new InterpretationOracle(
      model,
      rows.rows.map(({ features }) => features!),
    );
  }

  get columns(): string[] {
    return this.#model.manifest.columns.map(({ name }) => name);
  }

  async of(features: Features): Promise<ExpectedInterpretation> {
    const key = JSON.stringify(features.map((f) => (Object.is(f, -0) ? '-0' : String(f))));
    const cached = this.#cached.get(key);
    if (cached) return cached;
    const value = await this.#values(features);
    const n = features.length;
    const effects = features.map((_, c) =>
      sumOver(n, [c], (set, size) => {
        const weight = (factorial(size) * factorial(n - size - 1)) / factorial(n);
        return weight * (value[set | (1 << c)]! - value[set]!);
      }),
    );
    const interactions = new Map<string, number>();
    for (let a = 0; a < n; a++) {
      for (let b = a + 1; b < n; b++) {
        const effect = sumOver(n, [a, b], (set, size) => {
          const weight = (factorial(size) * factorial(n - size - 2)) / factorial(n - 1);
          const both = set | (1 << a) | (1 << b);
          return weight * (value[both]! - value[set | (1 << a)]! - value[set | (1 << b)]! + value[set]!);
        });
        interactions.set(`${this.columns[a]} ${this.columns[b]}`, effect);
      }
    }
    const result = { base: value[0]!, effects, interactions, reasons: await this.#reasons(features, effects) };
    this.#cached.set(key, result);
    return result;
  }

  /** The mean margin with the columns of each subset from the application and the others from the background. */
  async #values(features: Features): Promise<number[]> {
    const values: number[] = [];
    for (let set = 0; set < 1 << features.length; set++) {
      let sum = 0;
      for (const row of this.#background) {
        sum += await this.#model.margin(row.map((cell, c) => ((set >> c) & 1 ? features[c]! : cell)));
      }
      values.push(sum / this.#background.length);
    }
    return values;
  }

  /** Columns with the most negative effects whose typical value raises the probability. */
  async #reasons(features: Features, effects: number[]): Promise<string[] | null> {
    const manifest = this.#model.manifest as unknown as { reasons?: Record<string, ReasonSpec | 'none'>; reasons_max?: number }; // biome-ignore format: one line
    const most = manifest.reasons_max ?? 4;
    const negative = effects.map((effect, c) => ({ effect, c })).filter(({ effect }) => effect < ROUNDING);
    if (negative.some(({ effect }) => Math.abs(effect) < ROUNDING && effect !== 0)) return null;
    const candidates = negative.filter(({ effect }) => effect < -ROUNDING).sort((a, b) => a.effect - b.effect || a.c - b.c); // biome-ignore format: one line
    if (candidates.some(({ effect }, i) => i > 0 && effect - candidates[i - 1]!.effect < ROUNDING)) return null;
    const own = (await this.#model.score(features)).probability!;
    const codes: string[] = [];
    for (const { c } of candidates) {
      const spec = manifest.reasons?.[this.columns[c]!];
      if (spec === 'none') continue;
      const changed = features.map((cell, i) => (i === c ? this.#typical(c) : cell));
      const { probability } = await this.#model.score(changed);
      if (probability! > own) codes.push(spec?.code ?? this.columns[c]!);
    }
    return codes.slice(0, most);
  }

  /** The median of a number, the most frequent value otherwise; missing where most have none. */
  #typical(c: number): number | string {
    const cells = this.#background.map((row) => row[c]!);
    if (this.#model.manifest.columns[c]!.kind === 'number') {
      const isMissing = (x: number | string) => Number.isNaN(x);
      if (cells.filter(isMissing).length * 2 > cells.length) return Number.NaN;
      const sorted = (cells as number[]).filter((x) => !isMissing(x)).sort((x, y) => x - y);
      return sorted[Math.floor((sorted.length - 1) / 2)]!;
    }
    const count = (x: number | string) => cells.filter((y) => Object.is(x, y)).length;
    return cells.reduce((best, x) => (count(x) > count(best) ? x : best));
  }
}

/** Sums over the subsets of `n` columns that have none of `without`. */
function sumOver(n: number, without: number[], term: (set: number, size: number) => number): number {
  let sum = 0;
  for (let set = 0; set < 1 << n; set++) {
    if (without.some((c) => (set >> c) & 1)) continue;
    sum += term(set, set.toString(2).replaceAll('0', '').length);
  }
  return sum;
}
