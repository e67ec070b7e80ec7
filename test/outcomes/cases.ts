// The made-up scores and outcomes of test/fixtures/outcomes/reference.py, bit for bit.
import { readFileSync } from 'node:fs';
import type { ScoredOutcomes } from '../../src/outcomes/discrimination.ts';

export const REFERENCE = 'test/fixtures/outcomes/reference.py';

export interface Expected {
  name: string;
  rows: number;
  shape: keyof typeof SHAPES;
  base: number;
  slope: number;
  positives: number;
  auc: number;
  ks: number;
  brier: number;
  /** Rows, mean probability, observed rate. */
  bins: [number, number, number][];
  ece: number;
  /** Intercept and slope; null: none is required. */
  line: [number, number] | null;
}

export const expectedCases = (): Expected[] =>
  JSON.parse(readFileSync('test/fixtures/outcomes/expected.json', 'utf8')) as Expected[];

function mix(i: number, seed: number): number {
  let x = (Math.imul(i, 0x9e3779b1) + seed) >>> 0;
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return ((x ^ (x >>> 16)) >>> 0) / 2 ** 32;
}

const SHAPES = {
  uniform: (u: number) => u,
  ties: (u: number) => Math.floor(u * 20) / 20,
  float32: (u: number) => Math.fround(u),
  skewed: (u: number) => u * u * u,
  extremes: (u: number) => (u < 0.1 ? 0 : u > 0.9 ? 1 : u),
  constant: () => 0.25,
  two: (u: number) => (u < 0.5 ? 0.25 : 0.75),
};

type Shape = Pick<Expected, 'rows' | 'shape' | 'base' | 'slope'>;

/** Score and outcome of each row. */
export function* rowsOf({ rows, shape, base, slope }: Shape): Generator<[score: number, positive: boolean]> {
  for (let i = 0; i < rows; i++) {
    const score = SHAPES[shape](mix(i, 1));
    yield [score, mix(i, 2) < base + slope * score];
  }
}

export function scoredOf(shape: Shape): ScoredOutcomes {
  const [positives, negatives]: [number[], number[]] = [[], []];
  for (const [score, positive] of rowsOf(shape)) (positive ? positives : negatives).push(score);
  return { positives: Float64Array.from(positives).sort(), negatives: Float64Array.from(negatives).sort() };
}
