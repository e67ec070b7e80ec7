// What missing values may have become instead, column by column and in all columns of a kind.
import type { Manifest } from '../model/package/manifest.ts';
import type { Draft, DraftColumn, MissingChoice } from './draft.ts';
import { type EncodingFile, ruleFor } from './encoding-file.ts';
import { choiceWords, ruleOf } from './missing-rule.ts';
import { type Swap, someNames, withColumns } from './swap.ts';
import { missingIn } from './training-table.ts';

/** In words → what missing becomes. */
type Choices = ReadonlyMap<string, MissingChoice>;

/** All columns at once, and column by column. Columns without a missing value in the table have no witness. */
export function missingSwaps(draft: Draft, encoding: EncodingFile): [Swap[], Swap[]] {
  const asked = draft.columns.filter((c) => missingIn(c.profile) > 0 && c.spec.missing?.as !== 'error');
  const choices = new Map(asked.map((c) => [c.spec.name, choicesOf(draft, c)]));
  const declared = (c: DraftColumn) => ruleFor(encoding.missing, c.spec.name) !== undefined;
  const single = asked.flatMap((c) =>
    [...choices.get(c.spec.name)!].map(([words, choice]) => missingSwap(c, words, choice, declared(c))),
  );
  const numbers = asked.filter((c) => c.input.type !== 'string' && c.input.type !== 'bool');
  const ways = new Set(numbers.flatMap((c) => [...choices.get(c.spec.name)!.keys()]));
  const whole = [...ways].flatMap((words): Swap[] => {
    const changed = numbers.filter((c) => choices.get(c.spec.name)!.has(words));
    if (changed.length < 2) return [];
    const names = changed.map((c) => c.spec.name);
    return [
      {
        subject: 'missing values of all columns',
        words: `missing ${someNames(names)} as ${words}`,
        given: 'what missing becomes as given',
        mend: `say so of ${someNames(names)} in "missing" of --encoding`,
        declared: changed.every(declared),
        apply: (m) => names.reduce((all, name) => withMissing(all, name, choices.get(name)!.get(words)!), m),
      },
    ];
  });
  return [whole, single];
}

function missingSwap({ spec }: DraftColumn, words: string, choice: MissingChoice, declared: boolean): Swap {
  return {
    subject: `missing ${spec.name}`,
    words: `missing ${spec.name} as ${words}`,
    given: choiceWords(spec.missing!),
    mend: `--encoding {"missing": {${JSON.stringify(spec.name)}: ${JSON.stringify(ruleOf(choice))}}}`,
    declared,
    apply: (m) => withMissing(m, spec.name, choice),
  };
}

function withMissing(manifest: Manifest, name: string, { as, value }: MissingChoice): Manifest {
  return withColumns(manifest, (spec) => {
    if (spec.name !== name) return spec;
    const { values } = spec.missing ?? {};
    return {
      ...spec,
      missing: { ...(values ? { values } : {}), ...(as ? { as } : {}), ...(value === undefined ? {} : { value }) },
    };
  });
}

function choicesOf(draft: Draft, column: DraftColumn): Choices {
  const { spec, input } = column;
  const all = new Map<string, MissingChoice>();
  const offer = (words: string, value: MissingChoice['value']) => all.set(words, { as: 'value', value: value! });
  if (input.type === 'string') for (const word of wordsFor(column)) offer(JSON.stringify(word), word);
  else if (input.type === 'bool') for (const flag of [false, true]) offer(String(flag), flag);
  else {
    const floats = input.type === 'float32' || input.type === 'float64';
    if (floats) all.set('NaN', { as: 'nan' });
    for (const value of [0, -1, -999, 1]) offer(String(value), value);
    for (const [words, value] of typicalNumbers(draft, column))
      if (floats || Number.isInteger(value)) offer(words, value);
  }
  const given = choiceKey(spec.missing!, spec.codes);
  for (const [words, choice] of all) if (choiceKey(choice, spec.codes) === given) all.delete(words);
  return all;
}

/** What reaches the model, for comparison. */
function choiceKey({ as, value }: MissingChoice, codes: Readonly<Record<string, number>> = {}): string {
  if (as === undefined || as === 'nan') return 'nan';
  return String(
    typeof value === 'string' && Object.hasOwn(codes, value)
      ? codes[value]
      : Number.isNaN(Number(value))
        ? value
        : Number(value),
  );
}

/** Words the model knows, and one it does not. */
function wordsFor({ known, choices }: DraftColumn): string[] {
  const words = choices.flatMap((c) => (typeof c.value === 'string' ? [c.value] : []));
  return known ? [...new Set([...known.values.slice(0, 12), ''])] : [...new Set(['', ...words.slice(0, 6)])];
}

/** What imputers take, and a code of its own beside those of the categories. */
function typicalNumbers({ table }: Draft, { spec, profile }: DraftColumn): [string, number][] {
  if (spec.kind === 'category') {
    const codes = Object.values(spec.codes ?? {});
    if (codes.length === 0) return [];
    const top = [...(profile.distinct ?? [])]
      .sort((a, b) => b[1] - a[1])
      .find(([level]) => Object.hasOwn(spec.codes!, level));
    return [
      ['a code of its own', Math.max(...codes) + 1],
      ...(top ? [['the most frequent category', spec.codes![top[0]]!] as [string, number]] : []),
    ];
  }
  if (spec.kind === 'boolean') return [];
  const field = table.header.indexOf(spec.name);
  const absent = new Set(spec.missing?.values);
  const numbers = table.sample.flatMap(({ fields }) => (absent.has(fields[field]!) ? [] : [Number(fields[field])]));
  if (numbers.length === 0) return [];
  const sorted = numbers.sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median = sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return [
    ['the median', median],
    ['the mean', sorted.reduce((a, b) => a + b, 0) / sorted.length],
  ];
}
