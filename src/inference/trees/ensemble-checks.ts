// What a tree ensemble is refused for before it is read: tables of different length, numbers that lead nowhere.
import { SluiceError } from '../../core/errors.ts';

export const invalid = (what: string): SluiceError => new SluiceError('model_invalid', `tree ensemble: ${what}`);

/** @throws SluiceError model_invalid */
export function same(what: string, length: number, expected: number): void {
  if (length !== expected) throw invalid(`${what} has ${length} entries, ${expected} are needed`);
}

/** A whole number from 0 to `below` - 1. @throws SluiceError model_invalid */
export function index(what: string, n: number, below: number): number {
  if (!Number.isInteger(n) || n < 0 || n >= below) throw invalid(`${what} is ${n}, allowed are 0 to ${below - 1}`);
  return n;
}

/** @throws SluiceError model_invalid */
export function finite(what: string, values: readonly number[]): void {
  if (!values.every(Number.isFinite)) throw invalid(`${what} holds a number that is not finite`);
}

/** One of the known texts. @throws SluiceError model_invalid */
export function enumerated<T extends string>(
  what: string,
  text: string | undefined,
  all: readonly T[],
  otherwise: T,
): T {
  if (text === undefined) return otherwise;
  const found = all.find((t) => t === text);
  if (found === undefined) throw invalid(`${what} ${text} is not known`);
  return found;
}

/** Finds nodes by tree and id: exporters count from 0 in each tree, others cost a table. */
export class NodeIndex {
  readonly #trees: readonly number[];
  readonly #ids: readonly number[];
  readonly #starts = new Map<number, number>();
  #table: Map<string, number> | null = null;

  constructor(trees: readonly number[], ids: readonly number[]) {
    this.#trees = trees;
    this.#ids = ids;
    let counted = true;
    for (let i = 0; i < trees.length; i++) {
      if (!this.#starts.has(trees[i]!)) this.#starts.set(trees[i]!, i);
      counted &&= ids[i] === i - this.#starts.get(trees[i]!)!;
    }
    if (counted) return;
    this.#table = new Map();
    for (let i = 0; i < trees.length; i++) {
      const key = `${trees[i]} ${ids[i]}`;
      if (this.#table.has(key)) throw invalid(`node ${ids[i]} of tree ${trees[i]} is there twice`);
      this.#table.set(key, i);
    }
  }

  /** undefined: there is no such node. */
  find(tree: number, id: number): number | undefined {
    if (this.#table) return this.#table.get(`${tree} ${id}`);
    const at = (this.#starts.get(tree) ?? -1) + id;
    return this.#trees[at] === tree && this.#ids[at] === id ? at : undefined;
  }
}
