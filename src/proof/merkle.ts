// The Merkle tree of RFC 6962, section 2.1: one hash that stands for all blocks in their order.
import { hash } from 'node:crypto';

const sha256 = (...parts: readonly Uint8Array[]): Buffer => hash('sha256', Buffer.concat(parts), 'buffer');

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** The root over these leaves, 32 bytes; of none it is the hash of nothing. */
export function merkleRoot(leaves: readonly Uint8Array[]): Buffer {
  if (leaves.length === 0) return sha256();
  // Pairs from the left, and what has no partner goes up as it is: the same as splitting at the largest power of two.
  let level = leaves.map((leaf) => sha256(LEAF, leaf));
  while (level.length > 1) {
    const next: Buffer[] = [];
    for (let i = 0; i < level.length; i += 2) {
      next.push(i + 1 < level.length ? sha256(NODE, level[i]!, level[i + 1]!) : level[i]!);
    }
    level = next;
  }
  return level[0]!;
}
