// The values of a held column without the rows that have none, as pages of Parquet hold them.
import type { Cells } from '../format/column-frames.ts';
import type { HeldColumn } from './held-table.ts';

/** Of integers, numbers, booleans and words: a view where no row is without one. */
export function presentCells({ cells, valid, rows, nulls }: HeldColumn): Cells {
  if (nulls === 0) return cells.subarray(0, rows);
  const present = cells.slice(0, rows - nulls);
  for (let r = 0, to = 0; r < rows; r++) if (valid[r] === 1) present[to++] = cells[r]!;
  return present;
}

/** Where each text begins and ends in `bytes`. */
export interface PresentTexts {
  readonly bytes: Buffer;
  readonly starts: Int32Array;
  readonly ends: Int32Array;
}

export function presentTexts({ cells, valid, rows, nulls, text }: HeldColumn): PresentTexts {
  const starts = new Int32Array(rows - nulls);
  const ends = new Int32Array(rows - nulls);
  for (let r = 0, to = 0, from = 0; r < rows; r++) {
    const end = cells[r]!;
    if (valid[r] === 1) {
      starts[to] = from;
      ends[to++] = end;
    }
    from = end;
  }
  return { bytes: text, starts, ends };
}

/** Below 0: the first piece of `bytes` sorts before the second, byte by byte. */
export function compareBytes(bytes: Uint8Array, from: number, to: number, from2: number, to2: number): number {
  const common = Math.min(to - from, to2 - from2);
  for (let i = 0; i < common; i++) {
    const difference = bytes[from + i]! - bytes[from2 + i]!;
    if (difference !== 0) return difference;
  }
  return to - from - (to2 - from2);
}
