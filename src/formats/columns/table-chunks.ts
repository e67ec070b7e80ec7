// Provides columnar tables as chunks for the engine, or as lines of text.

import type { Chunks } from '../../io/source/byte-source.ts';
import type { ColumnSource } from './line-batch.ts';
import type { TableBudget } from './table-limits.ts';

interface TableChunksOptions {
  /** Whether reading the table never waits, so that lines can be written directly into a given buffer. */
  near: boolean;
  /** The budget with which the table was opened. */
  budget?: TableBudget | undefined;
}

/** A table as chunks of lines. The field `table` of the result gives access to its columns. */
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

/** The table, or a single row of it. */
export async function rowsOf(table: ColumnSource, row: number | undefined): Promise<ColumnSource> {
  if (row === undefined) return table;
  const { SingleRow } = await import('./single-row.ts');
  return new SingleRow(table, row);
}
