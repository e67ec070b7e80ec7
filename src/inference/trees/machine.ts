// Compiles an ensemble to WebAssembly. Input: numbers and category states. Output: sums of weights per target and row.
import { Arena } from '../../wasm/arena.ts';
import type { WasmFunction } from '../../wasm/function.ts';
import { assemble, loadModule, type WasmExports } from '../../wasm/module.ts';
import type { Ensemble } from './ensemble.ts';
import type { Tree } from './grow.ts';
import { lotsOf, neutral } from './kernel.ts';
import { placeWalk, type WalkColumns, walkKernel, walkKernelName, walkNodes } from './node-walk.ts';
import {
  combineKernel,
  placeTile,
  SCRATCH,
  type Tile,
  tableBytes,
  tableColumns,
  tileKernel,
  tileKernelName,
  tilesOf,
} from './quick-scorer.ts';
import { RANK_RECORD, rankKernel } from './rank.ts';
import type { SlotPlan } from './slots.ts';
import { Unsupported } from './unsupported.ts';

export type Kernel = 'quickscorer' | 'walk';

/** Position of the numbers of a numeric slot: element `offset` of every row in a region. */
export interface NumberPlace {
  region: number;
  offset: number;
  /**
   * State that NaN gets. An imputed NaN gets the state of the imputed value, so that imputation needs no pass over the
   * data. Undefined: the last state.
   */
  missing?: number;
}

interface MachineOptions {
  /** Whether numbers have double precision. */
  double: boolean;
  /** Maximum number of rows in a micro-batch. */
  capacity: number;
  /** Numbers per row in each region. */
  regions: readonly number[];
  /** Position of every numeric slot; undefined for categories. */
  places: readonly (NumberPlace | undefined)[];
  /** Kernel to use. Default: the kernel that is expected to be faster. */
  kernel?: Kernel;
}

/** Maximum size of the tables in bytes. Larger tables exceed all CPU caches, so that the walk kernel is faster. */
const MAX_TABLES = 32 * 1_048_576;
/** Maximum memory in bytes. ONNX Runtime evaluates larger ensembles. */
const MAX_MEMORY = 512 * 1_048_576;

/** A call of a kernel. `four`: the kernel for whole groups of four rows; null if there is none. */
interface KernelCall {
  one: string;
  four: string | null;
  args: readonly number[];
}

/** A compiled ensemble as plain data, from which another thread or process can quickly create a machine. */
export interface MachineImage {
  readonly kernel: Kernel;
  readonly capacity: number;
  readonly targets: number;
  /** Initial value of the sums, by target. */
  readonly start: readonly number[];
  /** `double`: whether numbers have double precision. `doubleSums`: whether sums do. */
  readonly double: boolean;
  readonly doubleSums: boolean;
  /** Address of each region, and number of values per row in the region. */
  readonly regions: readonly { at: number; width: number }[];
  readonly states: number;
  readonly stateWidth: number;
  readonly sums: number;
  readonly calls: readonly KernelCall[];
  /** The WebAssembly module. */
  readonly code: Uint8Array;
  /** Contents of the module's memory, from address 0 on. */
  readonly memory: Uint8Array;
}

/** @throws Unsupported */
export function compileMachine(
  e: Ensemble,
  trees: readonly Tree[],
  plan: SlotPlan,
  options: MachineOptions,
): MachineImage {
  const { capacity, double } = options;
  const lots = lotsOf(e, trees);
  const tables = tableColumns(plan);
  const tiles = tilesOf(lots, tables);
  const bytes = tiles?.reduce((n, t) => n + tableBytes(t, tables), 0) ?? Infinity;
  if (options.kernel === 'quickscorer' && bytes > MAX_MEMORY) throw new Unsupported('too large for QuickScorer');
  const kernel = options.kernel ?? (bytes <= MAX_TABLES && quickIsFaster(tiles!, trees) ? 'quickscorer' : 'walk');

  // A row has one state per slot. For slots whose states the walk also needs with NaN ranked lowest, a second state
  // follows.
  const lowest = new Map<number, number>();
  const columns: WalkColumns = {
    decisions: new Map(),
    high: (slot: number): number => slot,
    low(slot: number): number {
      if (!lowest.has(slot)) lowest.set(slot, plan.slots.length + lowest.size);
      return lowest.get(slot)!;
    },
  };
  const walked = kernel === 'walk' ? lots : [];
  const forests = walked.map((lot) => lot.trees.map((t) => walkNodes(t, plan, columns)));
  const compounds = kernel === 'quickscorer' ? tables.compounds : [];
  const width = Math.max(1, plan.slots.length + lowest.size + compounds.length);

  const arena = new Arena();
  const regions = options.regions.map((w) => arena.take(capacity * w * (double ? 8 : 4)));
  const states = arena.take(capacity * width * 2);
  const sumSize = e.double ? 8 : 4;
  const stride = capacity * sumSize;
  const sums = arena.take(stride * e.targets);
  const kernels = new Map<string, WasmFunction>([['rank', rankKernel(double)]]);
  const calls: KernelCall[] = [];
  const records = rankRecords(arena, plan, options, regions, lowest);
  if (records.count > 0) {
    calls.push({ one: 'rank', four: null, args: [records.at, records.count, states, width * 2] });
  }
  if (compounds.length > 0) {
    kernels.set('combine', combineKernel(compounds));
    calls.push({ one: 'combine', four: null, args: [states, width * 2] });
  }
  if (kernel === 'quickscorer') {
    const scratch = arena.take(SCRATCH);
    for (const t of tiles!) {
      const [one, four] = [tileKernelName(t, 1), tileKernelName(t, 4)];
      if (!kernels.has(one)) kernels.set(one, tileKernel(t, e, stride, 1)).set(four, tileKernel(t, e, stride, 4));
      const placed = placeTile(arena, t, e, tables);
      calls.push({ one, four, args: [states, width * 2, sums + t.lot.target * stride, ...placed, scratch] });
    }
  }
  for (const [i, lot] of walked.entries()) {
    const one = walkKernelName(lot);
    if (!kernels.has(one)) kernels.set(one, walkKernel(lot, e, stride));
    for (const { roots, weights } of placeWalk(arena, lot, e, forests[i]!)) {
      calls.push({ one, four: null, args: [states, width * 2, sums + lot.target * stride, roots, weights] });
    }
  }
  if (arena.bytes > MAX_MEMORY) throw new Unsupported('the tables are too large');
  return {
    kernel,
    capacity,
    targets: e.targets,
    start: Array.from({ length: e.targets }, (_, t) =>
      e.booster?.baseFirst ? (e.base[t] ?? 0) : neutral(e.aggregate),
    ),
    double,
    doubleSums: e.double,
    regions: regions.map((at, i) => ({ at, width: options.regions[i]! })),
    states,
    stateWidth: width,
    sums,
    calls,
    code: assemble('tree-kernel', [...kernels.values()]),
    memory: arena.build(),
  };
}

export class TreeMachine {
  /** Numbers in row-major order. The option `regions[i]` is the number per row. */
  readonly regions: readonly (Float32Array | Float64Array)[];
  /** States in row-major order; slot s is at index s of a row. The caller writes the states of category slots. */
  readonly states: Uint16Array;
  /** States per row. */
  readonly stateWidth: number;
  /** Sums, `capacity` entries per target. */
  readonly sums: Float32Array | Float64Array;
  readonly capacity: number;
  /** Size of the WebAssembly memory in bytes. */
  readonly bytes: number;
  readonly #start: readonly number[];
  readonly #calls: readonly ((rows: number) => void)[];
  readonly #targets: number;

  /** @throws Unsupported if there is not enough memory, or no SIMD */
  constructor(image: MachineImage) {
    const { capacity } = image;
    const { memory, exports } = instantiate(image);
    this.capacity = capacity;
    this.#targets = image.targets;
    this.#start = image.start;
    this.#calls = image.calls.map((c) => bind(c, exports, image.doubleSums ? 8 : 4));
    const view = (real: boolean, at: number, n: number): Float32Array | Float64Array =>
      real ? new Float64Array(memory.buffer, at, n) : new Float32Array(memory.buffer, at, n);
    this.regions = image.regions.map(({ at, width }) => view(image.double, at, capacity * width));
    this.states = new Uint16Array(memory.buffer, image.states, capacity * image.stateWidth);
    this.stateWidth = image.stateWidth;
    this.sums = view(image.doubleSums, image.sums, capacity * image.targets);
    this.bytes = memory.buffer.byteLength;
  }

  /** Adds up the trees for the first `rows` rows of regions and states. `rows`: from 1 to `capacity`. */
  run(rows: number): void {
    for (let t = 0; t < this.#targets; t++)
      this.sums.fill(this.#start[t]!, t * this.capacity, t * this.capacity + rows);
    for (const call of this.#calls) call(rows);
  }
}

/**
 * Places the thresholds of all numeric slots in memory, with the records that describe the slots to the rank kernel.
 */
function rankRecords(
  arena: Arena,
  plan: SlotPlan,
  options: MachineOptions,
  regions: readonly number[],
  lowest: ReadonlyMap<number, number>,
): { at: number; count: number } {
  const { double } = options;
  const size = double ? 8 : 4;
  const records = plan.slots.flatMap((slot, s) => {
    if (slot.kind !== 'number') return [];
    const { region, offset, missing } = options.places[s]!;
    const { cuts } = slot;
    const at = arena.take(cuts.length * size, (memory, to) => {
      (double ? new Float64Array(memory, to, cuts.length) : new Float32Array(memory, to, cuts.length)).set(cuts);
    });
    const low = lowest.get(s);
    const value = [regions[region]! + offset * size, options.regions[region]! * size];
    const high = [missing ?? slot.states - 1, s * 2];
    return [
      [...value, at, cuts.length, ...high, low === undefined ? -1 : low * 2, missing === undefined ? 0 : missing + 1],
    ];
  });
  const at = arena.take(records.length * RANK_RECORD, (memory, to) => {
    new Int32Array(memory, to, records.length * 8).set(records.flat());
  });
  return { at, count: records.length };
}

/** @throws Unsupported if there is not enough memory, or no SIMD */
function instantiate(image: MachineImage): ReturnType<typeof loadModule> {
  try {
    return loadModule(image.code, image.memory);
  } catch (cause) {
    throw new Unsupported(`WebAssembly: ${(cause as Error).message}`, { cause });
  }
}

/**
 * Binds a call to its functions: groups of four rows, then single rows. For the single rows, the first arguments (rows,
 * states, bytes per row of states, sums) are moved forward.
 */
function bind(call: KernelCall, exports: WasmExports, sumSize: number): (rows: number) => void {
  const one = exports[call.one]!;
  if (call.four === null) return (rows) => one(rows, ...call.args);
  const four = exports[call.four]!;
  const [states, rowBytes, sums, ...rest] = call.args as [number, number, number, ...number[]];
  return (rows) => {
    const whole = rows & ~3;
    if (whole > 0) four(whole, ...call.args);
    if (rows > whole) one(rows - whole, states + whole * rowBytes, rowBytes, sums + whole * sumSize, ...rest);
  };
}

/**
 * Compares the estimated times of both kernels per row, roughly in nanoseconds. The constants were measured on one
 * machine; only the ratio of the times matters.
 */
function quickIsFaster(tiles: readonly Tile[], trees: readonly Tree[]): boolean {
  const quick = tiles.reduce((n, t) => n + t.columns.length * (0.6 + t.vectors * 0.3) + t.trees * 1.2, 0);
  const walk = trees.reduce((n, t) => n + 3 + 2 * 1.4 * Math.log2(t.leaves.length + 1), 0);
  return quick < walk;
}
