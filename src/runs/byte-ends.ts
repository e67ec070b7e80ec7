// Open inputs and outputs of bytes, and the stages that all formats share: taps and compression.

import type { Compression } from '../core/file-format.ts';
import type { InputFormat, RunOutput } from '../engine/stream-spec.ts';
import type { GroupEnd } from '../formats/columns/table-format.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { PiecePlace } from '../io/source/block-cutter.ts';
import type { ByteSource, Chunks } from '../io/source/byte-source.ts';

/** Receives the raw bytes in order. */
export type StoredBytes = (bytes: Uint8Array) => void;

export interface OpenSource {
  chunks: Chunks;
  input: InputFormat;
  /** Size of the raw input in bytes; null if unknown. */
  totalBytes: number | null;
  bytesRead(): number;
  /** Position of this piece in the whole input; absent for the first piece. */
  place?: PiecePlace;
  /** Parquet only: `ends` are the ends of the row groups within `chunks`, the raw bytes of the file. */
  groups?: { ends: readonly GroupEnd[]; chunks: Chunks };
  /** Whether the input can be opened and read again. */
  repeatable: boolean;
  /** The function `again` of `ByteSource`, for raw bytes. */
  again?: ByteSource['again'];
  /**
   * Compares the input with the control totals after the last row. `rows`: number of applications. @throws SluiceError
   * control_total_mismatch
   */
  checkTotals?: (rows: number) => void;
  /** Idempotent. */
  close(): Promise<void>;
}

export interface OpenSink extends ByteSink {
  /** The format of the predictions in this sink. */
  readonly output: RunOutput;
  /** Uncompressed bytes written to this sink. */
  readonly plainBytes?: number;
}

/** Decompresses chunks. zlib is loaded only if it is needed. */
export async function plainOf(chunks: Chunks, compression: Compression): Promise<Chunks> {
  if (compression === 'none') return chunks;
  const { decompressed } = await import('../io/source/decompressed.ts');
  return decompressed(chunks, compression);
}

/** Adds the output format to a sink. `before`: number of bytes that an interrupted run had written to the output. */
export function withOutput(sink: ByteSink, output: OpenSink['output'], before = 0): OpenSink {
  let plain = before;
  return {
    output,
    get plainBytes() {
      return plain;
    },
    ...(sink.sync ? { sync: () => sink.sync!() } : {}),
    ...(sink.blockEnd ? { blockEnd: () => sink.blockEnd!() } : {}),
    revocable: sink.revocable,
    get bytesWritten() {
      return sink.bytesWritten;
    },
    write: (b) => {
      plain += b.length;
      return sink.write(b);
    },
    commit: () => sink.commit(),
    abort: () => sink.abort(),
  };
}

/** Adds a tap to a sink: `stored` receives the bytes that are written to the sink. */
export function seenSink(sink: ByteSink, stored: StoredBytes): ByteSink {
  return {
    ...sink,
    get bytesWritten() {
      return sink.bytesWritten;
    },
    write: (bytes) => {
      stored(bytes);
      return sink.write(bytes);
    },
  };
}

/** Wraps a sink so that it compresses the bytes written to it. */
export async function packedSink(bytes: ByteSink, compression: Compression): Promise<ByteSink> {
  if (compression === 'none') return bytes;
  const { compressedSink } = await import('../io/sink/compressed-sink.ts');
  return compressedSink(bytes, compression);
}
