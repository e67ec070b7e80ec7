// The effects of trees against their definition, all subsets of the columns, and their bits against the memory that is given to them.

import { expect, test } from 'vitest';
import type { StateColumns } from '../../../src/inference/explain/group-games.ts';
import { interventional, pathDependent } from '../../../src/inference/explain/leaf-game.ts';
import { LeafGames } from '../../../src/inference/explain/leaf-games.ts';
import { LeafPairs } from '../../../src/inference/explain/leaf-pairs.ts';
import { IntegerTable } from '../../../src/inference/explain/lookup-tables.ts';
import { clearLargeBudgets, limitMemoPool, memoPoolUse } from '../../../src/inference/explain/memo-pool.ts';
import { readOnnx } from '../../../src/inference/onnx/graph.ts';
import { traceHeads } from '../../../src/inference/onnx/heads.ts';
import { type Ensemble, LEAF, MODES, readEnsemble } from '../../../src/inference/trees/ensemble.ts';
import { growTrees } from '../../../src/inference/trees/grow.ts';
import { type NumberSlot, numberState, planSlots } from '../../../src/inference/trees/slots.ts';
import { type ForestSpec, forestFile, randomOf } from '../../support/forest.ts';
import fc from '../../support/seeded-fast-check.ts';
import { times } from '../../support/tiers.ts';

const ALL = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ'];
const VALUES = [Number.NaN, 0, -0, 1, 2, 3, -1, 0.5, Math.fround(0.1), 1e6, -3.25, Infinity, -Infinity, 16_777_216];

const FORESTS = times('effect forests', { quick: 40, check: 60, campaigns: 3000 });
const FEWER_FORESTS = times('effect forests', { quick: 20, check: 30, campaigns: 1000 });

type Row = readonly number[];

interface Forest {
  e: Ensemble;
  players: number;
  playerOfFeature(feature: number): number;
  statesOf(rows: readonly Row[]): StateColumns;
  /** `mostGrouped`: 0 adds leaves one by one. */
  games(memoBytes?: number, mostGrouped?: number): LeafGames;
  /** The same against covers that are as good as any. */
  covered(mostGrouped?: number): LeafGames;
}

/** A forest file as an explainer reads it; features of one player are moved together. */
function openForest(bytes: Uint8Array, features: number, players: number): Forest {
  const { traced } = traceHeads(readOnnx(bytes), 'scores', new Map([['x', features]]));
  const { head, features: sources } = traced!.heads[0]!.trace;
  if (head.kind !== 'trees') throw new Error('no trees');
  const e = readEnsemble(head.node);
  const trees = growTrees(e);
  const plan = planSlots(sources, trees, false);
  const playerOfFeature = (feature: number) => feature % players;
  const columns = plan.slots.map(({ source }) => source.column);
  return {
    e,
    players,
    playerOfFeature,
    statesOf: (rows) => ({
      states: Int32Array.from(
        columns.flatMap((c, s) => rows.map((row) => numberState(plan.slots[s] as NumberSlot, row[c]!))),
      ),
      stride: rows.length,
      rows: rows.length,
    }),
    games: (memoBytes, mostGrouped) =>
      new LeafGames(e, trees, plan, columns.map(playerOfFeature), interventional, null, memoBytes, mostGrouped),
    covered: (mostGrouped) => {
      const cover = (node: number): number => 1 + (node % 7);
      return new LeafGames(e, trees, plan, columns.map(playerOfFeature), pathDependent, cover, undefined, mostGrouped);
    },
  };
}

/** What the trees add up to, walked node by node. */
function sumsOf(e: Ensemble, row: Row): Float64Array {
  const sums = new Float64Array(e.targets);
  const scale = e.aggregate === 'AVERAGE' ? 1 / e.roots.length : 1;
  for (const root of e.roots) {
    let i: number = root;
    while (e.mode[i] !== LEAF) i = (holds(e, i, row[e.feature[i]!]!) ? e.onTrue : e.onFalse)[i]!;
    for (let w = e.weightFirst[i]!; w < e.weightFirst[i]! + e.weightCount[i]!; w++)
      sums[e.weightTarget[w]!]! += e.weightValue[w]! * scale;
  }
  return sums;
}

function holds(e: Ensemble, i: number, x: number): boolean {
  const t = e.value[i]!;
  const mode = MODES[e.mode[i]!]!;
  if (Number.isNaN(x)) return e.missingTrue[i] === 1 || mode === 'NEQ';
  return { LEQ: x <= t, LT: x < t, GTE: x >= t, GT: x > t, EQ: x === t, NEQ: x !== t }[mode as 'LEQ']!;
}

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));

/** The definition: targets × players, and the sums on average. */
function bruteForce({ e, players, playerOfFeature }: Forest, row: Row, background: readonly Row[]) {
  const value = Array.from({ length: 2 ** players }, (_, set) => {
    const mean = new Float64Array(e.targets);
    for (const other of background) {
      const mixed = row.map((x, f) => ((set >> playerOfFeature(f)) & 1 ? x : other[f]!));
      sumsOf(e, mixed).forEach((s, t) => {
        mean[t]! += s / background.length;
      });
    }
    return mean;
  });
  const effects = new Float64Array(e.targets * players);
  for (let set = 0; set < value.length; set++) {
    const size = set.toString(2).replaceAll('0', '').length;
    for (let p = 0; p < players; p++) {
      if ((set >> p) & 1) continue;
      const weight = (factorial(size) * factorial(players - size - 1)) / factorial(players);
      for (let t = 0; t < e.targets; t++)
        effects[t * players + p]! += weight * (value[set | (1 << p)]![t]! - value[set]![t]!);
    }
  }
  return { effects, base: value[0]!, pairs: bruteForcePairs(value, e.targets, players) };
}

/** The definition of the Shapley interaction index, from the values of all subsets: targets × pairs. */
function bruteForcePairs(value: readonly Float64Array[], targets: number, players: number): Float64Array {
  const pairs = new Float64Array((targets * players * (players - 1)) / 2);
  for (let set = 0; set < value.length; set++) {
    const size = set.toString(2).replaceAll('0', '').length;
    for (let i = 0, at = 0; i < players; i++) {
      for (let j = i + 1; j < players; j++, at++) {
        const [one, other] = [1 << i, 1 << j];
        if (set & (one | other)) continue;
        const weight = (factorial(size) * factorial(players - size - 2)) / factorial(players - 1);
        for (let t = 0; t < targets; t++) {
          const together = value[set | one | other]![t]! - value[set | one]![t]! - value[set | other]![t]!;
          pairs[t * (pairs.length / targets) + at]! += weight * (together + value[set]![t]!);
        }
      }
    }
  }
  return pairs;
}

/** Per row: targets × players, and the sums. */
function explain(forest: Forest, games: LeafGames, rows: readonly Row[]) {
  const { players, e } = forest;
  const n = rows.length;
  const effects = new Float64Array(e.targets * players * n);
  const sums = new Float64Array(e.targets * n);
  games.add(forest.statesOf(rows), players, effects, sums);
  return rows.map((_, r) => ({
    effects: Float64Array.from({ length: e.targets * players }, (_, i) => effects[i * n + r]!),
    sums: Float64Array.from({ length: e.targets }, (_, t) => sums[t * n + r]!),
  }));
}

function drawRows(seed: number, count: number, features: number): Row[] {
  const next = randomOf(seed);
  const one = (): number =>
    next() < 0.6 ? VALUES[Math.floor(next() * VALUES.length)]! : Math.round(next() * 400 - 200) / 8;
  return Array.from({ length: count }, () => Array.from({ length: features }, one));
}

function near(got: Float64Array, want: Float64Array, what: string): void {
  for (const [i, x] of want.entries()) {
    if (!(Math.abs(got[i]! - x) <= 1e-9 * Math.max(1, Math.abs(x)))) expect([what, i, got[i]]).toEqual([what, i, x]);
  }
}

function agrees(forest: Forest, rows: readonly Row[], background: readonly Row[], what: string): void {
  agreesWith(forest, forest.games(), rows, background, `${what}, in groups`);
  agreesWith(forest, forest.games(undefined, 0), rows, background, `${what}, leaf by leaf`);
}

function agreesWith(
  forest: Forest,
  games: LeafGames,
  rows: readonly Row[],
  background: readonly Row[],
  what: string,
): void {
  const { e } = forest;
  games.setBackground(forest.statesOf(background));
  const base = new Float64Array(e.targets);
  games.addExpected(base);
  const got = explain(forest, games, rows);
  for (const [r, row] of rows.entries()) {
    const want = bruteForce(forest, row, background);
    near(got[r]!.effects, want.effects, `${what}, effects of row ${r}`);
    near(got[r]!.sums, sumsOf(e, row), `${what}, sums of row ${r}`);
    near(base, want.base, `${what}, base`);
  }
  const sums = new Float64Array(e.targets * rows.length);
  games.addReached(forest.statesOf(rows), sums);
  for (const [r, { sums: want }] of got.entries())
    expect(
      want.map((_, t) => sums[t * rows.length + r]!),
      `${what}, the bits of the sums of row ${r}`,
    ).toEqual(want);
}

const specs = fc.record({
  seed: fc.integer({ min: 1, max: 1e9 }),
  trees: fc.integer({ min: 1, max: 6 }),
  leaves: fc.constantFrom(1, 2, 5, 16, 33, 70),
  features: fc.integer({ min: 1, max: 5 }),
  modes: fc.oneof(fc.constantFrom(...ALL.map((m) => [m])), fc.constant(ALL), fc.constant(['BRANCH_LEQ', 'BRANCH_EQ'])),
  missing: fc.boolean(),
  several: fc.boolean(),
  weights: fc.constantFrom('all' as const, 'one' as const),
  aggregate: fc.constantFrom('SUM', 'AVERAGE'),
  /** Fewer than features: some of them move together. */
  players: fc.integer({ min: 1, max: 5 }),
  rows: fc.integer({ min: 1, max: 9 }),
});

type Drawn = typeof specs extends fc.Arbitrary<infer T> ? T : never;

function drawn(d: Drawn): { forest: Forest; rows: Row[]; background: Row[] } {
  const targets = d.several ? 3 : 1;
  const spec: ForestSpec = { ...d, kind: 'regressor', targets, base: 0, post: 'NONE', positive: true };
  const forest = openForest(forestFile(spec), d.features, Math.min(d.players, d.features));
  return { forest, rows: drawRows(d.seed + 1, 5, d.features), background: drawRows(d.seed + 2, d.rows, d.features) };
}

test('effects, sums and base are what all subsets of the columns say', () => {
  const run = (d: Drawn): void => {
    const { forest, rows, background } = drawn(d);
    agrees(forest, rows, background, JSON.stringify(d));
  };
  fc.assert(fc.property(specs, run), { numRuns: FORESTS });
});

test('what two columns make together is what all subsets of the columns say, whatever may be kept', () => {
  let largest = 0;
  const run = (d: Drawn): void => {
    const { forest, rows, background } = drawn(d);
    const { e, players } = forest;
    const games = forest.games();
    games.setBackground(forest.statesOf(background));
    const states = forest.statesOf(rows);
    const [kept, little, none] = [undefined, 512, 0].map((bytes) => new LeafPairs(games, players, bytes));
    const size = (e.targets * players * (players - 1)) / 2;
    const together = [kept!, kept!, little!, none!].map((pairs) => {
      const out = new Float64Array(size * rows.length);
      pairs.add(states, e.targets, out);
      return out;
    });
    for (const [r, row] of rows.entries()) {
      const [got, again, poor, bare] = together.map((out) => out.slice(r * size, (r + 1) * size));
      const alone = new Float64Array(size);
      kept!.add(forest.statesOf([row]), e.targets, alone);
      expect(alone).toEqual(got);
      const want = bruteForce(forest, row, background).pairs;
      near(got!, want, `${JSON.stringify(d)}, pairs of row ${r}`);
      expect([again, poor, bare]).toEqual([got, got, got]);
      largest = want.reduce((n, x) => Math.max(n, Math.abs(x)), largest);
    }
  };
  fc.assert(fc.property(specs, run), { numRuns: FORESTS });
  expect(largest).toBeGreaterThan(0.01);
});

/** One tree: each feature is asked in turn, and whoever passes goes on; every `open`th lets all of them pass. */
function chain(length: number, open: number): Uint8Array {
  const modes = Array.from({ length: 2 * length + 1 }, (_, i) => (i < length ? 'BRANCH_LEQ' : 'LEAF'));
  const nodes = modes.map((_, i) => i);
  const leaves = nodes.slice(length);
  const spec: ForestSpec = {
    seed: 1,
    kind: 'regressor',
    trees: 1,
    leaves: 1,
    features: length,
    targets: 1,
    weights: 'all',
    modes: [],
    missing: false,
    base: 0,
    post: 'NONE',
  };
  return forestFile(spec, (node) => ({
    ...node,
    attributes: {
      ...node.attributes,
      nodes_treeids: { ints: nodes.map(() => 0) },
      nodes_nodeids: { ints: nodes },
      nodes_featureids: { ints: nodes.map((i) => (i < length ? i : 0)) },
      nodes_modes: { strings: modes },
      nodes_truenodeids: { ints: nodes.map((i) => (i < length - 1 ? i + 1 : i < length ? 2 * length : 0)) },
      nodes_falsenodeids: { ints: nodes.map((i) => (i < length ? length + i : 0)) },
      nodes_values: { floats: nodes.map((i) => (i % open === open - 1 ? Infinity : 0)) },
      nodes_missing_value_tracks_true: { ints: nodes.map((i) => (i % open === open - 1 ? 1 : 0)) },
      target_treeids: { ints: leaves.map(() => 0) },
      target_nodeids: { ints: leaves },
      target_ids: { ints: leaves.map(() => 0) },
      target_weights: { floats: leaves.map((_, i) => i + 1) },
    },
  }));
}

test.each([
  ['as many keys as an array has places', 12, 99],
  ['more keys than that', 17, 99],
  ['more keys than have a number', 36, 99],
  ['tests that every row passes', 12, 3],
])('a path through many features: %s', (what, length, open) => {
  const forest = openForest(chain(length, open), length, 4);
  const next = randomOf(length);
  const row = (stops: (f: number) => boolean): Row => Array.from({ length }, (_, f) => (stops(f) ? 1 : -1));
  const rows = [
    row(() => false),
    ...Array.from({ length }, (_, k) => row((f) => f === k)),
    ...Array.from({ length: 6 }, () => row(() => next() < 0.2)),
  ];
  agrees(forest, rows, rows.slice(-4).concat(rows.slice(0, 2)), what);
});

test('the bits of a row depend neither on its neighbours nor on the memory for what is looked up', () => {
  const run = (d: Drawn): void => {
    const { forest, rows, background } = drawn(d);
    const all = [...rows, ...rows.slice(1), ...drawRows(d.seed + 3, 20, d.features)];
    const opened = (memoBytes?: number): LeafGames => {
      const games = forest.games(memoBytes);
      games.setBackground(forest.statesOf(background));
      return games;
    };
    const want = explain(forest, opened(), all);
    const alone = opened();
    expect(all.map((row) => explain(forest, alone, [row])[0])).toEqual(want);
    expect(explain(forest, opened(), [...all].reverse()).reverse()).toEqual(want);
    for (const bytes of [0, 600, 5_000]) {
      const games = opened(bytes);
      expect(explain(forest, games, all), `${bytes} bytes`).toEqual(want);
      expect(explain(forest, games, all), `${bytes} bytes, again`).toEqual(want);
    }
    const cleared = opened();
    const { limit } = memoPoolUse();
    for (const [r, row] of all.entries()) {
      expect(explain(forest, cleared, [row])[0], `row ${r}`).toEqual(want[r]);
      limitMemoPool(0);
      clearLargeBudgets();
      limitMemoPool(limit);
    }
    for (const mostGrouped of [undefined, 0]) {
      const [straight, turned] = [forest.games(undefined, mostGrouped), forest.games(undefined, mostGrouped)];
      straight.setBackground(forest.statesOf(background));
      turned.setBackground(forest.statesOf([...background].reverse()));
      const same = explain(forest, straight, all);
      expect(explain(forest, turned, all), 'the background in another order').toEqual(same);
      expect(
        all.map((row) => explain(forest, straight, [row])[0]),
        'alone',
      ).toEqual(same);
      for (const [r, { effects, sums }] of same.entries()) {
        near(effects, want[r]!.effects, `effects of row ${r}`);
        expect(sums, `the bits of the sums of row ${r}`).toEqual(want[r]!.sums);
      }
    }
  };
  fc.assert(fc.property(specs, run), { numRuns: FEWER_FORESTS });
});

test('path-dependent effects leaf by leaf are those in groups', () => {
  const run = (d: Drawn): void => {
    const { forest, rows } = drawn(d);
    const want = explain(forest, forest.covered(), rows);
    for (const [r, { effects, sums }] of explain(forest, forest.covered(0), rows).entries()) {
      near(effects, want[r]!.effects, `effects of row ${r}`);
      expect(sums).toEqual(want[r]!.sums);
    }
  };
  fc.assert(fc.property(specs, run), { numRuns: FEWER_FORESTS });
});

test('deep trees with a background of many rows: leaf by leaf, as in groups, and base and effects add up', () => {
  const features = 14;
  const bytes = forestFile({
    seed: 5,
    kind: 'regressor',
    trees: times('deep trees', { quick: 4, check: 5, campaigns: 60 }),
    leaves: 255,
    features,
    targets: 1,
    weights: 'all',
    modes: ['BRANCH_LEQ', 'BRANCH_LT'],
    missing: true,
    base: 0,
    post: 'NONE',
  });
  const forest = openForest(bytes, features, features);
  const background = forest.statesOf(drawRows(7, 300, features));
  const rows = drawRows(8, 200, features);
  const [grouped, alone] = [forest.games(), forest.games(undefined, 0)];
  for (const games of [grouped, alone]) games.setBackground(background);
  const base = new Float64Array(1);
  alone.addExpected(base);
  const want = explain(forest, grouped, rows);
  for (const [r, { effects, sums }] of explain(forest, alone, rows).entries()) {
    near(effects, want[r]!.effects, `effects of row ${r}`);
    expect(sums).toEqual(want[r]!.sums);
    expect(base[0]! + effects.reduce((a, b) => a + b, 0)).toBeCloseTo(sums[0]!, 9);
  }
});

test('a table of integers is a map', () => {
  const keys = fc.array(fc.oneof(fc.integer(), fc.integer({ min: -20, max: 20 })), { maxLength: 300 });
  fc.assert(
    fc.property(keys, keys, (added, asked) => {
      const table = new IntegerTable();
      for (let round = 0; round < 2; round++) {
        const map = new Map<number, number>();
        for (const [i, key] of added.entries()) {
          expect(table.find(key)).toBe(map.get(key) ?? -1);
          if (map.has(key)) continue;
          map.set(key, i);
          table.add(key, i);
        }
        expect(table.size).toBe(map.size);
        for (const key of asked) expect(table.find(key)).toBe(map.get(key) ?? -1);
        table.clear();
      }
    }),
  );
});
