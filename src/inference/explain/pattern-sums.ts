// Effects of large ensembles. At each leaf, the background is stored as bit patterns, and sums are computed for the
// patterns that occur in the explained rows.
import { bits, type LeafGameSolver, shapley, type TreeLeaves } from './leaf-game.ts';
import { maskOfPattern, type TreeWalk } from './leaf-patterns.ts';
import { IntegerTable } from './lookup-tables.ts';

// For the pattern of a row, looks up the background rows that meet the conditions that the row does not meet. Five
// columns of the path are handled at a time.

/** BLOCK: number of columns per table of subsets. SUBSETS: number of subsets of these columns. */
const BLOCK = 5;
const SUBSETS = 1 << BLOCK;
const LAST = SUBSETS - 1;
const MOST_COLUMNS = 32;

/**
 * Indexed by r × 32 + b. r: number of columns that only the background row meets. b: number of columns that only the
 * explained row meets. LOST: loss for each of the r columns. GAINED: gain for each of the b columns.
 */
const LOST = weights((x, z) => (x > 0 ? shapley(x - 1, z) : 0));
const GAINED = weights((x, z) => (z > 0 ? shapley(z - 1, x) : 0));

function weights(of: (x: number, z: number) => number): Float64Array {
  return Float64Array.from({ length: 32 * 32 }, (_, i) => of(i >>> 5, i & 31));
}

/** Computes effects for the leaf that was opened last. */
export interface PatternSolver {
  open(leaf: number): void;
  /**
   * Writes the contribution of each column of the path per unit of weight, in bit order, to `out`, from index `at` on.
   * Also overwrites the number that follows. Returns false if all contributions are zero.
   */
  solve(pattern: number, out: Float64Array, at: number): boolean;
}

/** Patterns of the background rows at a leaf, and the share of rows that have each pattern. */
export interface LeafBackground {
  readonly columns: number;
  readonly patterns: Int32Array;
  readonly shares: Float64Array;
}

/**
 * Computes the effects of a pattern (the conditions of a path that a row does not meet) from the Shapley game of the
 * leaf.
 */
export class GameSolver implements PatternSolver {
  readonly #walk: TreeWalk;
  readonly #games: TreeLeaves;
  readonly #solve: LeafGameSolver;
  readonly #values = new Float64Array(MOST_COLUMNS);
  #leaf = 0;

  constructor(walk: TreeWalk, games: TreeLeaves, solve: LeafGameSolver) {
    this.#walk = walk;
    this.#games = games;
    this.#solve = solve;
  }

  open(leaf: number): void {
    this.#leaf = leaf;
  }

  solve(pattern: number, out: Float64Array, at: number): boolean {
    const { leafFirst, place } = this.#walk;
    const leaf = this.#leaf;
    const any = this.#solve(this.#games, leaf, maskOfPattern(this.#walk, leaf, pattern), this.#values);
    for (let k = leafFirst[leaf]!, to = at; k < leafFirst[leaf + 1]!; k++, to++) out[to] = this.#values[place[k]!]!;
    return any;
  }
}

/** Solves the interventional game of leaf-game.ts. */
export class PatternBackground implements PatternSolver {
  readonly #first: Int32Array;
  readonly #columns: Uint8Array;
  /** Patterns and their shares, one leaf after the other. */
  readonly #patterns: Int32Array;
  readonly #shares: Float64Array;
  /**
   * For each pattern: the number of columns that it does not meet, and the first four of these columns, one byte each.
   * Unused bytes contain the index after the last column.
   */
  readonly #sizes: Uint8Array;
  readonly #lists: Int32Array;
  /**
   * The current leaf: first pattern, number of columns, words of 32 patterns. `#tables`: by block and subset of
   * columns, the patterns that meet all columns of the subset.
   */
  #from = 0;
  #width = 0;
  #words = 0;
  #meets = new Int32Array(0);
  #tables = new Int32Array(0);

  constructor(leaves: readonly LeafBackground[]) {
    this.#first = new Int32Array(leaves.length + 1);
    for (const [l, { patterns }] of leaves.entries()) this.#first[l + 1] = this.#first[l]! + patterns.length;
    this.#columns = Uint8Array.from(leaves, (l) => l.columns);
    this.#patterns = new Int32Array(this.#first[leaves.length]!);
    this.#shares = new Float64Array(this.#patterns.length);
    for (const [l, { patterns, shares }] of leaves.entries()) {
      this.#patterns.set(patterns, this.#first[l]);
      this.#shares.set(shares, this.#first[l]);
    }
    this.#sizes = Uint8Array.from(this.#patterns, bits);
    this.#lists = new Int32Array(this.#patterns.length);
    for (const [l, { columns, patterns }] of leaves.entries())
      for (let k = 0; k < patterns.length; k++) this.#lists[this.#first[l]! + k] = firstFour(patterns[k]!, columns);
  }

  open(leaf: number): void {
    const from = this.#first[leaf]!;
    const count = this.#first[leaf + 1]! - from;
    const words = (count + 31) >>> 5;
    const width = this.#columns[leaf]!;
    this.#from = from;
    this.#words = words;
    this.#width = width;
    if (this.#meets.length < words * MOST_COLUMNS) {
      this.#meets = new Int32Array(words * MOST_COLUMNS);
      this.#tables = new Int32Array(words * SUBSETS * Math.ceil(MOST_COLUMNS / BLOCK));
    }
    meetingSets(this.#patterns, from, count, words, width, this.#meets);
    const blocks = Math.max(1, Math.ceil(width / BLOCK));
    for (let b = 0; b < blocks; b++)
      subsets(
        this.#meets,
        b * BLOCK,
        Math.min(BLOCK, width - b * BLOCK),
        count,
        words,
        this.#tables,
        b * SUBSETS * words,
      );
  }

  solve(pattern: number, out: Float64Array, at: number): boolean {
    const tables = this.#tables;
    const patterns = this.#patterns;
    const shares = this.#shares;
    const sizes = this.#sizes;
    const lists = this.#lists;
    const words = this.#words;
    const width = this.#width;
    const from = this.#from;
    const x = bits(pattern);
    const block = SUBSETS * words;
    const low = (pattern & LAST) * words;
    const middle = block + ((pattern >>> BLOCK) & LAST) * words;
    for (let j = 0; j < width; j++) out[at + j] = 0;
    let lost = 0;
    let any = false;
    for (let w = 0; w < words; w++) {
      let makeUp = tables[low + w]!;
      if (width > BLOCK) makeUp &= tables[middle + w]!;
      for (let b = 2; b * BLOCK < width; b++)
        makeUp &= tables[b * block + ((pattern >>> (b * BLOCK)) & LAST) * words + w]!;
      while (makeUp !== 0) {
        const i = from + w * 32 + 31 - Math.clz32(makeUp & -makeUp);
        makeUp &= makeUp - 1;
        const z = sizes[i]!;
        any ||= x + z > 0;
        const share = shares[i]!;
        lost += share * LOST[x * 32 + z]!;
        const gained = share * GAINED[x * 32 + z]!;
        const four = lists[i]!;
        out[at + (four & 31)]! += gained;
        out[at + ((four >>> 8) & 31)]! += gained;
        out[at + ((four >>> 16) & 31)]! += gained;
        out[at + ((four >>> 24) & 31)]! += gained;
        if (z > 4)
          for (let rest = withoutFour(patterns[i]!); rest !== 0; rest &= rest - 1)
            out[at + 31 - Math.clz32(rest & -rest)]! += gained;
      }
    }
    if (any) for (let rest = pattern; rest !== 0; rest &= rest - 1) out[at + 31 - Math.clz32(rest & -rest)] = -lost;
    return any;
  }
}

/** For each column: the patterns that meet it. */
function meetingSets(
  patterns: Int32Array,
  from: number,
  count: number,
  words: number,
  columns: number,
  sets: Int32Array,
): void {
  for (let j = 0; j < columns; j++) {
    for (let w = 0; w < words; w++) {
      const first = from + w * 32;
      const end = Math.min(32, count - w * 32);
      let set = 0;
      for (let k = 0; k < end; k++) set |= (((patterns[first + k]! >>> j) & 1) ^ 1) << k;
      sets[j * words + w] = set;
    }
  }
}

/** For each subset of the columns from `first` on: the patterns that meet all columns of the subset. */
function subsets(
  meets: Int32Array,
  first: number,
  columns: number,
  count: number,
  words: number,
  table: Int32Array,
  at: number,
): void {
  for (let w = 0; w < words; w++) table[at + w] = -1 >>> Math.max(0, 32 - (count - w * 32));
  for (let s = 1; s < 1 << columns; s++) {
    const to = at + s * words;
    const less = at + (s & (s - 1)) * words;
    const meet = (first + 31 - Math.clz32(s & -s)) * words;
    for (let w = 0; w < words; w++) table[to + w] = table[less + w]! & meets[meet + w]!;
  }
}

function firstFour(pattern: number, none: number): number {
  let list = 0;
  for (let k = 0, rest = pattern; k < 4; k++, rest &= rest - 1)
    list |= (rest === 0 ? none : 31 - Math.clz32(rest & -rest)) << (k * 8);
  return list;
}

function withoutFour(pattern: number): number {
  let rest = pattern;
  for (let k = 0; k < 4; k++) rest &= rest - 1;
  return rest;
}

// The effects of each pattern that occurs at a leaf are computed once. Only the patterns of the current leaf are
// cached, because the patterns of all leaves would not fit into memory.

/** Maximum number of columns of a path for which an array numbers the patterns. For longer paths, a hash table does. */
const MOST_INDEXED = 14;
/** Marks a pattern whose effects are all zero. */
const NOTHING = -1;

/** Numbers the patterns of a leaf 0, 1, … in the order in which they occur in the rows. */
class PatternNumbers {
  readonly #index = new Uint16Array(1 << MOST_INDEXED);
  readonly #table = new IntegerTable();
  /** Pattern of each number. */
  patterns = new Int32Array(0);
  /** Number of each row's pattern. */
  of = new Int32Array(0);
  count = 0;

  /** Numbers the patterns of the rows at a leaf that has this many players. */
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
  /** Effects of the patterns, one after the other, and the start of each. */
  #vectors = new Float64Array(0);
  #begins = new Int32Array(0);
  /** Rows with non-zero effects, and the positions of these effects. */
  #rows = new Int32Array(0);
  #at = new Int32Array(0);
  #live = 0;

  /** Computes the effects of a leaf on each of the rows. At most 65,535 rows. */
  find(t: TreeWalk, leaf: number, lacking: Int32Array, rows: number, solver: PatternSolver): void {
    const players = t.leafFirst[leaf + 1]! - t.leafFirst[leaf]!;
    const numbers = this.#numbers;
    numbers.read(lacking, rows, players);
    if (this.#rows.length < rows) {
      this.#rows = new Int32Array(rows);
      this.#at = new Int32Array(rows);
      this.#begins = new Int32Array(rows);
    }
    // A solver may overwrite one number after the last vector.
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

  /**
   * Multiplies the effects by a weight and adds them to the players' columns, `columns[first]` to `columns[end - 1]`.
   * Column c of `effects` starts at `origin + c × stride`.
   */
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

/**
 * Collects the rows whose pattern has non-zero effects, and where these effects start. Returns the number of these
 * rows.
 */
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

/** Adds numbers `i` to `i + 3` of each vector to the columns that start at a, b, c and d. */
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
