// The figures that a registration reports of its training table, against the formulas of a textbook.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect } from 'vitest';
import { Random } from '../../src/core/random.ts';
import { NO_ENCODING } from '../../src/onboarding/encoding-file.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { type Report, type Residual, reportMarkdown, type TrainingFit } from '../../src/onboarding/report-card.ts';
import { scratch } from '../support/cli.ts';
import { buildOnnx, type NodeSpec } from '../support/onnx-build.ts';
import { checkTest } from '../support/tiers.ts';

const ROWS = 600;
const SHOPS = { north: 0, south: 1 };
const random = new Random();
random.seed(11, 0);
/** Columns a, b and shop; the south pays worse than the models below know. */
const APPLICATIONS = Array.from({ length: ROWS }, () => ({
  a: Number(random.normal().toFixed(3)),
  b: Number((2 * random.normal() - 1).toFixed(3)),
  shop: random.chance(0.3) ? ('south' as const) : ('north' as const),
}));
type Application = (typeof APPLICATIONS)[number];

/** Weights of a, b and the code of the shop for each output, and the constant of each output. */
type Weights = readonly { of: readonly [number, number, number]; constant: number }[];
const linear = (weights: Weights, { a, b, shop }: Application): number[] =>
  weights.map(({ of, constant }) => of[0] * a + of[1] * b + of[2] * SHOPS[shop] + constant);

/** Registers a linear model that ends in `last`, with a table that has these outcomes. */
async function fitOf(
  weights: Weights,
  last: NodeSpec | null,
  outcomes: readonly (string | number)[],
): Promise<{ fit: TrainingFit; report: Report }> {
  const width = weights.length;
  const output = last?.outputs[0] ?? 'z';
  const onnx = buildOnnx({
    nodes: [{ op: 'Gemm', inputs: ['x', 'w', 'c'], outputs: ['z'] }, ...(last ? [last] : [])],
    inputs: [{ name: 'x', type: 'float32', shape: [null, 3] }],
    outputs: [{ name: output, type: 'float32', shape: [null, width] }],
    constants: [
      { name: 'w', type: 'float32', dims: [3, width], values: [0, 1, 2].flatMap((i) => weights.map((w) => w.of[i]!)) },
      { name: 'c', type: 'float32', dims: [width], values: weights.map((w) => w.constant) },
    ],
  });
  const folder = scratch();
  const at = (name: string, content: string | Uint8Array): string => {
    writeFileSync(path.join(folder, name), content);
    return path.join(folder, name);
  };
  const lines = APPLICATIONS.map(({ a, b, shop }, i) => `${a},${b},${shop},${outcomes[i]}`);
  const { report } = await proposePackage({
    modelFile: at('model.onnx', onnx),
    trainingFile: at('train.csv', `a,b,shop,outcome\n${lines.join('\n')}\n`),
    id: 'm',
    version: 1,
    benchMs: 1,
    outcome: 'outcome',
    encoding: { ...NO_ENCODING, order: ['a', 'b', 'shop'], codes: { shop: SHOPS } },
  });
  return { fit: report.witness!.fit!, report };
}

const mean = (all: readonly number[]): number => all.reduce((x, y) => x + y, 0) / all.length;
const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));

/** Share of the pairs of a positive and a negative row that the score has in the right order. */
function aucOf(scores: readonly number[], positive: readonly boolean[]): number {
  const [above, below] = [true, false].map((is) => scores.filter((_, i) => positive[i] === is)) as [number[], number[]];
  return mean(above.flatMap((p) => below.map((n) => (p > n ? 1 : p === n ? 0.5 : 0))));
}

/** Of the levels of the shop: outcome minus prediction, less the mean of all, and its standard error. */
function shopResiduals(errors: readonly number[]): Pick<Residual, 'column' | 'level' | 'rows' | 'mean' | 'z'>[] {
  const center = mean(errors);
  const variance = mean(errors.map((e) => (e - center) ** 2));
  return Object.keys(SHOPS).map((level) => {
    const own = errors.filter((_, i) => APPLICATIONS[i]!.shop === level);
    const off = mean(own) - center;
    const standardError = Math.sqrt((variance / own.length) * (1 - own.length / ROWS));
    return { column: 'shop', level, rows: own.length, mean: off, z: off / standardError };
  });
}

function expectShopResiduals({ residuals }: TrainingFit, errors: readonly number[]): void {
  const found = residuals.filter(({ column }) => column === 'shop').toSorted((x, y) => (x.level < y.level ? -1 : 1));
  const wanted = shopResiduals(errors).map(({ mean: off, z, ...rest }) => ({
    ...rest,
    mean: expect.closeTo(off, 5),
    z: expect.closeTo(z, 3),
  }));
  expect(found).toEqual(wanted);
  expect(Math.abs(residuals[0]!.z)).toBe(Math.max(...residuals.map(({ z }) => Math.abs(z))));
}

checkTest('binary: AUC, log loss, Brier score, the calibration line, residuals of levels', async () => {
  random.seed(12, 0);
  const weights = [{ of: [1.2, -0.7, -0.6], constant: -0.4 }] as const;
  const margins = APPLICATIONS.map((x) => linear(weights, x)[0]!);
  const paid = APPLICATIONS.map(({ shop }, i) => random.chance(sigmoid(margins[i]! - 0.8 * SHOPS[shop])));
  const sigmoidNode = { op: 'Sigmoid', inputs: ['z'], outputs: ['p'] };
  const { fit, report } = await fitOf(weights, sigmoidNode, paid.map(Number));
  const p = margins.map(sigmoid);
  const logLoss = -mean(p.map((x, i) => Math.log(paid[i] ? x : 1 - x)));
  const brier = mean(p.map((x, i) => (x - Number(paid[i])) ** 2));
  expect(fit).toMatchObject({ rows: ROWS, explainedVariance: null });
  expect(fit.auc).toBeCloseTo(aucOf(margins, paid), 9);
  expect(fit.logLoss).toBeCloseTo(logLoss, 6);
  expect(fit.brier).toBeCloseTo(brier, 6);
  // At the maximum of the likelihood, the residuals are orthogonal to the constant and to the log-odds.
  const { intercept, slope } = fit.calibration!;
  const residuals = margins.map((x, i) => Number(paid[i]) - sigmoid(intercept! + slope! * x));
  expect(mean(residuals)).toBeCloseTo(0, 6);
  expect(mean(residuals.map((e, i) => e * margins[i]!))).toBeCloseTo(0, 6);
  expectShopResiduals(fit, p.map((x, i) => Number(paid[i]) - x)); // biome-ignore format: one line
  const shown = (x: number): string => x.toLocaleString('en', { maximumFractionDigits: 4 });
  expect(reportMarkdown(report)).toContain(
    `Over ${ROWS} rows: AUC ${shown(fit.auc!)}, log loss ${shown(logLoss)}, Brier score ${shown(brier)}, calibration error`,
  );
});

checkTest(
  'several classes: the mean AUC of each class against the others, log loss, residuals of the mean class',
  async () => {
    random.seed(13, 0);
    const weights = [
      { of: [1, 0, 0], constant: 0.5 },
      { of: [0, 0.8, 0], constant: 0 },
      { of: [-0.5, -0.2, 0], constant: -0.5 },
    ] as const;
    const shares = APPLICATIONS.map((x) => {
      const powers = linear(weights, x).map(Math.exp);
      return powers.map((power) => power / powers.reduce((s, y) => s + y, 0));
    });
    const classes = shares.map(([first, second], i) => {
      const drawn = random.uniform();
      // Some of the south have the last class whatever the model says.
      if (APPLICATIONS[i]!.shop === 'south' && drawn < 0.2) return 2;
      return drawn < first! ? 0 : drawn < first! + second! ? 1 : 2;
    });
    const softmax = { op: 'Softmax', inputs: ['z'], outputs: ['q'], attributes: { axis: { i: 1 } } };
    const { fit } = await fitOf(weights, softmax, classes);
    const each = [0, 1, 2].map((c) => aucOf(shares.map((s) => s[c]!), classes.map((k) => k === c))); // biome-ignore format: one line
    expect(fit).toMatchObject({ rows: ROWS, explainedVariance: null, brier: null, calibration: null });
    expect(fit.auc).toBeCloseTo(mean(each), 4);
    expect(fit.logLoss).toBeCloseTo(-mean(shares.map((s, i) => Math.log(s[classes[i]!]!))), 5);
    expectShopResiduals(fit, shares.map((s, i) => classes[i]! - s[1]! - 2 * s[2]!)); // biome-ignore format: one line
  },
);

checkTest('regression: the explained variance, residuals of levels', async () => {
  random.seed(14, 0);
  const weights = [{ of: [20, -3, 5], constant: 100 }] as const;
  const values = APPLICATIONS.map((x) => linear(weights, x)[0]!);
  const losses = values.map((v, i) => Number((v + 4 * random.normal() + 6 * SHOPS[APPLICATIONS[i]!.shop]).toFixed(3)));
  const { fit, report } = await fitOf(weights, null, losses);
  const center = mean(losses);
  const left = mean(values.map((v, i) => (losses[i]! - v) ** 2));
  expect(fit).toMatchObject({ rows: ROWS, auc: null, logLoss: null, brier: null, calibration: null });
  expect(fit.explainedVariance).toBeCloseTo(1 - left / mean(losses.map((l) => (l - center) ** 2)), 6);
  expectShopResiduals(fit, values.map((v, i) => losses[i]! - v)); // biome-ignore format: one line
  expect(reportMarkdown(report)).toMatch(/Over 600 rows: explained variance 0\.\d+\./);
});
