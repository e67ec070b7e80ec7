// Categories with other codes, as encoders and people are known to number them; booleans the other way round.
import { categoriesOf, recoded } from '../model/package/category-files.ts';
import type { ColumnSpec, Manifest } from '../model/package/manifest.ts';
import type { Draft, DraftColumn } from './draft.ts';
import { type Swap, someNames, withColumns } from './swap.ts';

/** The code of each category, in their order. */
type Codes = readonly number[];

/** Levels of a column up to which every two of them are exchanged. */
const PAIRED_LEVELS = 8;
/** Levels of a column from which only the numberings that people make by mistake are tried: each costs the time of an encoder. */
const MANY_LEVELS = 5_000;
/** How the words of such an exchange end. */
const EXCHANGED = 'exchanged';
/** Levels whose codes are spelled out in a message. */
const SPELLED_LEVELS = 12;

/** All columns at once, and column by column. */
export function codeSwaps(draft: Draft): [Swap[], Swap[]] {
  const coded = draft.columns.filter((c) => c.spec.kind === 'category' && c.spec.codes !== undefined);
  const maps = new Map(coded.map((c) => [c.spec.name, mapsOf(draft, c)]));
  const single = coded.flatMap((c) => [...maps.get(c.spec.name)!].map(([words, codes]) => codeSwap(c, words, codes)));
  const flags = draft.columns.filter((c) => c.spec.kind === 'boolean' && c.input.type !== 'bool');
  const ways = new Set(coded.flatMap((c) => [...maps.get(c.spec.name)!.keys()]));
  const whole = [...ways].flatMap((words): Swap[] => {
    const changed = coded.filter((c) => maps.get(c.spec.name)!.has(words));
    return changed.length < 2 || words.endsWith(EXCHANGED) ? [] : [wholeSwap(changed, words, maps)];
  });
  return [whole, [...single, ...flags.map(flagSwap)]];
}

function codeSwap({ spec }: DraftColumn, words: string, other: Codes): Swap {
  const { name } = spec;
  const spelled = other.length <= SPELLED_LEVELS ? JSON.stringify(recoded(spec, other).codes) : '{…}';
  return {
    subject: `codes of ${name}`,
    words: `the codes of ${name} ${words}`,
    given: 'its codes as given',
    mend: `--encoding {"codes": {${JSON.stringify(name)}: ${spelled}}}`,
    declared: true,
    ...(words.endsWith(EXCHANGED) ? { rare: true } : {}),
    apply: (m) => withCodes(m, name, other),
  };
}

function wholeSwap(
  changed: readonly DraftColumn[],
  words: string,
  maps: ReadonlyMap<string, ReadonlyMap<string, Codes>>,
): Swap {
  const names = changed.map((c) => c.spec.name);
  return {
    subject: 'codes of all categories',
    words: `the codes of ${someNames(names)} ${words}`,
    given: 'their codes as given',
    mend: `number ${someNames(names)} so in "codes" of --encoding`,
    declared: true,
    apply: (m) => names.reduce((all, name) => withCodes(all, name, maps.get(name)!.get(words)!), m),
  };
}

/** What missing became by a code of its own stays what it was, unless it was the code of a category. */
function withCodes(manifest: Manifest, name: string, codes: Codes): Manifest {
  return withColumns(manifest, (spec) => (spec.name === name ? recoded(spec, codes) : spec));
}

function flagSwap({ spec, input }: DraftColumn): Swap {
  const [no, yes] =
    input.type === 'string'
      ? [spec.false_as ?? 'False', spec.true_as ?? 'True']
      : [spec.false_as ?? 0, spec.true_as ?? 1];
  return {
    subject: `true and false of ${spec.name}`,
    words: `true and false of ${spec.name} the other way round`,
    given: `false as ${JSON.stringify(no)} and true as ${JSON.stringify(yes)}`,
    mend: `--encoding {"booleans": {${JSON.stringify(spec.name)}: ${JSON.stringify([yes, no])}}}`,
    // 0 and 1 are what everybody takes.
    declared: true,
    apply: (m) => withColumns(m, (s): ColumnSpec => (s.name === spec.name ? { ...s, false_as: yes, true_as: no } : s)),
  };
}

/** In words → the codes. Levels that share a code (10 and 10.0) go together. */
function mapsOf({ table }: Draft, { spec, profile }: DraftColumn): ReadonlyMap<string, Codes> {
  const { values, codes: known } = categoriesOf(spec)!;
  const given = known!;
  const codes = [...new Set(given)].sort((a, b) => a - b);
  const levels = Map.groupBy(values, (_, i) => given[i]!);
  const countOf = (code: number) => levels.get(code)!.reduce((n, level) => n + (profile.distinct?.get(level) ?? 0), 0);
  const field = table.header.indexOf(spec.name);
  const seen = new Map<string, number>();
  for (const { fields } of table.sample) if (!seen.has(fields[field]!)) seen.set(fields[field]!, seen.size);
  const firstOf = (code: number) =>
    levels.get(code)!.reduce((first, level) => Math.min(first, seen.get(level) ?? Infinity), Infinity);
  const nameOf = (code: number) => levels.get(code)!.reduce((a, b) => (a < b ? a : b));
  const renumbered = (next: (code: number) => number): Codes => given.map(next);
  const ordered = (order: readonly number[]): Codes => {
    const place = new Map(order.map((code, i) => [code, codes[i]!]));
    return renumbered((code) => place.get(code)!);
  };
  const by = <K extends number | string>(key: (code: number) => K): number[] => {
    const keys = codes.map((code): [K, number] => [key(code), code]);
    return keys.sort(([x, a], [y, b]) => (x < y ? -1 : x > y ? 1 : a - b)).map(([, code]) => code);
  };
  const ways: [string, Codes][] = [
    ['in alphabetical order', ordered(by(nameOf))],
    ['in order of first appearance', ordered(by(firstOf))],
    ['one higher', renumbered((c) => c + 1)],
    ['one lower', renumbered((c) => c - 1)],
  ];
  if (codes.length <= MANY_LEVELS) {
    ways.push(
      ['in order of their frequency', ordered(by((c) => -countOf(c)))],
      ['in order of their rareness', ordered(by(countOf))],
      ['in reversed order', ordered([...codes].reverse())],
      ['rotated by one', ordered([...codes.slice(1), ...codes.slice(0, 1)])],
      ['rotated back by one', ordered([...codes.slice(-1), ...codes.slice(0, -1)])],
    );
  }
  if (codes.length <= PAIRED_LEVELS) {
    for (const [i, a] of codes.entries())
      for (const b of codes.slice(i + 1))
        ways.push([
          `with ${nameOf(a)} and ${nameOf(b)} ${EXCHANGED}`,
          renumbered((c) => (c === a ? b : c === b ? a : c)),
        ]);
  }
  const tried = new Set([given.join()]);
  return new Map(
    ways.filter(([, other]) => {
      const own = other.join();
      return !tried.has(own) && tried.add(own);
    }),
  );
}
