// Leaves that are looked up together. What the leaves of a group say to a row depends only on which class of states each slot of
// their paths is in; the classes make a key, as digits make a number. Leaves that share most of their paths have few keys more
// together than each alone, so a tree of 31 leaves is three or four look-ups.

/** What a tree says about a slot it asks: segments of alike states, and the leaves that each leaves reachable. */
export interface SlotMasks {
  /** Slots in use, by their number in the plan; the others stand in this order. */
  readonly slots: Int32Array;
  /** Segment of every state. */
  readonly segments: readonly Uint16Array[];
  /** Words of 32 leaves for every segment. */
  readonly masks: readonly Int32Array[];
  readonly words: number;
}

/** Leaves first..end - 1 of a tree. */
export interface LeafGroup {
  readonly first: number;
  readonly end: number;
  /** Slots of the tree, by their position in it, that can exclude one of them. */
  readonly slots: Int32Array;
  /** What the segment of each slot adds to the key. */
  readonly digits: readonly Digit[];
  /** Keys are whole numbers below this; null: there are too many to number them. */
  readonly keys: number | null;
}

/** The part of a slot in the key of a group. */
export interface Digit {
  /** Its number in the plan. */
  readonly slot: number;
  readonly segment: Uint16Array;
  readonly part: Int32Array;
}

/** What a branch of a tree tells of its leaves. */
interface Span {
  readonly yes: number;
  readonly no: number;
  readonly first: number;
  readonly end: number;
}

/** Most keys of a group of several leaves. More make fewer look-ups, and more that has to be computed before it can be looked up. */
const MOST_KEYS = 4096;
/** Keys are signed 32-bit integers. */
const MOST_NUMBERED = 2 ** 31;

/** Groups of whole subtrees where they have few enough keys, and of neighbours; in the order of the leaves. */
export function groupLeaves(tree: SlotMasks, branches: readonly Span[], leaves: number): LeafGroup[] {
  const few = (first: number, end: number): boolean => {
    let keys = 1;
    for (let s = 0; s < tree.segments.length && keys <= MOST_KEYS; s++) keys *= classesOf(tree, s, first, end).count;
    return keys <= MOST_KEYS;
  };
  const spans: [first: number, end: number][] = [];
  const place = (first: number, end: number): void => {
    const last = spans.at(-1);
    if (last && few(last[0], end)) last[1] = end;
    else spans.push([first, end]);
  };
  const walk = (at: number): void => {
    if (at < 0) {
      place(~at, ~at + 1);
      return;
    }
    const { first, end, yes, no } = branches[at]!;
    if (few(first, end)) place(first, end);
    else {
      walk(yes);
      walk(no);
    }
  };
  walk(leaves > 1 ? 0 : ~0);
  return spans.map(([first, end]) => numbered(tree, first, end));
}

function numbered(tree: SlotMasks, first: number, end: number): LeafGroup {
  const slots: number[] = [];
  const digits: Digit[] = [];
  let keys = 1;
  for (let s = 0; s < tree.segments.length; s++) {
    const { of, count, excludes } = classesOf(tree, s, first, end);
    if (count === 1 && !excludes) continue;
    slots.push(s);
    if (count === 1) continue;
    digits.push({ slot: tree.slots[s]!, segment: tree.segments[s]!, part: of.map((c) => c * keys) });
    keys *= count;
  }
  return { first, end, slots: Int32Array.from(slots), digits, keys: keys <= MOST_NUMBERED ? keys : null };
}

/** Segments of a slot that leave the same of these leaves reachable are one class; whether any excludes one. */
function classesOf({ masks, words }: SlotMasks, slot: number, first: number, end: number) {
  const mask = masks[slot]!;
  const of = new Int32Array(mask.length / words);
  const from = first >>> 5;
  const to = (end - 1) >>> 5;
  const low = -1 << (first & 31);
  const high = -1 >>> (31 - ((end - 1) & 31));
  const wanted = (w: number): number => (w === from ? low : -1) & (w === to ? high : -1);
  const differ = (a: number, b: number): boolean => {
    for (let w = from; w <= to; w++) if (((mask[a * words + w]! ^ mask[b * words + w]!) & wanted(w)) !== 0) return true;
    return false;
  };
  const known: number[] = [];
  let excludes = false;
  for (let segment = 0; segment < of.length; segment++) {
    let c = 0;
    while (c < known.length && differ(known[c]!, segment)) c++;
    if (c === known.length) known.push(segment);
    of[segment] = c;
    for (let w = from; w <= to; w++) excludes ||= (~mask[segment * words + w]! & wanted(w)) !== 0;
  }
  return { of, count: known.length, excludes };
}
