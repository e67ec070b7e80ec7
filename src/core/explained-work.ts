// Progress and estimated duration of interpretations.
// The estimate is based on measurements, because only the number of evaluations is known in advance.
import { monotonicMs } from './clock.ts';

/**
 * Number of rows whose effects were computed (which may include fractions of rows), and number of model evaluations for
 * these rows.
 */
export interface Explained {
  rows: number;
  evaluations: number;
}

export interface ExplainedProgress extends Explained {
  /** Number of rows in the whole input. This is an estimate until the end of the input is reached. */
  totalRows: number;
  /** Completed fraction of the work, 0 to 1. */
  share: number;
  /** Estimated seconds from the first row to the end; null: too early to estimate. */
  seconds: number | null;
  secondsLeft: number | null;
}

/**
 * Time before the measurement starts, ms. The first results are not representative, because code is not optimised yet
 * and not all workers are running.
 */
const WARM_UP_MS = 2000;
/** Minimum duration of the measurement, ms. */
const MEASURED_MS = 3000;

export class ExplainedWork {
  /** Number of rows sent to workers. */
  rowsIn = 0;
  #done: Explained = { rows: 0, evaluations: 0 };
  /** When the first effects were computed. */
  #began: number | null = null;
  /** When the measurement started, and the number of rows that were done at that time. */
  #from: { at: number; rows: number } | null = null;
  #last = 0;

  /** Adds progress. The numbers are negative if a worker died and its work is repeated. */
  add({ rows, evaluations }: Explained, now = monotonicMs()): void {
    this.#done.rows += rows;
    this.#done.evaluations += evaluations;
    this.#began ??= now;
    if (now - this.#began >= WARM_UP_MS) this.#from ??= { at: now, rows: this.#done.rows };
    this.#last = now;
  }

  get done(): Readonly<Explained> {
    return this.#done;
  }

  /**
   * `read`: fraction of the input that `rowsIn` represents, 0 to 1; null: unknown. Returns null if `read` is unknown or
   * 0, or if no effects were computed yet.
   */
  progress(read: number | null): ExplainedProgress | null {
    if (this.#began === null || read === null || !(read > 0)) return null;
    const { rows, evaluations } = this.#done;
    const totalRows = Math.max(this.rowsIn / Math.min(1, read), rows);
    const known = { rows, evaluations, totalRows: Math.round(totalRows), share: rows / Math.max(totalRows, 1) };
    const from = this.#from;
    const [ms, measured] = from === null ? [0, 0] : [this.#last - from.at, rows - from.rows];
    if (from === null || ms < MEASURED_MS || measured <= 0) return { ...known, seconds: null, secondsLeft: null };
    const rowMs = ms / measured;
    const seconds = (from.at - this.#began + rowMs * (totalRows - from.rows)) / 1000;
    return { ...known, seconds, secondsLeft: (rowMs * (totalRows - rows)) / 1000 };
  }
}
