// Which conditions on the way to each leaf a row does not meet, for many rows at once: a bit for each column of the path, in
// the order in which the path names them. What a path knows so far is a column of numbers, one a row, that both branches of the
// next test inherit: a test costs two numbers a row, however many leaves lie below it.
//
// Source: decision patterns of Nadel and Wettenstein, "From Decision Trees to Boolean Logic: A Fast and Unified SHAP
// Algorithm" (Woodelf), 2025.
import type { Branch, Tree } from '../trees/grow.ts';
import type { StateColumns } from './group-games.ts';

/** A tree as columns of rows traverse it; branches in the order of the tree. */
export interface TreeWalk {
  /** Slots in use, by their number in the plan, and the segment of every state. */
  readonly slots: Int32Array;
  readonly segments: readonly Uint16Array[];
  /** By branch: its slot, by position in `slots`; its column's bit on the path; what follows, a branch or ~leaf. */
  readonly slot: Int32Array;
  readonly bit: Int32Array;
  readonly yes: Int32Array;
  readonly no: Int32Array;
  /** By branch: where its entries of `fails` begin, one a segment: the bit where the test fails, else 0. */
  readonly failsFrom: Int32Array;
  readonly fails: Int32Array;
  /** Flat, leaf by leaf from `leafFirst` on: the player of the leaf that each bit represents. */
  readonly leafFirst: Int32Array;
  readonly place: Int32Array;
  /** The column itself. */
  readonly column: Int32Array;
}

/** Input of a leaf: the bits of the columns whose conditions each row does not meet. Overwritten when it returns. */
type OnLeaf = (leaf: number, lacking: Int32Array, rows: number) => void;

interface SegmentedSlots {
  readonly slots: Int32Array;
  readonly segments: readonly Uint16Array[];
}

/**
 * `slotAt`: position of the slot a branch asks; `playerOf`: column of that slot; `holds`: its answer in the segment that begins
 * with a state; `playersOf`: columns of a leaf, ascending.
 */
export function walkOf(
  t: Tree,
  { slots, segments }: SegmentedSlots,
  slotAt: (b: Branch) => number,
  playerOf: (b: Branch) => number,
  holds: (b: Branch, state: number) => boolean,
  playersOf: readonly Int32Array[],
): TreeWalk {
  const begins = segments.map((s) => [...new Set(s)].map((segment) => s.indexOf(segment)));
  const n = t.branches.length;
  const [slot, bit, failsFrom] = [new Int32Array(n), new Int32Array(n), new Int32Array(n)];
  const fails: number[] = [];
  const leafFirst = new Int32Array(playersOf.length + 1);
  const place: number[] = [];
  const column: number[] = [];
  const walk = (at: number, path: readonly number[]): void => {
    if (at < 0) {
      place.push(...path.map((player) => playersOf[~at]!.indexOf(player)));
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

/** The mask of a leaf, of met players, for a pattern of lacking bits. */
export function maskOfPattern({ leafFirst, place }: TreeWalk, leaf: number, lacking: number): number {
  const first = leafFirst[leaf]!;
  let mask = 2 ** (leafFirst[leaf + 1]! - first) - 1;
  for (let rest = lacking; rest !== 0; rest &= rest - 1) mask ^= 1 << place[first + 31 - Math.clz32(rest & -rest)]!;
  return mask;
}

export class LeafPatterns {
  #segments = new Uint16Array(0);
  /** By depth: what rows lack that go either way. */
  readonly #yes: Int32Array[] = [];
  readonly #no: Int32Array[] = [];

  /** Passes the lacking bits of each row to every leaf of a tree, in order. */
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

/** What rows lack on either side of a test. */
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
