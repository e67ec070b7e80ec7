// Adds up what the leaves of large ensembles say to many rows: leaf by leaf, what each pattern that occurs among the rows adds is
// computed once. Nothing is kept but for the leaf at hand: there are more patterns than memory has room for.
import { IntegerTable } from './integer-table.ts';
import type { TreeWalk } from './leaf-patterns.ts';
import type { PatternSolver } from './pattern-background.ts';

/** Columns of a path up to which patterns are numbered by an array. */
const MOST_INDEXED = 14;
/** No row with this pattern gets anything. */
const NOTHING = -1;

/** The numbers 0, 1, … of the patterns of a leaf, in the order in which rows bring them. */
class PatternNumbers {
  readonly #index = new Uint16Array(1 << MOST_INDEXED);
  readonly #table = new IntegerTable();
  /** Of each number. */
  patterns = new Int32Array(0);
  /** Of each row. */
  of = new Int32Array(0);
  count = 0;

  /** Numbers the patterns of the rows of a leaf with so many players. */
  read(lacking: Int32Array, rows: number, players: number): void {
    if (this.of.length < rows) {
      this.of = new Int32Array(rows);
      this.patterns = new Int32Array(rows);
    }
    this.count = players <= MOST_INDEXED ? this.#indexed(lacking, rows) : this.#looked(lacking, rows);
  }

  #indexed(lacking: Int32Array, rows: number): number {
    const { of, patterns } = this;
    const index = this.#index;
    let count = 0;
    for (let r = 0; r < rows; r++) {
      const pattern = lacking[r]!;
      let number = index[pattern]! - 1;
      if (number < 0) {
        number = count++;
        patterns[number] = pattern;
        index[pattern] = count;
      }
      of[r] = number;
    }
    for (let k = 0; k < count; k++) index[patterns[k]!] = 0;
    return count;
  }

  #looked(lacking: Int32Array, rows: number): number {
    const { of, patterns } = this;
    const table = this.#table;
    table.clear();
    let count = 0;
    for (let r = 0; r < rows; r++) {
      let number = table.find(lacking[r]!);
      if (number < 0) {
        number = count++;
        patterns[number] = lacking[r]!;
        table.add(lacking[r]!, number);
      }
      of[r] = number;
    }
    return count;
  }
}

export class PatternAdder {
  readonly #numbers = new PatternNumbers();
  /** What the patterns add, one after the other, and where it begins. */
  #vectors = new Float64Array(0);
  #begins = new Int32Array(0);
  /** Rows that get something, and where it stands. */
  #rows = new Int32Array(0);
  #at = new Int32Array(0);
  #live = 0;

  /** Finds what each of the rows, at most 65,535, gets from a leaf. */
  find(t: TreeWalk, leaf: number, lacking: Int32Array, rows: number, solver: PatternSolver): void {
    const players = t.leafFirst[leaf + 1]! - t.leafFirst[leaf]!;
    const numbers = this.#numbers;
    numbers.read(lacking, rows, players);
    if (this.#rows.length < rows) {
      this.#rows = new Int32Array(rows);
      this.#at = new Int32Array(rows);
      this.#begins = new Int32Array(rows);
    }
    // A solver may write a number behind the last vector.
    const room = numbers.count * players + 1;
    if (this.#vectors.length < room) this.#vectors = new Float64Array(room * 2);
    solver.open(leaf);
    let to = 0;
    for (let k = 0; k < numbers.count; k++) {
      const any = solver.solve(numbers.patterns[k]!, this.#vectors, to);
      this.#begins[k] = any ? to : NOTHING;
      if (any) to += players;
    }
    this.#live = to === 0 ? 0 : whoGets(numbers.of, this.#begins, this.#rows, this.#at, rows);
  }

  /** Adds what was found, times a weight, to the columns of the players, `columns[first]`.. to `columns[end - 1]`: column c of `effects` is `origin + c × stride`.. */
  add(
    columns: Int32Array,
    first: number,
    end: number,
    weight: number,
    effects: Float64Array,
    origin: number,
    stride: number,
  ): void {
    const n = this.#live;
    if (n === 0) return;
    const [v, rows, at] = [this.#vectors, this.#rows, this.#at];
    let j = first;
    for (; j + 4 <= end; j += 4) {
      const a = origin + columns[j]! * stride;
      const b = origin + columns[j + 1]! * stride;
      const c = origin + columns[j + 2]! * stride;
      addFour(v, j - first, at, rows, n, weight, effects, a, b, c, origin + columns[j + 3]! * stride);
    }
    for (; j < end; j++) addOne(v, j - first, at, rows, n, weight, effects, origin + columns[j]! * stride);
  }
}

/** Rows whose pattern adds something, and where that begins; returns how many. */
function whoGets(of: Int32Array, begins: Int32Array, rows: Int32Array, at: Int32Array, n: number): number {
  let live = 0;
  for (let r = 0; r < n; r++) {
    const begin = begins[of[r]!]!;
    rows[live] = r;
    at[live] = begin;
    live += (begin >>> 31) ^ 1;
  }
  return live;
}

function addOne(
  v: Float64Array,
  i: number,
  at: Int32Array,
  rows: Int32Array,
  n: number,
  weight: number,
  to: Float64Array,
  a: number,
): void {
  for (let k = 0; k < n; k++) to[a + rows[k]!]! += weight * v[at[k]! + i]!;
}

/** Numbers `i`..`i + 3` of each vector, to the columns that begin at a, b, c and d. */
function addFour(
  v: Float64Array,
  i: number,
  at: Int32Array,
  rows: Int32Array,
  n: number,
  weight: number,
  to: Float64Array,
  a: number,
  b: number,
  c: number,
  d: number,
): void {
  for (let k = 0; k < n; k++) {
    const from = at[k]! + i;
    const r = rows[k]!;
    to[a + r]! += weight * v[from]!;
    to[b + r]! += weight * v[from + 1]!;
    to[c + r]! += weight * v[from + 2]!;
    to[d + r]! += weight * v[from + 3]!;
  }
}
