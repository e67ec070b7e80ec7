// Two commands in pairs: what disturbs the machine disturbs both, so the ratio within a pair says more than any time.
import { type Spread, spread, type Usage } from './run.ts';

export type Pair<M = Usage> = readonly [M, M];

/** Measures both `rounds` times. Who is first changes, so that neither always has the warmer machine. */
export async function inPairs<T, M>(
  [a, b]: readonly [T, T],
  rounds: number,
  measureOne: (one: T) => Promise<M>,
  onPair: (round: number, pair: Pair<M>) => Promise<void> = async () => {},
): Promise<Pair<M>[]> {
  const pairs: Pair<M>[] = [];
  for (let round = 0; round < rounds; round++) {
    const early = await measureOne(round % 2 === 0 ? a : b);
    const late = await measureOne(round % 2 === 0 ? b : a);
    const pair: Pair<M> = round % 2 === 0 ? [early, late] : [late, early];
    pairs.push(pair);
    await onPair(round, pair);
  }
  return pairs;
}

/** First ÷ second within each pair. */
export interface Ratios extends Record<string, Spread> {
  wall: Spread;
  CPU: Spread;
  'peak memory': Spread;
}

export function ratios(pairs: readonly Pair[]): Ratios {
  const of = (what: (u: Usage) => number): Spread => spread(pairs.map(([a, b]) => what(a) / what(b)));
  return {
    wall: of((u) => u.seconds),
    CPU: of((u) => u.userSeconds + u.systemSeconds),
    'peak memory': of((u) => u.peakBytes),
  };
}
