// Writes predictions as a Parquet file, one row group at a time.
import { ByteWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import { type ColumnarSinkOptions, columnarSink, type FormatWriter } from '../columns/columnar-sink.ts';
import type { OutputColumn } from '../columns/held-table.ts';
import { writeChunk } from './parquet-chunk.ts';

const TYPES = { integer: 'INT32', number: 'DOUBLE', text: 'STRING', boolean: 'BOOLEAN' } as const;

/** Creates a `columnarSink` that writes Parquet. */
export function parquetSink(inner: ByteSink, options: ColumnarSinkOptions): ByteSink {
  return columnarSink(inner, options, parquetWriter);
}

/**
 * hyparquet-writer writes the header and the footer. Column chunks are written by `writeChunk`, because
 * hyparquet-writer accepts only plain arrays.
 */
function parquetWriter(columns: readonly OutputColumn[]): FormatWriter {
  const bytes = new ByteWriter();
  const columnData = columns.map(({ name, kind }) => ({ name, type: TYPES[kind], data: [], nullable: true }));
  const writer = new ParquetWriter({ writer: bytes, schema: schemaFromColumnData({ columnData }) });
  const taken = (): Uint8Array => {
    const written = bytes.getBytes();
    // Discards the written bytes. `offset` of the writer still counts them.
    bytes.index = 0;
    return written;
  };
  return {
    rows: (held) => {
      const before = bytes.offset;
      const chunks = held.map((column) => writeChunk(bytes, column));
      const rows = BigInt(held[0]!.rows);
      writer.num_rows += rows;
      writer.row_groups.push({
        columns: chunks,
        total_byte_size: chunks.reduce((sum, { meta_data }) => sum + meta_data!.total_uncompressed_size, 0n),
        num_rows: rows,
        total_compressed_size: BigInt(bytes.offset - before),
      });
      return taken();
    },
    end: async () => {
      await writer.finish();
      return taken();
    },
  };
}
