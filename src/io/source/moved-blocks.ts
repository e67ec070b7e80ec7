// Blocks of a piece of an input, counted as they are in the whole: rows, lines and bytes that lie before it are added.
import type { Block } from '../../core/block.ts';
import type { Leased } from './block-cutter.ts';

/** What of the whole input lies before a piece and was not read. */
export interface PiecePlace {
  rows: number;
  lines: number;
  bytes: number;
}

/** Blocks whose records lie nowhere in the input, because they were made of columns. */
export async function* withoutPlace(blocks: AsyncIterable<Block & Leased>): AsyncGenerator<Block & Leased, void, void> {
  for await (const block of blocks) yield { ...block, firstByte: Number.NaN };
}

export async function* movedBlocks(
  blocks: AsyncIterable<Block & Leased>,
  { rows, lines, bytes }: PiecePlace,
): AsyncGenerator<Block & Leased, void, void> {
  for await (const block of blocks) {
    yield {
      ...block,
      firstRow: block.firstRow + rows,
      lines: block.lines.map((line) => line + lines),
      firstByte: block.firstByte + bytes,
      inputEnd: block.inputEnd + bytes,
    };
  }
}
