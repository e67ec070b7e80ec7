// How many letters there are, by what became of them and by what the open ones have in common.
import type { Letter, LetterState } from './letter.ts';
import { whyUnusable } from './letter.ts';

export const TALLIED_BY = ['code', 'column', 'pipeline', 'topic', 'attempt'] as const;
export type TalliedBy = (typeof TALLIED_BY)[number];

/** Names of foreign writers are without bound: what comes after as many is counted together. */
const MAX_NAMES = 1000;
export const OTHERS = '(others)';

export interface LetterTally {
  open: number;
  /** Of the open ones. */
  unusable: number;
  replayed: number;
  dropped: number;
  adopted: number;
  /** Open ones by name, the largest number first; letters without one count under `(none)`. */
  by: [name: string, letters: number][];
}

export class LetterCounter {
  readonly #by: TalliedBy;
  readonly #states: Record<LetterState, number> = { open: 0, replayed: 0, dropped: 0, adopted: 0 };
  readonly #names = new Map<string, number>();
  #unusable = 0;

  constructor(by: TalliedBy) {
    this.#by = by;
  }

  add(letter: Letter, state: LetterState): void {
    this.#states[state]++;
    if (state !== 'open') return;
    if (whyUnusable(letter, undefined)) this.#unusable++;
    const name = nameOf(letter, this.#by);
    const counted = this.#names.has(name) || this.#names.size < MAX_NAMES ? name : OTHERS;
    this.#names.set(counted, (this.#names.get(counted) ?? 0) + 1);
  }

  get tally(): LetterTally {
    const by = [...this.#names].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
    return { ...this.#states, unusable: this.#unusable, by };
  }
}

function nameOf(letter: Letter, by: TalliedBy): string {
  if (by === 'attempt') return String(letter.attempt);
  return (by === 'topic' ? letter.from?.topic : letter[by]) ?? '(none)';
}
