// Names the lines of a block that are not what they were, from three sums over its lines as they were and the lines as they are.
import { type LineSums, sumHashes } from './line-sums.ts';

/** `line`: counted from 1 in the block, as it was. */
export type Damage =
  | { kind: 'changed'; line: number /** Hash now minus hash then. */; delta: bigint }
  | { kind: 'swapped'; line: number; with: number }
  | { kind: 'deleted'; line: number; hash: bigint }
  /** A line that was not there stands before this one; `doubled`: it is the same as another of the block. */
  | { kind: 'inserted' | 'doubled'; line: number; hash: bigint }
  /** Its line feed is gone: it and the next are one. */
  | { kind: 'joined'; line: number }
  /** It has a line feed within. */
  | { kind: 'split'; line: number };

/** Lines beyond which pairs are not tried: it takes seconds. */
const MOST_PAIRED = 12_000;

const u64 = (n: bigint): bigint => BigInt.asUintN(64, n);

/** `actual`: hashes of the lines that stand there now. null: no single damage, and no pair of changed lines, explains it. */
export function locateDamage(expected: LineSums, actual: BigUint64Array): readonly Damage[] | null {
  const now = sumHashes(actual);
  switch (actual.length - expected.lines) {
    case 0:
      return sameCount(expected, now, actual);
    case -1:
      return oneLess(expected, actual);
    case 1:
      return oneMore(expected, now, actual);
    default:
      return null;
  }
}

function sameCount(expected: LineSums, now: LineSums, actual: BigUint64Array): readonly Damage[] | null {
  const [d0, d1, d2] = [u64(now.s0 - expected.s0), u64(now.s1 - expected.s1), u64(now.s2 - expected.s2)];
  if (d0 === 0n && d1 === 0n && d2 === 0n) return [];
  for (let k = 1n; k <= BigInt(actual.length); k++) {
    if (u64(k * d0) === d1 && u64(k * k * d0) === d2) return [{ kind: 'changed', line: Number(k), delta: d0 }];
  }
  if (d0 === 0n) return swapOf(d1, d2, actual);
  const pair = pairOf(d0, d1, d2, actual.length);
  if (pair === null) return null;
  const [i, j] = pair;
  const [first, second] = deltasOf(d0, d1, i, j);
  return [
    { kind: 'changed', line: i, delta: first },
    { kind: 'changed', line: j, delta: second },
  ];
}

/** Lines i < j that were swapped change by opposite numbers x: (j - i)·x = d1 and (j² - i²)·x = d2, so that i + j is all the sums hold. */
function swapOf(d1: bigint, d2: bigint, actual: BigUint64Array): readonly Damage[] | null {
  const lines = actual.length;
  for (let sum = 3; sum < 2 * lines; sum++) {
    if (u64(BigInt(sum) * d1) !== d2) continue;
    for (let i = Math.max(1, sum - lines); i < sum - i; i++) {
      const j = sum - i;
      // As they were, line j had the hash that i has now.
      const x = actual[j - 1]! - actual[i - 1]!;
      if (u64(BigInt(j - i) * x) === d1) return [{ kind: 'swapped', line: i, with: j }];
    }
  }
  return null;
}

/** Lines i < j whose changes x and y give x + y = d0, i·x + j·y = d1, i²·x + j²·y = d2: then d2 - (i + j)·d1 + i·j·d0 = 0. */
function pairOf(d0: bigint, d1: bigint, d2: bigint, lines: number): [number, number] | null {
  if (lines > MOST_PAIRED) return null;
  const [l0, l1, l2] = [d0, d1, d2].map((d) => Number(BigInt.asIntN(32, d))) as [number, number, number];
  for (let i = 1; i < lines; i++) {
    // The lower halves rule nearly all pairs out.
    const [base, step] = [(l2 - Math.imul(i, l1)) | 0, (l1 - Math.imul(i, l0)) | 0];
    for (let j = i + 1; j <= lines; j++) {
      if (Math.imul(j, step) !== base) continue;
      if (u64(d2 - BigInt(i + j) * d1 + BigInt(i) * BigInt(j) * d0) === 0n) return [i, j];
    }
  }
  return null;
}

/** What lines i and j changed by: exact but for the powers of two in j - i, which the sums do not hold; 0 where those matter. */
function deltasOf(d0: bigint, d1: bigint, i: number, j: number): [bigint, bigint] {
  const rest = u64(d1 - BigInt(i) * d0);
  const distance = BigInt(j - i);
  const second = rest % distance === 0n ? rest / distance : 0n;
  return [u64(d0 - second), second];
}

/** Sums of the lines before each, and of those from it on as if they stood one further on. */
interface Shifted {
  /** Σ h, Σ k·h and Σ k²·h of `actual`, lines from k on moved by `by`. */
  at(k: number): [bigint, bigint];
}

function shifted(actual: BigUint64Array, by: bigint): Shifted {
  const [ones, twos] = [[0n], [0n]];
  let [s1, s2, t1, t2] = [0n, 0n, 0n, 0n];
  const [after1, after2]: [bigint[], bigint[]] = [[0n], [0n]];
  for (const [i, h] of actual.entries()) {
    const k = BigInt(i + 1);
    s1 += k * h;
    s2 += k * k * h;
    ones.push(s1);
    twos.push(s2);
    t1 += (k + by) * h;
    t2 += (k + by) * (k + by) * h;
    after1.push(t1);
    after2.push(t2);
  }
  return { at: (k) => [ones[k - 1]! + t1 - after1[k - 1]!, twos[k - 1]! + t2 - after2[k - 1]!] };
}

function oneLess(expected: LineSums, actual: BigUint64Array): readonly Damage[] | null {
  const s0 = actual.reduce((sum, h) => sum + h, 0n);
  const missing = u64(expected.s0 - s0);
  const moved = shifted(actual, 1n);
  for (let k = 1; k <= expected.lines; k++) {
    const [t1, t2] = moved.at(k);
    const at = BigInt(k);
    if (u64(t1 + at * missing) === expected.s1 && u64(t2 + at * at * missing) === expected.s2) {
      return [{ kind: 'deleted', line: k, hash: missing }];
    }
  }
  for (let k = 1; k <= actual.length; k++) {
    // Line k is what became of lines k and k + 1, which had hashes x and y.
    const h = actual[k - 1]!;
    const at = BigInt(k);
    const [all1, all2] = moved.at(k);
    const [t1, t2] = [all1 - (at + 1n) * h, all2 - (at + 1n) * (at + 1n) * h];
    const both = expected.s0 - (s0 - h);
    const y = expected.s1 - t1 - at * both;
    const x = both - y;
    if (u64(at * at * x + (at + 1n) * (at + 1n) * y) === u64(expected.s2 - t2)) return [{ kind: 'joined', line: k }];
  }
  return null;
}

function oneMore(expected: LineSums, now: LineSums, actual: BigUint64Array): readonly Damage[] | null {
  const extra = u64(now.s0 - expected.s0);
  const moved = shifted(actual, -1n);
  for (let k = 1; k <= actual.length; k++) {
    const h = actual[k - 1]!;
    if (h !== extra) continue;
    const at = BigInt(k) - 1n;
    const [t1, t2] = moved.at(k);
    if (u64(t1 - at * h) !== expected.s1 || u64(t2 - at * at * h) !== expected.s2) continue;
    const doubled = actual.some((other, i) => other === h && i !== k - 1);
    return [{ kind: doubled ? 'doubled' : 'inserted', line: k, hash: h }];
  }
  for (let k = 1; k < actual.length; k++) {
    // Lines k and k + 1 were one, with the hash x.
    const [a, b] = [actual[k - 1]!, actual[k]!];
    const at = BigInt(k);
    const [t1, t2] = moved.at(k + 1);
    const x = expected.s0 - (now.s0 - a - b);
    const one = t1 - at * a - at * b + at * x;
    const two = t2 - at * at * a - at * at * b + at * at * x;
    if (u64(one) === expected.s1 && u64(two) === expected.s2) return [{ kind: 'split', line: k }];
  }
  return null;
}
