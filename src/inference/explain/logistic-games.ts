// Shapley values of a logistic function of a sum, exactly: its players are the terms of the sum.

/** Up to so many players all subsets are summed up; beyond, the series is quicker. */
const FEW_PLAYERS = 9;
/** Terms of the series below this are left out; so far behind the margins its period goes on. */
const NEGLIGIBLE_EXPONENT = 24;

export const logisticOf = (t: number): number => 1 / (1 + Math.exp(-t));

/** Adds `weight` × the Shapley values of S ↦ logisticOf(start + Σ terms in S) to `into`; `terms` has one number a player. */
export class LogisticGames {
  readonly #players: Int32Array;
  readonly #margins = new Float64Array(2 ** FEW_PLAYERS);
  readonly #weights: Float64Array[] = [];
  readonly #nodes: { q: number; weight: number }[][] = [];
  /** Products of factors before and behind a player, as pairs of real and imaginary part. */
  readonly #before: Float64Array;
  readonly #factors: Float64Array;
  /** exp(iω term) - 1 of every player. */
  readonly #steps: Float64Array;

  constructor(players: number) {
    this.#players = new Int32Array(players);
    this.#before = new Float64Array(2 * players + 2);
    this.#factors = new Float64Array(2 * players);
    this.#steps = new Float64Array(2 * players);
  }

  add(start: number, terms: Float64Array, weight: number, into: Float64Array): void {
    let n = 0;
    for (let c = 0; c < terms.length; c++) if (terms[c] !== 0) this.#players[n++] = c;
    if (n === 0) return;
    if (n <= FEW_PLAYERS) this.#subsets(start, terms, n, weight, into);
    else this.#series(start, terms, n, weight, into);
  }

  #subsets(start: number, terms: Float64Array, n: number, weight: number, into: Float64Array): void {
    const [margins, players] = [this.#margins, this.#players];
    margins[0] = start;
    for (let j = 0; j < n; j++) {
      const term = terms[players[j]!]!;
      for (let set = 0; set < 1 << j; set++) margins[set | (1 << j)] = margins[set]! + term;
    }
    for (let set = 0; set < 1 << n; set++) margins[set] = logisticOf(margins[set]!);
    this.#weights[n] ??= subsetWeights(n);
    const weights = this.#weights[n];
    for (let j = 0; j < n; j++) {
      const bit = 1 << j;
      let sum = 0;
      for (let set = 0; set < 1 << n; set++) {
        if ((set & bit) === 0) sum += weights[set]! * (margins[set | bit]! - margins[set]!);
      }
      into[players[j]!]! += weight * sum;
    }
  }

  /**
   * The derivative of the logistic function, made periodic behind all margins there can be, is a cosine series with known terms; of
   * exp(iωt), a product over the players, the mean over all orders is an integral of a polynomial, which Gauss-Legendre nodes
   * give exactly (the multilinear extension: Owen 1972).
   */
  #series(start: number, terms: Float64Array, n: number, weight: number, into: Float64Array): void {
    const players = this.#players;
    let low = start;
    let high = start;
    for (let j = 0; j < n; j++) {
      const term = terms[players[j]!]!;
      if (term < 0) low += term;
      else high += term;
    }
    const reach = Math.max(Math.abs(low), Math.abs(high));
    const period = Math.max(reach + NEGLIGIBLE_EXPONENT, 2 * NEGLIGIBLE_EXPONENT);
    const last = Math.ceil((NEGLIGIBLE_EXPONENT * period) / (2 * Math.PI * Math.PI));
    for (let j = 0; j < n; j++) into[players[j]!]! += (weight * terms[players[j]!]!) / period;
    this.#nodes[n] ??= gaussLegendre((n + 1) >> 1);
    for (let m = 1; m <= last; m++) {
      const omega = (2 * Math.PI * m) / period;
      const amplitude = (2 * Math.PI) / (period * Math.sinh(Math.PI * omega));
      this.#before[0] = Math.cos(omega * start);
      this.#before[1] = Math.sin(omega * start);
      for (let j = 0; j < n; j++) {
        const angle = omega * terms[players[j]!]!;
        this.#steps[2 * j] = Math.cos(angle) - 1;
        this.#steps[2 * j + 1] = Math.sin(angle);
      }
      for (const node of this.#nodes[n]) this.#addWave(n, node.q, weight * amplitude * node.weight, into);
    }
  }

  /**
   * Adds scale × Im[exp(iω start) (exp(iω term) - 1) Π over the others of (1 + q (exp(iω other) - 1))] of every player. Plain numbers
   * throughout, because this is all the time it takes.
   */
  #addWave(n: number, q: number, scale: number, into: Float64Array): void {
    const [before, factors, steps, players] = [this.#before, this.#factors, this.#steps, this.#players];
    let re = before[0]!;
    let im = before[1]!;
    for (let j = 0; j < 2 * n; j += 2) {
      const factorRe = 1 + q * steps[j]!;
      const factorIm = q * steps[j + 1]!;
      factors[j] = factorRe;
      factors[j + 1] = factorIm;
      const nextRe = re * factorRe - im * factorIm;
      im = re * factorIm + im * factorRe;
      re = nextRe;
      before[j + 2] = re;
      before[j + 3] = im;
    }
    re = 1;
    im = 0;
    for (let j = 2 * n - 2; j >= 0; j -= 2) {
      const othersRe = before[j]! * re - before[j + 1]! * im;
      const othersIm = before[j]! * im + before[j + 1]! * re;
      into[players[j >> 1]!]! += scale * (othersRe * steps[j + 1]! + othersIm * steps[j]!);
      const nextRe = re * factors[j]! - im * factors[j + 1]!;
      im = re * factors[j + 1]! + im * factors[j]!;
      re = nextRe;
    }
  }
}

/** Per subset: its weight in the value of a player that is not in it. */
function subsetWeights(n: number): Float64Array {
  const bySize = new Float64Array(n);
  let choices = 1;
  for (let size = 0; size < n; size++) {
    bySize[size] = 1 / (n * choices);
    choices = (choices * (n - 1 - size)) / (size + 1);
  }
  const sizes = new Uint8Array(1 << n);
  for (let set = 1; set < 1 << n; set++) sizes[set] = sizes[set & (set - 1)]! + 1;
  return Float64Array.from(sizes, (size) => bySize[size] ?? 0);
}

/** Nodes in (0, 1): exact for polynomials up to degree 2n - 1. Newton's method on the Legendre polynomial. */
function gaussLegendre(n: number): { q: number; weight: number }[] {
  return Array.from({ length: n }, (_, i) => {
    let x = Math.cos((Math.PI * (i + 0.75)) / (n + 0.5));
    let slope = 1;
    for (let step = 0; step < 100; step++) {
      let [p, previous] = [1, 0];
      for (let k = 1; k <= n; k++) [p, previous] = [((2 * k - 1) * x * p - (k - 1) * previous) / k, p];
      slope = (n * (x * p - previous)) / (x * x - 1);
      const next = x - p / slope;
      const done = Math.abs(next - x) < 1e-15;
      x = next;
      if (done) break;
    }
    return { q: (1 + x) / 2, weight: 1 / ((1 - x * x) * slope * slope) };
  });
}
