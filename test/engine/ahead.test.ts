// A run that begins before the evaluators were compared: it holds when they agree, and leaves no trace when they do not.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { judge } from '../../src/inference/sandbox/verdict.ts';
import { openFileSink } from '../../src/io/sink/file-sink.ts';
import { openFile } from '../../src/io/source/byte-source.ts';
import type { ModelPackage } from '../../src/model/package/model-package.ts';
import { scratch } from '../support/cli.ts';
import { type ForestSpec, forestNode, manifestFor } from '../support/forest.ts';
import { buildOnnx } from '../support/onnx-build.ts';
import { modelOnly } from '../support/registries/packages.ts';
import { type ScoreFileOptions, scoreFile } from '../support/score.ts';

const spec: ForestSpec = { seed: 3, kind: 'classifier', trees: 20, leaves: 15, features: 4, targets: 2, weights: 'first', modes: ['BRANCH_LEQ'], missing: true, base: 1, post: 'NONE' }; // biome-ignore format: one line
const ROWS = 20_000;

/**
 * Trees, a softmax and a scale. Our exponential and that of ONNX Runtime differ in the last bit: `scale` 1 is within what is
 * allowed, 1e6 and its doubles are not.
 */
function packageOf(folder: string, scale: number): ModelPackage {
  const bytes = buildOnnx({
    nodes: [
      { ...forestNode(spec), outputs: ['label', 'raw'] },
      { op: 'Softmax', inputs: ['raw'], outputs: ['both'], attributes: { axis: { i: 1 } } },
      { op: 'Gather', inputs: ['both', 'one'], outputs: ['second'], attributes: { axis: { i: 1 } } },
      { op: 'Mul', inputs: ['second', 'scale'], outputs: ['scaled'] },
      { op: 'Add', inputs: ['scaled', 'shift'], outputs: ['scores'] },
    ],
    constants: [
      { name: 'one', type: 'int64', dims: [1], values: [1] },
      { name: 'scale', type: 'float32', dims: [1], values: [scale] },
      { name: 'shift', type: 'float32', dims: [1], values: [-scale / 2] },
    ],
    inputs: [{ name: 'x', type: 'float32', shape: [null, spec.features] }],
    outputs: [{ name: 'scores', type: 'float32', shape: [null, 1] }],
  });
  writeFileSync(path.join(folder, 'model.onnx'), bytes);
  const manifest = manifestFor([{ name: 'x', type: 'float32', columns: ['c0', 'c1', 'c2', 'c3'] }], 1);
  manifest.onnx.sha256 = createHash('sha256').update(bytes).digest('hex');
  return modelOnly(folder, manifest, bytes);
}

/** Numbers around zero, as the thresholds are; every thousandth row has one too few. */
function applications(file: string, rows = ROWS): void {
  const lines = ['c0,c1,c2,c3'];
  for (let i = 0; i < rows; i++) {
    const cells = [1, 2, 3, 4].map((k) => (Math.sin(i * k) * 3).toFixed(3));
    lines.push(cells.slice(0, i % 1000 === 999 ? 3 : 4).join(','));
  }
  writeFileSync(file, lines.join('\n'));
}

interface Run {
  result: Awaited<ReturnType<typeof scoreFile>> | { error: string };
  repeats: number;
  files: string[];
  output: string | null;
  rejects: string | null;
}

async function run(
  scale: number,
  options: Partial<ScoreFileOptions> = {},
  { inputs = scratch(), rows = ROWS } = {},
): Promise<Run> {
  const outputs = scratch();
  const input = path.join(inputs, 'in.csv');
  applications(input, rows);
  const [output, rejects] = [path.join(outputs, 'out.csv'), path.join(outputs, 'rejects.csv')];
  const open = async () => ({ source: await openFile(input), sink: await openFileSink(output) });
  let repeats = 0;
  const result = await scoreFile({
    model: packageOf(inputs, scale),
    ...(await open()),
    again: () => {
      repeats++;
      return open();
    },
    openRejects: () => openFileSink(rejects),
    delimiter: ',',
    output: { format: 'csv', delimiter: ',' },
    passthrough: [],
    workers: 2,
    ...options,
  }).catch((error: { code: string }) => ({ error: error.code }));
  const files = readdirSync(outputs).sort();
  const read = (file: string) => (files.includes(path.basename(file)) ? readFileSync(file, 'utf8') : null);
  return { result, repeats, files, output: read(output), rejects: read(rejects) };
}

test('evaluators that agree: the run counts', async () => {
  const got = await run(1);
  expect(got.result).toMatchObject({ evaluator: 'native', rows: ROWS, rejected: 20 });
  expect(got.repeats).toBe(0);
  expect(got.files).toEqual(['out.csv', 'rejects.csv']);
});

test('evaluators that do not: all of it is done again by ONNX Runtime, and nothing else is left', async () => {
  const want = await run(1e6, { engine: 'onnxruntime' });
  const got = await run(1e6);
  expect(got.result).toMatchObject({ evaluator: 'onnxruntime', rows: ROWS, scored: ROWS - 20, rejected: 20 });
  expect(got.repeats).toBe(1);
  expect(got.files).toEqual(['out.csv', 'rejects.csv']);
  expect(got.output).toBe(want.output);
  expect(got.rejects).toBe(want.rejects);
  // What the run that did not count would have written is something else.
  const { plan } = await judge(packageOf(scratch(), 1e6), 'auto').draft;
  expect(plan).toBeNull();
});

test('an input that ends before the verdict waits for it before its output is published', async () => {
  const rows = 3;
  const want = await run(32e6, { engine: 'onnxruntime' }, { rows });
  const got = await run(32e6, {}, { rows });
  expect(got.result).toMatchObject({ evaluator: 'onnxruntime', rows });
  expect(got.repeats).toBe(1);
  expect(got.output).toBe(want.output);
});

test('an input that cannot be read again waits for the verdict', async () => {
  const got = await run(2e6, { again: undefined } as object);
  expect(got.result).toMatchObject({ evaluator: 'onnxruntime', rows: ROWS, rejected: 20 });
});

test('what ends a run that does not count ends the one that does, too', async () => {
  const got = await run(8e6, { failOnInvalid: true });
  expect(got).toMatchObject({ result: { error: 'invalid_row' }, repeats: 1, files: [] });
});

test('a run that the user ends is not begun again', async () => {
  const got = await run(4e6, { signal: AbortSignal.abort() });
  expect(got).toMatchObject({ result: { error: 'cancelled' }, repeats: 0, files: [] });
});

test('a model that is refused leaves nothing', async () => {
  const got = await run(16e6, { engine: 'native' });
  expect(got).toMatchObject({ result: { error: 'model_invalid' }, repeats: 0, files: [] });
});
