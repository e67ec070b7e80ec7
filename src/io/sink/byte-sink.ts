// The narrow interface of every sink: bytes in order, then either commit or abort.

export interface ByteSink {
  /** Writes all of `bytes`; the caller may reuse them once this resolves. @throws SluiceError output_* */
  write(bytes: Uint8Array): Promise<void>;
  /** Publishes what was written and closes the sink. */
  commit(): Promise<void>;
  /** Discards what was written where that is possible. Idempotent, never throws. */
  abort(): Promise<void>;
  /** `abort` discards what was written: nothing is visible before `commit`. */
  readonly revocable: boolean;
  /** Discards everything after the first `bytes`. Some revocable sinks only. */
  rewind?(bytes: number): Promise<void>;
  /** What was written so far outlives a power cut once this resolves. Sinks of files only. @throws SluiceError output_failed | output_full */
  sync?(): Promise<void>;
  /**
   * Told after each block, where the sink is to know of them: gives how many bytes of the file hold all that was written, if whoever
   * writes on behind them later makes the same file; null: not at this place. Absent: at no place.
   */
  blockEnd?(): Promise<number | null>;
  /** What an earlier run wrote, where this one goes on behind it. */
  earlier?(): AsyncIterable<Uint8Array>;
  /** Bytes written so far. */
  readonly bytesWritten: number;
}
