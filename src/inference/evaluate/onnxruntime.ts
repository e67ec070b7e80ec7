// Evaluates models with ONNX Runtime, which is the fallback for all models and the reference for the native evaluator.
// Each session has one thread, so that the bits of a row do not depend on the other rows of its batch.
import { SluiceError } from '../../core/errors.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { scoreOutputs } from '../../model/package/model-package.ts';
import { type EncodedInput, paddedRows } from '../encode/encoder.ts';
import type { Servable } from '../onnx/servable.ts';
import type { Evaluator, Scores } from './evaluator.ts';
import { type EvaluatorSession, type OutputTensor, openSession } from './session.ts';

/**
 * Opens a session for a model that was already parsed and checked. Scoring blocks the calling thread, so use a session
 * only in a worker.
 * @throws SluiceError model_invalid if the graph does not load, or if its inputs and outputs do not match the package
 */
export async function openOnnxRuntime(model: Servable, manifest: Manifest): Promise<Evaluator> {
  const session = await openSession(model);
  const problems = mismatches(session, manifest);
  if (problems.length > 0) {
    await session.close();
    throw new SluiceError('model_invalid', problems.join('; '));
  }
  const oneByOne = session.inputs.some((i) => i.single);
  const width = manifest.classes?.length ?? 1;
  const outputs = scoreOutputs(manifest);
  const run = async (inputs: readonly EncodedInput[], from: number, to: number): Promise<Scores> =>
    scoresOf(await session.run(inputs, from, to, outputs), to - from, width);

  return {
    name: 'onnxruntime',
    async score(inputs, rows): Promise<Scores> {
      if (!oneByOne) {
        const all = await run(inputs, 0, paddedRows(rows));
        return { values: all.values.subarray(0, rows * all.width), width: all.width };
      }
      const values = new Float32Array(rows * width);
      let got = width;
      for (let r = 0; r < rows; r++) {
        const one = await run(inputs, r, r + 1);
        got = one.width;
        values.set(one.values, r * got);
      }
      return { values: values.subarray(0, rows * got), width: got };
    },
    close: () => session.close(),
  };
}

/**
 * Converts the output tensors to row-major scores. The output is one tensor [rows, classes], or one tensor per class.
 * @throws SluiceError model_failed if the tensors are not floats or have a wrong number of columns
 */
export function scoresOf(tensors: readonly OutputTensor[], rows: number, classes: number): Scores {
  const columns = tensors.map((t) => {
    if (t.data instanceof Float32Array || t.data instanceof Float64Array) return t.data;
    throw new SluiceError('model_failed', 'the output that should carry the scores is not float or double');
  });
  const [first] = columns as [Float32Array | Float64Array];
  const width = columns.length > 1 ? columns.length : rows === 0 ? classes : first.length / rows;
  if ((width !== 1 && width !== classes) || (columns.length > 1 && columns.some((c) => c.length !== rows))) {
    throw new SluiceError('model_failed', `the output has ${width} columns for ${classes} classes`);
  }
  if (columns.length === 1) return { values: first, width };
  const values = first instanceof Float32Array ? new Float32Array(rows * width) : new Float64Array(rows * width);
  columns.forEach((c, j) => {
    for (let r = 0; r < rows; r++) values[r * width + j] = c[r]!;
  });
  return { values, width };
}

/**
 * Lists the differences between session and package. Names and types must be checked here, because ONNX Runtime ignores
 * unknown inputs.
 */
export function mismatches(session: Pick<EvaluatorSession, 'inputs' | 'outputs'>, manifest: Manifest): string[] {
  const problems: string[] = [];
  const declared = new Map(manifest.inputs.map((i) => [i.name, i]));
  for (const m of session.inputs) {
    const input = declared.get(m.name);
    if (!input) problems.push(`the package lists no input ${m.name}`);
    else {
      if (m.type !== input.type) problems.push(`input ${m.name} is ${m.type}, the package says ${input.type}`);
      const columns = input.columns?.length ?? 1;
      if (m.width !== null && m.width !== columns) {
        problems.push(`input ${m.name} has ${m.width} columns, the package lists ${columns}`);
      }
    }
    declared.delete(m.name);
  }
  for (const name of declared.keys()) problems.push(`the model has no input ${name}`);
  for (const name of scoreOutputs(manifest)) {
    if (!session.outputs.includes(name)) {
      problems.push(`the model has no output ${name} (it has ${session.outputs.join(', ')})`);
    }
  }
  return problems;
}
