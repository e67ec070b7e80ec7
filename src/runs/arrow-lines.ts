// Tables of columns as what the engine reads: lines, and the columns beside them.
import type { ArrowOptions } from '../io/columns/arrow-table.ts';
import type { ColumnLines } from '../io/columns/column-lines.ts';
import type { Chunks } from '../io/source/byte-source.ts';
import { seenChunks } from '../io/source/seen-chunks.ts';

/**
 * `onRead`: bytes of text that were made; `near`: the bytes of the table need not be waited for, so that lines can be written to where
 * they are wanted.
 */
export function countedLines(lines: ColumnLines, near: boolean, onRead: (bytes: number) => void): Chunks {
  const chunks: Chunks = near ? lines : { [Symbol.asyncIterator]: () => lines[Symbol.asyncIterator]() };
  return { columns: lines, ...seenChunks(chunks, ({ length }) => onRead(length)) };
}

/**
 * An Arrow stream or file, as it comes from a file or a request. Reads the schema at once; `near` and `onRead` as in `countedLines`.
 * @throws SluiceError truncated_input | empty_input | limit_exceeded | header_mismatch
 */
export async function arrowLines(
  chunks: AsyncIterable<Uint8Array>,
  { onRead = () => {}, near = false, ...options }: ArrowOptions & { onRead?: (bytes: number) => void; near?: boolean },
): Promise<Chunks> {
  const { openArrow } = await import('../io/columns/arrow-table.ts');
  const { ColumnLines } = await import('../io/columns/column-lines.ts');
  return countedLines(new ColumnLines(await openArrow(chunks, options)), near, onRead);
}
