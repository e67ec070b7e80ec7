// Quantiles of numbers in constant memory: DDSketch (Masson, Rim and Lee 2019) with linearly interpolated buckets, 16 an octave.

/** Bits of a float32 below its bucket: sign, exponent and four bits of the mantissa are left. */
export const BUCKET_SHIFT = 19;
const PER_OCTAVE = 16;
/** Magnitudes below 2^-20 count as zero, those from 2^44 on as the largest. */
const LOWEST_EXPONENT = -20;
const OCTAVES = 64;
/** Buckets of positive numbers; as many follow for negative ones. 0 is that of zero. */
const MAGNITUDES = OCTAVES * PER_OCTAVE;
/** NaN is counted after all buckets, and nowhere else. */
const NO_NUMBER = 2 * MAGNITUDES + 1;
/** Buckets of a table, NO_NUMBER included, and room up to whole cache lines. */
export const TABLE_BUCKETS = Math.ceil((NO_NUMBER + 1) / 16) * 16;
/** Buckets per sign that a sketch keeps: 16 octaves below the largest. Smaller values are counted in the lowest one. */
const KEPT = 16 * PER_OCTAVE;
/** Largest relative error of a quantile within those. */
export const QUANTILE_ERROR = 1 / (2 * PER_OCTAVE + 1);

let known: Uint16Array | null = null;

/** The bucket of every float32 by its upper bits. Made once for all scorers of a thread: it is only read. */
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

/** Where bucket `place` (from 1) of one sign begins and ends. */
function boundsOf(place: number): [low: number, high: number] {
  const octave = 2 ** (Math.floor((place - 1) / PER_OCTAVE) + LOWEST_EXPONENT);
  const low = octave * (1 + ((place - 1) % PER_OCTAVE) / PER_OCTAVE);
  return [low, low + octave / PER_OCTAVE];
}

/** The estimate for the values in a bucket. */
function magnitudeOf(place: number): number {
  const [low, high] = boundsOf(place);
  return (2 * low * high) / (low + high);
}

/** The buckets of one sign: KEPT, up to the largest that has something, as a ring. */
class Store {
  readonly #counts = new Uint32Array(KEPT);
  /** The largest place. */
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

  /** The same with their counts: from `low` up to, but without, `high`; for the values dropped below, only `high` is known. */
  eachWithin(call: (low: number, high: number, n: number) => void): void {
    this.each((place, n) => {
      const [low, high] = boundsOf(place);
      // Buckets behind the last one of the table are in it.
      call(place === this.#lowest ? 0 : low, place === MAGNITUDES ? Infinity : high, n);
    });
  }

  /** What falls out below is counted in the lowest bucket that is left. */
  #raise(last: number): void {
    let out = 0;
    for (let place = this.#last + 1; place <= Math.min(last, this.#last + KEPT); place++) {
      out += this.#counts[place % KEPT]!;
      this.#counts[place % KEPT] = 0;
    }
    this.#last = last;
    this.#counts[this.#lowest % KEPT]! += out;
  }

  /** Calls `call` for places that have something, from the lowest on. */
  each(call: (place: number, n: number) => void): void {
    for (let place = this.#lowest; place <= this.#last; place++) {
      const n = this.#counts[place % KEPT]!;
      if (n > 0) call(place, n);
    }
  }
}

/** Counts by bucket. The sum of sketches is the sketch of all their numbers, in whatever order they are added. */
export class QuantileSketch {
  #count = 0;
  #zero = 0;
  /** Made for the first number of its sign. */
  #positive: Store | null = null;
  #negative: Store | null = null;

  get count(): number {
    return this.#count;
  }

  /** `n` numbers of a bucket, as `bucketsByBits` names it. */
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

  /** Estimates of the quantiles `q` (ascending, 0…1), each within QUANTILE_ERROR of a value of that rank; empty without numbers. */
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
   * How many numbers are certainly below `least` or above `most`: those in buckets that are entirely outside. A number
   * outside by more than a sixteenth of the limit always counts, unless it is 2^16 times smaller than the largest
   * number.
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
