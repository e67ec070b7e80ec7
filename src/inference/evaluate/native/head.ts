// The interface of the heads of native models: trees and linear.
import type { EncodedInput } from '../../encode/encoder.ts';
import type { Slot } from '../../trees/slots.ts';

/** Largest micro-batch; more rows are scored in several. */
export const CAPACITY = 512;

export interface Head {
  /** Scores per row. */
  readonly width: number;
  /** Scores are in double precision. */
  readonly double: boolean;
  /** Rows of the largest micro-batch. */
  readonly capacity: number;
  /** What the model asks of its inputs: comparison rows are drawn from the thresholds and categories. */
  readonly slots: readonly Slot[];
  /** For reports. */
  readonly description: string;
  /** Scores rows from..to-1 (at least one, at most `capacity`) into out[0..]. */
  score(inputs: readonly EncodedInput[], from: number, to: number, out: Float32Array | Float64Array): void;
}
