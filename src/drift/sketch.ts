// Quantiles of numbers in constant memory: DDSketch (Masson, Rim and Lee 2019) with linearly interpolated buckets, 16 per octave.

/**
 * Number of low bits of a float32 that are dropped to get its bucket. Sign, exponent and four bits of the mantissa
 * remain.
 */
export const BUCKET_SHIFT = 19;
const PER_OCTAVE = 16;
/**
 * Exponent of the smallest magnitude: smaller magnitudes are counted as zero. Magnitudes from 2^44 are counted in the
 * largest bucket.
 */
const LOWEST_EXPONENT = -20;
const OCTAVES = 64;
/**
 * Number of buckets for positive numbers. Bucket 0 is for zero, and the buckets for negative numbers follow those for
 * positive numbers.
 */
const MAGNITUDES = OCTAVES * PER_OCTAVE;
/** The bucket for NaN, which is after all other buckets and not part of the sketch. */
const NO_NUMBER = 2 * MAGNITUDES + 1;
/** Number of buckets per table, including NO_NUMBER, rounded up to whole cache lines. */
export const TABLE_BUCKETS = Math.ceil((NO_NUMBER + 1) / 16) * 16;
/** Maximum relative error of a quantile inside the octaves. */
export const QUANTILE_ERROR = 1 / (2 * PER_OCTAVE + 1);

let known: Uint16Array | null = null;

/** The bucket of every float32 by its upper bits. Created once per thread, because it is read-only. */
export function bucketsByBits(): Uint16Array {
  known ??= makeBuckets();
  return known;
}

function makeBuckets(): Uint16Array {
  return Uint16Array.from({ length: 2 ** (32 - BUCKET_SHIFT) }, (_, bits) => {
    const negative = bits >= 2 ** (31 - BUCKET_SHIFT);
    const exponent = Math.floor(bits / PER_OCTAVE) & 255;
    // Infinity, a number that is too large for float32, has no bit in its mantissa, but NaN has the highest one.
    if (exponent === 255) return bits % PER_OCTAVE > 0 ? NO_NUMBER : MAGNITUDES + (negative ? MAGNITUDES : 0);
    const place = (exponent - 127 - LOWEST_EXPONENT) * PER_OCTAVE + (bits % PER_OCTAVE) + 1;
    if (place < 1) return 0;
    return Math.min(place, MAGNITUDES) + (negative ? MAGNITUDES : 0);
  });
}

/** The bounds of bucket `place` (counted from 1) of a sign. */
function boundsOf(place: number): [low: number, high: number] {
  const octave = 2 ** (Math.floor((place - 1) / PER_OCTAVE) + LOWEST_EXPONENT);
  const low = octave * (1 + ((place - 1) % PER_OCTAVE) / PER_OCTAVE);
  return [low, low + octave / PER_OCTAVE];
}

/** The estimate for the magnitude of all values in a bucket. */
function magnitudeOf(place: number): number {
  const [low, high] = boundsOf(place);
  return (2 * low * high) / (low + high);
}

/** Number of buckets by which a sketch grows, because each growth copies its counts. */
const STEP = 4 * PER_OCTAVE;

/** The buckets of one sign, from the smallest to the largest nonempty bucket, extended to multiples of STEP. */
class Store {
  #counts: Uint32Array;
  /** Index of the first bucket in `#counts`. */
  #first: number;

  constructor(place: number) {
    this.#first = place - (place % STEP);
    this.#counts = new Uint32Array(STEP);
  }

  add(place: number, n: number): void {
    if (place < this.#first || place >= this.#first + this.#counts.length) this.#grow(place);
    this.#counts[place - this.#first]! += n;
  }

  #grow(place: number): void {
    const step = place - (place % STEP);
    const first = Math.min(step, this.#first);
    const counts = new Uint32Array(Math.max(step + STEP, this.#first + this.#counts.length) - first);
    counts.set(this.#counts, this.#first - first);
    this.#first = first;
    this.#counts = counts;
  }

  /** Calls `call` for each nonempty bucket with its range, from `low` up to but excluding `high`. */
  eachWithin(call: (low: number, high: number, n: number) => void): void {
    this.each((place, n) => {
      const [low, high] = boundsOf(place);
      // The last bucket of the table also contains all larger values.
      call(low, place === MAGNITUDES ? Infinity : high, n);
    });
  }

  /** Calls `call` for each nonempty bucket in ascending order. */
  each(call: (place: number, n: number) => void): void {
    for (const [at, n] of this.#counts.entries()) if (n > 0) call(this.#first + at, n);
  }
}

/**
 * Counts of numbers by bucket. The sum of several sketches equals the sketch of all their numbers, independent of the
 * order.
 */
export class QuantileSketch {
  #count = 0;
  #zero = 0;
  /** The buckets of positive numbers; null: there are none yet. */
  #positive: Store | null = null;
  #negative: Store | null = null;

  get count(): number {
    return this.#count;
  }

  /** Adds `n` numbers to a bucket of `bucketsByBits`. */
  add(bucket: number, n: number): void {
    if (bucket === NO_NUMBER) return;
    this.#count += n;
    if (bucket === 0) this.#zero += n;
    else if (bucket <= MAGNITUDES) this.#addPositive(bucket, n);
    else this.#addNegative(bucket - MAGNITUDES, n);
  }

  #addPositive(place: number, n: number): void {
    this.#positive ??= new Store(place);
    this.#positive.add(place, n);
  }

  #addNegative(place: number, n: number): void {
    this.#negative ??= new Store(place);
    this.#negative.add(place, n);
  }

  merge(other: QuantileSketch): void {
    this.#count += other.#count;
    this.#zero += other.#zero;
    other.#positive?.each((place, n) => this.#addPositive(place, n));
    other.#negative?.each((place, n) => this.#addNegative(place, n));
  }

  /**
   * Estimates of the quantiles `q` (ascending, from 0 to 1). The relative error of an estimate is at most
   * QUANTILE_ERROR. Empty without numbers.
   */
  quantiles(q: readonly number[]): number[] {
    const found: number[] = [];
    let before = 0;
    for (const [value, n] of this.#ascending()) {
      before += n;
      while (found.length < q.length && q[found.length]! * (this.#count - 1) < before) found.push(value);
    }
    return found;
  }

  /**
   * Number of values certainly below `least` or above `most`: the values in buckets that are entirely outside the
   * range. A number that exceeds a limit by more than a sixteenth is always counted, unless the limit is 2^44 or
   * more.
   */
  outside(least: number, most: number): number {
    let n = least >= 2 ** LOWEST_EXPONENT || most <= -(2 ** LOWEST_EXPONENT) ? this.#zero : 0;
    this.#positive?.eachWithin((low, high, more) => {
      if (high <= least || low > most) n += more;
    });
    this.#negative?.eachWithin((low, high, more) => {
      if (-high >= most || -low < least) n += more;
    });
    return n;
  }

  #ascending(): [value: number, n: number][] {
    const negative: [number, number][] = [];
    this.#negative?.each((place, n) => negative.push([-magnitudeOf(place), n]));
    const positive: [number, number][] = [];
    this.#positive?.each((place, n) => positive.push([magnitudeOf(place), n]));
    const zero: [number, number][] = this.#zero > 0 ? [[0, this.#zero]] : [];
    return [...negative.reverse(), ...zero, ...positive];
  }
}
