// Writes a columnar block as JSON lines for readers of text: the same lines that a `LineWriter` writes.
import { type Block, type BlockColumns, type CellRun, type ColumnRun, RECORD_OK, runsOf } from '../../core/block.ts';
import { NUMBER_BYTES, writeNumber } from './json-text.ts';
import { keysOf } from './line-batch.ts';

const CLOSE = 125;
const OPEN = 123;

type Records = Pick<Block, 'slab' | 'spans' | 'faults'> & { readonly columns?: BlockColumns };

/** Options of `asText`. */
interface TextOptions {
  /** Memory that the text may overwrite. If it is too small, new memory is allocated. */
  into?: ArrayBufferLike | undefined;
  /** Whether the values of a column in a run may be written as null. */
  unread?: (name: string, cells: CellRun) => boolean;
}

/**
 * Returns the block with its records as text in shared memory instead of columns. A block that already has text is
 * returned unchanged.
 */
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
        // The record was already rejected, and may be too long to write.
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

/** NaN is written as null. */
const nulls = (rows: number): CellRun => ({ kind: 'numbers', values: new Float64Array(rows).fill(NaN) });

function writeCell(cell: CellRun, row: number, to: Buffer, at: number): number {
  if (cell.kind === 'numbers') return writeNumber(to, at, cell.values[row]!);
  const { bytes, ends } = cell.kind === 'coded' ? cell.words : cell;
  const word = cell.kind === 'coded' ? cell.codes[row]! : row;
  const from = word === 0 ? 0 : ends[word - 1]!;
  to.set(bytes.subarray(from, ends[word]!), at);
  return at + ends[word]! - from;
}

/** Upper bound of the text bytes of a run of rows. `first`: index of its first record in the block. */
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
