// An Arrow stream or file, as it comes from a file or a request, as what the engine reads.
import type { ArrowOptions } from '../io/columns/arrow-table.ts';
import type { Chunks } from '../io/source/byte-source.ts';

/**
 * Reads the schema at once. `onRead`: bytes of text that were made of it; `near`: its bytes need not be waited for, so that lines can
 * be written to where they are wanted. @throws SluiceError truncated_input | empty_input | limit_exceeded | header_mismatch
 */
export async function arrowLines(
  chunks: AsyncIterable<Uint8Array>,
  { onRead, near, ...options }: ArrowOptions & { onRead?: (bytes: number) => void; near?: boolean },
): Promise<Chunks> {
  const { openArrow } = await import('../io/columns/arrow-table.ts');
  const { ColumnLines } = await import('../io/columns/column-lines.ts');
  const lines = new ColumnLines(await openArrow(chunks, options));
  const readInto = async (target: Uint8Array) => {
    const n = await lines.readInto(target);
    onRead?.(n);
    return n;
  };
  return {
    columns: lines,
    ...(near ? { readInto } : {}),
    async *[Symbol.asyncIterator]() {
      for await (const chunk of lines) {
        onRead?.(chunk.length);
        yield chunk;
      }
    },
  };
}
