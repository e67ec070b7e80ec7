// Matches the names in a file with the columns of a model: exact, in another style, with a common affix, or misspelled.
import { editDistance } from '../core/did-you-mean.ts';
import { withoutBlanks } from '../core/input-declaration.ts';
import { simplified } from '../formats/delimited/header.ts';
import type { Confidence, MatchKind } from './inspection.ts';

export interface NameMatch {
  column: string;
  /** Index of the input column; null: no input column was found. */
  at: number | null;
  match: MatchKind;
  confidence: Confidence;
  /** Indexes of the possible input columns, if the names do not decide between them. */
  candidates: readonly number[];
}

/**
 * Minimum number of columns that must have an affix before it is treated as an affix of the whole file. `AFFIX_SHARE`:
 * their minimum fraction of all names.
 */
const FEWEST_WITH_AFFIX = 3;
const AFFIX_SHARE = 0.6;
const LONGEST_NAME = 64;
/** Maximum number of columns whose spellings are compared. */
const MOST_COMPARED = 200;

/** Normalizes a name: removes differences in case, separators, brackets and accents. */
const styled = (name: string): string => simplified(name.normalize('NFKD')).replace(/[^\p{L}\p{N}]/gu, '');

const digitsOf = (name: string): string => name.replace(/\D/g, '');

/** For each value: the indexes of its occurrences. */
function indexes(values: readonly string[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const [i, value] of values.entries()) {
    const known = found.get(value);
    if (known) known.push(i);
    else found.set(value, [i]);
  }
  return found;
}

/**
 * Declared names: `rename` maps a model column to its input name, `constants` are model columns with a constant value,
 * and `ignored` are ignored input names.
 */
export interface KnownNames {
  rename: ReadonlyMap<string, string>;
  constants: ReadonlySet<string>;
  ignored: ReadonlySet<string>;
}

const NOTHING_KNOWN: KnownNames = { rename: new Map(), constants: new Set(), ignored: new Set() };

/**
 * Matches model columns with input names. A column without an input column is `missing`, or `open` if several input
 * columns are possible.
 */
export function matchNames(
  columns: readonly string[],
  names: readonly string[],
  known: KnownNames = NOTHING_KNOWN,
): NameMatch[] {
  const matcher = new Matcher(columns, names);
  matcher.declared(known);
  matcher.step('exact', 'high', (name) => name);
  matcher.step('spaces', 'high', withoutBlanks);
  matcher.step('style', 'high', styled);
  matcher.affix();
  matcher.spelling();
  return matcher.matches();
}

class Matcher {
  readonly #columns: readonly string[];
  readonly #names: readonly string[];
  readonly #found = new Map<string, NameMatch>();
  readonly #used = new Set<number>();

  constructor(columns: readonly string[], names: readonly string[]) {
    this.#columns = columns;
    this.#names = names;
  }

  matches(): NameMatch[] {
    return this.#columns.map(
      (column) => this.#found.get(column) ?? { column, at: null, match: 'missing', confidence: 'high', candidates: [] },
    );
  }

  get #missing(): string[] {
    return this.#columns.filter((column) => !this.#found.has(column));
  }

  #isFree(i: number): boolean {
    return !this.#used.has(i) && this.#names[i] !== '';
  }

  #assign(column: string, candidates: readonly number[], match: MatchKind, confidence: Confidence): void {
    const at = candidates.length === 1 ? candidates[0]! : null;
    for (const i of candidates) this.#used.add(i);
    this.#found.set(
      column,
      at === null
        ? { column, at, match: 'open', confidence: 'low', candidates }
        : { column, at, match, confidence, candidates: [] },
    );
  }

  /** Assigns the declared names, and excludes ignored names. */
  declared({ rename, constants, ignored }: KnownNames): void {
    for (const [column, wanted] of rename) {
      const same = this.#names.flatMap((name, i) => (name === wanted ? [i] : []));
      const trimmed = this.#names.flatMap((name, i) => (withoutBlanks(name) === wanted ? [i] : []));
      this.#assign(column, same.length > 0 ? same : trimmed, 'declared', 'high');
    }
    for (const column of constants) {
      this.#found.set(column, { column, at: null, match: 'constant', confidence: 'high', candidates: [] });
    }
    for (const [i, name] of this.#names.entries()) {
      const isUnused = ignored.has(name) || ignored.has(withoutBlanks(name)) || constants.has(name);
      if (isUnused) this.#used.add(i);
    }
  }

  /** Matches names that are equal after they are converted with `normal`. */
  step(match: MatchKind, confidence: Confidence, normal: (name: string) => string): void {
    const there = indexes(this.#names.map((name, i) => (this.#isFree(i) ? normal(name) : '')));
    const rivals = indexes(this.#missing.map(normal));
    for (const column of this.#missing) {
      const candidates = there.get(normal(column)) ?? [];
      if (normal(column) === '' || candidates.length === 0) continue;
      // A normal form that two model columns share does not identify either of them.
      if (rivals.get(normal(column))!.length === 1) this.#assign(column, candidates, match, confidence);
    }
  }

  /** Matches names that have the same prefix or suffix in addition to the name in the model, if most names have it. */
  affix(): void {
    const columns = new Map(this.#missing.map((column) => [styled(column), column]));
    const affixes = new Map<string, [column: string, at: number][]>();
    for (const [i, name] of this.#names.entries()) {
      const whole = styled(name);
      if (!this.#isFree(i) || whole.length > LONGEST_NAME) continue;
      for (let cut = 1; cut < whole.length; cut++) {
        for (const [rest, affix] of [
          [whole.slice(cut), `${whole.slice(0, cut)}*`],
          [whole.slice(0, cut), `*${whole.slice(cut)}`],
        ] as const) {
          const column = columns.get(rest);
          if (column === undefined) continue;
          const pairs = affixes.get(affix) ?? [];
          pairs.push([column, i]);
          affixes.set(affix, pairs);
        }
      }
    }
    const pairs = [...affixes.values()].reduce((a, b) => (b.length > a.length ? b : a), []);
    const enough = Math.max(FEWEST_WITH_AFFIX, AFFIX_SHARE * columns.size);
    if (pairs.length < enough) return;
    for (const [column, own] of Map.groupBy(pairs, ([name]) => name)) {
      this.#assign(
        column,
        own.map(([, at]) => at),
        'affix',
        'medium',
      );
    }
  }

  /** Matches names with few typing errors. A difference in a digit is not treated as a typing error. */
  spelling(): void {
    const near = new Map<string, number[]>();
    const rivals = new Map<number, number>();
    for (const column of this.#missing.slice(0, MOST_COMPARED)) {
      const wanted = styled(column);
      const candidates = this.#names.flatMap((name, i) => (this.#isFree(i) && isNear(wanted, styled(name)) ? [i] : []));
      near.set(column, candidates.slice(0, MOST_COMPARED));
      for (const i of candidates) rivals.set(i, (rivals.get(i) ?? 0) + 1);
    }
    for (const [column, candidates] of near) {
      if (candidates.length === 0) continue;
      const isAlone = candidates.length === 1 && rivals.get(candidates[0]!) === 1;
      if (isAlone) this.#assign(column, candidates, 'spelling', 'medium');
      else this.#found.set(column, { column, at: null, match: 'open', confidence: 'low', candidates });
    }
  }
}

function isNear(wanted: string, name: string): boolean {
  const most = Math.floor(wanted.length / 4);
  if (most === 0 || name.length > LONGEST_NAME || wanted.length > LONGEST_NAME) return false;
  if (Math.abs(name.length - wanted.length) > most || digitsOf(name) !== digitsOf(wanted)) return false;
  return editDistance(wanted, name) <= most;
}
