// A background counted: what its rows have in common is computed once, however many rows have it.
import { IntegerTable } from './integer-table.ts';
import { maskOfPattern, type TreeWalk } from './leaf-patterns.ts';

/** Masks of the rows at a leaf, ascending, so that sums over them do not depend on the order of the background, and how many have each. */
export function countMasks(
  walk: TreeWalk,
  leaf: number,
  lacking: Int32Array,
  rows: number,
): { masks: Int32Array; patterns: Int32Array; counts: Float64Array } {
  const table = new IntegerTable();
  const found: number[] = [];
  const patterns: number[] = [];
  const counts: number[] = [];
  for (let r = 0; r < rows; r++) {
    const k = table.find(lacking[r]!);
    if (k >= 0) counts[k]!++;
    else {
      table.add(lacking[r]!, found.push(maskOfPattern(walk, leaf, lacking[r]!)) - 1);
      patterns.push(lacking[r]!);
      counts.push(1);
    }
  }
  const order = Int32Array.from(found, (_, k) => k).sort((a, b) => found[a]! - found[b]!);
  return {
    masks: Int32Array.from(order, (k) => found[k]!),
    patterns: Int32Array.from(order, (k) => patterns[k]!),
    counts: Float64Array.from(order, (k) => counts[k]!),
  };
}

/** For each of `players` bits the masks that have it: player by player, ⌈masks / 32⌉ words of bits. */
export function meetingSets(masks: Int32Array, players: number): Int32Array {
  const words = Math.ceil(masks.length / 32);
  const sets = new Int32Array(players * words);
  for (let k = 0; k < masks.length; k++)
    for (let j = 0; j < players; j++) sets[j * words + (k >>> 5)]! |= ((masks[k]! >>> j) & 1) << (k & 31);
  return sets;
}
