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
  /** Bytes written so far. */
  readonly bytesWritten: number;
}
