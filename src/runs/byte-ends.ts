// Open inputs and outputs, and the stages of their chains that need no name: taps and compression.

import type { Compression } from '../core/file-format.ts';
import type { InputFormat, RunOutput } from '../engine/stream-spec.ts';
import type { GroupEnd } from '../formats/columns/table-format.ts';
import type { ByteSink } from '../io/sink/byte-sink.ts';
import type { PiecePlace } from '../io/source/block-cutter.ts';
import type { ByteSource, Chunks } from '../io/source/byte-source.ts';

/** Receives bytes as they are stored, in order. */
export type StoredBytes = (bytes: Uint8Array) => void;

export interface OpenSource {
  chunks: Chunks;
  input: InputFormat;
  /** Size of the input as stored, bytes; null where unknown. */
  totalBytes: number | null;
  bytesRead(): number;
  /** Where it lies in a longer input whose first piece it is not. */
  place?: PiecePlace;
  /** Of Parquet: where its row groups end in `chunks`, which are its bytes as they are stored. */
  groups?: { ends: readonly GroupEnd[]; chunks: Chunks };
  /** Whether it can be opened and read again. */
  repeatable: boolean;
  /** As in `ByteSource`, where `chunks` are the bytes as they are stored. */
  again?: ByteSource['again'];
  /** Compares the input with the control totals at its end; `rows`: applications. @throws SluiceError control_total_mismatch */
  checkTotals?: (rows: number) => void;
  /** Idempotent. */
  close(): Promise<void>;
}

export interface OpenSink extends ByteSink {
  /** The format in which predictions are written to it. */
  readonly output: RunOutput;
  /** Uncompressed bytes written to it. */
  readonly plainBytes?: number;
}

/** The bytes inside. zlib is loaded for those who need it. */
export async function plainOf(chunks: Chunks, compression: Compression): Promise<Chunks> {
  if (compression === 'none') return chunks;
  const { decompressed } = await import('../io/source/decompressed.ts');
  return decompressed(chunks, compression);
}

/** The same sink, with the format it takes. `before`: bytes that were written to it earlier. */
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

/** The same sink; `stored` receives the bytes written to it. */
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

/** The same sink, for bytes that it packs. */
export async function packedSink(bytes: ByteSink, compression: Compression): Promise<ByteSink> {
  if (compression === 'none') return bytes;
  const { compressedSink } = await import('../io/sink/compressed-sink.ts');
  return compressedSink(bytes, compression);
}
