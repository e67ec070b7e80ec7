// Predictions as a table of columns, written some rows at a time from the lines of JSON the engine makes.
import { Interpreter } from '../../inference/evaluate/prediction.ts';
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { type PredictionColumn, type PredictionJson, predictionColumns, textOf } from '../format/prediction-fields.ts';
import type { ByteSink } from './byte-sink.ts';

/** Rows that are written together. */
export const GROUP_ROWS = 50_000;

export interface ColumnarSinkOptions {
  manifest: Manifest;
  /** Columns to echo; their values become texts. */
  passthrough: readonly string[];
  interpretation: InterpretationSpec | null;
  /** Rows that are written together. Default: GROUP_ROWS; 1: those of one `write`. */
  groupRows?: number;
}

/** Writes the bytes of a format; each array is valid until the next call. */
export interface FormatWriter {
  /** A value a row and column; null: none. */
  rows(data: readonly (readonly unknown[])[]): Promise<Uint8Array>;
  end(): Promise<Uint8Array>;
}

/**
 * A sink of NDJSON that writes a table into `inner`: the columns of CSV, with types. Whole lines at a time; memory is that of
 * as many rows as are written together. The sink takes over: `commit` and `abort` end `inner` as well.
 */
export function columnarSink(
  inner: ByteSink,
  { manifest, passthrough, interpretation, groupRows = GROUP_ROWS }: ColumnarSinkOptions,
  writerOf: (columns: readonly Pick<PredictionColumn, 'name' | 'kind'>[]) => FormatWriter,
): ByteSink {
  const echoed = passthrough.map((name): PredictionColumn => ({ name, kind: 'text', of: (p) => textOf(p[name]) }));
  const columns = [...echoed, ...predictionColumns(new Interpreter(manifest), interpretation, manifest.columns)];
  const writer = writerOf(columns);
  let held: unknown[][] = columns.map(() => []);
  const group = async (): Promise<void> => {
    if (held[0]!.length === 0) return;
    await inner.write(await writer.rows(held));
    held = columns.map(() => []);
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
      if (held[0]!.length >= groupRows) await group();
    },
    async commit() {
      await group();
      await inner.write(await writer.end());
      await inner.commit();
    },
    abort: () => inner.abort(),
  };
}
