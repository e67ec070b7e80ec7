// Applications with the largest, smallest and missing numbers there are: interpreting one must cost what an ordinary one costs.
import { expect } from 'vitest';
import { Interpreter } from '../../src/inference/evaluate/prediction.ts';
import { exactExplainer } from '../../src/inference/explain/coalitions.ts';
import { Hybrids } from '../../src/inference/explain/hybrids.ts';
import { placesOf, scoreBackground } from '../../src/inference/explain/scored-background.ts';
import type { Manifest } from '../../src/model/package/manifest.ts';
import type { Explained } from './explain.ts';
import { type Row, readRows } from './zoo.ts';

const NUMBERS = ['1e-38', '1e-45', '0', '1', '1e8', '1e10', '3.4e38'];
/** Both signs of each, and a missing value. */
export const EXTREMES = [...NUMBERS.flatMap((n) => [n, `-${n}`]), ''];

/** The row itself first, then with one number replaced by each extreme, then with all of them. */
export function extremesOf(row: Row, { columns }: Manifest): Row[] {
  const numbers = columns.filter((c) => c.kind === 'number').map((c) => c.name);
  const replaced = (names: readonly string[], value: string) => ({
    ...row,
    ...Object.fromEntries(names.map((n) => [n, value])),
  });
  return [row, ...EXTREMES.flatMap((v) => [replaced(numbers.slice(0, 1), v), replaced(numbers, v)])];
}

/** CPU milliseconds at least, so that a fast method is not judged by the clock's resolution. */
const LEAST_MS = 5;
/** A method whose work grew with the values would exceed this by orders of magnitude. */
const FACTOR = 20;
/** Rows compared with the definition, where there are few enough columns for all their subsets. */
const COMPARED = 3;
const MOST_COLUMNS = 10;

/** Each row is explained for at most `FACTOR` times the CPU time of the first; effects add up, and are what all subsets give. */
export async function assertBounded(x: Explained, rows: readonly Row[]): Promise<void> {
  const { explainer, manifest } = x;
  const { inputs, rejected } = x.encode(rows);
  const { outputs, base } = explainer;
  const columns = manifest.columns.length;
  const taken = rows.map((_, i) => i).filter((i) => !rejected.has(i));
  expect(taken.length).toBeGreaterThan(rows.length / 2);
  expect(taken[0]).toBe(0);
  const ordinary = Math.max(LEAST_MS, await cpuMs(() => explainer.explain(inputs, [0])));
  for (const i of taken) {
    const ms = await cpuMs(() => explainer.explain(inputs, [i]));
    expect(ms, `row ${i}`).toBeLessThan(FACTOR * ordinary);
    const { values, margins, evaluations } = await explainer.explain(inputs, [i]);
    expect(evaluations).toBeLessThanOrEqual(explainer.questions);
    for (let o = 0; o < outputs; o++) {
      const sum = values.subarray(o * columns, (o + 1) * columns).reduce((n, v) => n + v, base[o]!);
      const margin = margins[o]!;
      expect(Math.abs(sum - margin), `row ${i}`).toBeLessThanOrEqual(1e-9 * Math.max(1, Math.abs(margin)));
    }
  }
  if (explainer.questions > 0 || columns > MOST_COLUMNS || explainer.method === 'tree_path_dependent') return;
  const step = Math.ceil(taken.length / COMPARED);
  for (const i of taken.filter((_, k) => k % step === 1)) {
    const want = await bruteEffects(x, inputs, i);
    const got = (await explainer.explain(inputs, [i])).values;
    const size = want.reduce((most, v) => Math.max(most, Math.abs(v)), 1);
    for (const [k, v] of want.entries()) expect(Math.abs(got[k]! - v), `row ${i}`).toBeLessThan(1e-6 * size);
  }
}

/** By the definition, from what the model adds up to. */
async function bruteEffects(x: Explained, inputs: Parameters<Explained['explainer']['explain']>[0], i: number) {
  const { explainer, manifest, evaluator } = x;
  const background = x.encode(readRows('data/background.csv'));
  const places = placesOf(manifest.columns, manifest.inputs);
  const margins = async (some: typeof inputs, n: number) => {
    const all = Array.from({ length: n }, (_, r) => r);
    const found = explainer.margins?.(some, n) ?? (await explainer.explain(some, all)).margins;
    return (r: number, out: Float64Array) => out.set(found.subarray(r * out.length, (r + 1) * out.length));
  };
  const brute = exactExplainer({
    evaluator,
    interpreter: new Interpreter(manifest),
    places,
    background: await scoreBackground(evaluator, background.inputs, background.rows),
    hybrids: new Hybrids(margins, explainer.outputs, places, background.inputs),
  });
  return (await brute.explain(inputs, [i])).values;
}

/** The least of three. */
async function cpuMs(work: () => Promise<unknown>): Promise<number> {
  let least = Infinity;
  for (let k = 0; k < 3; k++) {
    const before = process.cpuUsage();
    await work();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
  }
  return least;
}
