// Exact Shapley values of a logistic function of a sum, whose players are the terms of the sum.

/** Up to this number of players, all subsets are summed; with more players, the series is faster. */
const FEW_PLAYERS = 9;
/**
 * Exponent of the smallest term of the series that is not neglected. Also the distance by which the period extends
 * beyond the margins.
 */
const NEGLIGIBLE_EXPONENT = 24;
/** Limits of the number of waves per game, whatever the background: the cost must not depend on the values of a row. */
const LEAST_WAVES = 1024;
const MOST_WAVES = 16_384;
/** From this argument on, the logistic function is 0 or 1 up to the last digit of a probability. */
const SATURATED = 36;
/** Maximum total magnitude of the terms that are treated as small. */
const SMALL_REACH = 64;
/** Maximum number of coalitions of large terms that are visited separately in one game. */
const MOST_COALITIONS = 8192;

export const logisticOf = (t: number): number => 1 / (1 + Math.exp(-t));

const periodOf = (reach: number): number => Math.max(reach + NEGLIGIBLE_EXPONENT, 2 * NEGLIGIBLE_EXPONENT);
const wavesIn = (period: number): number => Math.ceil((NEGLIGIBLE_EXPONENT * period) / (2 * Math.PI * Math.PI));

/** Number of waves for games in which the argument of the logistic function normally stays within ±reach. */
export const wavesFor = (reach: number): number =>
  Math.min(MOST_WAVES, Math.max(LEAST_WAVES, wavesIn(periodOf(reach))));

/**
 * Adds `weight` × the Shapley values of S ↦ logisticOf(start + Σ terms in S) to `into`. `terms` has one number per
 * player. The number of players and `mostWaves` bound the work, independent of the terms. If so much work does not
 * suffice for exact values (many terms beyond saturation that cancel out), or if a term is not finite, the values are
 * NaN.
 */
export class LogisticGames {
  /**
   * Work done so far, proportional to the time: the number of complex multiplications and visited coalitions, times the
   * number of players.
   */
  work = 0;
  readonly #mostWaves: number;
  readonly #players: Int32Array;
  readonly #margins = new Float64Array(2 ** FEW_PLAYERS);
  readonly #weights: Float64Array[] = [];
  readonly #nodes: { q: number; weight: number }[][] = [];
  /** The products of the factors before each player, and the factors; each as a pair of real and imaginary part. */
  readonly #before: Float64Array;
  readonly #factors: Float64Array;
  /** exp(iω term) - 1 for every player. */
  readonly #turns: Float64Array;

  constructor(players: number, mostWaves = LEAST_WAVES) {
    this.#mostWaves = mostWaves;
    this.#players = new Int32Array(players);
    this.#before = new Float64Array(2 * players + 2);
    this.#factors = new Float64Array(2 * players);
    this.#turns = new Float64Array(2 * players);
  }

  add(start: number, terms: Float64Array, weight: number, into: Float64Array): void {
    let n = 0;
    for (let c = 0; c < terms.length; c++) if (terms[c] !== 0) this.#players[n++] = c;
    if (n === 0) return;
    if (n <= FEW_PLAYERS) this.#subsets(start, terms, n, weight, into);
    else this.#many(start, terms, n, weight, into);
  }

  #subsets(start: number, terms: Float64Array, n: number, weight: number, into: Float64Array): void {
    const [margins, players] = [this.#margins, this.#players];
    this.work += n << n;
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

  #many(start: number, terms: Float64Array, n: number, weight: number, into: Float64Array): void {
    const players = this.#players;
    let low = start;
    let high = start;
    for (let j = 0; j < n; j++) {
      const term = terms[players[j]!]!;
      if (term < 0) low += term;
      else high += term;
    }
    const period = periodOf(Math.max(Math.abs(low), Math.abs(high)));
    if (wavesIn(period) <= this.#mostWaves) this.#series(start, terms, n, weight, period, into);
    else this.#steps(start, terms, n, weight, into);
  }

  /**
   * The derivative of the logistic function, continued periodically beyond all possible margins, is a cosine series
   * with known terms. For each wave, exp(iωt) is a product over the players. The mean of this product over all orders
   * is the integral of a polynomial. Gauss-Legendre nodes compute the integral exactly (multilinear extension, Owen
   * 1972).
   */
  #series(start: number, terms: Float64Array, n: number, weight: number, period: number, into: Float64Array): void {
    const players = this.#players;
    const last = wavesIn(period);
    for (let j = 0; j < n; j++) into[players[j]!]! += (weight * terms[players[j]!]!) / period;
    const nodes = this.#nodesFor(n);
    for (let m = 1; m <= last; m++) {
      const amplitude = this.#turn(start, terms, n, m, period);
      for (const node of nodes) this.#addWave(n, node.q, weight * amplitude * node.weight, into);
    }
  }

  #nodesFor(n: number): { q: number; weight: number }[] {
    this.#nodes[n] ??= gaussLegendre((n + 1) >> 1);
    return this.#nodes[n];
  }

  /** Prepares wave `m` for `#addWave` and returns its amplitude. */
  #turn(start: number, terms: Float64Array, n: number, m: number, period: number): number {
    const players = this.#players;
    const omega = (2 * Math.PI * m) / period;
    const amplitude = (2 * Math.PI) / (period * Math.sinh(Math.PI * omega));
    this.#before[0] = Math.cos(omega * start);
    this.#before[1] = Math.sin(omega * start);
    for (let j = 0; j < n; j++) {
      const angle = omega * terms[players[j]!]!;
      this.#turns[2 * j] = Math.cos(angle) - 1;
      this.#turns[2 * j + 1] = Math.sin(angle);
    }
    return amplitude;
  }

  /**
   * Players with terms beyond saturation determine the value alone, except in coalitions in which such terms cancel
   * out. Coalitions of these players are visited starting with the largest term. If the value stays 0 or 1 whatever the
   * remaining players do, all remaining coalitions are one case. Otherwise, a game of the small terms remains, which is
   * a short series.
   */
  #steps(start: number, terms: Float64Array, n: number, weight: number, into: Float64Array): void {
    const players = this.#players;
    const size = (c: number): number => Math.abs(terms[c]!);
    // Sorts small terms to the front, so that a game with only the small terms uses the first players.
    const order = players.subarray(0, n).sort((a, b) => size(a) - size(b) || a - b);
    let small = 0;
    for (let reach = 0; small < n; small++) {
      reach += size(order[small]!);
      if (!(reach <= SMALL_REACH)) break;
    }
    // Minimum and maximum sum of the first i players.
    const [least, most] = [new Float64Array(n + 1), new Float64Array(n + 1)];
    for (let i = 0; i < n; i++) {
      const term = terms[order[i]!]!;
      least[i + 1] = least[i]! + Math.min(0, term);
      most[i + 1] = most[i]! + Math.max(0, term);
    }
    const found = new Float64Array(into.length);
    const taken = new Uint8Array(n);
    let coalitions = MOST_COALITIONS;
    let waves = this.#mostWaves;
    const visit = (open: number, sum: number, inside: number): boolean => {
      if (--coalitions < 0) return false;
      this.work += n;
      const [low, high] = [sum + least[open]!, sum + most[open]!];
      if (high <= -SATURATED) return true;
      if (low >= SATURATED || open === 0) {
        addConstant(order, taken, { open, n, inside, value: open === 0 ? logisticOf(sum) : 1 }, found);
        return true;
      }
      if (open === small) {
        const period = periodOf(Math.max(Math.abs(low), Math.abs(high)));
        waves -= wavesIn(period);
        if (!(waves >= 0)) return false;
        this.#smallGame(sum, terms, { small, n, inside, taken, period }, found);
        return true;
      }
      const at = open - 1;
      taken[at] = 0;
      if (!visit(at, sum, inside)) return false;
      taken[at] = 1;
      return visit(at, sum + terms[order[at]!]!, inside + 1);
    };
    const finite = Number.isFinite(least[n]!) && Number.isFinite(most[n]!) && Number.isFinite(start);
    let exact = finite && visit(n, start, 0);
    if (finite && !exact) {
      // Treats all terms as large and tries again. For few players, this always suffices.
      small = 0;
      coalitions = MOST_COALITIONS;
      found.fill(0);
      exact = visit(n, start, 0);
    }
    for (let i = 0; i < n; i++) into[order[i]!]! += exact ? weight * found[order[i]!]! : Number.NaN;
  }

  /**
   * Adds to `into` the contribution of all coalitions whose large players are exactly `taken`. `sum`: the start value
   * plus the terms of these players.
   */
  #smallGame(
    sum: number,
    terms: Float64Array,
    {
      small,
      n,
      inside,
      taken,
      period,
    }: { small: number; n: number; inside: number; taken: Uint8Array; period: number },
    into: Float64Array,
  ): void {
    const players = this.#players;
    const outside = n - small - inside;
    const nodes = this.#nodesFor(n);
    let all = 0;
    for (let j = 0; j < small; j++) all += terms[players[j]!]!;
    // For each node: the probability of exactly these large players, and the mean value of the game with the small
    // players.
    const chances = nodes.map(({ q }) => q ** inside * (1 - q) ** outside);
    const means = nodes.map(({ q }) => 0.5 + (sum + q * all) / period);
    const chance = nodes.reduce((s, { weight }, k) => s + weight * chances[k]!, 0);
    for (let j = 0; j < small; j++) into[players[j]!]! += (chance * terms[players[j]!]!) / period;
    for (let m = 1; m <= wavesIn(period); m++) {
      const amplitude = this.#turn(sum, terms, small, m, period);
      for (let k = 0; k < nodes.length; k++) {
        const { q, weight } = nodes[k]!;
        means[k]! += amplitude * this.#addWave(small, q, amplitude * weight * chances[k]!, into);
      }
    }
    let [joined, missed] = [0, 0];
    for (const [k, { q, weight }] of nodes.entries()) {
      const value = weight * means[k]! * chances[k]!;
      joined += value / q;
      missed += value / (1 - q);
    }
    for (let i = small; i < n; i++) into[players[i]!]! += taken[i] === 1 ? joined : -missed;
  }

  /**
   * For every player, adds scale × Im[exp(iω start) (exp(iω term) - 1) Π over the other players of (1 + q (exp(iω
   * other) - 1))]. Nearly all time is spent here, so the loop uses only plain numbers. Returns the mean of Im[exp(iω
   * (start + Σ terms))] over the coalitions.
   */
  #addWave(n: number, q: number, scale: number, into: Float64Array): number {
    const [before, factors, steps, players] = [this.#before, this.#factors, this.#turns, this.#players];
    this.work += n;
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
    const mean = im;
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
    return mean;
  }
}

/**
 * Adds the Shapley values of coalitions that all have the same value. Of the players from `open` on, exactly those in
 * `taken` are members of these coalitions. The restricted Shapley weights are (inside - 1)! outside! / decided! and
 * inside! (outside - 1)! / decided!.
 */
function addConstant(
  players: Int32Array,
  taken: Uint8Array,
  { open, n, inside, value }: { open: number; n: number; inside: number; value: number },
  into: Float64Array,
): void {
  const outside = n - open - inside;
  let choices = 1;
  for (let i = 1; i <= Math.min(inside, outside); i++) choices = (choices * (n - open - i + 1)) / i;
  const [joined, missed] = [value / (inside * choices), value / (outside * choices)];
  for (let i = open; i < n; i++) into[players[i]!]! += taken[i] === 1 ? joined : -missed;
}

/** For each subset: its weight in the Shapley value of a player that it does not contain. */
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

/**
 * Gauss-Legendre nodes in (0, 1), exact for polynomials up to degree 2n - 1. Found with Newton's method on the Legendre
 * polynomial.
 */
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
