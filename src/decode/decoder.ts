// The narrow interface of every decoder: records of a block in, a columnar batch out.
import type { Block } from '../core/block.ts';
import type { ColumnBatch, Rejection } from '../core/batch.ts';
import { RECORD_MALFORMED, RECORD_OK } from '../core/block.ts';
import type { ErrorCode } from '../core/errors.ts';

/** What a decoder needs of a block; sub-blocks share the slab with the block they are part of. */
export type RecordSlice = Pick<Block, 'slab' | 'spans' | 'faults'>;

export interface Decoder {
  /**
   * Decodes records `from`..`to - 1` of a block into `batch` (to - from ≤ batch.capacity): sets `rows`, the cells, the
   * passthrough texts, `rejected` and `rejections`. Never throws for what the records hold.
   */
  decode(block: RecordSlice, from: number, to: number, batch: ColumnBatch): void;
}

/** Marks row `index` of the batch as rejected; the first fault of a row stands. */
export function reject(batch: ColumnBatch, index: number, code: ErrorCode, column: string | null, message: string): void {
  if (batch.rejected[index] === 1) return;
  batch.rejected[index] = 1;
  const rejection: Rejection = { index, code, column, message };
  const last = batch.rejections.at(-1);
  if (!last || last.index < index) batch.rejections.push(rejection);
  else {
    const at = batch.rejections.findIndex((r) => r.index > index);
    batch.rejections.splice(at, 0, rejection);
  }
}

/** Empties a batch for `rows` new rows. */
export function beginBatch(batch: ColumnBatch, rows: number): void {
  batch.rows = rows;
  batch.rejected.fill(0, 0, rows);
  batch.rejections = [];
  for (const texts of batch.passthrough) texts.fill(null, 0, rows);
}

/** Rejects the record when the cutter already knew it to be bad; true if so. */
export function rejectFaulty(batch: ColumnBatch, index: number, fault: number): boolean {
  if (fault === RECORD_OK) return false;
  if (fault === RECORD_MALFORMED) {
    reject(batch, index, 'malformed_record', null, 'a quoted field is not closed, or text follows its closing quote');
  } else reject(batch, index, 'record_too_long', null, 'the record is longer than the limit for one row');
  return true;
}
