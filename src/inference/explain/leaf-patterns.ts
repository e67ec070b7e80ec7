// Computes, for many rows at once, the conditions on the path to each leaf that the rows do not meet. The result has
// one bit per column of the path, in the order of first occurrence. The bits of all rows up to a test form an array,
// which both branches of the test inherit. A test therefore costs two numbers per row, however many leaves are below
// it.
//
// Source: decision patterns of Nadel and Wettenstein, "From Decision Trees to Boolean Logic: A Fast and Unified SHAP
// Algorithm" (Woodelf), 2025.
import type { Branch, Tree } from '../trees/grow.ts';
import type { StateColumns } from './group-games.ts';

/** A tree in the layout for traversing it with many rows at once. Branches are in tree order. */
export interface TreeWalk {
  /** The slots in use, as indexes in the plan, and the segment of each state. */
  readonly slots: Int32Array;
  readonly segments: readonly Uint16Array[];
  /**
   * For each branch: its slot (as a position in `slots`), the bit of its column on the path, and the next branch (or
   * ~leaf) on either side.
   */
  readonly slot: Int32Array;
  readonly bit: Int32Array;
  readonly yes: Int32Array;
  readonly no: Int32Array;
  /**
   * For each branch: index of its first entry in `fails`. `fails` has one entry per segment: the bit if the test fails,
   * otherwise 0.
   */
  readonly failsFrom: Int32Array;
  readonly fails: Int32Array;
  /** `place`: the player of the leaf for each bit. The entries of a leaf begin at its `leafFirst`. */
  readonly leafFirst: Int32Array;
  readonly place: Int32Array;
  /** The column of each bit, with the same layout as `place`. */
  readonly column: Int32Array;
}

/**
 * Receives a leaf and, for each row, the bits of the columns whose conditions the row does not meet. The array is
 * overwritten after the call.
 */
type OnLeaf = (leaf: number, lacking: Int32Array, rows: number) => void;

interface SegmentedSlots {
  readonly slots: Int32Array;
  readonly segments: readonly Uint16Array[];
}

/**
 * `slotAt`: position of the slot that a branch tests. `playerOf`: column of that slot. `holds`: result of the test in
 * the segment that starts with a given state. `playersAt`: columns of a leaf, ascending.
 */
export function walkOf(
  t: Tree,
  { slots, segments }: SegmentedSlots,
  slotAt: (b: Branch) => number,
  playerOf: (b: Branch) => number,
  holds: (b: Branch, state: number) => boolean,
  playersAt: (leaf: number) => readonly number[],
): TreeWalk {
  const begins = segments.map((s) => [...new Set(s)].map((segment) => s.indexOf(segment)));
  const n = t.branches.length;
  const [slot, bit, failsFrom] = [new Int32Array(n), new Int32Array(n), new Int32Array(n)];
  const fails: number[] = [];
  const leafFirst = new Int32Array(t.leaves.length + 1);
  const place: number[] = [];
  const column: number[] = [];
  const walk = (at: number, path: readonly number[]): void => {
    if (at < 0) {
      const players = playersAt(~at);
      place.push(...path.map((player) => players.indexOf(player)));
      column.push(...path);
      leafFirst[~at + 1] = place.length;
      return;
    }
    const b = t.branches[at]!;
    const player = playerOf(b);
    const known = path.includes(player) ? path : [...path, player];
    slot[at] = slotAt(b);
    bit[at] = 1 << known.indexOf(player);
    failsFrom[at] = fails.length;
    for (const state of begins[slot[at]!]!) fails.push(holds(b, state) ? 0 : bit[at]!);
    walk(b.yes, known);
    walk(b.no, known);
  };
  walk(n > 0 ? 0 : ~0, []);
  const next = (of: (b: Branch) => number): Int32Array => Int32Array.from(t.branches, of);
  return {
    slots,
    segments,
    slot,
    bit,
    yes: next((b) => b.yes),
    no: next((b) => b.no),
    failsFrom,
    fails: Int32Array.from(fails),
    leafFirst,
    place: Int32Array.from(place),
    column: Int32Array.from(column),
  };
}

/** Converts a leaf's pattern (bits of columns that are not met) to the mask of its players that are met. */
export function maskOfPattern({ leafFirst, place }: TreeWalk, leaf: number, lacking: number): number {
  const first = leafFirst[leaf]!;
  let mask = 2 ** (leafFirst[leaf + 1]! - first) - 1;
  for (let rest = lacking; rest !== 0; rest &= rest - 1) mask ^= 1 << place[first + 31 - Math.clz32(rest & -rest)]!;
  return mask;
}

export class LeafPatterns {
  #segments = new Uint16Array(0);
  /** By depth: the unmet bits of the rows on either side of a test. */
  readonly #yes: Int32Array[] = [];
  readonly #no: Int32Array[] = [];

  /** Passes the unmet bits of each row to every leaf of a tree, in order. */
  eachLeaf(t: TreeWalk, { states, stride, rows }: StateColumns, onLeaf: OnLeaf): void {
    const { slots, segments } = t;
    if (this.#segments.length < slots.length * rows) this.#segments = new Uint16Array(slots.length * rows);
    for (let s = 0; s < slots.length; s++)
      readSegments(segments[s]!, states, slots[s]! * stride, this.#segments, s * rows, rows);
    const all = this.#column(this.#yes, 0, rows);
    all.fill(0, 0, rows);
    this.#walk(t, t.slot.length > 0 ? 0 : ~0, 1, all, rows, onLeaf);
  }

  #walk(t: TreeWalk, at: number, depth: number, lacking: Int32Array, rows: number, onLeaf: OnLeaf): void {
    if (at < 0) {
      onLeaf(~at, lacking, rows);
      return;
    }
    const yes = this.#column(this.#yes, depth, rows);
    const no = this.#column(this.#no, depth, rows);
    part(lacking, yes, no, this.#segments, t.slot[at]! * rows, t.fails, t.failsFrom[at]!, t.bit[at]!, rows);
    this.#walk(t, t.yes[at]!, depth + 1, yes, rows, onLeaf);
    this.#walk(t, t.no[at]!, depth + 1, no, rows, onLeaf);
  }

  #column(of: Int32Array[], depth: number, rows: number): Int32Array {
    const known = of[depth];
    if (known !== undefined && known.length >= rows) return known;
    const made = new Int32Array(rows);
    of[depth] = made;
    return made;
  }
}

function readSegments(
  segment: Uint16Array,
  states: Int32Array,
  from: number,
  to: Uint16Array,
  at: number,
  rows: number,
): void {
  for (let r = 0; r < rows; r++) to[at + r] = segment[states[from + r]!]!;
}

/** Computes the unmet bits of the rows on either side of a test. */
function part(
  lacking: Int32Array,
  yes: Int32Array,
  no: Int32Array,
  segments: Uint16Array,
  from: number,
  fails: Int32Array,
  failsFrom: number,
  bit: number,
  rows: number,
): void {
  for (let r = 0; r < rows; r++) {
    const failed = fails[failsFrom + segments[from + r]!]!;
    const known = lacking[r]!;
    yes[r] = known | failed;
    no[r] = known | (failed ^ bit);
  }
}
