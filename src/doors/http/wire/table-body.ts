// A request body that contains a table. Arrow is read while it arrives; Parquet is read from a temporary file, because
// its schema is at the end.
import type { FileHandle } from 'node:fs/promises';
import type { ServerConfig } from '../../../config/server-config.ts';
import { SluiceError, tooMany } from '../../../core/errors.ts';
import { readFully } from '../../../core/file-system.ts';
import type { TableLimits } from '../../../formats/columns/table-limits.ts';
import { writeAll } from '../../../io/sink/file-target.ts';
import type { Chunks } from '../../../io/source/byte-source.ts';
import type { RequestBody } from './request-body.ts';
import { openUnlinked } from './spill-file.ts';

/** Maximum size in bytes of a record batch of Arrow, because a batch is held in memory. */
const MOST_BATCH_BYTES = 64 * 1024 * 1024;
/** First bytes of a Parquet file. */
const PARQUET = Buffer.from('PAR1');

interface TableBody {
  chunks: Chunks;
  close(): Promise<void>;
}

interface TableBodyOptions {
  config: Pick<ServerConfig, 'limits' | 'spill'>;
  /** Called with each change of the number of bytes in the temporary file. */
  onSpill: (bytes: number) => void;
}

const tableLimits = ({ limits }: Pick<ServerConfig, 'limits'>): TableLimits => ({
  rows: limits.rows,
  columns: limits.columns,
  recordBytes: limits.row_bytes,
  expandedBytes: limits.expanded_bytes,
});

/** Opens an Arrow stream or file. @throws SluiceError truncated_input | empty_input | limit_exceeded | header_mismatch */
export async function arrowBody(
  chunks: AsyncIterable<Uint8Array>,
  config: Pick<ServerConfig, 'limits'>,
): Promise<Chunks> {
  const { arrowChunks } = await import('../../../formats/arrow/arrow-format.ts');
  return arrowChunks(chunks, { batchBytes: MOST_BATCH_BYTES, limits: tableLimits(config) });
}

/**
 * Opens a body that is a Parquet file, an Arrow stream or an Arrow file. The first bytes of the body decide which.
 * @throws SluiceError as `arrowBody`
 */
export async function openTableBody(body: RequestBody, options: TableBodyOptions): Promise<TableBody> {
  const { first, all } = await withFirst(body.chunks(), PARQUET.length);
  if (!PARQUET.equals(first)) return { chunks: await arrowBody(all, options.config), close: async () => {} };
  return openParquetBody(all, options);
}

/** `first`: the first `count` bytes, or all bytes if there are fewer. `all`: all bytes, including the first. */
async function withFirst(
  chunks: AsyncIterable<Uint8Array>,
  count: number,
): Promise<{ first: Buffer; all: AsyncIterable<Uint8Array> }> {
  const iterator = chunks[Symbol.asyncIterator]();
  const held: Uint8Array[] = [];
  let bytes = 0;
  while (bytes < count) {
    const { value, done } = await iterator.next();
    if (done) break;
    held.push(Buffer.from(value));
    bytes += value.length;
  }
  const first = Buffer.concat(held);
  async function* all(): AsyncGenerator<Uint8Array> {
    try {
      if (first.length > 0) yield first;
      for (;;) {
        const { value, done } = await iterator.next();
        if (done) return;
        yield value;
      }
    } finally {
      // A reader that stops early must also end the body.
      await iterator.return?.();
    }
  }
  return { first: first.subarray(0, count), all: all() };
}

async function openParquetBody(
  bytes: AsyncIterable<Uint8Array>,
  { config, onSpill }: TableBodyOptions,
): Promise<TableBody> {
  const { max_bytes: most, folder } = config.spill;
  const handle = await openUnlinked(folder, 'table');
  let length = 0;
  const close = async (): Promise<void> => {
    onSpill(-length);
    length = 0;
    await handle.close();
  };
  try {
    for await (const chunk of bytes) {
      if (length + chunk.length > most) throw tooMany('spill.max_bytes', most, 'bytes');
      await writeAll(handle, chunk, length, (n) => {
        length += n;
        onSpill(n);
      });
    }
    return { chunks: await parquetChunks(handle, length, tableLimits(config)), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function parquetChunks(handle: FileHandle, byteLength: number, limits: TableLimits): Promise<Chunks> {
  const [{ openParquet }, { tableChunks }, { TableBudget }] = await Promise.all([
    import('../../../formats/parquet/parquet-file.ts'),
    import('../../../formats/columns/table-chunks.ts'),
    import('../../../formats/columns/table-limits.ts'),
  ]);
  const read = async (target: Uint8Array, position: number): Promise<void> => {
    const isWhole = await readFully(handle, target, position);
    if (!isWhole) throw new SluiceError('truncated_input', 'the body ends within a column');
  };
  const budget = new TableBudget(limits);
  const table = await openParquet({ name: 'the body', byteLength, read }, { budget });
  return tableChunks(table, { near: true, budget });
}
