// How a columnar format reads the bytes of a table and writes predictions as one.
import type { Compression } from '../../core/file-format.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { ByteSource, Chunks } from '../../io/source/byte-source.ts';
import type { ColumnarSinkOptions } from './columnar-sink.ts';
import type { TableLimits } from './table-limits.ts';

/** Receives the bytes of a table as its format has them, uncompressed as a whole, and how many rows end with them; 0: bytes around rows. */
export type TableRowsBytes = (bytes: Uint8Array, rows: number) => void;

/** Where a group of rows ends, in bytes of the input as it is stored. */
export interface GroupEnd {
  end: number;
  rows: number;
}

/** The bytes of a table: all of them as they are stored, or a piece of them. */
interface TableBytes {
  readonly name: string;
  readonly stored: ByteSource;
  /** As they are observed on their way. */
  readonly chunks: Chunks;
  readonly compression: Compression;
  /** Default: all of it. */
  readonly piece?: { totalBytes: number; from: number; groups: { from: number; to: number } | undefined } | undefined;
}

interface TableReading {
  /** Whether a column of this name is unused. */
  ignored: (name: string) => boolean;
  limits: TableLimits;
  /** Only this row, from 1. Default: all. */
  onlyRow?: number | undefined;
  onRows?: TableRowsBytes | undefined;
}

export interface OpenTable {
  readonly chunks: Chunks;
  /** Where its groups of rows end, for a format whose bytes are read in another order than they are stored. */
  readonly ends?: readonly GroupEnd[];
  /** For the same formats: bytes read so far. Default: those of the stored bytes. */
  bytesRead?(): number;
  /** Does not close the stored bytes. */
  close?(): Promise<void>;
}

interface TableWriting extends Omit<ColumnarSinkOptions, 'eachWrite'> {
  readonly name: string;
  readonly compression: Compression;
  /** `bytes`, compressed as a whole. */
  compressed(bytes: ByteSink): Promise<ByteSink>;
}

export interface TableFormat {
  /** Rejects an output before its file is opened. @throws SluiceError usage */
  refuse?(output: Pick<TableWriting, 'name' | 'compression'>): void;
  /** @throws SluiceError usage | truncated_input | empty_input | limit_exceeded | header_mismatch */
  openReader(bytes: TableBytes, options: TableReading): Promise<OpenTable>;
  /** @throws SluiceError usage */
  openWriter(bytes: ByteSink, options: TableWriting): Promise<ByteSink>;
}
