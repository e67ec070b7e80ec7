// The interface of columnar formats, which read tables and write predictions as a table.
import type { Compression } from '../../core/file-format.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { ByteSource, Chunks } from '../../io/source/byte-source.ts';
import type { ColumnarSinkOptions } from './columnar-sink.ts';
import type { TableLimits } from './table-limits.ts';

/**
 * Receives the bytes of a table, without outer compression. `rows`: number of rows that are complete with these bytes;
 * 0 for bytes that contain no rows.
 */
export type TableRowsBytes = (bytes: Uint8Array, rows: number) => void;

/** End of a row group: its byte offset in the stored input, and its number of rows. */
export interface GroupEnd {
  end: number;
  rows: number;
}

/** The bytes of a table, or of a piece of the table. */
interface TableBytes {
  readonly name: string;
  readonly stored: ByteSource;
  /** The stored bytes as chunks; reading them also informs the observers. */
  readonly chunks: Chunks;
  readonly compression: Compression;
  /** Default: the whole table. */
  readonly piece?: { totalBytes: number; from: number; groups: { from: number; to: number } | undefined } | undefined;
}

interface TableReading {
  /** Whether to leave out the column with this name. */
  ignored: (name: string, nested: boolean) => boolean;
  limits: TableLimits;
  /** Only this row, counted from 1. Default: all rows. */
  onlyRow?: number | undefined;
  onRows?: TableRowsBytes | undefined;
}

export interface OpenTable {
  readonly chunks: Chunks;
  /** Ends of the row groups, if the format does not read the bytes in stored order. */
  readonly ends?: readonly GroupEnd[];
  /**
   * Number of bytes read so far, if the format does not read them in stored order. Default: the position in the stored
   * bytes.
   */
  bytesRead?(): number;
  /** Closes the table, but not the stored bytes. */
  close?(): Promise<void>;
}

interface TableWriting extends Omit<ColumnarSinkOptions, 'eachWrite'> {
  readonly name: string;
  readonly compression: Compression;
  /** Wraps `bytes` in a sink that compresses the whole output. */
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
