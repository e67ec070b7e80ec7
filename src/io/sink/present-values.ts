// The values of a held column as files hold them: without the rows that have none, flags as bits.
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

/** Bytes of 0 or 1 as bits, the first row lowest; into `bits` where they fit. */
export function bitsOf(flags: Cells, rows: number, bits = new Uint8Array(0)): Uint8Array<ArrayBuffer> {
  const length = (rows + 7) >> 3;
  const to = bits.length < length ? new Uint8Array(length) : bits.fill(0, 0, length);
  for (let r = 0; r < rows; r++) if (flags[r] === 1) to[r >> 3]! |= 1 << (r & 7);
  return to;
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
