// Parquet as an input and output format. Reading starts at the end of the file, and pages are compressed individually.

import { SluiceError } from '../../core/errors.ts';
import type { Compression } from '../../core/file-format.ts';
import { rowsOf, tableChunks } from '../columns/table-chunks.ts';
import type { TableFormat } from '../columns/table-format.ts';
import { TableBudget } from '../columns/table-limits.ts';

export const PARQUET: TableFormat = {
  async openReader({ name, stored, compression, piece }, { ignored, limits, onlyRow }) {
    const { totalBytes, slice } = stored;
    if (totalBytes === null)
      throw new SluiceError('usage', 'a Parquet file cannot be read from a pipe, because it is read from its end');
    refuseCompressed(name, compression);
    const { openRandomAccess, openParquet, slicedAccess } = await import('./parquet-file.ts');
    // A shard reads a piece of the object. Positions in the file are offsets in the whole object.
    const near = slice ? null : await openRandomAccess(name);
    const file = near ?? slicedAccess(name, piece?.totalBytes ?? totalBytes, slice!);
    let closed = false;
    const close = async () => {
      if (!closed) await near?.close();
      closed = true;
    };
    let read = 0;
    const onRead = (bytes: number): void => {
      read += bytes;
    };
    const budget = new TableBudget(limits);
    const options = { groups: piece?.groups, onRead, ignored, budget };
    const table = await openParquet(file, options, near === null).catch(async (error: unknown) => {
      await close();
      throw error;
    });
    // Only reads of a local file never wait; reads of an object wait for the server.
    const chunks = await tableChunks(await rowsOf(table, onlyRow), { near: near !== null, budget });
    const ends = table.ends.map(({ end, rows }) => ({ end: end - (piece?.from ?? 0), rows }));
    return { chunks, ends, bytesRead: () => read, close };
  },
  refuse: ({ name, compression }) => refuseCompressed(name, compression),
  async openWriter(bytes, { name: _name, compression: _compression, compressed: _, ...options }) {
    const { parquetSink } = await import('./parquet-sink.ts');
    return parquetSink(bytes, options);
  },
};

function refuseCompressed(name: string, compression: Compression): void {
  if (compression === 'none') return;
  throw new SluiceError(
    'usage',
    `${name}: a Parquet file compresses its pages itself and cannot be compressed with ${compression}`,
  );
}
