// The drift kernel: WebAssembly that counts the values of a column at or above each threshold, four columns of a row at a time.
import { Arena } from '../wasm/arena.ts';
import { type Local, WasmFunction } from '../wasm/function.ts';
import { assemble, loadModule } from '../wasm/module.ts';
import type { CountedLane, DriftLane, DriftMatrix } from './drift-matrix.ts';
import { BUCKET_SHIFT, bucketsByBits, TABLE_BUCKETS } from './sketch.ts';

const VECTOR = 16;
const LANES = 4;
/** Number of vectors that are checked at once for nonzero values. */
const GLANCE = 4;
const TABLE_BYTES = TABLE_BUCKETS * 4;
/**
 * Number of thresholds per pass over the rows. More thresholds do not fit into registers. `FEW`: number for booleans.
 */
const AT_ONCE = 5;
const FEW = 2;
/** Number of rows that all passes process before the next rows are read, so that the rows stay in the L1 cache. */
const TILE_ROWS = 128;
/**
 * Maximum number of thresholds for a column to be counted by the kernel. For more thresholds, a binary search in
 * JavaScript is faster.
 */
const MOST_THRESHOLDS = 48;

/**
 * Columns that are counted together: up to four adjacent columns of a segment, or the only column of a segment, of
 * which a vector contains four rows.
 */
interface Group {
  readonly segment: number;
  readonly offset: number;
  readonly lanes: CountedLane[];
  readonly alone: boolean;
  /** Address of the threshold vectors. A lane without a further threshold has NaN. An equal number of sums follows. */
  thresholds: number;
  sums: number;
  counted: Uint32Array;
  count: number;
}

/** Arguments of a kernel call: range of rows, step, and addresses of input (limits or buckets) and output (counts). */
interface Pass {
  run(...args: number[]): void;
  from: number;
  /** Bytes per row. */
  bytes: number;
  step: number;
  input: number;
  output: number;
}

/**
 * Counts a matrix. Values are not assigned to bins one by one. Comparing a vector of values with each threshold in turn
 * needs no branches and writes no memory before the end. NaN is below every threshold.
 */
export class DriftKernel {
  /** Columns that the kernel does not count. */
  readonly left: readonly CountedLane[];
  readonly #groups: readonly Group[];
  readonly #passes: readonly Pass[];
  /**
   * Address of the bucket tables, one per sketch and contiguous. `#tablesEnd`: address after the tables. `#drained`:
   * address of the buffer for drained counts.
   */
  readonly #tables: number;
  readonly #tablesEnd: number;
  readonly #drained: number;
  readonly #drain: (...args: number[]) => void;
  readonly #words: Uint32Array;
  /** The data of segments with a single column. Each has space for a vector after its last row. */
  readonly #alone: Float32Array[] = [];

  private constructor(matrix: DriftMatrix, sketches: number) {
    const arena = new Arena();
    const few = (lane: CountedLane): boolean => lane.thresholds.length <= MOST_THRESHOLDS;
    const counted = matrix.decisions ? [...matrix.lanes, matrix.decisions] : matrix.lanes;
    this.left = counted.filter((lane) => !few(lane));
    this.#groups = groupsOf(counted.filter(few), matrix);
    for (const group of this.#groups) {
      // Thresholds are padded, because the last pass may read more vectors than thresholds.
      const vectors = Math.ceil(group.count / AT_ONCE) * AT_ONCE;
      group.thresholds = arena.take(vectors * VECTOR, (memory, at) => placeThresholds(memory, at, vectors, group));
      group.sums = arena.take(vectors * VECTOR);
    }
    const buckets = bucketsByBits();
    const map = arena.take(buckets.byteLength, (memory, at) => new Uint16Array(memory, at).set(buckets));
    this.#tables = arena.take(sketches * TABLE_BYTES);
    this.#tablesEnd = this.#tables + sketches * TABLE_BYTES;
    this.#drained = arena.take(VECTOR + sketches * TABLE_BYTES * 2);
    // The data is padded by a vector, because loads for the last row read beyond the row.
    const data = matrix.segments.map((segment) => arena.take(segment.data.byteLength + VECTOR));
    const passes = [passFunction(AT_ONCE), passFunction(FEW)];
    const code = assemble('drift-kernel', [...passes, sketchFunction(), drainFunction()]);
    const { memory, exports } = loadModule(code, arena.build());
    const rowsOf = ({ segment, offset }: Group | DriftLane) => ({
      from: data[segment]! + offset * 4,
      bytes: matrix.segments[segment]!.width * 4,
    });
    const ofGroup = (group: Group): Pass[] => {
      const starts = Array.from({ length: Math.ceil(group.count / AT_ONCE) }, (_, i) => i * AT_ONCE);
      return starts.map((k) => {
        const run = exports[`pass${group.count - k > FEW ? AT_ONCE : FEW}`]!;
        const { from, bytes } = rowsOf(group);
        const step = group.alone ? VECTOR : bytes;
        return { run, from, bytes, step, input: group.thresholds + k * VECTOR, output: group.sums + k * VECTOR };
      });
    };
    const sketched = matrix.lanes.filter(({ measured }) => measured.sketch >= 0);
    this.#passes = [
      ...this.#groups.flatMap(ofGroup),
      ...sketched.map((lane): Pass => {
        const { from, bytes } = rowsOf(lane);
        return {
          run: exports.sketch!,
          from,
          bytes,
          step: bytes,
          input: map,
          output: this.#tables + lane.measured.sketch * TABLE_BYTES,
        };
      }),
    ];
    this.#drain = exports.drain!;
    for (const group of this.#groups) group.counted = new Uint32Array(memory.buffer, group.sums, group.count * LANES);
    this.#words = new Uint32Array(memory.buffer);
    for (const [s, segment] of matrix.segments.entries()) {
      segment.data = new Float32Array(memory.buffer, data[s]!, segment.data.length);
      if (segment.width === 1) this.#alone.push(new Float32Array(memory.buffer, data[s]!, segment.data.length + LANES));
    }
  }

  /** Opens the kernel. From then on the matrix writes into its memory. null: there is not enough memory. */
  static open(matrix: DriftMatrix, sketches: number): DriftKernel | null {
    try {
      return new DriftKernel(matrix, sketches);
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
  }

  /** Counts the first `rows` rows of the matrix. */
  run(rows: number): void {
    // Unused lanes of the last vector become NaN, which belongs to no bin.
    for (const column of this.#alone) column.fill(Number.NaN, rows, rows + LANES);
    for (let first = 0; first < rows; first += TILE_ROWS) {
      const last = Math.min(rows, first + TILE_ROWS);
      for (const { run, from, bytes, step, input, output } of this.#passes) {
        run(from + first * bytes, from + last * bytes, step, input, output);
      }
    }
  }

  /** Adds to `cells` what the kernel has counted since the last call of `drain`, and resets the counts of the kernel.
   * Returns the counts of the sketches in the format of `DriftCounts.numbers`.
   */
  drain(cells: Uint32Array): Uint32Array {
    for (const { lanes, offset, alone, counted } of this.#groups) {
      if (alone) addLanes(counted);
      for (const lane of lanes) {
        const l = lane.offset - offset;
        const own = lane.cells.length;
        for (let k = 0; k < own; k++) {
          const above = k + 1 < own ? counted[(k + 1) * LANES + l]! : 0;
          cells[lane.cells[k]!]! += counted[k * LANES + l]! - above;
        }
      }
      counted.fill(0);
    }
    if (this.#tables === this.#tablesEnd) return new Uint32Array(0);
    this.#drain(this.#tables, this.#tablesEnd, this.#drained);
    const end = this.#words[this.#drained / 4]!;
    return this.#words.slice((this.#drained + VECTOR) / 4, end / 4);
  }
}

/** Adds the counts of all lanes to the first lane, because each lane counted another row. */
function addLanes(counted: Uint32Array): void {
  for (let at = 0; at < counted.length; at += LANES) {
    for (let l = 1; l < LANES; l++) counted[at]! += counted[at + l]!;
  }
}

/**
 * Forms groups of adjacent columns. Columns with the same offset (decisions and scores) are put into different groups.
 */
function groupsOf(lanes: readonly CountedLane[], { segments }: DriftMatrix): Group[] {
  const groups: Group[] = [];
  for (const lane of [...lanes].sort((a, b) => a.segment - b.segment || a.offset - b.offset)) {
    const last = groups.at(-1);
    const near = last && last.segment === lane.segment && lane.offset < last.offset + LANES;
    if (near && last.lanes.every(({ offset }) => offset !== lane.offset)) {
      last.lanes.push(lane);
      last.count = Math.max(last.count, lane.thresholds.length);
    } else {
      const { segment, offset } = lane;
      const alone = segments[segment]!.width === 1;
      const counted = new Uint32Array(0);
      const count = lane.thresholds.length;
      groups.push({ segment, offset, alone, lanes: [lane], thresholds: 0, sums: 0, counted, count });
    }
  }
  return groups;
}

function placeThresholds(memory: ArrayBuffer, at: number, vectors: number, { lanes, offset, alone }: Group): void {
  const numbers = new Float32Array(memory, at, vectors * LANES).fill(Number.NaN);
  for (const lane of lanes) {
    for (const [k, threshold] of lane.thresholds.entries()) {
      const first = k * LANES + lane.offset - offset;
      numbers.fill(threshold, first, alone ? first + LANES : first + 1);
    }
  }
}

/** pass(at, end, step, thresholds, sums): compares rows with `n` threshold vectors. */
function passFunction(n: number): WasmFunction {
  const f = new WasmFunction(`pass${n}`, { at: 'i32', end: 'i32', step: 'i32', thresholds: 'i32', sums: 'i32' });
  const { at, end, step, thresholds, sums } = f.params;
  const row = f.local('v128', 'row');
  const each = Array.from({ length: n }, (_, k): [limit: Local, sum: Local, offset: number] => [
    f.local('v128', `limit${k}`),
    f.local('v128', `sum${k}`),
    k * VECTOR,
  ]);
  for (const [limit, sum, offset] of each) {
    f.get(thresholds).memory('v128.load', offset).set(limit);
    f.get(sums).memory('v128.load', offset).set(sum);
  }
  f.repeat(
    () => {
      f.get(at).memory('v128.load').set(row);
      // A comparison gives -1 for true, so it is subtracted.
      for (const [limit, sum] of each) f.get(sum, row, limit).op('f32x4.ge', 'i32x4.sub').set(sum);
      f.get(at, step).op('i32.add').set(at);
    },
    () => f.get(at, end).op('i32.lt_u'),
  );
  for (const [, sum, offset] of each) f.get(sums, sum).memory('v128.store', offset);
  return f.end();
}

/** sketch(at, end, step, map, table): increments the bucket of each number. */
function sketchFunction(): WasmFunction {
  const f = new WasmFunction('sketch', { at: 'i32', end: 'i32', step: 'i32', map: 'i32', table: 'i32' });
  const { at, end, step, map, table } = f.params;
  const bucket = f.local('i32', 'bucket');
  f.repeat(
    () => {
      f.get(table, at).memory('i32.load').i32(BUCKET_SHIFT).op('i32.shr_u').i32(1).op('i32.shl');
      f.get(map).op('i32.add').memory('i32.load16_u').i32(2).op('i32.shl', 'i32.add').tee(bucket);
      f.get(bucket).memory('i32.load').i32(1).op('i32.add').memory('i32.store');
      f.get(at, step).op('i32.add').set(at);
    },
    () => f.get(at, end).op('i32.lt_u'),
  );
  return f.end();
}

/**
 * drain(at, end, out): writes pairs of index and count for all nonempty buckets, and clears the tables. In front of the
 * pairs, it writes a vector with the address after the last pair.
 */
function drainFunction(): WasmFunction {
  const f = new WasmFunction('drain', { at: 'i32', end: 'i32', out: 'i32' });
  const { at, end, out } = f.params;
  const { to, count, place } = f.locals('i32', 'to', 'count', 'place');
  f.get(out).i32(VECTOR).op('i32.add').set(to);
  f.repeat(
    () => {
      f.get(at).memory('v128.load');
      for (let v = 1; v < GLANCE; v++)
        f.get(at)
          .memory('v128.load', v * VECTOR)
          .op('v128.or');
      f.op('v128.any_true');
      f.when(() => {
        for (let k = 0; k < GLANCE * LANES; k++) {
          f.get(at)
            .memory('i32.load', k * 4)
            .tee(count);
          f.when(() => {
            f.get(to, place).i32(k).op('i32.add').memory('i32.store');
            f.get(to, count).memory('i32.store', 4).bump(to, 8);
          });
        }
        for (let v = 0; v < GLANCE; v++)
          f.get(at)
            .bytes(0)
            .memory('v128.store', v * VECTOR);
      });
      f.bump(at, GLANCE * VECTOR).bump(place, GLANCE * LANES);
    },
    () => f.get(at, end).op('i32.lt_u'),
  );
  f.get(out, to).memory('i32.store');
  return f.end();
}
