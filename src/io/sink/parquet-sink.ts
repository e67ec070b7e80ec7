// Predictions as a Parquet file, written row group by row group from the lines of JSON the engine makes.
import { ByteWriter, ParquetWriter, schemaFromColumnData } from 'hyparquet-writer';
import { Interpreter } from '../../inference/evaluate/prediction.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { type PredictionColumn, type PredictionJson, predictionColumns, textOf } from '../format/prediction-fields.ts';
import type { ByteSink } from './byte-sink.ts';

const GROUP_ROWS = 50_000;

const TYPES = { integer: 'INT32', number: 'DOUBLE', text: 'STRING', boolean: 'BOOLEAN' } as const;

export interface ParquetSinkOptions {
  manifest: Manifest;
  /** Columns to echo; their values become texts. */
  passthrough: readonly string[];
  interpretation: InterpretationSpec | null;
}

/**
 * A sink of NDJSON that writes Parquet into `inner`: the columns of CSV, with types. Whole lines at a time; memory is that of
 * one row group. The sink takes over: `commit` and `abort` end `inner` as well.
 */
export function parquetSink(inner: ByteSink, options: ParquetSinkOptions): ByteSink {
  const { manifest, passthrough, interpretation } = options;
  const echoed = passthrough.map((name): PredictionColumn => ({ name, kind: 'text', of: (p) => textOf(p[name]) }));
  const columns = [...echoed, ...predictionColumns(new Interpreter(manifest), interpretation, manifest.columns)];
  let held: unknown[][] = columns.map(() => []);
  const bytes = new ByteWriter();
  const asColumns = (data: unknown[][]) =>
    columns.map((c, i) => ({ name: c.name, type: TYPES[c.kind], data: data[i]!, nullable: true }));
  const writer = new ParquetWriter({ writer: bytes, schema: schemaFromColumnData({ columnData: asColumns(held) }) });
  const drain = async (): Promise<void> => {
    await inner.write(bytes.getBytes());
    // Written bytes are dropped from memory; the writer goes on counting in `offset`.
    bytes.index = 0;
  };
  const group = async (): Promise<void> => {
    if (held[0]!.length === 0) return;
    await writer.write({ columnData: asColumns(held), rowGroupSize: GROUP_ROWS });
    held = columns.map(() => []);
    await drain();
  };
  return {
    revocable: inner.revocable,
    get bytesWritten() {
      return inner.bytesWritten;
    },
    async write(lines) {
      for (const line of Buffer.from(lines).toString('utf8').split('\n')) {
        if (line === '') continue;
        const prediction = JSON.parse(line) as PredictionJson;
        columns.forEach((c, i) => {
          held[i]!.push(c.of(prediction) ?? null);
        });
      }
      if (held[0]!.length >= GROUP_ROWS) await group();
    },
    async commit() {
      await group();
      await writer.finish();
      await drain();
      await inner.commit();
    },
    abort: () => inner.abort(),
  };
}
