// An Arrow table as chunks for the engine.
import type { Chunks } from '../../io/source/byte-source.ts';
import { rowsOf, tableChunks } from '../columns/table-chunks.ts';
import { TableBudget, type TableLimits } from '../columns/table-limits.ts';
import type { ArrowOptions } from './arrow-table.ts';

interface ArrowChunksOptions extends Omit<ArrowOptions, 'budget'> {
  limits: TableLimits;
  near?: boolean;
  /** As in `Endpoint`. */
  onlyRow?: number;
}

/**
 * An Arrow stream or file, as it comes from a file or a request. Reads the schema at once; `near` as in `tableChunks`.
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
