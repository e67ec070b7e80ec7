// Plain numbers of a Parquet page as doubles, many at a time: a loop a type, because one for all would call a function a cell.

/** How a value is read where it stands; NaN: there is no number. */
export type NumberAt = (view: DataView, at: number) => number;

/** Plain values in `view` from byte `at` on; `level`: 0 where a row is null, null: no row is. */
interface PlainNumbers {
  view: DataView;
  at: number;
  level: Int32Array | null;
}

/**
 * Reads `rows` values, NaN where there is no number. `next`: where the value behind them begins; `odd`: the doubles do not hold one of
 * them exactly, so that its text has to be written. @throws RangeError: there are fewer
 */
export type TakeNumbers = (values: Float64Array, rows: number, from: PlainNumbers) => { next: number; odd: boolean };

/** Whole numbers beyond 2^53. */
export const isBeyondDoubles = (value: number): boolean =>
  value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER;

const HIGH = 2 ** 32;

/** Doubles that the model reads: an infinity is a value, NaN a missing one. */
export const takeDoubles: TakeNumbers = (values, rows, { view, at, level }) => {
  let next = at;
  for (let i = 0; i < rows; i++) {
    if (level !== null && level[i] === 0) values[i] = Number.NaN;
    else {
      values[i] = view.getFloat64(next, true);
      next += 8;
    }
  }
  return { next, odd: false };
};

export const takeLongs: TakeNumbers = (values, rows, { view, at, level }) => {
  let next = at;
  let odd = false;
  for (let i = 0; i < rows; i++) {
    if (level !== null && level[i] === 0) values[i] = Number.NaN;
    else {
      const value = view.getInt32(next + 4, true) * HIGH + view.getUint32(next, true);
      odd ||= isBeyondDoubles(value);
      values[i] = value;
      next += 8;
    }
  }
  return { next, odd };
};

/** What a reader of single values reads, `width` bytes each; `isOdd`: a double does not hold this one. */
export const takingBy =
  (read: NumberAt, width: number, isOdd: (value: number) => boolean): TakeNumbers =>
  (values, rows, { view, at, level }) => {
    let next = at;
    let odd = false;
    for (let i = 0; i < rows; i++) {
      if (level !== null && level[i] === 0) values[i] = Number.NaN;
      else {
        const value = read(view, next);
        odd ||= isOdd(value);
        values[i] = value;
        next += width;
      }
    }
    return { next, odd };
  };
