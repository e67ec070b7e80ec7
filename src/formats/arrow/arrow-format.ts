// Arrow as an input and output format: a stream, or a file, which ends with a table of contents.
import path from 'node:path';
import type { Chunks } from '../../io/source/byte-source.ts';
import { rowsOf, tableChunks } from '../columns/table-chunks.ts';
import type { TableFormat } from '../columns/table-format.ts';
import { TableBudget, type TableLimits } from '../columns/table-limits.ts';
import type { ArrowOptions } from './arrow-table.ts';

interface ArrowChunksOptions extends Omit<ArrowOptions, 'budget'> {
  limits: TableLimits;
  near?: boolean;
  /** As in `Endpoint`. */
  onlyRow?: number;
}

/**
 * Opens an Arrow stream or file from a file or a request, and reads its schema immediately. `near`: see `tableChunks`.
 * @throws SluiceError truncated_input | empty_input | limit_exceeded | header_mismatch
 */
export async function arrowChunks(
  chunks: AsyncIterable<Uint8Array>,
  { near = false, onlyRow, limits, ...options }: ArrowChunksOptions,
): Promise<Chunks> {
  const { openArrow } = await import('./arrow-table.ts');
  const budget = new TableBudget(limits);
  const table = await openArrow(chunks, { ...options, budget });
  return tableChunks(await rowsOf(table, onlyRow), { near, budget });
}

/** Extensions of Arrow files. Every other extension means an Arrow stream. */
const FILE_ENDINGS = new Set(['.arrow', '.feather']);

/** Whether an output with this name is an Arrow file, which supports random access, instead of a stream. */
const isArrowFile = (name: string): boolean =>
  FILE_ENDINGS.has(path.extname(name.replace(/\.(?:gz|zst)$/i, '')).toLowerCase());

export const ARROW: TableFormat = {
  async openReader({ stored, chunks, compression }, { ignored, limits, onlyRow, onRows }) {
    const { decompressed } = await import('../../io/source/decompressed.ts');
    const plain = compression === 'none' ? chunks : decompressed(chunks, compression);
    const near = stored.chunks.readInto !== undefined;
    const only = { ...(onlyRow === undefined ? {} : { onlyRow }), ...(onRows ? { onRows } : {}) };
    return { chunks: await arrowChunks(plain, { ignored, limits, near, ...only }) };
  },
  async openWriter(bytes, { name, compressed, compression: _, ...options }) {
    const { arrowSink } = await import('./arrow-sink.ts');
    return arrowSink(await compressed(bytes), options, isArrowFile(name));
  },
};
