// Predictions as a table of columns, written some rows at a time from the frames that workers make, or from lines of JSON.
import type { InterpretationSpec } from '../../inference/explain/interpretation.ts';
import type { ByteSink } from '../../io/sink/byte-sink.ts';
import type { Manifest } from '../../model/package/manifest.ts';
import { outputColumns, type PredictionColumn, type PredictionJson, refuseHidden } from '../write/prediction-fields.ts';
import { columnFrames } from './column-frames.ts';
import { beginningOf, type HeldColumn, HeldTable, type OutputColumn } from './held-table.ts';

/** Rows that are written together. */
const GROUP_ROWS = 50_000;

export interface ColumnarSinkOptions {
  manifest: Manifest;
  /** Columns to echo; their values become texts. */
  passthrough: readonly string[];
  interpretation: InterpretationSpec | null;
  /** Rows of one `write` are written together. Default: GROUP_ROWS. */
  eachWrite?: boolean;
  /** Receives the written bytes and their number of rows: 0 at the end. */
  onRows?: ((bytes: Uint8Array, rows: number) => void) | undefined;
  /** It is given lines of NDJSON (`OutputSpec.cells`), not frames: the reference, which knows nothing of how a worker makes columns. */
  lines?: boolean;
}

/** Writes the bytes of a format; each array is valid until the next call. */
export interface FormatWriter {
  /** At least one row; the columns are those that the writer was made for. */
  rows(columns: readonly HeldColumn[]): Uint8Array;
  end(): Promise<Uint8Array>;
}

/**
 * A sink of predictions that writes a table into `inner`: the columns of CSV, with types. Whole frames or lines at a time; memory is
 * that of as many rows as are written together. The sink takes over: `commit` and `abort` end `inner` as well.
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

/** The values of each line in the order of the columns. */
function* valuesOf(lines: Uint8Array, columns: readonly PredictionColumn[]): Generator<unknown[]> {
  for (const line of Buffer.from(lines).toString('utf8').split('\n')) {
    if (line === '') continue;
    const prediction = JSON.parse(line) as PredictionJson;
    yield columns.map((column) => column.of(prediction));
  }
}
