// QuickScorer (Lucchese et al., SIGIR 2015) with a table for every state: the leaves a state rules out, as bit masks of
// up to 64 leaves for many trees side by side. ANDed over all slots they leave one bit a tree: its exit leaf.

import { WasmFunction } from '../core/wasm.ts';
import type { Arena } from './arena.ts';
import type { Ensemble } from './ensemble.ts';
import { fold, type Lot, leafWeights, neutral } from './kernel.ts';
import type { SlotPlan, Truth } from './slots.ts';

/** Vectors of a full tile: what stays in registers next to the loads. */
const FULL = 8;

export interface Tile {
  /** Vectors of 16 bytes a state takes in the tables. */
  vectors: number;
  bits: 32 | 64;
  lot: Lot;
  /** First tree of the lot in the tile, and how many there are. */
  from: number;
  trees: number;
  /** Slots that any node of the tile tests. */
  slots: readonly number[];
}

/** Cuts lots into tiles. null: a tree has too many leaves. */
export function tilesOf(lots: readonly Lot[], truths: ReadonlyMap<object, Truth>): Tile[] | null {
  const tiles: Tile[] = [];
  for (const lot of lots) {
    const most = lot.trees.reduce((n, t) => Math.max(n, t.leaves.length), 1);
    if (most > 64) return null;
    const bits = most > 32 ? 64 : 32;
    const lanes = 128 / bits;
    for (let from = 0; from < lot.trees.length; from += FULL * lanes) {
      const trees = Math.min(FULL * lanes, lot.trees.length - from);
      let vectors = 1;
      while (vectors * lanes < trees) vectors *= 2;
      const slots = new Set<number>();
      for (const t of lot.trees.slice(from, from + trees)) for (const b of t.branches) slots.add(truths.get(b)!.slot);
      tiles.push({ vectors, bits, lot, from, trees, slots: [...slots].sort((a, b) => a - b) });
    }
  }
  return tiles;
}

/** Bytes of the tables of a tile. */
export const tableBytes = (tile: Tile, plan: SlotPlan): number =>
  tile.slots.reduce((n, s) => n + plan.slots[s]!.states * tile.vectors * 16, 0);

/** Rows a kernel takes at once: sums are chains of additions, and four of them run side by side. */
export type TileRows = 1 | 4;

/** Kernels are shared by tiles of the same form. */
export const tileKernelName = (t: Tile, rows: TileRows): string => `tile${t.trees}x${t.bits}x${t.lot.width}x${rows}`;

/** Bytes of scratch memory for the masks of four rows. */
export const SCRATCH = 4 * FULL * 16;

/**
 * tile…(rows, states, rowBytes, sums, active, end, leaves, scratch): adds the trees of a tile to the sums of every row,
 * `rows` a multiple of what the kernel takes at once. `active` to `end` are pairs of i32: byte offset of a slot's state
 * within a row, address of its table.
 */
export function tileKernel(t: Tile, e: Ensemble, sumStride: number, atOnce: TileRows): WasmFunction {
  const real = e.double ? 'f64' : 'f32';
  const size = e.double ? 8 : 4;
  const { width } = t.lot;
  const f = new WasmFunction(tileKernelName(t, atOnce), ['i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32', 'i32']);
  const [rows, states, rowBytes, sums, active, end, leaves, scratch] = [0, 1, 2, 3, 4, 5, 6, 7] as const;
  const [slot, q] = [f.local('i32'), f.local('i32')];
  const masks = Array.from({ length: t.vectors }, () => f.local('v128'));
  const sets = Array.from({ length: atOnce }, () => Array.from({ length: width }, () => f.local(real)));
  const spare = f.local(real);
  f.repeat(
    () => {
      for (let row = 0; row < atOnce; row++) {
        for (const m of masks) f.ones().set(m);
        f.get(active).tee(slot).get(end).op('i32.ne');
        f.when(() => {
          f.repeat(
            () => {
              f.get(slot).memory('i32.load', 4);
              f.get(states, slot).memory('i32.load').op('i32.add').memory('i32.load16_u');
              f.i32(4 + Math.log2(t.vectors))
                .op('i32.shl', 'i32.add')
                .set(q);
              for (const [i, m] of masks.entries())
                f.get(m, q)
                  .memory('v128.load', i * 16)
                  .op('v128.and')
                  .set(m);
              f.bump(slot, 8);
            },
            () => f.get(slot, end).op('i32.ne'),
          );
        });
        for (const [i, m] of masks.entries()) f.get(scratch, m).memory('v128.store', row * FULL * 16 + i * 16);
        f.get(states, rowBytes).op('i32.add').set(states);
      }
      const each = (what: (sum: number, row: number, k: number) => void): void => {
        for (const [row, set] of sets.entries()) for (const [k, sum] of set.entries()) what(sum, row, k);
      };
      each((sum, row, k) =>
        f
          .get(sums)
          .memory(`${real}.load`, k * sumStride + row * size)
          .set(sum),
      );
      for (let tree = 0; tree < t.trees; tree++) {
        for (const [row, set] of sets.entries()) {
          const at = row * FULL * 16 + (tree * t.bits) / 8;
          if (t.bits === 64) f.get(scratch).memory('i64.load', at).op('i64.ctz', 'i32.wrap_i64');
          else f.get(scratch).memory('i32.load', at).op('i32.ctz');
          f.i32(width * size)
            .op('i32.mul')
            .get(leaves)
            .op('i32.add')
            .set(q);
          for (const [k, sum] of set.entries()) {
            fold(f, e, sum, spare, () => f.get(q).memory(`${real}.load`, (tree * t.bits * width + k) * size));
          }
        }
      }
      each((sum, row, k) => f.get(sums, sum).memory(`${real}.store`, k * sumStride + row * size));
      f.bump(sums, size * atOnce).bump(rows, -atOnce);
    },
    () => f.get(rows),
  );
  return f;
}

/** Places the tables and leaves of a tile; gives the arguments of its kernel after `sums`. */
export function placeTile(
  arena: Arena,
  t: Tile,
  e: Ensemble,
  plan: SlotPlan,
  truths: ReadonlyMap<object, Truth>,
): { active: number; end: number; leaves: number } {
  const tables = new Map<number, number>();
  for (const s of t.slots) {
    const { states } = plan.slots[s]!;
    tables.set(
      s,
      arena.take(states * t.vectors * 16, (memory, at) =>
        new Uint32Array(memory, at, states * t.vectors * 4).fill(0xffffffff),
      ),
    );
  }
  // After the fills, which are written first.
  arena.take(0, (memory) => {
    for (let i = 0; i < t.trees; i++) {
      for (const b of t.lot.trees[t.from + i]!.branches) {
        const truth = truths.get(b)!;
        const { kind, states } = plan.slots[truth.slot]!;
        const table = new Uint32Array(memory, tables.get(truth.slot)!, states * t.vectors * 4);
        const isTrue = new Uint8Array(states);
        for (const [from, to] of truth.ranges) isTrue.fill(1, from, to);
        if (kind === 'number') isTrue[states - 1] = truth.missing ? 1 : 0;
        for (let word = 0; word < t.bits / 32; word++) {
          const keepYes = ~bitsOf(b.middle, b.end, word);
          const keepNo = ~bitsOf(b.first, b.middle, word);
          let p = i * (t.bits / 32) + word;
          for (let s = 0; s < states; s++, p += t.vectors * 4) table[p]! &= isTrue[s] === 1 ? keepYes : keepNo;
        }
      }
    }
  });
  const active = arena.take(t.slots.length * 8, (memory, at) => {
    const pairs = new Int32Array(memory, at, t.slots.length * 2);
    for (const [i, s] of t.slots.entries()) pairs.set([s * 2, tables.get(s)!], i * 2);
  });
  const { width } = t.lot;
  const size = e.double ? 8 : 4;
  const count = t.trees * t.bits * width;
  const leaves = arena.take(count * size, (memory, at) => {
    const values = e.double ? new Float64Array(memory, at, count) : new Float32Array(memory, at, count);
    values.fill(neutral(e.aggregate));
    for (let i = 0; i < t.trees; i++) {
      for (const [l, leaf] of t.lot.trees[t.from + i]!.leaves.entries())
        values.set(leafWeights(e, t.lot, leaf), (i * t.bits + l) * width);
    }
  });
  return { active, end: active + t.slots.length * 8, leaves };
}

/** Bits from..to-1 of a mask, as far as they lie in its 32-bit word number `word`. */
function bitsOf(from: number, to: number, word: number): number {
  let bits = 0;
  for (let i = Math.max(from, word * 32); i < Math.min(to, word * 32 + 32); i++) bits |= 1 << (i - word * 32);
  return bits;
}
