// The minimal interface of all sinks: bytes in order, then either commit or abort.

export interface ByteSink {
  /** Writes all of `bytes`; the caller may reuse them once this resolves. @throws SluiceError output_* */
  write(bytes: Uint8Array): Promise<void>;
  /** Publishes the written bytes and closes the sink. */
  commit(): Promise<void>;
  /** Discards the written bytes where possible. Idempotent, never throws. */
  abort(): Promise<void>;
  /** Whether `abort` discards all written bytes, because nothing is visible before `commit`. */
  readonly revocable: boolean;
  /** Discards everything after the first `bytes`. Only some revocable sinks support it. */
  rewind?(bytes: number): Promise<void>;
  /**
   * Resolves when the bytes written so far are durable, even after a power failure. File sinks only.
   * @throws SluiceError output_failed | output_full
   */
  sync?(): Promise<void>;
  /**
   * Called after each block. Returns the offset from which a resumed run can append byte-identically; null: not after
   * this block. Absent: never possible.
   */
  blockEnd?(): Promise<number | null>;
  /** Bytes written by the interrupted run that this one resumes. */
  earlier?(): AsyncIterable<Uint8Array>;
  /** Bytes written so far. */
  readonly bytesWritten: number;
}
