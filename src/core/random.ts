// Seeded random numbers, which are identical on every machine.
// Each row has its own sequence, so that rows are independent.

/** xoshiro128** (Blackman and Vigna 2018), seeded by splitmix32 from a seed and a row number. */
export class Random {
  #a = 0;
  #b = 0;
  #c = 0;
  #d = 0;
  #spare = Number.NaN;

  /** Starts the sequence of `row` for `seed`. */
  seed(seed: number, row: number): void {
    let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(row, 0x85ebca6b) ^ Math.floor(row / 2 ** 32)) | 0;
    const next = () => {
      state = (state + 0x9e3779b9) | 0;
      let z = state ^ (state >>> 16);
      z = Math.imul(z, 0x21f0aaad);
      z ^= z >>> 15;
      z = Math.imul(z, 0x735a2d97);
      return z ^ (z >>> 15);
    };
    this.#a = next();
    this.#b = next();
    this.#c = next();
    this.#d = next() | 1;
    this.#spare = Number.NaN;
  }

  /** A number with uniform distribution in [0, 1), with 32 random bits. */
  uniform(): number {
    const s = Math.imul(this.#b, 5);
    const result = Math.imul((s << 7) | (s >>> 25), 9) >>> 0;
    const t = this.#b << 9;
    this.#c ^= this.#a;
    this.#d ^= this.#b;
    this.#b ^= this.#c;
    this.#a ^= this.#d;
    this.#c ^= t;
    this.#d = (this.#d << 11) | (this.#d >>> 21);
    return result / 4294967296;
  }

  chance(p: number): boolean {
    return this.uniform() < p;
  }

  /** A number with standard normal distribution (Marsaglia's polar method). */
  normal(): number {
    if (!Number.isNaN(this.#spare)) {
      const z = this.#spare;
      this.#spare = Number.NaN;
      return z;
    }
    for (;;) {
      const u = 2 * this.uniform() - 1;
      const v = 2 * this.uniform() - 1;
      const s = u * u + v * v;
      if (s >= 1 || s === 0) continue;
      const f = Math.sqrt((-2 * Math.log(s)) / s);
      this.#spare = v * f;
      return u * f;
    }
  }

  /** A random index. `cumulative`: the cumulative probabilities of the indexes, of which the last is 1. */
  pick(cumulative: readonly number[]): number {
    const u = this.uniform();
    let i = 0;
    while (i < cumulative.length - 1 && u >= cumulative[i]!) i++;
    return i;
  }

  /** Number of failures before the first success, which has probability `p`. */
  geometric(p: number): number {
    return Math.floor(Math.log(1 - this.uniform()) / Math.log(1 - p));
  }
}
