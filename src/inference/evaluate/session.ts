// Opens evaluator sessions: either ONNX Runtime (single-threaded, without ZipMap), or the interpreter of files of
// training libraries.
import '../../core/no-telemetry.ts';
import * as ort from 'onnxruntime-node';
import { SluiceError } from '../../core/errors.ts';
import { BOOSTER_INPUT, boosterOf, boosterOutput } from '../boosters/booster.ts';
import { interpret } from '../boosters/interpreter.ts';
import { readModel } from '../boosters/read-model.ts';
import type { EncodedInput } from '../encode/encoder.ts';
import type { Servable } from '../onnx/servable.ts';

/** An output tensor: typed values and dimensions. */
export interface OutputTensor {
  data: Float32Array | Float64Array | BigInt64Array | Int32Array | Uint8Array | string[];
  dims: readonly number[];
}

export interface SessionInput {
  name: string;
  /** Element type as named by ONNX Runtime, such as float32. */
  type: string;
  /** Number of columns that the graph accepts; null if unspecified. */
  width: number | null;
  /** Whether the graph accepts exactly one row. */
  single: boolean;
}

export interface EvaluatorSession {
  readonly inputs: readonly SessionInput[];
  /** Names of the tensor outputs; ZipMap outputs keep their original names. */
  readonly outputs: readonly string[];
  /**
   * Runs rows `from` to `to - 1` of the inputs. Blocks the calling thread.
   * @throws SluiceError model_failed
   */
  run(inputs: readonly EncodedInput[], from: number, to: number, outputs: readonly string[]): Promise<OutputTensor[]>;
  close(): Promise<void>;
}

/** Initialises ONNX Runtime, so that the first session need not wait for it. */
export async function warmUp(): Promise<void> {
  // One byte is not a valid model, so the call fails, but only after the initialisation.
  await ort.InferenceSession.create(new Uint8Array(1), { logSeverityLevel: 4 }).catch(() => {});
}

/** A session that interprets a file of a training library. @throws SluiceError model_invalid */
function openInterpreter(bytes: Uint8Array): EvaluatorSession {
  const booster = boosterOf(readModel(bytes))!;
  const name = boosterOutput(booster);
  return {
    inputs: [{ name: BOOSTER_INPUT, type: booster.compared, width: booster.features.length, single: false }],
    outputs: [name],
    async run(inputs, from, to, outputs) {
      const data = interpret(booster, inputs, from, to);
      return outputs.map(() => ({ data, dims: [to - from, booster.targets] }));
    },
    close: async () => {},
  };
}

/**
 * Opens a session with one thread. With more threads, scores would depend on the batch size.
 * @throws SluiceError model_invalid if the graph does not load
 */
export async function openSession(graph: Servable): Promise<EvaluatorSession> {
  if (graph.format === 'booster') return openInterpreter(graph.bytes);
  let session: ort.InferenceSession;
  try {
    session = await ort.InferenceSession.create(graph.bytes, {
      intraOpNumThreads: 1,
      interOpNumThreads: 1,
      executionMode: 'sequential',
      executionProviders: ['cpu'],
      logSeverityLevel: 4,
    });
  } catch (cause) {
    throw new SluiceError('model_invalid', `ONNX Runtime cannot load the model: ${message(cause)}${hint(cause)}`, {
      cause,
    });
  }
  const original = new Map([...graph.renamed].map(([output, tensor]) => [tensor, output]));
  const inputs = session.inputMetadata.map((m): SessionInput => {
    const shape = m.isTensor ? m.shape : [];
    // Without a declared shape, the width is unknown. A single dimension means one column.
    const declared = graph.inputs.find((i) => i.name === m.name)?.type;
    const unknown = declared?.kind === 'tensor' && declared.shape === null;
    const width = unknown ? null : shape.length < 2 ? 1 : shape[1];
    return {
      name: m.name,
      type: m.isTensor ? m.type : 'no tensor',
      width: typeof width === 'number' && width > 0 ? width : null,
      single: shape[0] === 1,
    };
  });
  const flat = new Set(session.inputMetadata.filter((m) => m.isTensor && m.shape.length === 1).map((m) => m.name));
  return {
    inputs,
    outputs: session.outputMetadata
      .filter((m) => m.isTensor)
      .flatMap((m) => {
        const zip = original.get(m.name);
        return zip === undefined || graph.outputs.includes(m.name)
          ? [m.name, ...(zip === undefined ? [] : [zip])]
          : [zip];
      }),
    async run(encoded, from, to, outputs) {
      const feeds: Record<string, ort.Tensor> = {};
      for (const i of encoded) {
        const [start, end] = [from * i.width, to * i.width];
        // A view suffices, because the session reads the data before `run` returns.
        const data = (Array.isArray(i.data) ? i.data.slice(start, end) : i.data.subarray(start, end)) as Float32Array;
        feeds[i.name] = new ort.Tensor(
          i.type as 'float32',
          data,
          flat.has(i.name) && i.width === 1 ? [to - from] : [to - from, i.width],
        );
      }
      const names = outputs.map((o) => graph.renamed.get(o) ?? o);
      let result: ort.InferenceSession.OnnxValueMapType;
      try {
        result = await session.run(feeds, [...new Set(names)]);
      } catch (cause) {
        throw new SluiceError('model_failed', `ONNX Runtime: ${message(cause)}`, { cause });
      }
      return names.map((n) => {
        const t = result[n] as ort.Tensor;
        return { data: t.data as OutputTensor['data'], dims: t.dims };
      });
    },
    async close() {
      await session.release();
    },
  };
}

/** The first line of ONNX Runtime's error message, without source locations and signatures. */
function message(cause: unknown): string {
  const line = cause instanceof Error ? cause.message.split('\n')[0]! : String(cause);
  const [, operator] = line.split('while running ', 2);
  const marker = 'Status Message: ';
  const at = line.indexOf(marker);
  if (operator === undefined || at < 0) return line;
  const status = line.slice(at + marker.length, at + marker.length + LONGEST_STATUS);
  return `${operator.split(' ', 1)[0]} fails: ${withoutSource(status).trim().slice(0, 300)}`;
}

/**
 * Maximum length of a status message in characters. Names in a graph, which the message contains, can be of any length.
 */
const LONGEST_STATUS = 2000;

/**
 * Removes ONNX Runtime's source position and function signature from the start of a message: `/a/b.cc:12 void f(int)
 * [with …] text`.
 */
function withoutSource(status: string): string {
  const text = status.startsWith('/') ? status.slice(status.indexOf(' ') + 1) : status;
  for (let end = text.lastIndexOf(') '); end > 0; end = text.lastIndexOf(') ', end - 1)) {
    let rest = text.slice(end + 2);
    if (rest.startsWith('const ')) rest = rest.slice('const '.length);
    const closed = rest.startsWith('[with ') ? rest.indexOf('] ') : -1;
    if (closed >= 0) rest = rest.slice(closed + 2);
    if (/^['"\w]/.test(rest)) return rest;
  }
  return text;
}

/** Suggests a fix for load errors that known exporters cause. */
function hint(cause: unknown): string {
  const text = String(cause);
  if (/implementation for Imputer/.test(text)) {
    return ' – ONNX Runtime has no Imputer for double: export with FloatTensorType inputs';
  }
  const missing = /implementation for (\w+)|No Op registered for (\w+)/.exec(text);
  if (missing)
    return ` – ONNX Runtime has no ${missing[1] ?? missing[2]} of this type or version: export with another target_opset`;
  return /opset/i.test(text) ? ' – export with a lower target_opset' : '';
}
