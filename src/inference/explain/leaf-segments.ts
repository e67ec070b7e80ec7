// The states of a slot in which all tests of a tree give the same answers: segments, and the leaves that each leaves reachable.
import type { Branch } from '../trees/grow.ts';
import type { Slot, Truth } from '../trees/slots.ts';

/** Masks of the leaves that stay reachable, for every state of a slot; states with the same masks share a segment. */
export function segmentsOf(
  branches: readonly Branch[],
  truths: ReadonlyMap<Branch, Truth>,
  slot: Slot,
  words: number,
): { segment: Uint16Array; mask: Int32Array } {
  const { states } = slot;
  // Where a test changes its answer a segment begins; within one all states are alike.
  const starts = new Set([0, ...(slot.kind === 'number' ? [states - 1] : [])]);
  for (const b of branches) {
    for (const [from, end] of truths.get(b)!.ranges) {
      starts.add(from);
      if (end < states) starts.add(end);
    }
  }
  const begins = [...starts].filter((s) => s < states).sort((a, b) => a - b);
  const segment = new Uint16Array(states);
  const mask = new Int32Array(begins.length * words).fill(-1);
  begins.forEach((from, i) => {
    segment.fill(i, from, begins[i + 1] ?? states);
    for (const b of branches) {
      const [a, end] = holdsIn(truths.get(b)!, from, slot) ? [b.middle, b.end] : [b.first, b.middle];
      for (let l = a; l < end; l++) mask[i * words + (l >>> 5)]! &= ~(1 << (l & 31));
    }
  });
  return { segment, mask };
}

/** Whether a test holds in a state: the last one of a number is that of a missing value. */
export const holdsIn = ({ missing, ranges }: Truth, state: number, { kind, states }: Slot): boolean =>
  kind === 'number' && state === states - 1 ? missing : ranges.some(([a, end]) => state >= a && state < end);
