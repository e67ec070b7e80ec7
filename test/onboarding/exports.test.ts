// Exports as people make them beyond the zoo: what is served right without being told, what is asked about, what is refused.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parse } from 'csv-parse/sync';
import { afterAll, describe, expect, test } from 'vitest';
import { encodeRows } from '../../src/inference/encode/encode-rows.ts';
import type { Scores } from '../../src/inference/evaluate/evaluator.ts';
import { openOnnxRuntime } from '../../src/inference/evaluate/onnxruntime.ts';
import { Interpreter } from '../../src/inference/evaluate/prediction.ts';
import { createExplainer } from '../../src/inference/explain/choose-explainer.ts';
import { exactExplainer } from '../../src/inference/explain/coalitions.ts';
import { placesOf, scoreBackground } from '../../src/inference/explain/scored-background.ts';
import { servable } from '../../src/inference/onnx/servable.ts';
import { readChecked } from '../../src/inference/trees/ensemble.ts';
import type { Proposal, RegisterOptions } from '../../src/onboarding/draft.ts';
import { readEncoding } from '../../src/onboarding/encoding-file.ts';
import { readExpected } from '../../src/onboarding/expected.ts';
import { proposePackage } from '../../src/onboarding/register.ts';
import { buildOnnx, type GraphSpec, type NodeSpec } from '../support/onnx-build.ts';
import { testOfMany } from '../support/tiers.ts';

const EXPORTS = path.resolve('test/fixtures/exports');
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-exports-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
const file = (content: string | Uint8Array): string => {
  const name = path.join(folder, `f${files++}`);
  writeFileSync(name, content);
  return name;
};
const propose = (onnx: string | Uint8Array, table: string, more: Partial<RegisterOptions> = {}): Promise<Proposal> =>
  proposePackage({
    modelFile: typeof onnx === 'string' ? onnx : file(onnx),
    trainingFile: table,
    id: 'm',
    version: 1,
    benchMs: 1,
    ...more,
  });

describe('pipelines of scikit-learn', () => {
  const METHODS: Record<string, [string, string]> = {
    bagging: ['tree_interventional', 'probability'],
    'calib-lr-noens': ['linear', 'log_odds'],
    'dropfirst-err-gb': ['tree_interventional', 'log_odds'],
    'impute-mostfreq-str': ['linear', 'log_odds'],
    'ordinal-err-et': ['tree_interventional', 'probability'],
    'ordinal-mostfreq': ['tree_interventional', 'probability'],
    'sgd-log': ['linear', 'log_odds'],
    'to_onnx-dataframe': ['linear', 'log_odds'],
    'voting-forests': ['tree_interventional', 'probability'],
    votingreg: ['tree_interventional', 'value'],
  };

  class LogOdds extends Interpreter {
    override probability(scores: Scores, r: number): number {
      const p = super.probability(scores, r);
      return Math.log(p / (1 - p));
    }
  }

  const exact = async (name: string, [method, space]: [string, string]) => {
    const at = (f: string) => path.join(EXPORTS, name, f);
    // Without predictions to learn from: what missing becomes has to be found in the graph.
    const { manifest, files: parts, report } = await propose(at('model.onnx'), at('train.csv'));
    expect(report.interpretation).toMatchObject({ method, space });
    const bytes = parts.get('model.onnx') as Uint8Array;
    const evaluator = await openOnnxRuntime(servable(readChecked(bytes)), manifest);
    const [header, ...rows] = parse(parts.get('background.csv') as string) as string[][];
    const fields = manifest.columns.map((c) => header!.indexOf(c.name));
    const encode = (part: string[][]) => encodeRows(manifest, part, fields);
    const background = encode(rows.slice(0, 12));
    const { explainer } = await createExplainer({ bytes, manifest, evaluator, background, covers: null });
    const brute = exactExplainer({
      evaluator,
      interpreter: space === 'log_odds' ? new LogOdds(manifest) : new Interpreter(manifest),
      places: placesOf(manifest.columns, manifest.inputs),
      background: await scoreBackground(evaluator, background.inputs, background.rows),
    });
    const asked = encode(rows.slice(20, 24));
    const got = (await explainer.explain(asked.inputs, [0, 1, 2, 3])).values.slice();
    const want = (await brute.explain(asked.inputs, [0, 1, 2, 3])).values;
    for (let i = 0; i < 4 * manifest.columns.length; i++) expect(Math.abs(got[i]! - want[i]!)).toBeLessThan(2e-5);
    // And the predictions of the library, with the same rules.
    const expected = await readExpected(at('expected.csv'));
    const tested = await propose(at('model.onnx'), at('train.csv'), { expected });
    expect(tested.report.selfTest).toMatchObject({ passed: true, rows: 150, rejected: 0 });
    expect(tested.manifest.columns).toEqual(manifest.columns);
  };
  for (const [i, [name, found]] of Object.entries(METHODS).entries()) {
    testOfMany(i, 6)(`${name}: predictions of the library, exact effects`, () => exact(name, found));
  }

  test('every fixture is used', () => {
    expect(readdirSync(EXPORTS).sort()).toEqual([...Object.keys(METHODS), 'addind-gb'].sort());
  });

  test('what training refused is refused, though the graph has a number for it', async () => {
    const at = (f: string) => path.join(EXPORTS, 'ordinal-err-et', f);
    const { manifest } = await propose(at('model.onnx'), at('train.csv'));
    expect(manifest.columns.find((c) => c.name === 'Größe')).toMatchObject({
      unseen: 'error',
      values: ['L', 'M', 'S'],
    });
  });

  test('a part that the exporter left out is named as a cause', async () => {
    const at = (f: string) => path.join(EXPORTS, 'addind-gb', f);
    await expect(propose(at('model.onnx'), at('train.csv'))).rejects.toThrow(
      /TreeEnsembleClassifier fails: .*13 .*12 features[\s\S]*add_indicator/,
    );
  });
});

const lines = (n: number, line: (i: number) => string): string =>
  Array.from({ length: n }, (_, i) => line(i)).join('\n');
const table = (outcome: string, of: (i: number) => string = (i) => String(Number(i % 17 > 8))): string =>
  file(`a,b,${outcome}\n${lines(60, (i) => `${i % 17},${i % 5},${of(i)}`)}\n`);

/** Gemm over two columns, and what follows. */
const net = (more: readonly NodeSpec[], outputs: readonly string[], change: Partial<GraphSpec> = {}): Uint8Array =>
  buildOnnx({
    nodes: [{ op: 'Gemm', inputs: ['x', 'w', 'c'], outputs: ['z'] }, ...more],
    inputs: [{ name: 'x', type: 'float32', shape: [null, 2] }],
    outputs: outputs.map((name) => ({ name, type: 'float32', shape: [null, 1] })),
    constants: [
      { name: 'w', type: 'float32', dims: [2, 1], values: [0.5, -0.25] },
      { name: 'c', type: 'float32', dims: [1], values: [-3] },
    ],
    ...change,
  });
const SIGMOID: NodeSpec = { op: 'Sigmoid', inputs: ['z'], outputs: ['p'] };

describe('graphs of neural networks', () => {
  test('one score in 0…1 for an outcome of two values is a probability', async () => {
    const { manifest } = await propose(net([SIGMOID], ['p']), table('ok'));
    expect(manifest).toMatchObject({
      task: 'binary',
      classes: [0, 1],
      positive_class: 1,
      onnx: { probabilities: 'p' },
    });
  });

  test('without an outcome column it is a value with a warning, or a probability if that is said', async () => {
    const bare = file(`a,b\n${lines(60, (i) => `${i % 17},${i % 5}`)}\n`);
    const { manifest, report } = await propose(net([SIGMOID], ['p']), bare);
    expect(manifest.task).toBe('regression');
    expect(report.findings.map((f) => f.text).join()).toMatch(/if it is a probability, use --outcome or --task binary/);
    const { manifest: said } = await propose(net([SIGMOID], ['p']), bare, { task: 'binary' });
    expect(said).toMatchObject({ task: 'binary', classes: [0, 1], positive_class: 1 });
  });

  test('raw scores for such an outcome are asked about, not served as values', async () => {
    await expect(propose(net([], ['z']), table('ok'))).rejects.toThrow(/--output log_odds/);
    const { manifest } = await propose(net([], ['z']), table('ok'), { output: 'log_odds' });
    expect(manifest).toMatchObject({ task: 'binary', output: { kind: 'log_odds' } });
    const { manifest: value } = await propose(net([], ['z']), table('ok'), { task: 'regression' });
    expect(value).toMatchObject({ task: 'regression', onnx: { value: 'z' } });
  });

  test('of several outputs the probability is found, or one has to be named', async () => {
    const both = net([SIGMOID], ['z', 'p']);
    expect((await propose(both, table('ok'))).manifest.onnx.probabilities).toBe('p');
    const amounts = table('ok', (i) => String(i % 17));
    await expect(propose(both, amounts)).rejects.toThrow(/2 outputs \(z, p\).*--scores/);
    expect((await propose(both, amounts, { scores: 'z' })).manifest.onnx.value).toBe('z');
  });

  test('rows that see each other, and random numbers, are refused', async () => {
    const centred: NodeSpec[] = [
      { op: 'ReduceMean', inputs: ['z'], outputs: ['m'], attributes: { axes: { ints: [0] }, keepdims: { i: 1 } } },
      { op: 'Sub', inputs: ['z', 'm'], outputs: ['d'] },
      { op: 'Sigmoid', inputs: ['d'], outputs: ['p'] },
    ];
    await expect(propose(net(centred, ['p']), table('ok'))).rejects.toThrow(/depends on other rows/);
    const noisy: NodeSpec[] = [
      { op: 'RandomNormalLike', inputs: ['z'], outputs: ['n'] },
      { op: 'Add', inputs: ['z', 'n'], outputs: ['d'] },
    ];
    await expect(propose(net(noisy, ['d']), table('ok'))).rejects.toThrow(/draws random numbers/);
  });

  test.each([
    ['a fixed batch', [32, 2], /exactly 32 rows/],
    ['three dimensions', [null, 1, 2], /3 dimensions/],
    ['a single value', [], /single value/],
  ] as const)('%s is refused with what mends it', async (_, shape, reason) => {
    const onnx = net([SIGMOID], ['p'], { inputs: [{ name: 'x', type: 'float32', shape }] });
    await expect(propose(onnx, table('ok'))).rejects.toThrow(reason);
  });
});

describe('what is said of classes and outcomes', () => {
  test('1 of default is the bad class: which is wanted has to be said', async () => {
    const onnx = net([SIGMOID], ['p']);
    const options = { outcome: 'default' };
    await expect(propose(onnx, table('default'), options)).rejects.toThrow(/--positive-class 0 .*--positive-class 1/);
    const { manifest } = await propose(onnx, table('default'), { ...options, positiveClass: '0' });
    expect(manifest.positive_class).toBe(0);
  });

  test('a model that ranks its own table the wrong way round is warned about', async () => {
    const { report } = await propose(
      net([SIGMOID], ['p']),
      table('ok', (i) => String(Number(i % 17 < 9))),
    );
    expect(report.findings.map((f) => f.text).join()).toMatch(/probability of the other class/);
  });

  test('a regression exported without its last step is warned about', async () => {
    const amounts = table('ok', (i) => String(Math.exp(0.5 * (i % 17) - 0.25 * (i % 5) - 3)));
    const { report } = await propose(net([], ['z']), amounts);
    expect(report.findings.map((f) => f.text).join()).toMatch(/like its logarithm/);
  });

  test('predictions of the other class, and labels, are named as such', async () => {
    const onnx = net([SIGMOID], ['p']);
    const p = (i: number) => 1 / (1 + Math.exp(-(0.5 * (i % 17) - 0.25 * (i % 5) - 3)));
    const given = (of: (i: number) => number) =>
      readExpected(file(`probability\n${lines(60, (i) => String(of(i)))}\n`));
    const refused = async (of: (i: number) => number, why: RegExp) =>
      expect(propose(onnx, table('ok'), { expected: await given(of) })).rejects.toThrow(why);
    await refused((i) => 1 - p(i), /belong to class 0: use --positive-class 0/);
    await refused((i) => Number(p(i) > 0.5), /save predict_proba/);
    await refused((i) => Number(p(i).toFixed(3)), /rounded to 3 digits/);
  });
});

describe('tables', () => {
  const onnx = net([SIGMOID], ['p']);
  const rows = lines(60, (i) => `${i},${i % 17},${i % 5},${i % 2}`);
  test('the index column of pandas is left out', async () => {
    const { manifest } = await propose(onnx, file(`,a,b,ok\n${rows}\n`));
    expect(manifest.columns.map((c) => c.name)).toEqual(['a', 'b']);
  });

  test.each([
    ['Latin-1', Buffer.from('a,bä,ok\n1,2,0\n', 'latin1'), /not UTF-8/],
    ['gzip', Buffer.from([0x1f, 0x8b, 8, 0]), /gzip/],
    ['no header', '1.5,2,0\n1,2,1\n', /first line looks like data/],
    ['an outcome that is not named', 'a,b,target\n1,2,0\n1,3,1\n', /--outcome/],
  ])('%s is told', async (_, content, reason) => {
    await expect(propose(onnx, file(content))).rejects.toThrow(reason);
  });
  test('--ignore is checked', async () => {
    await expect(propose(onnx, table('ok'), { ignore: ['c'] })).rejects.toThrow(/--ignore names c/);
  });
});

describe('--encoding', () => {
  const read = (text: string) => readEncoding(file(text));
  test.each([
    ['numbers as texts', '{"a":{"x":"0","y":"1"}}', { x: 0, y: 1 }, undefined],
    ['dict(enumerate(…))', '{"a":{"0":"x","1":"y"}}', { x: 0, y: 1 }, undefined],
    ['dict(enumerate(…)) of digits', '{"a":{"0":"02134","1":"10115"}}', { '02134': 0, '10115': 1 }, undefined],
    ['dict(enumerate(…)) of some digits', '{"a":{"0":"7","1":"x"}}', { '7': 0, x: 1 }, undefined],
    ['numbers as texts, equal in both directions', '{"a":{"0":"1","1":"0"}}', { '0': 1, '1': 0 }, undefined],
    ['numbers as texts with gaps', '{"a":{"3":"0","7":"1"}}', { '3': 0, '7': 1 }, undefined],
    ['a list with the text of a missing value', '{"a":["x","nan"]}', { x: 0, nan: 1 }, 1],
    ['a list with the empty text', '{"a":["","x","nan"]}', { '': 0, x: 1, nan: 2 }, 0],
    ['a list with null', '{"a":["x",null,"y"]}', { x: 0, y: 2 }, undefined],
    ['booleans in a list', '{"a":[false,true]}', { False: 0, True: 1 }, undefined],
    ['NaN as Python writes it', '{"a":{"x":0,"NaN":NaN,"NaNny":2}}', { x: 0, NaNny: 2 }, 'nan'],
    ['what missing became', '{"a":{"x":0,"nan":-1}}', { x: 0 }, -1],
  ])('%s', async (_, text, codes, missing) => {
    const encoding = await read(text);
    expect(encoding.codes.a).toEqual(codes);
    expect(encoding.missing.a).toEqual(missing);
  });
  test.each(['{"0":"1","1":"2","2":"0"}', '{"0":"10115","1":"94105"}'])(
    '%s can be read in both directions',
    async (map) => {
      await expect(read(`{"codes":{"zip":${map}}}`)).rejects.toThrow(
        'codes.zip maps codes to categories or categories to codes: write the categories as a list',
      );
    },
  );
  test('columns that do not exist are refused; flags find their codes, and 10.0 has the code of 10', async () => {
    const onnx = net([SIGMOID], ['p']);
    const content = `a,b,ok\n${lines(40, (i) => `${i % 2 ? 'True' : 'False'},${10 * (i % 3)}.0,${i % 2}`)}\n`;
    await expect(propose(onnx, file(content), { encoding: await read('{"c":{"x":0}}') })).rejects.toThrow(
      /names c in codes/,
    );
    const codes = '{"a":{"false":5,"true":7},"b":{"0":1,"10":2,"20":3}}';
    const encoding = await read(`{"codes":${codes},"unseen":{"b":4}}`);
    const { manifest, report } = await propose(onnx, file(content), { encoding });
    expect(manifest.columns[0]).toMatchObject({ kind: 'boolean', false_as: 5, true_as: 7 });
    expect(manifest.columns[1]!.codes).toEqual({ '0': 1, '10': 2, '20': 3 });
    expect(report.findings.filter((f) => f.text.includes('has no code'))).toEqual([]);
  });
});
