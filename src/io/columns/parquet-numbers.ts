// Plain numbers of a Parquet page as doubles, many at a time: a loop a type, because one for all would call a function a cell.

/** How a value is read where it stands; NaN: there is no number. */
export type NumberAt = (view: DataView, at: number) => number;

/** Plain values in `view` from byte `at` on; `level`: 0 where a row is null, null: no row is. */
export interface PlainNumbers {
  view: DataView;
  at: number;
  level: Int32Array | null;
}

/**
 * Reads `rows` values, NaN where there is no number. `next`: where the value behind them begins; `odd`: one of them is beyond what doubles
 * hold as a whole number. @throws RangeError: there are fewer
 */
export type TakeNumbers = (values: Float64Array, rows: number, from: PlainNumbers) => { next: number; odd: boolean };

/** As JSON has it: no infinity, and no zero below zero. */
export const jsonNumber = (value: number): number => (Number.isFinite(value) ? value + 0 : Number.NaN);

const isOdd = (value: number): boolean => value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER;

export const takeDoubles: TakeNumbers = (values, rows, { view, at, level }) => {
  let next = at;
  for (let i = 0; i < rows; i++) {
    if (level !== null && level[i] === 0) values[i] = Number.NaN;
    else {
      const value = view.getFloat64(next, true);
      // What is no number, or too large for one, is not 0 if it is multiplied by 0.
      values[i] = value * 0 === 0 ? value + 0 : Number.NaN;
      next += 8;
    }
  }
  return { next, odd: false };
};

const HIGH = 2 ** 32;

export const takeLongs: TakeNumbers = (values, rows, { view, at, level }) => {
  let next = at;
  let odd = false;
  for (let i = 0; i < rows; i++) {
    if (level !== null && level[i] === 0) values[i] = Number.NaN;
    else {
      const value = view.getInt32(next + 4, true) * HIGH + view.getUint32(next, true);
      odd ||= isOdd(value);
      values[i] = value;
      next += 8;
    }
  }
  return { next, odd };
};

/** Whatever a reader of single values reads, `width` bytes each. */
export const takingBy =
  (read: NumberAt, width: number): TakeNumbers =>
  (values, rows, { view, at, level }) => {
    let next = at;
    let odd = false;
    for (let i = 0; i < rows; i++) {
      if (level !== null && level[i] === 0) values[i] = Number.NaN;
      else {
        const value = jsonNumber(read(view, next));
        odd ||= isOdd(value);
        values[i] = value;
        next += width;
      }
    }
    return { next, odd };
  };
