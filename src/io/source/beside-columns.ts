// Blocks of lines that were made of columns, with the columns beside them.
import type { Block } from '../../core/block.ts';
import type { ColumnFeed } from '../../core/block-columns.ts';
import type { Leased } from './block-cutter.ts';

/** Every record of the blocks has to be a line of the feed. */
export async function* besideColumns(
  blocks: AsyncIterable<Block & Leased>,
  feed: ColumnFeed,
): AsyncGenerator<Block & Leased, void, void> {
  feed.keep();
  for await (const block of blocks) yield { ...block, columns: feed.take(block.faults.length, block.lease) };
}
