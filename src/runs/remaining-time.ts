// Estimates how long the rest of a run takes. A run uses more threads only for much remaining work.
import { monotonicMs } from '../core/clock.ts';
import type { OpenSource } from './byte-ends.ts';

/** Shorter measurements of the speed are not used, in ms. */
const SHORTEST_MS = 150;

/**
 * Estimates how long scoring the rest of an input takes. The first blocks of a run take several times as long as later
 * ones, because V8 has not optimised the code yet. Therefore the estimate uses only the speed since the first call. If
 * nothing was read since then, it uses the average speed.
 */
export class RemainingTime {
  readonly #input: Pick<OpenSource, 'totalBytes' | 'bytesRead'>;
  readonly #began = monotonicMs();
  /** Time and progress at the first call. */
  #first: { at: number; bytes: number } | null = null;

  constructor(input: Pick<OpenSource, 'totalBytes' | 'bytesRead'>) {
    this.#input = input;
  }

  /** Estimated ms; Infinity if the size of the input is unknown, and 0 while the speed is unknown. */
  ms(): number {
    const { totalBytes } = this.#input;
    if (totalBytes === null) return Infinity;
    const now = monotonicMs();
    const bytes = this.#input.bytesRead();
    this.#first ??= { at: now, bytes };
    if (now - this.#first.at < SHORTEST_MS) return 0;
    const from = bytes > this.#first.bytes ? this.#first : { at: this.#began, bytes: 0 };
    return bytes === 0 ? Infinity : ((now - from.at) * (totalBytes - bytes)) / (bytes - from.bytes);
  }
}
