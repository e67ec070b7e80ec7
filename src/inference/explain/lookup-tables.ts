// Hash tables that create no objects: from integers to integers, and from integers to computed vectors within a memory
// budget.
import type { MemoBudget } from './memo-pool.ts';

const FIRST_SLOTS = 8;
/**
 * 2^32 divided by the golden ratio. Multiplying keys by this number spreads neighbouring keys (Knuth, The Art of
 * Computer Programming 3, 6.4).
 */
const GOLDEN = 0x9e3779b1 | 0;

export class IntegerTable {
  #size = 0;
  /** Pairs of a key and its value + 1; a second number of 0 means free. At most half of the pairs are in use. */
  #places = new Int32Array(2 * FIRST_SLOTS);
  #shift = 32 - Math.log2(FIRST_SLOTS);

  get size(): number {
    return this.#size;
  }

  /** Whether adding a key would double the size of the table. */
  get full(): boolean {
    return (this.#size + 1) * 4 > this.#places.length;
  }

  get bytes(): number {
    return this.#places.byteLength;
  }

  /** The value of a key, or -1 if the table does not contain it. Keys are 32-bit integers. */
  find(key: number): number {
    const places = this.#places;
    const last = places.length - 2;
    for (let at = (Math.imul(key, GOLDEN) >>> this.#shift) << 1; ; at = (at + 2) & last) {
      const found = places[at + 1]!;
      if (found === 0 || places[at] === key) return found - 1;
    }
  }

  /** Adds a new key. `value` must not be negative. */
  add(key: number, value: number): void {
    if (this.full) this.#grow();
    this.#size++;
    this.#put(key, value + 1);
  }

  clear(): void {
    if (this.#size > 0) this.#places.fill(0);
    this.#size = 0;
  }

  #put(key: number, found: number): void {
    const places = this.#places;
    const last = places.length - 2;
    let at = (Math.imul(key, GOLDEN) >>> this.#shift) << 1;
    while (places[at + 1] !== 0) at = (at + 2) & last;
    places[at] = key;
    places[at + 1] = found;
  }

  #grow(): void {
    const old = this.#places;
    this.#places = new Int32Array(2 * old.length);
    this.#shift--;
    for (let at = 0; at < old.length; at += 2) if (old[at + 1] !== 0) this.#put(old[at]!, old[at + 1]!);
  }
}

/** Position of the all-zero vector, which takes no additional memory. */
export const NOTHING = 0;
/** Initial number of vectors. */
const FIRST_VECTORS = 4;
/** Up to this number of keys, an array of 16-bit numbers leads to the vectors. */
const MOST_INDEXED = 4096;

/** All-zero vectors, by width, which are never written. Memos that have no other vectors share them. */
const allZeros = new Map<number, Float64Array>();

function zeros(width: number): Float64Array {
  const found = allZeros.get(width) ?? new Float64Array(width);
  allZeros.set(width, found);
  return found;
}

export class VectorMemo {
  readonly width: number;
  /**
   * The vectors, `width` numbers each, one after the other. The first vector is all zeros. Adding vectors replaces the
   * array.
   */
  values: Float64Array;
  readonly #budget: MemoBudget;
  readonly #keys: number;
  /**
   * For each key: the number of its vector + 1, or 0 if it has none. Created with the first vector; null if the hash
   * table is used instead.
   */
  #index: Uint16Array | null = null;
  #table: IntegerTable | null = null;
  #vectors = 1;

  /** Keys are integers from 0 to `keys - 1`. */
  constructor(width: number, keys: number, budget: MemoBudget) {
    this.width = width;
    this.#keys = keys;
    this.#budget = budget;
    this.values = zeros(width);
  }

  /** Removes all vectors. The budget stays unchanged, because it is cleared together with all its memos. */
  clear(): void {
    this.values = zeros(this.width);
    this.#index = null;
    this.#table = null;
    this.#vectors = 1;
  }

  /** Start of the key's vector in `values`, or -1. */
  find(key: number): number {
    const number = this.#index !== null ? this.#index[key]! - 1 : this.#table !== null ? this.#table.find(key) : -1;
    return number < 0 ? -1 : number * this.width;
  }

  /**
   * Looks up many keys and writes the positions of their vectors to `at`. Returns false if any key is missing; its
   * position is negative.
   */
  findAll(keys: Int32Array, count: number, at: Int32Array): boolean {
    if (this.#index !== null) return findIndexed(this.#index, this.width, keys, count, at);
    let all = true;
    for (let i = 0; i < count; i++) {
      at[i] = this.find(keys[i]!);
      all &&= at[i]! >= 0;
    }
    return all;
  }

  /**
   * Stores the vector that starts at `from[at]` under a new key. Returns the position of the vector, or -1 if the
   * budget is exhausted.
   */
  keep(key: number, from: Float64Array, at: number): number {
    const { width } = this;
    const to = this.#vectors * width;
    if (to + width > this.values.length && !this.#grow()) return -1;
    if (!this.#enter(key, this.#vectors)) return -1;
    const { values } = this;
    for (let k = 0; k < width; k++) values[to + k] = from[at + k]!;
    this.#vectors++;
    return to;
  }

  /** Records that the vector of a key is all zeros. */
  keepNothing(key: number): void {
    this.#enter(key, NOTHING);
  }

  #enter(key: number, number: number): boolean {
    if (this.#index === null && this.#table === null) {
      if (this.#keys <= MOST_INDEXED && this.#budget.take(this.#keys * 2)) this.#index = new Uint16Array(this.#keys);
      else this.#table = new IntegerTable();
    }
    if (this.#index !== null) {
      this.#index[key] = number + 1;
      return true;
    }
    const table = this.#table!;
    if (table.full && !this.#budget.take(table.bytes)) return false;
    table.add(key, number);
    return true;
  }

  #grow(): boolean {
    const larger = Math.max(this.values.length * 2, this.width * FIRST_VECTORS);
    if (!this.#budget.take((larger - this.values.length) * 8)) return false;
    const values = new Float64Array(larger);
    values.set(this.values);
    this.values = values;
    return true;
  }
}

function findIndexed(index: Uint16Array, width: number, keys: Int32Array, count: number, at: Int32Array): boolean {
  let lacking = 0;
  for (let i = 0; i < count; i++) {
    const number = index[keys[i]!]! - 1;
    lacking |= number;
    at[i] = number * width;
  }
  return lacking >= 0;
}
