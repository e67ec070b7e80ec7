// Vectors of numbers that were computed once, under their keys, as many as a budget of memory has room for.
import { KeyTable } from './key-table.ts';

/** Memory that memos share, in bytes. */
export interface MemoBudget {
  left: number;
}

/** Position of the vector that is zero everywhere; it takes no room of its own. */
export const NOTHING = 0;
/** Vectors of a new memo. */
const FIRST_ROOM = 4;
/** Up to so many keys, the number of a key's vector stands in an array; it has 16 bits. */
const MOST_INDEXED = 4096;

export class VectorMemo {
  readonly width: number;
  /** Vectors of `width` numbers, one after the other; the first is zero. What is kept later may stand in another array. */
  values: Float64Array;
  readonly #budget: MemoBudget;
  readonly #keys: number;
  /** Number of the vector of a key + 1, or 0; null: the table has them. Made with the first vector. */
  #index: Uint16Array | null = null;
  #table: KeyTable | null = null;
  #vectors = 1;

  /** Keys are whole numbers below `keys`. */
  constructor(width: number, keys: number, budget: MemoBudget) {
    this.width = width;
    this.#keys = keys;
    this.#budget = budget;
    this.values = new Float64Array(width);
  }

  /** Where in `values` the vector of a key begins, or -1. */
  find(key: number): number {
    const number = this.#index !== null ? this.#index[key]! - 1 : this.#table !== null ? this.#table.find(key) : -1;
    return number < 0 ? -1 : number * this.width;
  }

  /** The same for many keys, into `at`; false: some have none, and a number below zero there. */
  findAll(keys: Int32Array, count: number, at: Int32Array): boolean {
    if (this.#index !== null) return findIndexed(this.#index, this.width, keys, count, at);
    let all = true;
    for (let i = 0; i < count; i++) {
      at[i] = this.find(keys[i]!);
      all &&= at[i]! >= 0;
    }
    return all;
  }

  /** Keeps a vector, `from[at]`.., for a key that has none; returns where it stands, or -1 if there is no room for it. */
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

  /** Keeps that the vector of a key is zero everywhere. */
  keepNothing(key: number): void {
    this.#enter(key, NOTHING);
  }

  #enter(key: number, number: number): boolean {
    if (this.#index === null && this.#table === null) {
      if (this.#keys <= MOST_INDEXED && this.#take(this.#keys * 2)) this.#index = new Uint16Array(this.#keys);
      else this.#table = new KeyTable();
    }
    if (this.#index !== null) {
      this.#index[key] = number + 1;
      return true;
    }
    const table = this.#table!;
    if (table.full && !this.#take(table.bytes)) return false;
    table.add(key, number);
    return true;
  }

  #grow(): boolean {
    const larger = Math.max(this.values.length * 2, this.width * FIRST_ROOM);
    if (!this.#take((larger - this.values.length) * 8)) return false;
    const values = new Float64Array(larger);
    values.set(this.values);
    this.values = values;
    return true;
  }

  #take(bytes: number): boolean {
    if (this.#budget.left < bytes) return false;
    this.#budget.left -= bytes;
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
