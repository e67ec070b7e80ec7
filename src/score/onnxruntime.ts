// The general engine and the oracle of all others: ONNX Runtime, one thread a session so that bits do not depend on neighbours.
import * as ort from 'onnxruntime-node';
import { SluiceError } from '../core/errors.ts';
import { type EncodedInput, paddedRows } from '../model/encoder.ts';
import type { Manifest } from '../model/manifest.ts';
import type { Evaluator, Scores } from './evaluator.ts';

/**
 * Opens a session on the bytes of a model. `run` blocks its thread, so this belongs into a worker.
 * @throws SluiceError model_invalid when the graph does not load, or its inputs and outputs are not those of the package
 */
export async function openOnnxRuntime(bytes: Uint8Array, manifest: Manifest): Promise<Evaluator> {
  let session: ort.InferenceSession;
  try {
    session = await ort.InferenceSession.create(bytes, {
      intraOpNumThreads: 1,
      interOpNumThreads: 1,
      executionMode: 'sequential',
      executionProviders: ['cpu'],
      logSeverityLevel: 3,
    });
  } catch (cause) {
    throw new SluiceError('model_invalid', `ONNX Runtime cannot load the model: ${message(cause)}`, { cause });
  }
  const output = manifest.onnx.probabilities ?? manifest.onnx.value!;
  const problems = mismatches(session, manifest, output);
  if (problems.length > 0) throw new SluiceError('model_invalid', problems.join('; '));
  const oneByOne = session.inputMetadata.some((m) => m.isTensor && m.shape[0] === 1);
  const width = manifest.classes?.length ?? 1;

  const run = async (inputs: readonly EncodedInput[], from: number, to: number): Promise<ort.Tensor> => {
    const feeds: Record<string, ort.Tensor> = {};
    for (const i of inputs) {
      const [start, end] = [from * i.width, to * i.width];
      // A view, no copy: the session reads it before `run` returns.
      const data = (Array.isArray(i.data) ? i.data.slice(start, end) : i.data.subarray(start, end)) as Float32Array;
      feeds[i.name] = new ort.Tensor(i.type as 'float32', data, [to - from, i.width]);
    }
    let result: ort.InferenceSession.OnnxValueMapType;
    try {
      result = await session.run(feeds, [output]);
    } catch (cause) {
      throw new SluiceError('model_failed', `ONNX Runtime: ${message(cause)}`, { cause });
    }
    return result[output] as ort.Tensor;
  };

  return {
    name: 'onnxruntime',
    async score(inputs, rows): Promise<Scores> {
      if (!oneByOne) {
        const padded = paddedRows(rows);
        const all = scoresOf(await run(inputs, 0, padded), padded, width);
        return { values: all.values.subarray(0, rows * all.width), width: all.width };
      }
      const values = new Float32Array(rows * width);
      let got = width;
      for (let r = 0; r < rows; r++) {
        const one = scoresOf(await run(inputs, r, r + 1), 1, width);
        got = one.width;
        values.set(one.values, r * got);
      }
      return { values: values.subarray(0, rows * got), width: got };
    },
    async close() {
      await session.release();
    },
  };
}

function scoresOf(tensor: ort.Tensor, rows: number, classes: number): Scores {
  const values = tensor.data;
  if (!(values instanceof Float32Array || values instanceof Float64Array)) {
    throw new SluiceError('model_failed', `the output is ${tensor.type}, not float or double`);
  }
  const width = rows === 0 ? classes : values.length / rows;
  if (width !== 1 && width !== classes) {
    throw new SluiceError('model_failed', `the output has ${width} columns for ${classes} classes`);
  }
  return { values, width };
}

/** ONNX Runtime ignores feeds it does not know, so names and types are checked here. */
function mismatches(session: ort.InferenceSession, manifest: Manifest, output: string): string[] {
  const problems: string[] = [];
  const declared = new Map(manifest.inputs.map((i) => [i.name, i]));
  for (const m of session.inputMetadata) {
    const input = declared.get(m.name);
    if (!input) problems.push(`the package lists no input ${m.name}`);
    else if (!m.isTensor) problems.push(`input ${m.name} is not a tensor`);
    else {
      if (m.type !== input.type) problems.push(`input ${m.name} is ${m.type}, the package says ${input.type}`);
      const columns = input.columns?.length ?? 1;
      const dim = m.shape[1];
      if (typeof dim === 'number' && dim > 0 && dim !== columns) {
        problems.push(`input ${m.name} has ${dim} columns, the package lists ${columns}`);
      }
    }
    declared.delete(m.name);
  }
  for (const name of declared.keys()) problems.push(`the model has no input ${name}`);
  const out = session.outputMetadata.find((m) => m.name === output);
  if (!out) problems.push(`the model has no output ${output} (it has ${session.outputNames.join(', ')})`);
  else if (!out.isTensor) problems.push(`output ${output} is not a tensor: export with zipmap off`);
  return problems;
}

const message = (cause: unknown): string => (cause instanceof Error ? cause.message.split('\n')[0]! : String(cause));
