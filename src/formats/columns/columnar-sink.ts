// Writes predictions as a columnar table, in groups of rows, from frames of the workers or from JSON lines.
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { outputColumns, type PredictionColumn, type PredictionJson, refuseHidden } from '../write/prediction-fields.ts';
import { columnFrames } from './column-frames.ts';
import { beginningOf, type HeldColumn, HeldTable, type OutputColumn } from './held-table.ts';

/** Maximum number of rows per group. */
const GROUP_ROWS = 50_000;

export interface ColumnarSinkOptions {
  manifest: Manifest;
  /** Passthrough columns; their values become texts. */
  passthrough: readonly string[];
  interpretation: InterpretationSpec | null;
  /** Writes the rows of each `write` as one group. Default: groups of GROUP_ROWS. */
  eachWrite?: boolean;
  /** Receives the written bytes and their number of rows, which is 0 for the end of the file. */
  onRows?: ((bytes: Uint8Array, rows: number) => void) | undefined;
  /**
   * Whether the input consists of NDJSON lines (`OutputSpec.cells`) instead of frames. Lines are the reference: they do
   * not depend on the columns that workers produce.
   */
  lines?: boolean;
}

/** Encodes groups of rows in a format. Each returned array is valid until the next call. */
export interface FormatWriter {
  /** Encodes at least one row. `columns`: the columns for which the writer was created. */
  rows(columns: readonly HeldColumn[]): Uint8Array;
  end(): Promise<Uint8Array>;
}

/**
 * Creates a sink that writes predictions to `inner` as a table with the columns of CSV, but typed. Each write must
 * consist of whole frames or whole lines. Memory is bounded by the rows of one group. `commit` and `abort` also commit
 * or abort `inner`.
 */
export function columnarSink(
  inner: ByteSink,
  { manifest, passthrough, interpretation, eachWrite = false, onRows, lines = false }: ColumnarSinkOptions,
  writerOf: (columns: readonly OutputColumn[]) => FormatWriter,
): ByteSink {
  const own = outputColumns(manifest, [], interpretation);
  refuseHidden(
    passthrough,
    own.map(({ name }) => name),
  );
  const columns = outputColumns(manifest, passthrough, interpretation);
  const writer = writerOf(columns);
  const held = new HeldTable(columns, GROUP_ROWS);
  const group = async (): Promise<void> => {
    if (held.rows === 0) return;
    const bytes = writer.rows(held.columns);
    onRows?.(bytes, held.rows);
    await inner.write(bytes);
    held.clear();
  };
  const takeLines = async (bytes: Uint8Array): Promise<void> => {
    for (const values of valuesOf(bytes, columns)) {
      held.push(values);
      if (held.full) await group();
    }
  };
  const takeFrames = async (bytes: Uint8Array): Promise<void> => {
    for (const frame of columnFrames(bytes, columns)) {
      for (let at = beginningOf(frame); at.row < frame.rows; ) {
        at = held.take(frame, at);
        if (held.full) await group();
      }
    }
  };
  return {
    revocable: inner.revocable,
    get bytesWritten() {
      return inner.bytesWritten;
    },
    async write(bytes) {
      await (lines ? takeLines(bytes) : takeFrames(bytes));
      if (eachWrite) await group();
    },
    async commit() {
      await group();
      const end = await writer.end();
      onRows?.(end, 0);
      await inner.write(end);
      await inner.commit();
    },
    abort: () => inner.abort(),
  };
}

/** Yields the values of each line in the order of the columns. */
function* valuesOf(lines: Uint8Array, columns: readonly PredictionColumn[]): Generator<unknown[]> {
  for (const line of Buffer.from(lines).toString('utf8').split('\n')) {
    if (line === '') continue;
    const prediction = JSON.parse(line) as PredictionJson;
    yield columns.map((column) => column.of(prediction));
  }
}
