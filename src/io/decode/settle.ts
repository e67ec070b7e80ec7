// The end of a table: its faults become rejections in row order, and what was declined goes to the reference decoder.
import type { ColumnBatch } from '../../core/batch.ts';
import { type CellTable, DECLINED, VALID } from './cells.ts';
import { type RecordSlice, reject, rejectFaulty } from './decoder.ts';

/** A decoder that can take a single record; its answer is the one that counts. */
interface ReferenceDecoder {
  /** Decodes record `i` of a block into row `row` of a batch under way. */
  decodeOne(block: RecordSlice, i: number, row: number, batch: ColumnBatch): void;
}

/**
 * Rows `0..rows - 1` of the table are records `from`.. of the block and rows `first`.. of the batch.
 * Returns how many of them were declined.
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
