// Columnar tables as chunks for the engine, or as lines of text.
import type { ArrowOptions } from '../io/columns/arrow-table.ts';
import type { ColumnSource } from '../io/columns/line-batch.ts';
import { TableBudget, type TableLimits } from '../io/columns/table-limits.ts';
import type { Chunks } from '../io/source/byte-source.ts';

interface TableChunksOptions {
  /** The bytes of the table need not be waited for, so that lines can be written to where they are wanted. */
  near: boolean;
  /** The one the table was opened with. */
  budget?: TableBudget | undefined;
}

/** A table as chunks of lines, and itself. */
export async function tableChunks(table: ColumnSource, { near, budget }: TableChunksOptions): Promise<Chunks> {
  const { ColumnLines, ColumnTable } = await import('../io/columns/column-table.ts');
  const lines = new ColumnLines(table);
  return {
    [Symbol.asyncIterator]: () => lines[Symbol.asyncIterator](),
    ...(near ? { readInto: (target) => lines.readInto(target) } : {}),
    columns: table,
    table: new ColumnTable(table, budget),
  };
}

/** The table, or a single row of it. */
export async function rowsOf(table: ColumnSource, row: number | undefined): Promise<ColumnSource> {
  if (row === undefined) return table;
  const { SingleRow } = await import('./single-row.ts');
  return new SingleRow(table, row);
}

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
  const { openArrow } = await import('../io/columns/arrow-table.ts');
  const budget = new TableBudget(limits);
  const table = await openArrow(chunks, { ...options, budget });
  return tableChunks(await rowsOf(table, onlyRow), { near, budget });
}
