// Chooses few combinations that have every pair of settings: two features that are tested apart may still disagree with each other.
import fc from '../support/seeded-fast-check.ts';
import type { Case } from './combinations.ts';

/** The settings of a case, each as `dimension=value`; tables and names are reduced to what kind they are. */
export function settingsOf(c: Case): string[] {
  const settings: string[] = [];
  const add = (name: string, value: unknown): void => {
    if (value !== null && typeof value === 'object') {
      for (const [key, inner] of Object.entries(value)) add(`${name}.${key}`, inner);
    } else settings.push(`${name}=${value}`);
  };
  for (const [name, value] of Object.entries(c)) {
    if (name === 'columns' || name === 'broken' || name === 'passthrough') continue;

    add(name, value);
  }
  const { passthrough, broken, columns } = c;
  add('passthrough', passthrough === '*' ? '*' : passthrough.length === 0 ? 'none' : isInOrder(c, passthrough) ? 'in order' : 'in another order'); // biome-ignore format: one line
  add('broken', broken.length > 0);
  add('rows', columns[0]!.cells.length === 0 ? 'none' : columns[0]!.cells.length > 12 ? 'many' : 'some');
  add(
    'typed',
    columns.some(({ type }) => type !== 'text'),
  );
  return settings;
}

const isInOrder = ({ columns }: Case, names: readonly string[]): boolean => {
  const places = names.map((name) => columns.findIndex((column) => column.name === name));
  return places.every((place, i) => i === 0 || place > places[i - 1]!);
};

/** Every pair of settings of a case. */
export function pairsOf(c: Case): string[] {
  const settings = settingsOf(c).sort();
  return settings.flatMap((a, i) => settings.slice(i + 1).map((b) => `${a} & ${b}`));
}

export interface Covering {
  cases: Case[];
  /** Pairs that the cases have: all that were seen among the candidates. */
  pairs: number;
}

/** Few of `candidates` random cases that together have every pair of settings that any of them has. */
export function covering(arbitrary: fc.Arbitrary<Case>, seed: number, candidates = 6_000): Covering {
  const sample = fc.sample(arbitrary, { numRuns: candidates, seed });
  const ids = new Map<string, number>();
  const idOf = (pair: string): number => {
    const known = ids.get(pair);
    if (known !== undefined) return known;
    ids.set(pair, ids.size);
    return ids.size - 1;
  };
  const all = sample.map((c) => Int32Array.from(pairsOf(c), idOf));
  const isCovered = new Uint8Array(ids.size);
  const gain = (pairs: Int32Array): number => pairs.reduce((n, pair) => n + (isCovered[pair] === 0 ? 1 : 0), 0);
  // Gains only shrink, so a stale gain is an upper bound: most candidates need not be looked at again.
  const queue = all.map((pairs, i) => ({ i, bound: pairs.length }));
  const chosen: Case[] = [];
  for (let left = ids.size; left > 0; ) {
    let best = { i: -1, bound: 0 };
    for (const candidate of queue) {
      if (candidate.bound <= best.bound) continue;
      candidate.bound = gain(all[candidate.i]!);
      if (candidate.bound > best.bound) best = candidate;
    }
    for (const pair of all[best.i]!) isCovered[pair] = 1;
    left -= best.bound;
    best.bound = 0;
    chosen.push(sample[best.i]!);
  }
  return { cases: chosen, pairs: ids.size };
}
