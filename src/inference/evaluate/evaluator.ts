// The minimal interface of all evaluators: encoded inputs in, raw model scores out.
import type { EncodedInput } from '../encode/encoder.ts';

/** Row-major scores of a micro-batch, `rows * width` entries. `width`: number of classes, or 1. */
export interface Scores {
  readonly values: Float32Array | Float64Array;
  readonly width: number;
}

export interface Evaluator {
  /** The engine's name in summaries. */
  readonly name: 'onnxruntime' | 'native';
  /**
   * Scores the first `rows` rows of the inputs, whose arrays have `paddedRows(rows)` rows of valid values. The next
   * call may overwrite the result.
   * @throws SluiceError model_failed
   */
  score(inputs: readonly EncodedInput[], rows: number): Promise<Scores>;
  /** Synchronous `score`, if the engine supports it. */
  scoreNow?(inputs: readonly EncodedInput[], rows: number): Scores;
  close(): Promise<void>;
}
