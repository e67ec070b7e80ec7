// How far the work of interpretations has come, and how long the rest takes: measured, because only the evaluations are known beforehand.
import { monotonicMs } from './clock.ts';

/** Rows whose effects are done (parts of rows, too), and the evaluations of the model they took. */
export interface Explained {
  rows: number;
  evaluations: number;
}

export interface ExplainedProgress extends Explained {
  /** Rows of the whole input, as far as it was read; estimated until its end. */
  totalRows: number;
  /** Of the work, 0 to 1. */
  share: number;
  /** From the first rows to the end; null: too little was done to say. */
  seconds: number | null;
  secondsLeft: number | null;
}

/** The first results say little about the rest: code is not optimised yet, and not all workers are running. */
const WARM_UP_MS = 2000;
/** Neither do results after a shorter time. */
const MEASURED_MS = 3000;

export class ExplainedWork {
  /** Rows that workers were given. */
  rowsIn = 0;
  #done: Explained = { rows: 0, evaluations: 0 };
  /** When the first were done. */
  #began: number | null = null;
  /** When measuring began, and how many were done by then. */
  #from: { at: number; rows: number } | null = null;
  #last = 0;

  /** More is done; less, where a worker died and its work is done again. */
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

  /** `read`: the share of the input that `rowsIn` are, 0 to 1. null: nothing is interpreted, or nothing is known of the input. */
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
