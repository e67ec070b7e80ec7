// An ensemble compiled to WebAssembly: numbers and category states in, sums of weights a target and row out.
import { Arena } from './arena.ts';
import type { Ensemble } from './ensemble.ts';
import { type Tree, Unsupported } from './grow.ts';
import { lotsOf, neutral } from './kernel.ts';
import { placeWalk, walkKernel, walkKernelName, walkNodes } from './node-walk.ts';
import { placeTile, SCRATCH, type Tile, tableBytes, tileKernel, tileKernelName, tilesOf } from './quick-scorer.ts';
import { RANK_RECORD, rankKernel } from './rank.ts';
import type { SlotPlan, Truth } from './slots.ts';
import { assemble, type WasmFunction } from './wasm.ts';

export type Kernel = 'quickscorer' | 'walk';

/** Where the numbers of a numeric slot lie: element `offset` of every row of a region. */
export interface NumberPlace {
  region: number;
  offset: number;
  /** State of NaN: imputation without a pass over the data. Undefined: the last state. */
  missing?: number;
}

export interface MachineOptions {
  /** Numbers come in double precision. */
  double: boolean;
  /** Largest micro-batch. */
  capacity: number;
  /** Numbers a row in every region. */
  regions: readonly number[];
  /** Place of every numeric slot; undefined for categories. */
  places: readonly (NumberPlace | undefined)[];
  /** Default: what is expected to be faster. */
  kernel?: Kernel;
}

/** Tables beyond this fall out of every cache, and the walk is faster. Bytes. */
const MAX_TABLES = 32 * 1_048_576;
/** Nodes beyond this are left to ONNX Runtime. Bytes of all memory. */
const MAX_MEMORY = 512 * 1_048_576;

export class TreeMachine {
  readonly kernel: Kernel;
  /** Row-major numbers, `regions[i]` a row. */
  readonly regions: readonly (Float32Array | Float64Array)[];
  /** Row-major states; the caller writes those of category slots. */
  readonly states: Uint16Array;
  /** States a row. */
  readonly stateWidth: number;
  /** Column of every category slot within a row of states. */
  readonly columns: readonly number[];
  /** Sums: `capacity` entries a target. */
  readonly sums: Float32Array | Float64Array;
  readonly capacity: number;
  /** Bytes of WebAssembly memory. */
  readonly bytes: number;
  readonly #start: number;
  readonly #calls: readonly ((rows: number) => void)[];
  readonly #targets: number;

  /** @throws Unsupported */
  constructor(e: Ensemble, trees: readonly Tree[], plan: SlotPlan, options: MachineOptions) {
    const { capacity, double } = options;
    const truths = new Map<object, Truth>();
    for (const t of trees) for (const b of t.branches) truths.set(b, plan.truth(b));
    const lots = lotsOf(e, trees);
    const tiles = tilesOf(lots, truths);
    const bytes = tiles?.reduce((n, t) => n + tableBytes(t, plan), 0) ?? Infinity;
    if (options.kernel === 'quickscorer' && bytes > MAX_MEMORY) throw new Unsupported('too large for QuickScorer');
    this.kernel = options.kernel ?? (bytes <= MAX_TABLES && quickIsFaster(tiles!, trees) ? 'quickscorer' : 'walk');
    this.capacity = capacity;
    this.#targets = e.targets;
    this.#start = neutral(e.aggregate);

    // Columns of states: one a slot, and one more for slots the walk wants ranked with NaN lowest.
    const low = new Map<number, number>();
    let width = plan.slots.length;
    const forests =
      this.kernel === 'quickscorer'
        ? []
        : lots.map((lot) =>
            lot.trees.map((t) =>
              walkNodes(t, truths, plan.slots, {
                high: (slot) => slot,
                low(slot) {
                  if (!low.has(slot)) low.set(slot, width++);
                  return low.get(slot)!;
                },
              }),
            ),
          );
    width = Math.max(1, width);

    const arena = new Arena();
    const size = double ? 8 : 4;
    const regions = options.regions.map((w) => arena.take(capacity * w * size));
    const states = arena.take(capacity * width * 2);
    const sumSize = e.double ? 8 : 4;
    const sums = arena.take(capacity * e.targets * sumSize);
    const records: number[][] = [];
    for (const [s, slot] of plan.slots.entries()) {
      if (slot.kind !== 'number') continue;
      const { region, offset, missing } = options.places[s]!;
      const cuts = slot.cuts.length > 0 ? slot.cuts : Float64Array.of(Infinity);
      const at = arena.take(cuts.length * size, (memory, to) => {
        (double ? new Float64Array(memory, to, cuts.length) : new Float32Array(memory, to, cuts.length)).set(cuts);
      });
      const lowest = low.get(s);
      records.push([
        regions[region]! + offset * size,
        options.regions[region]! * size,
        at,
        cuts.length,
        missing ?? slot.states - 1,
        s * 2,
        lowest === undefined ? -1 : lowest * 2,
        missing === undefined ? 0 : missing + 1,
      ]);
    }
    const recordsAt = arena.take(records.length * RANK_RECORD, (memory, at) =>
      new Int32Array(memory, at, records.length * 8).set(records.flat()),
    );

    const kernels = new Map<string, WasmFunction>([['rank', rankKernel(double)]]);
    /** `four`: the kernel for whole groups of four rows, where there is one of its own. */
    const calls: { one: string; four: string | null; args: number[] }[] = [];
    if (records.length > 0) {
      calls.push({ one: 'rank', four: null, args: [recordsAt, records.length, states, width * 2] });
    }
    const stride = capacity * sumSize;
    if (this.kernel === 'quickscorer') {
      const scratch = arena.take(SCRATCH);
      for (const t of tiles!) {
        const [one, four] = [tileKernelName(t, 1), tileKernelName(t, 4)];
        if (!kernels.has(one)) kernels.set(one, tileKernel(t, e, stride, 1)).set(four, tileKernel(t, e, stride, 4));
        const { active, end, leaves } = placeTile(arena, t, e, plan, truths, (slot) => slot);
        const to = sums + t.lot.target * stride;
        calls.push({ one, four, args: [states, width * 2, active, end, leaves, to, scratch] });
      }
    } else {
      for (const [i, lot] of lots.entries()) {
        const one = walkKernelName(lot);
        if (!kernels.has(one)) kernels.set(one, walkKernel(lot, e, stride));
        for (const [roots, weights] of placeWalk(arena, lot, e, forests[i]!)) {
          calls.push({ one, four: null, args: [states, width * 2, roots, weights, sums + lot.target * stride] });
        }
      }
    }
    if (arena.bytes > MAX_MEMORY) throw new Unsupported('the tables are too large');
    const memory = arena.build();
    const { exports } = new WebAssembly.Instance(new WebAssembly.Module(assemble([...kernels.values()])), {
      env: { memory },
    });
    this.#calls = calls.map((call) => {
      const one = exports[call.one]!;
      if (call.four === null) return (rows: number) => one(rows, ...call.args);
      const four = exports[call.four]!;
      const [at, rowBytes, active, end, leaves, to, scratch] = call.args as [
        number,
        number,
        number,
        number,
        number,
        number,
        number,
      ];
      return (rows: number) => {
        const whole = rows & ~3;
        if (whole > 0) four(whole, at, rowBytes, active, end, leaves, to, scratch);
        if (rows > whole)
          one(rows - whole, at + whole * rowBytes, rowBytes, active, end, leaves, to + whole * sumSize, scratch);
      };
    });
    const view = (real: boolean, at: number, n: number): Float32Array | Float64Array =>
      real ? new Float64Array(memory.buffer, at, n) : new Float32Array(memory.buffer, at, n);
    this.regions = regions.map((at, i) => view(double, at, capacity * options.regions[i]!));
    this.states = new Uint16Array(memory.buffer, states, capacity * width);
    this.stateWidth = width;
    this.columns = plan.slots.map((_, s) => s);
    this.sums = view(e.double, sums, capacity * e.targets);
    this.bytes = memory.buffer.byteLength;
  }

  /** Adds up the trees for the first `rows` rows (at least 1, at most capacity) of regions and states. */
  run(rows: number): void {
    for (let t = 0; t < this.#targets; t++) this.sums.fill(this.#start, t * this.capacity, t * this.capacity + rows);
    for (const call of this.#calls) call(rows);
  }
}

/** Work of both kernels for a row, in about nanoseconds: measured on one machine, only the ratio matters. */
function quickIsFaster(tiles: readonly Tile[], trees: readonly Tree[]): boolean {
  const quick = tiles.reduce((n, t) => n + t.slots.length * (0.6 + t.vectors * 0.3) + t.trees * 1.2, 0);
  const walk = trees.reduce((n, t) => n + 3 + 2 * 1.4 * Math.log2(t.leaves.length + 1), 0);
  return quick < walk;
}
