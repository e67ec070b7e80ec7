// Groups of leaves whose effects are found with a single lookup. The effects of a group on a row depend only on the
// class of states of each slot on the paths. The classes form a key, like the digits of a number. For leaves that share
// most of their paths, the group has few more keys than a single leaf. A tree of 31 leaves therefore needs only three
// or four lookups.
import { IntegerTable, NOTHING, type VectorMemo } from './lookup-tables.ts';

/**
 * How a tree uses its slots: segments of equivalent states, and the leaves that are still reachable in each segment.
 */
export interface SlotMasks {
  /** The slots in use, as indexes in the plan. The other arrays are in the same order. */
  readonly slots: Int32Array;
  /** Segment of each state. */
  readonly segments: readonly Uint16Array[];
  /** Reachable leaves of each segment, as bits. A word has bits for 32 leaves. */
  readonly masks: readonly Int32Array[];
  readonly words: number;
}

/** A group: leaves `first` to `end - 1` of a tree. */
export interface LeafGroup {
  readonly first: number;
  readonly end: number;
  /** Slots that can exclude a leaf of the group, by their position in the tree. */
  readonly slots: Int32Array;
  /** For each slot: what a segment adds to the key. */
  readonly digits: readonly Digit[];
  /** Keys are integers from 0 to `keys - 1`; null if there are too many keys to number them. */
  readonly keys: number | null;
}

/** What a slot adds to the key of a group. */
interface Digit {
  /** Index of the slot in the plan. */
  readonly slot: number;
  readonly segment: Uint16Array;
  readonly part: Int32Array;
}

/** The leaves below a branch of a tree: `first` to `end - 1`. */
interface Span {
  readonly yes: number;
  readonly no: number;
  readonly first: number;
  readonly end: number;
}

/**
 * Maximum number of keys of a group that has several leaves. With more keys, fewer lookups would be needed, but more
 * vectors would have to be computed first.
 */
const MOST_KEYS = 4096;
/** Keys must fit in signed 32-bit integers. */
const MOST_NUMBERED = 2 ** 31;

/** Forms groups in leaf order. A group is a subtree with few enough keys, or consists of neighbouring leaves. */
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

/**
 * Divides the segments of a slot into classes in which the same leaves of this range stay reachable. Also returns
 * whether any class excludes a leaf.
 */
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

// Adds up the vectors of groups. Each row and group needs one key and one lookup.

/** Rows in the layout that games read: the states of slot s start at index s × stride. */
export interface StateColumns {
  readonly states: Int32Array;
  readonly stride: number;
  readonly rows: number;
}

/**
 * A group with its vectors. For each target, a vector contains the sum of the reached leaves, followed by the effects
 * of the columns.
 */
export interface GroupGame extends LeafGroup {
  readonly columns: Int32Array;
  readonly targets: Int32Array;
  readonly memo: VectorMemo;
}

/**
 * Computes the vector of a row and writes its `memo.width` numbers to `out`, from index `at` on. Returns false if all
 * of them are zero.
 */
type VectorFill<G> = (g: G, rows: StateColumns, row: number, out: Float64Array, at: number) => boolean;

export class GroupAdder<G extends GroupGame> {
  readonly #fill: VectorFill<G>;
  /** For each row: its key in the current group, and the position of its vector. */
  #keys = new Int32Array(0);
  #at = new Int32Array(0);
  /** Vectors of the current group that do not fit into the cache. */
  #passing = new Float64Array(0);
  readonly #passed = new IntegerTable();

  constructor(fill: VectorFill<G>) {
    this.#fill = fill;
  }

  /** The keys of the rows; the next call overwrites them. */
  keysOf(g: LeafGroup, { states, stride, rows }: StateColumns): Int32Array {
    if (this.#keys.length < rows) {
      this.#keys = new Int32Array(rows);
      this.#at = new Int32Array(rows);
    }
    const keys = this.#keys;
    keys.fill(0, 0, rows);
    const { digits } = g;
    let i = 0;
    for (; i + 2 <= digits.length; i += 2) addTwoDigits(keys, digits[i]!, digits[i + 1]!, states, stride, rows);
    if (i < digits.length) addDigit(keys, digits[i]!, states, stride, rows);
    return keys;
  }

  /**
   * Adds the effects of the rows to `effects` (targets × columns × stride: column by column, as for states). Adds the
   * values of the leaves that the rows reach to `sums` (targets × stride).
   */
  add(g: G, rows: StateColumns, columns: number, effects: Float64Array, sums: Float64Array): void {
    const { targets, columns: own } = g;
    const { stride, rows: n } = rows;
    if (n === 1 && this.#addOne(g, rows, columns, effects, sums)) return;
    const keys = this.keysOf(g, rows);
    const v = this.#find(g, rows, keys);
    const at = this.#at;
    for (let k = 0, i = 0; k < targets.length; k++) {
      const target = targets[k]!;
      addColumn(v, i++, at, sums, target * stride, n);
      const from = target * columns;
      let j = 0;
      for (; j + 4 <= own.length; j += 4, i += 4) {
        const a = (from + own[j]!) * stride;
        const b = (from + own[j + 1]!) * stride;
        const c = (from + own[j + 2]!) * stride;
        addFourColumns(v, i, at, effects, a, b, c, (from + own[j + 3]!) * stride, n);
      }
      if (j + 2 <= own.length) {
        addTwoColumns(v, i, at, effects, (from + own[j]!) * stride, (from + own[j + 1]!) * stride, n);
        j += 2;
        i += 2;
      }
      if (j < own.length) addColumn(v, i++, at, effects, (from + own[j]!) * stride, n);
    }
  }

  /**
   * Does the same as `add` for a single row, without loops over rows. Returns false if the row's vector is not cached.
   */
  #addOne(g: G, rows: StateColumns, columns: number, effects: Float64Array, sums: Float64Array): boolean {
    const { targets, columns: own, digits, memo } = g;
    if (g.keys === null) return false;
    const { states, stride } = rows;
    let key = 0;
    for (let i = 0; i < digits.length; i++) {
      const { slot, segment, part } = digits[i]!;
      key += part[segment[states[slot * stride]!]!]!;
    }
    let at = memo.find(key);
    if (at < 0) return false;
    const { values } = memo;
    for (let k = 0; k < targets.length; k++) {
      const from = targets[k]! * columns;
      sums[targets[k]! * stride]! += values[at++]!;
      for (let j = 0; j < own.length; j++) effects[(from + own[j]!) * stride]! += values[at++]!;
    }
    return true;
  }

  /** Writes the position of each row's vector to `#at`, and returns the array that contains the vectors. */
  #find(g: G, rows: StateColumns, keys: Int32Array): Float64Array {
    const at = this.#at;
    const { memo } = g;
    const keyed = g.keys !== null;
    if (keyed && memo.findAll(keys, rows.rows, at)) return memo.values;
    this.#passed.clear();
    let passing = false;
    for (let r = 0; r < rows.rows; r++) {
      if (keyed && at[r]! >= 0) continue;
      // An earlier row may have had the same key, so the cache is searched again.
      let found = keyed ? memo.find(keys[r]!) : -1;
      if (found < 0) found = this.#enter(g, rows, r, keys[r]!);
      passing ||= found < 0;
      at[r] = found;
    }
    const { values, width } = memo;
    if (!passing) return values;
    const all = this.#passing;
    for (let r = 0; r < rows.rows; r++) {
      if (at[r]! < 0) at[r] = ~at[r]!;
      else {
        for (let k = 0, from = at[r]!; k < width; k++) all[r * width + k] = values[from + k]!;
        at[r] = r * width;
      }
    }
    return all;
  }

  /**
   * Computes the vector of a row and caches it. Returns the position of the vector. If the cache is full, returns
   * ~position among the temporary vectors.
   */
  #enter(g: G, rows: StateColumns, row: number, key: number): number {
    const { memo } = g;
    const keyed = g.keys !== null;
    const known = keyed ? this.#passed.find(key) : -1;
    if (known >= 0) return ~known;
    const { width } = memo;
    const to = row * width;
    if (this.#passing.length < width * rows.rows) this.#passing = new Float64Array(width * rows.rows);
    const any = this.#fill(g, rows, row, this.#passing, to);
    if (!keyed) return ~to;
    if (!any) {
      memo.keepNothing(key);
      return NOTHING;
    }
    const kept = memo.keep(key, this.#passing, to);
    if (kept >= 0) return kept;
    this.#passed.add(key, to);
    return ~to;
  }
}

function addDigit(keys: Int32Array, a: Digit, states: Int32Array, stride: number, rows: number): void {
  const { part, segment } = a;
  const from = a.slot * stride;
  for (let r = 0; r < rows; r++) keys[r]! += part[segment[states[from + r]!]!]!;
}

function addTwoDigits(keys: Int32Array, a: Digit, b: Digit, states: Int32Array, stride: number, rows: number): void {
  const { part: partA, segment: segmentA } = a;
  const { part: partB, segment: segmentB } = b;
  const fromA = a.slot * stride;
  const fromB = b.slot * stride;
  for (let r = 0; r < rows; r++)
    keys[r]! += partA[segmentA[states[fromA + r]!]!]! + partB[segmentB[states[fromB + r]!]!]!;
}

/** Adds number `i` of each row's vector to a column of sums. */
function addColumn(v: Float64Array, i: number, at: Int32Array, to: Float64Array, from: number, rows: number): void {
  for (let r = 0; r < rows; r++) to[from + r]! += v[at[r]! + i]!;
}

/** Like `addColumn`, for numbers `i` and `i + 1`, whose columns start at a and b. Each vector is fetched only once. */
function addTwoColumns(
  v: Float64Array,
  i: number,
  at: Int32Array,
  to: Float64Array,
  a: number,
  b: number,
  rows: number,
): void {
  for (let r = 0; r < rows; r++) {
    const from = at[r]! + i;
    to[a + r]! += v[from]!;
    to[b + r]! += v[from + 1]!;
  }
}

/** Like `addColumn`, for numbers `i` to `i + 3`, whose columns start at a, b, c and d. */
function addFourColumns(
  v: Float64Array,
  i: number,
  at: Int32Array,
  to: Float64Array,
  a: number,
  b: number,
  c: number,
  d: number,
  rows: number,
): void {
  for (let r = 0; r < rows; r++) {
    const from = at[r]! + i;
    to[a + r]! += v[from]!;
    to[b + r]! += v[from + 1]!;
    to[c + r]! += v[from + 2]!;
    to[d + r]! += v[from + 3]!;
  }
}
