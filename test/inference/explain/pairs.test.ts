// What two columns make together, against ONNX Runtime asked for every subset of the columns in which two rows differ.
import { expect, test } from 'vitest';
import { Interpreter } from '../../../src/inference/evaluate/prediction.ts';
import { pairIndex } from '../../../src/inference/explain/leaf-pairs.ts';
import { answersOf } from '../../../src/inference/explain/link.ts';
import { explainZoo } from '../../support/explain.ts';
import { type Row, readRows, zooModels } from '../../support/zoo.ts';

const CHANGED = ['amount', 'income', 'term', 'monthly_payment', 'occupation_type', 'partner_id', 'had_arrears'];
const MODELS = ['lightgbm-native-categories', 'lightgbm-pipeline'];

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));
const size = (set: number): number => set.toString(2).replaceAll('0', '').length;

/** The interaction index of players i and j of n by definition. */
function indexOf(value: Float64Array, i: number, j: number, n: number): number {
  const [one, other] = [1 << i, 1 << j];
  let sum = 0;
  for (let set = 0; set < value.length; set++) {
    if (set & (one | other)) continue;
    const weight = (factorial(size(set)) * factorial(n - size(set) - 2)) / factorial(n - 1);
    sum += weight * (value[set | one | other]! - value[set | one]! - value[set | other]! + value[set]!);
  }
  return sum;
}

test.each(MODELS)('%s', async (name) => {
  const model = zooModels().find((m) => m.name === name)!;
  const other = readRows('data/background.csv')[3]!;
  const x = await explainZoo(model, undefined, [other]);
  const interpreter = new Interpreter(x.manifest);
  const names = x.manifest.columns.map((c) => c.name);
  const n = names.length;
  const players = CHANGED.filter((c) => names.includes(c));
  const answer = new Float64Array(1);
  const froms = [...readRows('data/clean.csv').slice(4, 12), ...readRows('data/dirty.csv').slice(0, 8)];
  let largest = 0;
  let compared = 0;
  for (const from of froms) {
    const mixed = Array.from({ length: 2 ** players.length }, (_, set): Row => {
      const taken = players.filter((_, p) => (set >> p) & 1).map((c) => [c, from[c]!]);
      return { ...other, ...Object.fromEntries(taken) };
    });
    const { inputs, rejected } = x.encode(mixed);
    // A row with a value that the model refuses cannot be mixed.
    if (rejected.size > 0) continue;
    compared++;
    const pairs = x.explainer.interactions!(inputs, [mixed.length - 1]);
    const scores = await x.evaluator.score(inputs, mixed.length);
    const value = Float64Array.from(mixed, (_, r) => {
      answersOf(interpreter, scores, r, answer);
      return x.explainer.space === 'log_odds' ? Math.log(answer[0]! / (1 - answer[0]!)) : answer[0]!;
    });
    const limit = 1e-5 * Math.max(1, ...value.map(Math.abs));
    let rest = pairs.reduce((sum, v) => sum + Math.abs(v), 0);
    largest = Math.max(largest, rest / limit);
    for (let i = 0; i < players.length; i++) {
      for (let j = i + 1; j < players.length; j++) {
        const [a, b] = [names.indexOf(players[i]!), names.indexOf(players[j]!)].sort((p, q) => p - q);
        const got = pairs[pairIndex(a!, b!, n)]!;
        expect(Math.abs(got - indexOf(value, i, j, players.length)), `${players[i]} × ${players[j]}`).toBeLessThan(
          limit,
        );
        rest -= Math.abs(got);
      }
    }
    // Columns in which the rows are alike make nothing with anybody.
    expect(Math.abs(rest)).toBeLessThan(1e-12 * Math.max(1, ...value.map(Math.abs)));
  }
  expect(compared).toBeGreaterThanOrEqual(8);
  // Rounding alone does not make them agree.
  expect(largest).toBeGreaterThan(100);
});
