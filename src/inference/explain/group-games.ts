// Adds up what groups of leaves say to rows: a key and a look-up for each row and group, and column by column the vectors found.
import { IntegerTable } from './integer-table.ts';
import type { Digit, LeafGroup } from './leaf-groups.ts';
import { NOTHING, type VectorMemo } from './vector-memo.ts';

/** Rows as games read them: the states of slot s stand at s × stride.. */
export interface StateColumns {
  readonly states: Int32Array;
  readonly stride: number;
  readonly rows: number;
}

/** A vector has for each target the sum of the leaves reached, and then the effects of the columns. */
export interface GroupGame extends LeafGroup {
  readonly columns: Int32Array;
  readonly targets: Int32Array;
  readonly memo: VectorMemo;
}

/** Computes the vector of a row: `out[at]`.. for `memo.width` numbers. False: it is zero everywhere. */
type VectorFill<G> = (g: G, rows: StateColumns, row: number, out: Float64Array, at: number) => boolean;

export class GroupAdder<G extends GroupGame> {
  readonly #fill: VectorFill<G>;
  /** Keys of the rows in the group at hand, and where their vectors stand. */
  #keys = new Int32Array(0);
  #at = new Int32Array(0);
  /** Vectors there is no room to keep, for as long as their group is at hand. */
  #passing = new Float64Array(0);
  readonly #passed = new IntegerTable();

  constructor(fill: VectorFill<G>) {
    this.#fill = fill;
  }

  /** The keys of rows; overwritten by the next call. */
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
   * Adds the effects of the rows to `effects` (targets × columns × stride: column by column, as states are) and the leaves
   * they reach to `sums` (targets × stride).
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

  /** The same for one row, without loops over rows; false: its vector is not known yet. */
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

  /** Leaves the position of each row's vector in `#at`; returns the array they stand in. */
  #find(g: G, rows: StateColumns, keys: Int32Array): Float64Array {
    const at = this.#at;
    const { memo } = g;
    const keyed = g.keys !== null;
    if (keyed && memo.findAll(keys, rows.rows, at)) return memo.values;
    this.#passed.clear();
    let passing = false;
    for (let r = 0; r < rows.rows; r++) {
      if (keyed && at[r]! >= 0) continue;
      // A row before may have had the same key.
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

  /** Computes the vector of a row and keeps it; ~its position among those that only pass where there is no room. */
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

/** Adds number `i` of every row's vector to a column of sums. */
function addColumn(v: Float64Array, i: number, at: Int32Array, to: Float64Array, from: number, rows: number): void {
  for (let r = 0; r < rows; r++) to[from + r]! += v[at[r]! + i]!;
}

/** The same for numbers `i` and `i + 1`, whose columns begin at a and b: a vector is fetched once for both. */
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

/** The same for numbers `i`..`i + 3`, whose columns begin at a, b, c and d. */
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
