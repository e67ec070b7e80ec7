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
/**
 * Number of buckets per sign in a sketch: 16 octaves below the largest number. Smaller magnitudes are counted in the
 * lowest bucket.
 */
const KEPT = 16 * PER_OCTAVE;
/** Maximum relative error of a quantile inside these octaves. */
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
    if (exponent === 255) return NO_NUMBER;
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

/** The buckets of one sign: a ring of KEPT buckets that ends at the largest nonempty bucket. */
class Store {
  readonly #counts = new Uint32Array(KEPT);
  /** Index of the largest nonempty bucket. */
  #last: number;

  constructor(last: number) {
    this.#last = last;
  }

  add(place: number, n: number): void {
    if (place > this.#last) this.#raise(place);
    this.#counts[Math.max(place, this.#lowest) % KEPT]! += n;
  }

  get #lowest(): number {
    return Math.max(1, this.#last - KEPT + 1);
  }

  /**
   * Calls `call` for each nonempty bucket with its range, from `low` up to but excluding `high`. The lowest bucket also
   * contains smaller values, so its `low` is 0.
   */
  eachWithin(call: (low: number, high: number, n: number) => void): void {
    this.each((place, n) => {
      const [low, high] = boundsOf(place);
      // The last bucket of the table also contains all larger values.
      call(place === this.#lowest ? 0 : low, place === MAGNITUDES ? Infinity : high, n);
    });
  }

  /** Moves the ring up to a new largest bucket. Buckets below the ring are merged into its lowest bucket. */
  #raise(last: number): void {
    let out = 0;
    for (let place = this.#last + 1; place <= Math.min(last, this.#last + KEPT); place++) {
      out += this.#counts[place % KEPT]!;
      this.#counts[place % KEPT] = 0;
    }
    this.#last = last;
    this.#counts[this.#lowest % KEPT]! += out;
  }

  /** Calls `call` for each nonempty bucket in ascending order. */
  each(call: (place: number, n: number) => void): void {
    for (let place = this.#lowest; place <= this.#last; place++) {
      const n = this.#counts[place % KEPT]!;
      if (n > 0) call(place, n);
    }
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
   * range. A number that exceeds a limit by more than a sixteenth is always counted, unless it is smaller than the
   * largest number by a factor of 2^16.
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
