// The minimal interface of all evaluators: takes encoded inputs, returns raw model scores.
import type { EncodedInput } from '../encode/encoder.ts';

/** Scores of a micro-batch in row-major order, `rows * width` entries. `width`: number of classes, or 1. */
export interface Scores {
  readonly values: Float32Array | Float64Array;
  readonly width: number;
}

export interface Evaluator {
  /** Name of the evaluator in summaries. */
  readonly name: 'onnxruntime' | 'native';
  /**
   * Scores the first `rows` rows of the inputs. The arrays of the inputs have `paddedRows(rows)` rows with valid
   * values. The next call may overwrite the result.
   * @throws SluiceError model_failed
   */
  score(inputs: readonly EncodedInput[], rows: number): Promise<Scores>;
  /** `score` without a promise, if the evaluator supports it. */
  scoreNow?(inputs: readonly EncodedInput[], rows: number): Scores;
  close(): Promise<void>;
}
