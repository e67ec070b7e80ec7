// The narrow interface of every sink: bytes in order, then either commit or abort.

export interface ByteSink {
  /** Writes all of `bytes`; the caller may reuse them once this resolves. @throws SluiceError output_* */
  write(bytes: Uint8Array): Promise<void>;
  /** Publishes the written bytes and closes the sink. */
  commit(): Promise<void>;
  /** Discards the written bytes where possible. Idempotent, never throws. */
  abort(): Promise<void>;
  /** `abort` discards the written bytes: nothing is visible before `commit`. */
  readonly revocable: boolean;
  /** Discards everything after the first `bytes`. Some revocable sinks only. */
  rewind?(bytes: number): Promise<void>;
  /**
   * The bytes written so far survive a power failure once this resolves. Sinks of files only.
   * @throws SluiceError output_failed | output_full
   */
  sync?(): Promise<void>;
  /**
   * Called after each block. Returns the offset from which a resumed run can append byte-identically; null: not at this
   * place. Absent: at no place.
   */
  blockEnd?(): Promise<number | null>;
  /** The bytes of an earlier run that this one continues. */
  earlier?(): AsyncIterable<Uint8Array>;
  /** Bytes written so far. */
  readonly bytesWritten: number;
}
