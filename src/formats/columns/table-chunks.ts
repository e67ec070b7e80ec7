// Provides columnar tables as chunks for the engine, or as lines of text.

import type { Chunks } from '../../io/source/byte-source.ts';
import type { ColumnSource } from './line-batch.ts';
import type { TableBudget } from './table-limits.ts';

interface TableChunksOptions {
  /** Whether reads from the table never wait. Lines can then be written directly into the buffer of the caller. */
  near: boolean;
  /** The budget with which the table was opened. */
  budget?: TableBudget | undefined;
}

/** Returns a table as chunks of JSON lines. The field `table` of the result gives access to its columns. */
export async function tableChunks(table: ColumnSource, { near, budget }: TableChunksOptions): Promise<Chunks> {
  const { ColumnLines, ColumnTable } = await import('./column-table.ts');
  const lines = new ColumnLines(table);
  return {
    [Symbol.asyncIterator]: () => lines[Symbol.asyncIterator](),
    ...(near ? { readInto: (target) => lines.readInto(target) } : {}),
    columns: table,
    table: new ColumnTable(table, budget),
  };
}

/** The table, or only the given row of the table. */
export async function rowsOf(table: ColumnSource, row: number | undefined): Promise<ColumnSource> {
  if (row === undefined) return table;
  const { SingleRow } = await import('./single-row.ts');
  return new SingleRow(table, row);
}
