// Converts numbers to states: a branch-free binary search in the thresholds of each feature, for four rows at once.
import { type Local, WasmFunction } from '../../wasm/function.ts';

/** Size in bytes of the record that describes a numeric slot to the rank kernel. */
export const RANK_RECORD = 32;

/** Number of rows that are searched in parallel, because each search is a chain of dependent loads. */
const ROWS = 4;

/**
 * rank(rows, records, count, states, rowBytes). A record has eight i32:
 * 1. address of the first value
 * 2. bytes from row to row
 * 3. address of the cuts
 * 4. number of cuts
 * 5. state of NaN
 * 6. byte offset of the state within a row
 * 7. byte offset of the state with NaN ranked lowest, or -1 if that state is not needed
 * 8. state of NaN in that ranking
 */
export const rankKernel = (double: boolean): WasmFunction => new RankProgram(double).emit();

class RankProgram {
  readonly #real: 'f32' | 'f64';
  /** Binary logarithm of the size of a number in bytes. */
  readonly #shift: number;
  readonly #f = new WasmFunction('rank', { rows: 'i32', record: 'i32', count: 'i32', states: 'i32', rowBytes: 'i32' });
  /** The fields of a record, in order. */
  readonly #record = this.#f.locals('i32', 'x', 'stride', 'cuts', 'size', 'missing', 'high', 'low', 'lowest');
  readonly #local = this.#f.locals('i32', 'left', 'out', 'length', 'half', 'spare');
  readonly #lanes: readonly { at: Local; v: Local }[];

  constructor(double: boolean) {
    this.#real = double ? 'f64' : 'f32';
    this.#shift = double ? 3 : 2;
    this.#lanes = Array.from({ length: ROWS }, (_, i) => ({
      at: this.#f.local('i32', `at${i}`),
      v: this.#f.local(this.#real, `v${i}`),
    }));
  }

  emit(): WasmFunction {
    const f = this.#f;
    const { rows, record, count, states } = f.params;
    const { left, out } = this.#local;
    f.repeat(
      () => {
        for (const [i, field] of Object.values(this.#record).entries()) f.get(record).memory('i32.load', i * 4).set(field); // biome-ignore format: one line
        f.get(rows).set(left).get(states).set(out);
        const enough = (): WasmFunction => f.get(left).i32(ROWS).op('i32.ge_u');
        enough().when(() => f.repeat(() => this.#rank(ROWS), enough));
        f.get(left).when(() =>
          f.repeat(
            () => this.#rank(1),
            () => f.get(left),
          ),
        );
        f.bump(record, RANK_RECORD).bump(count, -1);
      },
      () => f.get(count),
    );
    return f.end();
  }

  /** Emits code that ranks the next `n` rows. */
  #rank(n: number): void {
    const f = this.#f;
    const { x, stride, cuts } = this.#record;
    const own = this.#lanes.slice(0, n);
    for (const { at, v } of own) {
      f.get(x).memory(`${this.#real}.load`).set(v).get(cuts).set(at).get(x, stride).op('i32.add').set(x);
    }
    this.#search(own);
    for (const lane of own) this.#write(lane);
    f.bump(this.#local.left, -n);
  }

  /** Emits code that sets `at` to the last cut below `v`, or to the first cut if there is none. */
  #search(own: readonly { at: Local; v: Local }[]): void {
    const f = this.#f;
    const { size } = this.#record;
    const { length, half, spare } = this.#local;
    const shift = this.#shift;
    f.get(size).tee(length).i32(1).op('i32.gt_u');
    f.when(() => {
      f.repeat(
        () => {
          f.get(length).i32(1).op('i32.shr_u').tee(half).i32(shift).op('i32.shl').set(spare);
          for (const { at, v } of own) {
            // at = cuts[at + half - 1] < v ? at + half : at
            f.get(at, spare).op('i32.add').get(at);
            f.get(at, spare).op('i32.add').i32(1 << shift).op('i32.sub'); // biome-ignore format: one line
            f.memory(`${this.#real}.load`).get(v).op(`${this.#real}.lt`, 'select').set(at);
          }
          f.get(length, half).op('i32.sub').set(length);
        },
        () => f.get(length).i32(1).op('i32.gt_u'),
      );
    });
  }

  /**
   * Emits code that writes the state of a row and, if needed, the state with NaN ranked lowest. Then moves `out` to the
   * next row.
   */
  #write({ at, v }: { at: Local; v: Local }): void {
    const f = this.#f;
    const { cuts, missing, high, low, lowest } = this.#record;
    const { out } = this.#local;
    f.get(at).memory(`${this.#real}.load`).get(v).op(`${this.#real}.lt`);
    f.get(at, cuts).op('i32.sub').i32(this.#shift).op('i32.shr_u', 'i32.add').set(at);
    f.get(out, high).op('i32.add').get(missing, at).get(v, v).op(`${this.#real}.ne`, 'select').memory('i32.store16');
    f.get(low).i32(-1).op('i32.ne');
    f.when(() => {
      f.get(out, low).op('i32.add').get(lowest, at).i32(1).op('i32.add').get(v, v).op(`${this.#real}.ne`, 'select');
      f.memory('i32.store16');
    });
    f.get(out, f.params.rowBytes).op('i32.add').set(out);
  }
}
