// The training table as witness of a registration: what it contradicts is refused, what it cannot tell is asked, and nothing right is
// refused.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { Random } from '../../src/core/random.ts';
import type { Proposal, RegisterOptions } from '../../src/onboarding/draft.ts';
import { type EncodingFile, NO_ENCODING, readEncoding } from '../../src/onboarding/encoding-file.ts';
import { readExpected } from '../../src/onboarding/expected.ts';
import { fitLosses, pairedGain } from '../../src/onboarding/fit-loss.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { reportMarkdown } from '../../src/onboarding/report-card.ts';
import { buildOnnx } from '../support/onnx-build.ts';
import { campaignTest, checkTest, describeEach, testOfMany } from '../support/tiers.ts';
import { registerOptions, ZOO, zooModels } from '../support/zoo.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-witness-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;
const file = (content: string | Uint8Array): string => {
  const name = path.join(folder, `f${files++}.csv`);
  writeFileSync(name, content);
  return name;
};

const sigmoid = (v: number) => 1 / (1 + Math.exp(-v));
const WEIGHTS = [1.5, -0.8, 0.9];
const CODES = { rent: 0, own: 1, parents: 2 };
/** A matrix of a, b and the code of c; the logit is a weighted sum. */
const ONNX = buildOnnx({
  nodes: [
    { op: 'Gemm', inputs: ['x', 'w', 'k'], outputs: ['z'] },
    { op: 'Sigmoid', inputs: ['z'], outputs: ['p'] },
  ],
  inputs: [{ name: 'x', type: 'float32', shape: [null, 3] }],
  outputs: [{ name: 'p', type: 'float32', shape: [null, 1] }],
  constants: [
    { name: 'w', type: 'float32', dims: [3, 1], values: WEIGHTS },
    { name: 'k', type: 'float32', dims: [1], values: [-0.9] },
  ],
});

interface Row {
  cells: string[];
  p: number;
}

/** Rows with their right probabilities; a missing b became 0 in training. */
function rowsOf(n: number, seed = 1, shift = 0): Row[] {
  const random = new Random();
  random.seed(seed, 0);
  return Array.from({ length: n }, (): Row => {
    const a = Number((random.normal() + shift).toFixed(4));
    const b = random.chance(0.2) ? null : Number((2 + random.normal()).toFixed(4));
    const c = ['rent', 'own', 'parents'][Math.floor(3 * random.uniform())]! as keyof typeof CODES;
    const p = sigmoid(WEIGHTS[0]! * a + WEIGHTS[1]! * (b ?? 0) + WEIGHTS[2]! * CODES[c] - 0.9);
    return { cells: [String(a), b === null ? '' : String(b), c, String(Number(random.chance(p)))], p };
  });
}
const tableOf = (rows: readonly Row[], change: (cells: string[]) => string[] = (c) => c): string =>
  `a,b,c,ok\n${rows.map((r) => change([...r.cells]).join(',')).join('\n')}\n`;
const encoding = (change: Partial<EncodingFile> = {}): EncodingFile => ({
  ...NO_ENCODING,
  order: ['a', 'b', 'c'],
  codes: { c: CODES },
  missing: { b: 0 },
  ...change,
});
const register = (table: string, more: Partial<RegisterOptions> = {}): Promise<Proposal> =>
  proposePackage({
    modelFile: file(ONNX),
    trainingFile: file(table),
    id: 'm',
    version: 1,
    benchMs: 1,
    encoding: encoding(),
    ...more,
  });
const assumed = ({ report }: Proposal): string =>
  report.findings
    .filter((f) => f.level === 'assumed')
    .map((f) => f.text)
    .join('\n');

describe('losses', () => {
  const random = new Random();
  random.seed(7, 0);
  const p = Float64Array.from({ length: 800 }, () => sigmoid(1.5 * random.normal()));
  const y = p.map((q) => Number(random.chance(q)));
  const mean = (v: Float64Array) => v.reduce((a, b) => a + b, 0) / v.length;
  const loss = (values: Float64Array) => fitLosses('binary', { values, width: 1 }, y);

  test('reweighted classes and another steepness change nothing, the wrong way round tells nothing', () => {
    const odds = (q: number) => Math.log(q / (1 - q));
    for (const [shift, slope] of [[-2, 1], [1, 0.5], [0, 2]] as const) {
      expect(mean(loss(p.map((q) => sigmoid(shift + slope * odds(q)))))).toBeCloseTo(mean(loss(p)), 3);
    } // biome-ignore format: a table
    const share = mean(y);
    const entropy = -share * Math.log(share) - (1 - share) * Math.log(1 - share);
    expect(mean(loss(p.map((q) => 1 - q)))).toBeCloseTo(entropy, 6);
    expect(mean(loss(p))).toBeLessThan(entropy - 0.05);
  });

  test('classes that are told apart without a fault, and probabilities of 0 and 1, have a finite loss', () => {
    for (const values of [y, y.map((t) => 0.4 + 0.2 * t), p.map((q) => Math.round(q))]) {
      expect(loss(values).every(Number.isFinite)).toBe(true);
    }
    expect(mean(loss(y))).toBeLessThan(0.01);
  });

  test('a gain is the loss of the other side', () => {
    const [a, b] = [loss(p), loss(p.map((q, i) => (i % 2 === 0 ? 0.5 : q)))];
    const [there, back] = [pairedGain(a, b), pairedGain(b, a)];
    expect(there.z).toBeCloseTo(-back.z, 9);
    expect(there.z).toBeLessThan(-3);
    expect(pairedGain(a, a)).toEqual({ mean: 0, z: 0 });
  });
});

describe('a registration that the table contradicts', () => {
  const table = tableOf(rowsOf(2500));
  const WRONG: readonly [string, Partial<RegisterOptions>, RegExp][] = [
    ['two columns exchanged', { encoding: encoding({ order: ['b', 'a', 'c'] }) }, /b and a exchanged|order of the table/],
    ['codes the other way round', { encoding: encoding({ codes: { c: { rent: 2, own: 1, parents: 0 } } }) }, /codes of c/],
    ['codes rotated', { encoding: encoding({ codes: { c: { rent: 1, own: 2, parents: 0 } } }) }, /codes of c/],
    ['missing as another number', { encoding: encoding({ missing: { b: 5 } }) }, /missing b as .*"missing"/s],
  ]; // biome-ignore format: a table
  for (const [i, [name, options, words]] of WRONG.entries()) {
    testOfMany(i, WRONG.length)(`${name}: is refused with the words that mend it`, async () => {
      await expect(register(table, options)).rejects.toMatchObject({
        code: 'registration_contradicted',
        message: expect.stringMatching(words),
      });
    });
  }

  checkTest('--force registers it, and the reason is kept in the package', async () => {
    const { report } = await register(table, { ...WRONG[1]![1], force: 'the table was recoded' });
    expect(report.witness!.forced).toMatchObject({ reason: 'the table was recoded', contradictions: [WRONG[1]![2]].map((r) => expect.stringMatching(r)) }); // biome-ignore format: one line
    expect(reportMarkdown(report)).toMatch(/the table contradicts it:\*\* the table was recoded/);
  });

  test('the right one is registered with what the table says of it', async () => {
    const { report } = await register(table, { force: 'not needed' });
    expect(report.witness!.forced).toBeNull();
    const { fit, swaps } = report.witness!;
    expect(fit).toMatchObject({ rows: 2500, auc: expect.closeTo(0.86, 1), explainedVariance: null });
    expect(fit!.logLoss).toBeLessThan(0.6);
    expect(Math.abs(fit!.calibration!.slope! - 1)).toBeLessThan(0.15);
    expect(swaps!.tried).toBe(swaps!.offered);
    expect(reportMarkdown(report)).toMatch(/AUC 0\.\d+, log loss 0\.\d+[\s\S]*Largest residual of a level: `[abc]`/);
  });

  checkTest('the outcome of other rows tells nothing and is refused', async () => {
    const rows = rowsOf(3000);
    const outcomes = rowsOf(3000, 99).map((r) => r.cells[3]!);
    const shuffled = tableOf(rows, ([a, b, c]) => [a!, b!, c!, outcomes.pop()!]);
    await expect(register(shuffled)).rejects.toThrow(/the scores do not predict ok/);
  });

  checkTest('an outcome turned round is refused, labels in words are taken as the scores have them', async () => {
    const turned = tableOf(rowsOf(3000), ([a, b, c, ok]) => [a!, b!, c!, ok === '1' ? '0' : '1']);
    await expect(register(turned)).rejects.toThrow(/probabilities of ok = 0/);
    const said = await register(table, { positiveClass: '0' }).catch((e: Error) => e.message);
    expect(typeof said === 'string' ? said : assumed(said)).toMatch(/class 0|probabilities of ok = 1/);
  });
});

checkTest('what the table cannot tell is assumed, with both candidates and how far they differ', async () => {
  expect(assumed(await register(tableOf(rowsOf(400))))).toMatch(
    /codes of c: its codes as registered, or the codes of c .*\? Predictions differ by up to 0\.\d+, typically 0\.\d+; the table/,
  );
});

campaignTest('leading zeros that the table lost are found in the encoder of the graph', async () => {
  const table = readFileSync(path.join(ZOO, 'data/train.csv'), 'utf8').trimEnd().split('\n');
  const at = table[0]!.split(',').indexOf('credit_product_id');
  const lost = table.map((line, i) => line.split(',').map((cell, j) => (i > 0 && j === at ? String(Number(cell)) : cell)).join(',')); // biome-ignore format: one line
  const m = zooModels().find((z) => z.name === 'skl-logistic-tensor')!;
  const options = { ...(await registerOptions(m)), trainingFile: file(`${lost.join('\n')}\n`) };
  await expect(proposePackage(options)).rejects.toThrow(/credit_product_id: .*with other leading zeros/);
});

describe('predictions that do not come out', () => {
  checkTest('what reproduces them, and what the rows share, is named', async () => {
    const rows = rowsOf(400);
    const probabilities = rows.map((r) => r.p);
    const expected = await readExpected(file(`probability\n${probabilities.join('\n')}\n`));
    const message = (options: Partial<RegisterOptions>) =>
      register(tableOf(rows), { expected, ...options }).then(() => '', (e: Error) => e.message); // biome-ignore format: one line
    expect(await message({})).toBe('');
    expect(await message({ encoding: encoding({ missing: { b: 3 } }) })).toMatch(
      /with missing b as 0 the model reproduces the predictions: .*\n.*have a missing b: 100 % of the rows with this value differ, but only 0 % of the other rows/,
    );
    expect(await message({ encoding: encoding({ order: ['b', 'a', 'c'] }) })).toMatch(
      /the model reproduces the predictions/,
    );
    expect(await message({ encoding: encoding({ codes: { c: { rent: 0, own: 1, parents: 3 } } }) })).toMatch(
      /have c = parents/,
    );
  });

  checkTest('rows of another portfolio than the table are warned about, a sample of it is not', async () => {
    const given = async (shift: number) => {
      const rows = rowsOf(300, 5, shift);
      const own = rows.map((r) => `${r.cells.slice(0, 3).join(',')},${r.p}`);
      const expected = await readExpected(file(`a,b,c,probability\n${own.join('\n')}\n`));
      const { report } = await register(tableOf(rowsOf(2000)), { expected });
      return report.findings.filter((f) => f.level === 'warning').map((f) => f.text).join('\n'); // biome-ignore format: one line
    };
    expect(await given(2)).toMatch(/another portfolio than the training table: a \(PSI \d/);
    expect(await given(0)).not.toMatch(/portfolio/);
  });
});

describe('the background', () => {
  const backgroundOf = ({ files: parts }: Proposal) => (parts.get('background.csv') as string).trimEnd().split('\n');
  checkTest('--background and --background-rows', async () => {
    const table = tableOf(rowsOf(300));
    const header = ['c', 'extra', 'b', 'a'];
    const given = { file: 'near-the-cut-off.csv', header, rows: [['own', 'x', '1', '0.5'], ['rent', 'y', '', '1'], ['?!', 'z', '1', '1']] }; // biome-ignore format: a table
    const own = await register(table, { background: given });
    expect(backgroundOf(own).sort()).toEqual(['0.5,1,own', '1,,rent', 'a,b,c']);
    const words = own.report.findings.map((f) => f.text).join('\n');
    expect(words).toMatch(/1 row of --background near-the-cut-off\.csv would be rejected/);
    expect(words).toMatch(/against 2 rows of near-the-cut-off\.csv/);
    expect(backgroundOf(await register(table, { backgroundRows: 7 }))).toHaveLength(8);
    await expect(register(table, { background: { ...given, header: ['c', 'extra', 'b', 'z'] } })).rejects.toThrow(
      /--background near-the-cut-off\.csv lacks a/,
    );
  });
});

describeEach(zooModels().filter((m) => m.expect === 'served'), { quick: 40, check: 30 }, (_, m) => {
  test('the table of a right registration does not contradict it', async () => {
    const { report } = await proposePackage(await registerOptions(m));
    expect(report.witness!.forced).toBeNull();
    if (m.task === 'binary') expect(report.witness!.fit!.auc).toBeGreaterThan(0.75);
  });
}); // biome-ignore format: one line

campaignTest('an encoding file says what was said wrong', async () => {
  const m = zooModels().find((z) => z.name === 'lightgbm-tensor')!;
  const codes = await readEncoding(path.join(ZOO, 'models', m.name, 'codes.json'));
  const order = [...codes.order!];
  const [i, j] = ['had_arrears', 'had_credits_before'].map((c) => order.indexOf(c)) as [number, number];
  [order[i], order[j]] = [order[j]!, order[i]!];
  const options = await registerOptions(m);
  await expect(proposePackage({ ...options, encoding: { ...codes, order } })).rejects.toThrow(/had_arrears/);
  const unsaid = await proposePackage({ ...options, encoding: { ...codes, missing: {} } });
  expect(assumed(unsaid)).toMatch(/no training row lacks amount, /);
});
