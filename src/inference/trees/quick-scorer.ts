// QuickScorer (Lucchese et al., SIGIR 2015) with a table row per state. A row masks out the excluded leaves of many
// trees at once. Masks have up to 64 bits per tree; combined by AND over all slots, they leave one bit per tree, its
// exit leaf. States that the trees of a tile treat alike share a table row, so that the tables of a tile stay in the
// first-level cache.
//
// Symmetric trees (those of CatBoost) test the same condition in all branches of a level. The number of the exit leaf
// then has one bit per level, and a byte per tree replaces the mask: each column sets the bits of its tests, combined by
// OR. The tables are an eighth as large as with masks of 64 bits.
import type { Arena } from '../../wasm/arena.ts';
import { type Local, WasmFunction } from '../../wasm/function.ts';
import type { Ensemble } from './ensemble.ts';
import type { Branch, Tree } from './grow.ts';
import { fold, type Lot, neutral, writeWeights } from './kernel.ts';
import type { Slot, SlotPlan, Truth } from './slots.ts';

// A table is indexed by a column: the states of a slot, or a compound of several slots that have few states each. A
// credit application has many such slots (yes or no, one of five). Looking up a compound costs no more than looking up
// a single slot.

/**
 * Maximum number of states in a compound. The table of a compound has a row per state, so more states would exceed the
 * first-level cache.
 */
const MAX_COMPOUND = 128;

interface TableColumn {
  states: number;
  /** Whether the last state is NaN. */
  missing: boolean;
  /** Index of the column's state in a row of states. */
  place: number;
}

/**
 * A compound of slots. The state of the compound is the sum of the members' states, each multiplied by the member's
 * factor.
 */
interface Compound {
  place: number;
  members: readonly { slot: number; factor: number }[];
}

interface TableColumns {
  columns: readonly TableColumn[];
  compounds: readonly Compound[];
  /** The column that contains a feature. */
  columnOf(feature: number): number;
  /** The states of the branch's column in which the test is true; `slot` is the column. */
  truth(branch: Parameters<SlotPlan['truth']>[0]): Truth;
}

/** Creates the table columns. In a row of states, the compounds come after the slots. */
export function tableColumns(plan: SlotPlan): TableColumns {
  const columns: TableColumn[] = [];
  const compounds: Compound[] = [];
  const columnOfSlot = new Array<number>(plan.slots.length).fill(-1);
  const factorOfSlot = new Array<number>(plan.slots.length).fill(0);
  for (const group of groupsOf(plan.slots)) {
    const place = group.length === 1 ? group[0]! : plan.slots.length + compounds.length;
    let factor = 1;
    const members = group.map((slot) => {
      columnOfSlot[slot] = columns.length;
      factorOfSlot[slot] = factor;
      factor *= plan.slots[slot]!.states;
      return { slot, factor: factorOfSlot[slot]! };
    });
    const alone = group.length === 1;
    columns.push({ states: factor, missing: alone && plan.slots[group[0]!]!.kind === 'number', place });
    if (!alone) compounds.push({ place, members });
  }
  const spread = new Map<Truth, Truth>();
  return {
    columns,
    compounds,
    columnOf: (feature) => columnOfSlot[plan.slotOf(feature)]!,
    truth(branch) {
      const own = plan.truth(branch);
      let truth = spread.get(own);
      if (truth) return truth;
      const at = columnOfSlot[own.slot]!;
      const column = columns[at]!;
      truth =
        column.place < plan.slots.length
          ? { ...own, slot: at }
          : { slot: at, ranges: spreadOut(own, plan.slots[own.slot]!, factorOfSlot[own.slot]!, column.states), missing: false }; // biome-ignore format: a case a line
      spread.set(own, truth);
      return truth;
    },
  };
}

/** Groups slots by first fit, starting with the slot that has most states. Slots that fit nowhere stay alone. */
function groupsOf(slots: readonly Slot[]): number[][] {
  const bins: { slots: number[]; states: number }[] = [];
  const order = slots.map((_, i) => i).sort((a, b) => slots[b]!.states - slots[a]!.states || a - b);
  for (const s of order) {
    const { states } = slots[s]!;
    const bin = bins.find((b) => b.states * states <= MAX_COMPOUND);
    if (bin) {
      bin.slots.push(s);
      bin.states *= states;
    } else bins.push({ slots: [s], states });
  }
  return bins.map((b) => b.slots);
}

/** The states of a compound in which the test of a member is true. `states`: number of states of the compound. */
function spreadOut(own: Truth, slot: Slot, factor: number, states: number): [number, number][] {
  const spans = own.ranges.map(([from, to]): [number, number] => [from, to]);
  if (slot.kind === 'number' && own.missing) spans.push([slot.states - 1, slot.states]);
  const ranges: [number, number][] = [];
  for (let base = 0; base < states; base += factor * slot.states) {
    for (const [from, to] of spans) {
      if (from === to) continue;
      const [start, end] = [base + from * factor, base + to * factor];
      if (ranges.at(-1)?.[1] === start) ranges.at(-1)![1] = end;
      else ranges.push([start, end]);
    }
  }
  return ranges;
}

/** combine(rows, states, rowBytes) writes the compound states of every row. */
export function combineKernel(compounds: readonly Compound[]): WasmFunction {
  const f = new WasmFunction('combine', { rows: 'i32', states: 'i32', rowBytes: 'i32' });
  const { rows, states, rowBytes } = f.params;
  f.repeat(
    () => {
      for (const { place, members } of compounds) {
        f.get(states);
        for (const [i, { slot, factor }] of members.entries()) {
          f.get(states).memory('i32.load16_u', slot * 2);
          if (factor !== 1) f.i32(factor).op('i32.mul');
          if (i > 0) f.op('i32.add');
        }
        f.memory('i32.store16', place * 2);
      }
      f.get(states, rowBytes).op('i32.add').set(states).bump(rows, -1);
    },
    () => f.get(rows),
  );
  return f.end();
}

/**
 * Maximum ratio of table rows to states. A table that needs more rows gets one row per state, because mapping states to
 * rows would cost more time than it saves.
 */
const MOST_ROWS = 0.7;
/** Maximum number of vectors in a tile. This number of vectors fits into registers together with the loaded vectors. */
const FULL = 8;

export interface Tile {
  /** Number of 16-byte vectors in a table row. */
  vectors: number;
  /** Bits per tree in a table row. 32 and 64: a mask of the leaves. 8: the number of the exit leaf of a symmetric tree. */
  bits: 8 | 32 | 64;
  /** Number of leaves per tree in the array of weights; smaller trees do not use all of them. */
  leaves: number;
  lot: Lot;
  /** Index in the lot of the tile's first tree, and number of trees in the tile. */
  from: number;
  trees: number;
  /** The columns that nodes of the tile test. */
  columns: readonly number[];
}

/** Divides lots into tiles; null if a tree has too many leaves. */
export function tilesOf(lots: readonly Lot[], tables: TableColumns): Tile[] | null {
  const tiles: Tile[] = [];
  for (const lot of lots) {
    const most = lot.trees.reduce((n, t) => Math.max(n, t.leaves.length), 1);
    const symmetric = most <= 256 && lot.trees.every(isSymmetric);
    if (most > 64 && !symmetric) return null;
    const bits = symmetric ? 8 : most > 32 ? 64 : 32;
    const leaves = symmetric ? most : bits;
    const lanes = 128 / bits;
    for (let from = 0; from < lot.trees.length; from += FULL * lanes) {
      const trees = Math.min(FULL * lanes, lot.trees.length - from);
      let vectors = 1;
      while (vectors * lanes < trees) vectors *= 2;
      const columns = new Set<number>();
      for (const t of lot.trees.slice(from, from + trees)) {
        for (const b of t.branches) columns.add(tables.columnOf(b.feature));
      }
      tiles.push({ vectors, bits, leaves, lot, from, trees, columns: [...columns].sort((a, b) => a - b) });
    }
  }
  return tiles;
}

/** Whether all paths of a tree have the same length, and all branches of a level have the same test. */
function isSymmetric({ branches }: Tree): boolean {
  /** A branch of each level, by the number of leaves below the branch. */
  const tests = new Map<number, Branch>();
  for (const b of branches) {
    const below = b.end - b.first;
    if ((b.middle - b.first) * 2 !== below) return false;
    const test = tests.get(below) ?? b;
    tests.set(below, test);
    const isEqual =
      b.feature === test.feature &&
      b.mode === test.mode &&
      b.value === test.value &&
      b.missingTrue === test.missingTrue &&
      b.members.length === test.members.length &&
      b.members.every((member, i) => member === test.members[i]);
    if (!isEqual) return false;
  }
  return true;
}

/** Size of the tables of a tile in bytes. */
export const tableBytes = (tile: Tile, tables: TableColumns): number =>
  tile.columns.reduce((n, c) => n + tables.columns[c]!.states * tile.vectors * 16, 0);

/** Rows per kernel iteration. A sum is a chain of dependent additions; four chains run in parallel. */
type TileRows = 1 | 4;

/** Name of a tile's kernel. Tiles of the same shape share a kernel. */
export const tileKernelName = (t: Tile, rows: TileRows): string =>
  `tile${t.trees}x${t.bits}x${t.leaves}x${t.lot.width}x${rows}`;

/** Size in bytes of the scratch memory for the masks of four rows. */
export const SCRATCH = 4 * FULL * 16;

/**
 * tile…(rows, states, rowBytes, sums, direct, directEnd, mapped, mappedEnd, leaves, scratch) adds the trees of a tile
 * to the sums of every row. `rows` is a multiple of the rows per iteration. `direct` is a list of pairs of i32: byte
 * offset of a slot's state within a row, and address of its table. `mapped` is a list of triples; the third number is
 * the address of a u16 array that maps each state to its table row. The function is long because an emitter is most
 * readable in the order of its instructions.
 */
export function tileKernel(t: Tile, e: Ensemble, sumStride: number, atOnce: TileRows): WasmFunction {
  const real = e.double ? 'f64' : 'f32';
  const size = e.double ? 8 : 4;
  const { width } = t.lot;
  const isMask = t.bits !== 8;
  const f = new WasmFunction(tileKernelName(t, atOnce), {
    rows: 'i32',
    states: 'i32',
    rowBytes: 'i32',
    sums: 'i32',
    direct: 'i32',
    directEnd: 'i32',
    mapped: 'i32',
    mappedEnd: 'i32',
    leaves: 'i32',
    scratch: 'i32',
  });
  const { rows, states, rowBytes, sums, direct, directEnd, mapped, mappedEnd, leaves, scratch } = f.params;
  const { slot, q } = f.locals('i32', 'slot', 'q');
  const masks = Array.from({ length: t.vectors }, (_, i) => f.local('v128', `mask${i}`));
  const sets = Array.from({ length: atOnce }, (_, row) =>
    Array.from({ length: width }, (_, k) => f.local(real, `sum${row}_${k}`)),
  );
  const spare = f.local(real, 'spare');
  f.repeat(
    () => {
      for (let row = 0; row < atOnce; row++) {
        for (const m of masks) f.bytes(isMask ? 255 : 0).set(m);
        for (const [from, to, isMapped] of [
          [direct, directEnd, false],
          [mapped, mappedEnd, true],
        ] as const) {
          f.get(from).tee(slot).get(to).op('i32.ne');
          f.when(() => {
            f.repeat(
              () => {
                f.get(slot).memory('i32.load', 4);
                f.get(states, slot).memory('i32.load').op('i32.add').memory('i32.load16_u');
                if (isMapped) {
                  f.i32(1).op('i32.shl').get(slot).memory('i32.load', 8).op('i32.add').memory('i32.load16_u');
                }
                f.i32(4 + Math.log2(t.vectors))
                  .op('i32.shl', 'i32.add')
                  .set(q);
                for (const [i, m] of masks.entries())
                  f.get(m, q)
                    .memory('v128.load', i * 16)
                    .op(isMask ? 'v128.and' : 'v128.or')
                    .set(m);
                f.bump(slot, isMapped ? 12 : 8);
              },
              () => f.get(slot, to).op('i32.ne'),
            );
          });
        }
        for (const [i, m] of masks.entries()) f.get(scratch, m).memory('v128.store', row * FULL * 16 + i * 16);
        f.get(states, rowBytes).op('i32.add').set(states);
      }
      const each = (what: (sum: Local, row: number, k: number) => void): void => {
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
          else if (t.bits === 32) f.get(scratch).memory('i32.load', at).op('i32.ctz');
          else f.get(scratch).memory('i32.load8_u', at);
          f.i32(width * size)
            .op('i32.mul')
            .get(leaves)
            .op('i32.add')
            .set(q);
          for (const [k, sum] of set.entries()) {
            fold(f, e, sum, spare, () => f.get(q).memory(`${real}.load`, (tree * t.leaves * width + k) * size));
          }
        }
      }
      each((sum, row, k) => f.get(sums, sum).memory(`${real}.store`, k * sumStride + row * size));
      f.bump(sums, size * atOnce).bump(rows, -atOnce);
    },
    () => f.get(rows),
  );
  return f.end();
}

/** Finds the runs of states that all branches of a tile treat alike. Returns the first state of each run and, as the last
 * element, the total number of states.
 */
function runsOf({ states, missing }: TableColumn, truths: readonly Truth[]): number[] {
  const bounds = new Set([0, states]);
  // NaN is always a run of its own.
  if (missing) bounds.add(states - 1);
  for (const { ranges } of truths) {
    for (const [from, to] of ranges) {
      bounds.add(from);
      bounds.add(to);
    }
  }
  return [...bounds].sort((x, y) => x - y);
}

/** Places the tables and leaves of a tile in memory. Returns the kernel arguments between `sums` and `scratch`. */
export function placeTile(arena: Arena, t: Tile, e: Ensemble, tables: TableColumns): number[] {
  const tests = new Map<number, { tree: number; branch: Branch; truth: Truth }[]>(t.columns.map((c) => [c, []]));
  for (let tree = 0; tree < t.trees; tree++) {
    for (const branch of t.lot.trees[t.from + tree]!.branches) {
      // Of a symmetric tree, one branch represents its level.
      if (t.bits === 8 && branch.first > 0) continue;
      const truth = tables.truth(branch);
      tests.get(truth.slot)!.push({ tree, branch, truth });
    }
  }
  const direct: number[] = [];
  const mapped: number[] = [];
  for (const [c, own] of tests) {
    const column = tables.columns[c]!;
    const { states, missing, place } = column;
    const bounds = runsOf(
      column,
      own.map((o) => o.truth),
    );
    const isDirect = bounds.length - 1 > states * MOST_ROWS;
    const starts = isDirect ? Array.from({ length: states }, (_, state) => state) : bounds.slice(0, -1);
    const rowBytes = t.vectors * 16;
    const at = arena.take(starts.length * rowBytes, (memory, to) => {
      if (t.bits === 8) {
        fillLeafBits(new Uint8Array(memory, to, starts.length * rowBytes), starts, own, { rowBytes, missing });
        return;
      }
      const words = t.vectors * 4;
      fillTable(new Uint32Array(memory, to, starts.length * words), starts, own, {
        words,
        wordsATree: t.bits / 32,
        missing,
      });
    });
    if (isDirect) direct.push(place * 2, at);
    else {
      const map = arena.take(states * 2, (memory, to) => {
        const rows = new Uint16Array(memory, to, states);
        for (let i = 0; i + 1 < bounds.length; i++) rows.fill(i, bounds[i], bounds[i + 1]);
      });
      mapped.push(place * 2, at, map);
    }
  }
  const list = (numbers: readonly number[]): [from: number, to: number] => {
    const at = arena.take(numbers.length * 4, (memory, to) => new Int32Array(memory, to, numbers.length).set(numbers));
    return [at, at + numbers.length * 4];
  };
  const { width } = t.lot;
  const size = e.double ? 8 : 4;
  const count = t.trees * t.leaves * width;
  const leaves = arena.take(count * size, (memory, at) => {
    const values = e.double ? new Float64Array(memory, at, count) : new Float32Array(memory, at, count);
    values.fill(neutral(e.aggregate));
    for (let i = 0; i < t.trees; i++) {
      for (const [l, leaf] of t.lot.trees[t.from + i]!.leaves.entries())
        writeWeights(e, t.lot, leaf, values, (i * t.leaves + l) * width);
    }
  });
  return [...list(direct), ...list(mapped), leaves];
}

/**
 * Fills the table rows of a column. Row i is for the states from `starts[i]` on. `missing`: the last row is for NaN.
 * Most tests change their result at only one state. The masks below and above this state are collected, and then
 * applied to all rows in one pass each.
 */
function fillTable(
  table: Uint32Array,
  starts: readonly number[],
  tests: readonly { tree: number; branch: Branch; truth: Truth }[],
  { words, wordsATree, missing }: { words: number; wordsATree: number; missing: boolean },
): void {
  const last = starts.length - (missing ? 1 : 0);
  const rowOf = (state: number): number => {
    let low = 0;
    let high = last;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (starts[middle]! < state) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  table.fill(0xffffffff);
  /** Masks to apply to all rows before row i (`before`), and to row i and all later rows (`after`). */
  const before = new Uint32Array((last + 1) * words).fill(0xffffffff);
  const after = new Uint32Array((last + 1) * words).fill(0xffffffff);
  for (const { tree, branch, truth } of tests) {
    const spans = truth.ranges.map(([from, to]) => [rowOf(from), rowOf(to)] as const);
    const bound = spans.length === 1 && spans[0]![0] === 0 ? spans[0]![1] : -1;
    for (let word = 0; word < wordsATree; word++) {
      const p = tree * wordsATree + word;
      const keepYes = ~bitsOf(branch.middle, branch.end, word);
      const keepNo = ~bitsOf(branch.first, branch.middle, word);
      if (missing) table[last * words + p]! &= truth.missing ? keepYes : keepNo;
      if (bound >= 0) {
        before[bound * words + p]! &= keepYes;
        after[bound * words + p]! &= keepNo;
        continue;
      }
      let row = 0;
      for (const [from, to] of spans) {
        for (; row < from; row++) table[row * words + p]! &= keepNo;
        for (; row < to; row++) table[row * words + p]! &= keepYes;
      }
      for (; row < last; row++) table[row * words + p]! &= keepNo;
    }
  }
  for (let i = words; i < last * words; i++) after[i]! &= after[i - words]!;
  for (let i = last * words - 1; i >= 0; i--) {
    before[i]! &= before[i + words]!;
    table[i]! &= after[i]! & before[i + words]!;
  }
}

/**
 * Fills the table rows of a column for symmetric trees: sets a bit of the leaf number for each test that is false. Row i
 * is for the states from `starts[i]` on. `missing`: the last row is for NaN.
 */
function fillLeafBits(
  table: Uint8Array,
  starts: readonly number[],
  tests: readonly { tree: number; branch: Branch; truth: Truth }[],
  { rowBytes, missing }: { rowBytes: number; missing: boolean },
): void {
  const last = starts.length - (missing ? 1 : 0);
  for (const { tree, branch, truth } of tests) {
    // Half of the leaves below the branch: those under `yes`, which have the smaller numbers.
    const bit = branch.middle - branch.first;
    for (let row = 0; row < last; row++) {
      const state = starts[row]!;
      if (!truth.ranges.some(([from, to]) => state >= from && state < to)) table[row * rowBytes + tree]! |= bit;
    }
    if (missing && !truth.missing) table[last * rowBytes + tree]! |= bit;
  }
}

/** The bits `from` to `to - 1` of a mask that are in its 32-bit word number `word`. */
function bitsOf(from: number, to: number, word: number): number {
  let bits = 0;
  for (let i = Math.max(from, word * 32); i < Math.min(to, word * 32 + 32); i++) bits |= 1 << (i - word * 32);
  return bits;
}
