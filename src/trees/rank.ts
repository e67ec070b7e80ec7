// Numbers → states: a branch-free binary search among the thresholds of each feature.
import { WasmFunction } from './wasm.ts';

/** Bytes of a record that describes one numeric slot to the rank kernel. */
export const RANK_RECORD = 32;

/**
 * rank(rows, records, count, states, rowBytes). A record is eight i32: address of the first value, bytes from row to
 * row, address and number of the cuts, state of NaN, byte offset of the state within a row, the same for the state
 * counted from NaN up (-1: not needed), 0.
 */
export function rankKernel(double: boolean): WasmFunction {
  const real = double ? 'f64' : 'f32';
  const shift = double ? 3 : 2;
  const f = new WasmFunction('rank', ['i32', 'i32', 'i32', 'i32', 'i32']);
  const [rows, record, count, states, rowBytes] = [0, 1, 2, 3, 4] as const;
  const [x, stride, cuts, size, missing, high, low] = [1, 2, 3, 4, 5, 6, 7].map(() => f.local('i32')) as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const [r, out, at, length, half, spare] = [1, 2, 3, 4, 5, 6].map(() => f.local('i32')) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const v = f.local(real);
  f.repeat(
    () => {
      for (const [i, local] of [x, stride, cuts, size, missing, high, low].entries())
        f.get(record)
          .memory('i32.load', i * 4)
          .set(local);
      f.get(rows).set(r).get(states).set(out);
      f.repeat(
        () => {
          f.get(x).memory(`${real}.load`).set(v).get(cuts).set(at).get(size).set(length);
          f.get(length)
            .i32(1)
            .op('i32.gt_u')
            .when(() => {
              f.repeat(
                () => {
                  f.get(length)
                    .i32(1)
                    .op('i32.shr_u')
                    .tee(half)
                    .i32(shift)
                    .op('i32.shl')
                    .get(at)
                    .op('i32.add')
                    .tee(spare);
                  f.get(at, spare)
                    .i32(1 << shift)
                    .op('i32.sub')
                    .memory(`${real}.load`)
                    .get(v)
                    .op(`${real}.lt`, 'select')
                    .set(at);
                  f.get(length, half).op('i32.sub').set(length);
                },
                () => f.get(length).i32(1).op('i32.gt_u'),
              );
            });
          f.get(at)
            .memory(`${real}.load`)
            .get(v)
            .op(`${real}.lt`)
            .get(at, cuts)
            .op('i32.sub')
            .i32(shift)
            .op('i32.shr_u', 'i32.add')
            .set(at);
          f.get(v, v).op(`${real}.ne`).set(spare);
          f.get(out, high).op('i32.add').get(missing, at, spare).op('select').memory('i32.store16');
          f.get(low)
            .i32(-1)
            .op('i32.ne')
            .when(() => {
              f.get(out, low)
                .op('i32.add')
                .i32(0)
                .get(at)
                .i32(1)
                .op('i32.add')
                .get(spare)
                .op('select')
                .memory('i32.store16');
            });
          f.get(x, stride).op('i32.add').set(x).get(out, rowBytes).op('i32.add').set(out);
          f.bump(r, -1);
        },
        () => f.get(r),
      );
      f.bump(record, RANK_RECORD).bump(count, -1);
    },
    () => f.get(count),
  );
  return f;
}
