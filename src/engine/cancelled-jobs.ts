// Which jobs of a worker are wanted no more: set where their stream is closed, looked at by the worker between rows.

/** More than a worker holds at a time; jobs whose numbers share a cell only lose a cancellation. */
const CELLS = 64;

export class CancelledJobs {
  /** For the worker thread that shares them. */
  readonly buffer: SharedArrayBuffer;
  readonly #cells: Int32Array;

  constructor(buffer = new SharedArrayBuffer(CELLS * Int32Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#cells = new Int32Array(buffer);
  }

  add(job: number): void {
    Atomics.store(this.#cells, job % CELLS, job);
  }

  has(job: number): boolean {
    return Atomics.load(this.#cells, job % CELLS) === job;
  }
}
