// A model as it is handed to ONNX Runtime: without ZipMap, and refused if it cannot be served correctly.
import { SluiceError } from '../../core/errors.ts';
import type { OnnxModel, ValueInfo } from './graph.ts';
import { refusals } from './refusals.ts';
import { withoutZipMap } from './zipmap.ts';

/** A model for ONNX Runtime with the names and types of its inputs and outputs. Plain data. */
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
