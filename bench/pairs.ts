// Two commands in pairs: what disturbs the machine disturbs both, so the ratio within a pair says more than any time.
import { type Command, measure, type Spread, spread, type Usage } from './run.ts';

export type Pair = readonly [Usage, Usage];

/** Runs both `rounds` times. Who is first changes, so that neither always has the warmer machine. */
export async function inPairs(
  [a, b]: readonly [Command, Command],
  rounds: number,
  onPair: (round: number, pair: Pair) => Promise<void>,
): Promise<Pair[]> {
  const pairs: Pair[] = [];
  for (let round = 0; round < rounds; round++) {
    const early = await measure(round % 2 === 0 ? a : b);
    const late = await measure(round % 2 === 0 ? b : a);
    const pair: Pair = round % 2 === 0 ? [early, late] : [late, early];
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
