// The text of a block that came as columns, for what reads records: the same lines that a LineWriter gives.
import { type Block, type BlockColumns, type CellRun, type ColumnRun, RECORD_OK, runsOf } from '../../core/block.ts';
import { NUMBER_BYTES, writeNumber } from './json-text.ts';
import { keysOf } from './line-batch.ts';

const CLOSE = 125;
const OPEN = 123;

type Records = Pick<Block, 'slab' | 'spans' | 'faults'> & { readonly columns?: BlockColumns };

/** How a reader that needs little of a block has its text written. */
interface TextOptions {
  /** Memory that the text may overwrite. New memory is allocated where it is too small. */
  into?: ArrayBufferLike | undefined;
  /** Whether the values of a column of a run may be null. */
  unread?: (name: string, cells: CellRun) => boolean;
}

/** The block with its records as bytes, in shared memory, and without columns; one that has bytes as it is. */
export function asText<T extends Records>(block: T, { into, unread }: TextOptions = {}): Omit<T, 'columns'> {
  const { columns, ...rest } = block;
  if (!columns) return rest;
  const keys = keysOf(columns.names);
  const runs = runsOf(columns).map(({ rows, cells }) => ({
    rows,
    cells: cells.map((cell, i) => (unread?.(columns.names[i]!, cell) ? nulls(rows) : cell)),
  }));
  let [bytes, first] = [0, 0];
  for (const run of runs) {
    bytes += mostBytes(keys, run, block.faults, first);
    first += run.rows;
  }
  const shared = into && into.byteLength >= bytes ? into : new SharedArrayBuffer(bytes);
  const to = Buffer.from(shared as unknown as ArrayBuffer);
  const spans = new Int32Array(block.faults.length * 2);
  let [record, at] = [0, 0];
  for (const { rows, cells } of runs) {
    for (let row = 0; row < rows; row++) {
      spans[record * 2] = at;
      if (block.faults[record] !== RECORD_OK) {
        // Rejected already, and it may be too long to be written.
        spans[record * 2 + 1] = at;
        record++;
        continue;
      }
      if (cells.length === 0) to[at++] = OPEN;
      for (const [c, cell] of cells.entries()) {
        to.set(keys[c]!, at);
        at = writeCell(cell, row, to, at + keys[c]!.length);
      }
      to[at++] = CLOSE;
      spans[record * 2 + 1] = at;
      record++;
    }
  }
  return { ...rest, slab: shared, spans };
}

/** A number that is none is written as null. */
const nulls = (rows: number): CellRun => ({ kind: 'numbers', values: new Float64Array(rows).fill(NaN) });

function writeCell(cell: CellRun, row: number, to: Buffer, at: number): number {
  if (cell.kind === 'numbers') return writeNumber(to, at, cell.values[row]!);
  const { bytes, ends } = cell.kind === 'coded' ? cell.words : cell;
  const word = cell.kind === 'coded' ? cell.codes[row]! : row;
  const from = word === 0 ? 0 : ends[word - 1]!;
  to.set(bytes.subarray(from, ends[word]!), at);
  return at + ends[word]! - from;
}

/** Most bytes the records of a run have, of which the first one is record `first`. */
function mostBytes(keys: readonly Uint8Array[], { rows, cells }: ColumnRun, faults: Uint8Array, first: number): number {
  let bytes = rows * 2;
  for (const [c, cell] of cells.entries()) {
    bytes += rows * keys[c]!.length;
    if (cell.kind === 'numbers') bytes += rows * NUMBER_BYTES;
    else if (cell.kind === 'tokens') bytes += cell.bytes.length;
    else {
      const { ends } = cell.words;
      for (const [i, code] of cell.codes.entries()) {
        if (faults[first + i] === RECORD_OK) bytes += ends[code]! - (code === 0 ? 0 : ends[code - 1]!);
      }
    }
  }
  return bytes;
}
