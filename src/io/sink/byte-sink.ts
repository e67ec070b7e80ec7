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
  /** Bytes written so far. */
  readonly bytesWritten: number;
}
