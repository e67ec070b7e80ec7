// Reads records with a row kernel in one pass, and passes declined records to the decoder that owns the kernel.
import type { ColumnBatch } from '../../core/batch.ts';
import type { ColumnReader } from '../../inference/encode/column-reader.ts';
import { type CellTable, DECLINED, VALID } from './cells.ts';
import { copyRun, type RecordSlice, reject, rejectFaulty } from './decoder.ts';
import type { RowKernel } from './row-kernel.ts';

/**
 * Number of rows after which a kernel is created for a stream. Creating a kernel takes as long as reading about ten
 * thousand rows without it.
 */
export const ROW_KERNEL_AFTER = 2048;
/** Maximum rows and bytes per call of the kernel. */
export const KERNEL_ROWS = 512;
const KERNEL_BYTES = 1024 * 1024;

/** One past the last record that the kernel reads in the same call as record `from`. */
export function endOfRun({ spans }: RecordSlice, from: number, to: number): number {
  let end = Math.min(to, from + KERNEL_ROWS);
  while (end > from + 1 && spans[end * 2 - 1]! - spans[from * 2]! > KERNEL_BYTES) end = from + ((end - from) >> 1);
  return end;
}

/** Records `from` to `to - 1` of a block, which become rows of a batch starting at `first`. */
interface RunOfRecords {
  readonly block: RecordSlice;
  readonly from: number;
  readonly to: number;
  readonly batch: ColumnBatch;
  readonly first: number;
}

/** The result of reading one run of records with the kernel. */
interface KernelRun {
  readonly declined: number;
  readonly bytes: Uint8Array;
  /** VALID for each record that the kernel read. The array is valid until the kernel runs again. */
  readonly states: Uint8Array;
}

/**
 * Reads records with the kernel; `fallback` reads the records that the kernel declines. Returns null if no record was
 * read.
 */
export function readByKernel(
  kernel: RowKernel,
  readers: readonly ColumnReader[],
  { block, from, to, batch, first }: RunOfRecords,
  fallback: (from: number, to: number, first: number) => void,
): KernelRun | null {
  const { spans, faults } = block;
  if (spans[to * 2 - 1]! - spans[from * 2]! > KERNEL_BYTES) return null;
  const rows = to - from;
  const run = copyRun(block, from, to, (bytes) => kernel.room(bytes));
  if (!run.valid) return null;
  kernel.records(rows).set(spans.subarray(from * 2, to * 2));
  const states = kernel.states(rows);
  states.set(faults.subarray(from, to));
  const declined = kernel.run(rows, run.base, batch, first);
  kernel.texts(rows, batch, first, (column, text, row) => {
    const reader = readers[column]!;
    const fault = reader.readText(text, batch.columns[column]!, row);
    if (fault) reject(batch, row, fault.code, reader.name, fault.message);
  });
  for (let r = 0; declined > 0 && r < rows; r++) {
    if (states[r] === VALID) continue;
    let end = r + 1;
    while (end < rows && states[end] !== VALID) end++;
    batch.encoded.fill(0, first + r, first + end);
    fallback(from + r, from + end, first + r);
    r = end;
  }
  return { declined, bytes: run.bytes, states };
}

// The code below finishes a batch: errors become rejections in row order, and the reference decoder reads declined
// rows.

/** A decoder for single records, whose result is authoritative. */
interface ReferenceDecoder {
  /** Decodes record `i` of a block into row `row` of a batch that is being filled. */
  decodeOne(block: RecordSlice, i: number, row: number, batch: ColumnBatch): void;
}

/**
 * Finishes rows 0 to `rows - 1` of the table. They are the records of the block starting at `from`, and the rows of the
 * batch starting at `first`. Returns the number of declined rows.
 */
export function settle(
  table: CellTable,
  rows: number,
  block: RecordSlice,
  from: number,
  batch: ColumnBatch,
  first: number,
  reference: ReferenceDecoder,
): number {
  let declined = 0;
  for (let r = 0; r < rows; r++) {
    const state = table.states[r];
    if (state === VALID) continue;
    const fault = table.faults[r];
    if (state === DECLINED) {
      reference.decodeOne(block, from + r, first + r, batch);
      declined++;
    } else if (fault) reject(batch, first + r, fault.code, table.columns[r]!, fault.message);
    else rejectFaulty(batch, first + r, block.faults[from + r]!);
  }
  return declined;
}
