// The interface of all sinks, which receive bytes in order, followed by either a commit or an abort.

export interface ByteSink {
  /** Writes all of `bytes`. The caller may reuse the buffer when the promise resolves. @throws SluiceError output_* */
  write(bytes: Uint8Array): Promise<void>;
  /** Publishes the written bytes and closes the sink. */
  commit(): Promise<void>;
  /** Discards the written bytes if possible (see `revocable`). Idempotent, never throws. */
  abort(): Promise<void>;
  /** Whether `abort` discards all written bytes, because nothing is visible before `commit`. */
  readonly revocable: boolean;
  /** Discards everything after the first `bytes` bytes. Only some revocable sinks support this. */
  rewind?(bytes: number): Promise<void>;
  /**
   * Resolves when the bytes written so far are durable, even after a power failure. Only file sinks support this.
   * @throws SluiceError output_failed | output_full
   */
  sync?(): Promise<void>;
  /**
   * Called after each block. Returns the offset from which a resumed run can append byte-identically. null: a run
   * cannot resume after this block. A sink without this method can never resume.
   */
  blockEnd?(): Promise<number | null>;
  /** The bytes written by the interrupted run that this run resumes. */
  earlier?(): AsyncIterable<Uint8Array>;
  /** Number of bytes written so far. */
  readonly bytesWritten: number;
}
