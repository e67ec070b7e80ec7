// The narrow interface of every sink: bytes in order, then either commit or abort.

export interface ByteSink {
  /** Writes all of `bytes`; the caller may reuse them once this resolves. @throws SluiceError output_* */
  write(bytes: Uint8Array): Promise<void>;
  /** Makes what was written the result. After it the sink is closed. */
  commit(): Promise<void>;
  /** Leaves no trace of what was written where that is possible. Idempotent, never throws. */
  abort(): Promise<void>;
  /** `abort` takes back what was written: nobody sees it before `commit`. */
  readonly revocable: boolean;
  /** Takes back what was written after the first `bytes`. Only of revocable sinks, and not of all. */
  rewind?(bytes: number): Promise<void>;
  /** Bytes written so far. */
  readonly bytesWritten: number;
}
