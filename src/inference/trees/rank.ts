// Numbers → states: a branch-free binary search among the thresholds of each feature, four rows at once.
import { WasmFunction } from '../../wasm/function.ts';

/** Bytes of a record that describes one numeric slot to the rank kernel. */
export const RANK_RECORD = 32;

/** Rows whose searches run side by side: a search is a chain of loads that wait for each other. */
const ROWS = 4;

/**
 * rank(rows, records, count, states, rowBytes). A record is eight i32: address of the first value, bytes from row to
 * row, address and number of the cuts, state of NaN, byte offset of the state within a row, the same for the state
 * counted from NaN up (-1: not needed), state of NaN there.
 */
export function rankKernel(double: boolean): WasmFunction {
  const real = double ? 'f64' : 'f32';
  const shift = double ? 3 : 2;
  const f = new WasmFunction('rank', { rows: 'i32', record: 'i32', count: 'i32', states: 'i32', rowBytes: 'i32' });
  const { rows, record, count, states, rowBytes } = f.params;
  const fields = f.locals('i32', 'x', 'stride', 'cuts', 'size', 'missing', 'high', 'low', 'lowest');
  const { x, stride, cuts, size, missing, high, low, lowest } = fields;
  const { left, out, length, half, spare } = f.locals('i32', 'left', 'out', 'length', 'half', 'spare');
  const lanes = Array.from({ length: ROWS }, (_, i) => ({ at: f.local('i32', `at${i}`), v: f.local(real, `v${i}`) }));

  /** Ranks the next `n` rows. */
  const block = (n: number): void => {
    const own = lanes.slice(0, n);
    for (const { at, v } of own) {
      f.get(x).memory(`${real}.load`).set(v).get(cuts).set(at).get(x, stride).op('i32.add').set(x);
    }
    f.get(size).tee(length).i32(1).op('i32.gt_u');
    f.when(() => {
      f.repeat(
        () => {
          f.get(length).i32(1).op('i32.shr_u').tee(half).i32(shift).op('i32.shl').set(spare);
          for (const { at, v } of own) {
            // at = cuts[at + half - 1] < v ? at + half : at
            f.get(at, spare)
              .op('i32.add')
              .get(at)
              .get(at, spare)
              .op('i32.add')
              .i32(1 << shift)
              .op('i32.sub');
            f.memory(`${real}.load`).get(v).op(`${real}.lt`, 'select').set(at);
          }
          f.get(length, half).op('i32.sub').set(length);
        },
        () => f.get(length).i32(1).op('i32.gt_u'),
      );
    });
    for (const { at, v } of own) {
      f.get(at).memory(`${real}.load`).get(v).op(`${real}.lt`);
      f.get(at, cuts).op('i32.sub').i32(shift).op('i32.shr_u', 'i32.add').set(at);
      f.get(out, high).op('i32.add').get(missing, at).get(v, v).op(`${real}.ne`, 'select').memory('i32.store16');
      f.get(low).i32(-1).op('i32.ne');
      f.when(() => {
        f.get(out, low).op('i32.add').get(lowest, at).i32(1).op('i32.add').get(v, v).op(`${real}.ne`, 'select');
        f.memory('i32.store16');
      });
      f.get(out, rowBytes).op('i32.add').set(out);
    }
    f.bump(left, -n);
  };

  f.repeat(
    () => {
      for (const [i, field] of Object.values(fields).entries())
        f.get(record)
          .memory('i32.load', i * 4)
          .set(field);
      f.get(rows).set(left).get(states).set(out);
      const enough = (): WasmFunction => f.get(left).i32(ROWS).op('i32.ge_u');
      enough().when(() => f.repeat(() => block(ROWS), enough));
      f.get(left).when(() =>
        f.repeat(
          () => block(1),
          () => f.get(left),
        ),
      );
      f.bump(record, RANK_RECORD).bump(count, -1);
    },
    () => f.get(count),
  );
  return f.end();
}
