// A model as ONNX Runtime gets it: refused if it cannot be served right, without ZipMap.
import { SluiceError } from '../../core/errors.ts';
import type { OnnxModel, ValueInfo } from './graph.ts';
import { refusals } from './refusals.ts';
import { withoutZipMap } from './zipmap.ts';

/** A model as it is given to ONNX Runtime, and what must be known of it then: plain data. */
export interface Servable {
  bytes: Uint8Array;
  /** Outputs that were ZipMaps → the tensors behind them. */
  renamed: ReadonlyMap<string, string>;
  inputs: readonly ValueInfo[];
  outputs: readonly string[];
}

/**
 * Takes ZipMap out of a model from `readChecked`.
 * @throws SluiceError model_invalid when the graph is refused
 */
export function servable(model: OnnxModel): Servable {
  const reasons = refusals(model);
  if (reasons.length > 0) throw new SluiceError('model_invalid', reasons.join('; '));
  const { inputs, outputs } = model.graph;
  return { ...withoutZipMap(model), inputs, outputs: outputs.map((o) => o.name) };
}
