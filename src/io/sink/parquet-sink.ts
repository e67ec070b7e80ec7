// Predictions as a Parquet file, written row group by row group.
import { ByteWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import type { ByteSink } from './byte-sink.ts';
import { type ColumnarSinkOptions, columnarSink, GROUP_ROWS } from './columnar-sink.ts';

const TYPES = { integer: 'INT32', number: 'DOUBLE', text: 'STRING', boolean: 'BOOLEAN' } as const;

/** As `columnarSink`. */
export function parquetSink(inner: ByteSink, options: ColumnarSinkOptions): ByteSink {
  return columnarSink(inner, options, (columns) => {
    const bytes = new ByteWriter();
    const asColumns = (data: readonly (readonly unknown[])[]) =>
      columns.map((c, i) => ({ name: c.name, type: TYPES[c.kind], data: data[i] as unknown[], nullable: true }));
    const schema = schemaFromColumnData({ columnData: asColumns(columns.map(() => [])) });
    const writer = new ParquetWriter({ writer: bytes, schema });
    const taken = (): Uint8Array => {
      const written = bytes.getBytes();
      // Written bytes are dropped from memory; the writer goes on counting in `offset`.
      bytes.index = 0;
      return written;
    };
    return {
      rows: async (data) => {
        await writer.write({ columnData: asColumns(data), rowGroupSize: GROUP_ROWS });
        return taken();
      },
      end: async () => {
        await writer.finish();
        return taken();
      },
    };
  });
}
