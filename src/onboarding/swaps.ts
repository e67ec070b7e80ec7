// Swaps: possible errors of a registration (classes, codes, column order, missing values).
// Each swap has a description and a modified manifest.
import { boosterOf } from '../inference/boosters/booster.ts';
import type { EncodedInput } from '../inference/encode/encoder.ts';
import { categoriesOf, recoded } from '../model/package/category-files.ts';
import type { ColumnSpec, InputSpec, Manifest } from '../model/package/manifest.ts';
import type { Draft, DraftColumn, MissingChoice } from './draft.ts';
import { type EncodingFile, ruleFor } from './encoding-file.ts';
import type { Predictions } from './fit-loss.ts';
import { choiceWords, ruleOf } from './missing-values.ts';
import { missingIn } from './training-table.ts';

export interface Swap {
  /** The subject of the swap. If several swaps have the same subject, only the best of them is reported. */
  readonly subject: string;
  /** Description of the change: "with a and b exchanged". */
  readonly words: string;
  /** Description of the given registration in contrast to the swap. */
  readonly given: string;
  /** How to register the change. */
  readonly mend: string;
  /** Whether the user declared the given value; false: it was assumed. */
  readonly declared: boolean;
  /** Set if the swap is one of very many swaps that are unlikely errors. */
  readonly rare?: true;
  /** Set if the question is reported only if the outcome supports the swap. */
  readonly quiet?: true;
  /** Returns the manifest with the change; the values of the columns stay the same. */
  readonly apply: (manifest: Manifest) => Manifest;
  /** Changes the inputs of the model, if no manifest describes the change. */
  readonly alter?: (inputs: readonly EncodedInput[]) => readonly EncodedInput[];
}

/** Changes columns of a manifest. */
function withColumns(manifest: Manifest, change: (spec: ColumnSpec) => ColumnSpec): Manifest {
  return { ...manifest, columns: manifest.columns.map(change) };
}

/** Formats a list of names: `a, b and 3 more`. */
export function someNames(names: readonly string[], most = 4): string {
  if (names.length <= most + 1) return names.join(', ');
  return `${names.slice(0, most).join(', ')} and ${names.length - most} more`;
}

// Swaps of classes interpret the same scores as probabilities of other classes.

interface ClassSwap {
  readonly swap: Swap;
  readonly of: (given: Predictions) => Predictions;
}

/** Maximum number of classes for which all pairs are exchanged. */
const PAIRED_CLASSES = 12;

export function classSwaps(draft: Draft, manifest: Manifest): ClassSwap[] {
  const { task, classes = [] } = manifest;
  if (task === 'binary') return [otherClass(draft, manifest)];
  if (task !== 'multiclass') return [];
  const k = classes.length;
  const places = classes.map((_, i) => i);
  const orders: [string, number[]][] = [
    ['in reversed order', [...places].reverse()],
    ['rotated by one', places.map((i) => (i + 1) % k)],
    ['rotated back by one', places.map((i) => (i + k - 1) % k)],
  ];
  if (k <= PAIRED_CLASSES)
    for (const a of places)
      for (const b of places.slice(a + 1))
        orders.push([
          `with ${classes[a]} and ${classes[b]} exchanged`,
          places.map((i) => (i === a ? b : i === b ? a : i)),
        ]);
  return orders.map(([words, order]) => ({ swap: classOrder(classes, words), of: (given) => reordered(given, order) }));
}

function otherClass({ options }: Draft, { classes, positive_class, outcome }: Manifest): ClassSwap {
  const other = classes!.find((c) => c !== positive_class);
  return {
    swap: {
      subject: 'positive class',
      words: `the scores as probabilities of ${outcome} = ${other}`,
      given: `${positive_class}`,
      mend: `name the outcome that the model was trained on (--outcome) or another output of the graph (--scores); if training inverted ${outcome}, invert it in the table, too`,
      declared: options.positiveClass !== undefined,
      apply: (m) => ({ ...m, positive_class: other! }),
    },
    of: ({ values, width }) => ({ values: values.map((p) => 1 - p), width }),
  };
}

const classOrder = (classes: readonly (string | number | boolean)[], words: string): Swap => ({
  subject: 'order of the classes',
  words: `the classes ${words}`,
  given: classes.join(', '),
  mend: 'export the model with its classes, or use the labels of the training in the outcome column of the table',
  declared: false,
  apply: (m) => m,
});

function reordered({ values, width }: Predictions, order: readonly number[]): Predictions {
  return {
    values: Float64Array.from(values, (_, i) => values[i - (i % width) + order[i % width]!]!),
    width,
  };
}

// Swaps of codes number categories in other usual ways, and invert booleans.

/** The codes of the categories, in category order. */
type Codes = readonly number[];

/** Maximum number of levels for which all pairs are exchanged. */
const PAIRED_LEVELS = 8;
/**
 * Number of levels from which only common numbering mistakes are tried, because each swap takes as long as encoding the
 * rows.
 */
const MANY_LEVELS = 5_000;
/** The last word in the description of an exchange of two codes. */
const EXCHANGED = 'exchanged';
/** Maximum number of levels whose codes are listed in a message. */
const SPELLED_LEVELS = 12;

/** Swaps of the codes of all columns together, and of single columns. */
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
    given: 'its codes as registered',
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
    mend: `set these codes of ${someNames(names)} in "codes" of --encoding`,
    declared: true,
    apply: (m) => names.reduce((all, name) => withCodes(all, name, maps.get(name)!.get(words)!), m),
  };
}

/** Replaces the codes of a column. A missing value keeps its code, unless a category has the same code. */
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
    words: `true and false of ${spec.name} exchanged`,
    given: `false as ${JSON.stringify(no)} and true as ${JSON.stringify(yes)}`,
    mend: `--encoding {"booleans": {${JSON.stringify(spec.name)}: ${JSON.stringify([yes, no])}}}`,
    // 0 and 1 are the usual encoding, so they are treated as declared.
    declared: true,
    apply: (m) => withColumns(m, (s): ColumnSpec => (s.name === spec.name ? { ...s, false_as: yes, true_as: no } : s)),
  };
}

/** Other codes of a column by description. Levels that share a code, such as 10 and 10.0, get the same code. */
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

// Swaps of the order exchange two columns of a matrix, or use a complete order that is usual in training code.

/** Maximum number of pairs of columns to try. */
const MOST_PAIRS = 400;

/** Swaps that use a complete order, and swaps that exchange two columns. */
export function orderSwaps(draft: Draft, encoding: EncodingFile): [Swap[], Swap[]] {
  const matrices = draft.inputs.filter((i) => (i.columns?.length ?? 0) > 1);
  const declared = encoding.order !== undefined || encoding.inputs !== undefined;
  const orders = matrices.flatMap((input) => wholeOrders(draft, input, declared));
  const pairs = matrices.flatMap((input) => pairsOf(draft, input));
  const exchanges = pairs.slice(0, MOST_PAIRS).map(([a, b]): Swap => {
    const words = `${a} and ${b} exchanged`;
    return {
      subject: `order of ${a} and ${b}`,
      words,
      given: 'the order of the matrix as it is',
      mend: `exchange ${a} and ${b} in "order" of --encoding`,
      declared,
      apply: (m) => renamed(m, (name) => (name === a ? b : name === b ? a : name)),
    };
  });
  return [orders, exchanges];
}

/** Renames columns in the matrices of a manifest. */
function renamed(manifest: Manifest, to: (name: string) => string): Manifest {
  return {
    ...manifest,
    inputs: manifest.inputs.map((i) => (i.columns ? { ...i, columns: i.columns.map(to) } : i)),
  };
}

function wholeOrders({ table, columns }: Draft, { name, columns: given }: InputSpec, declared: boolean): Swap[] {
  const names = given!;
  const kindOf = new Map(columns.map((c) => [c.spec.name, c.spec.kind]));
  const first = (test: (kind: string) => boolean) => [
    ...names.filter((n) => test(kindOf.get(n)!)),
    ...names.filter((n) => !test(kindOf.get(n)!)),
  ];
  const inTable = table.header.filter((h) => names.includes(h));
  const rest = names.filter((n) => kindOf.get(n) !== 'number');
  const orders: [string, readonly string[]][] = [
    ['in the order of the table', inTable],
    ['in alphabetical order', [...names].sort()],
    ['with numbers before the others', first((k) => k === 'number')],
    ['with categories before the others', first((k) => k === 'category')],
    ['with booleans before the others', first((k) => k === 'boolean')],
    ['with numbers, booleans and the others in this order', [...first((k) => k === 'number').slice(0, names.length - rest.length), ...rest.filter((n) => kindOf.get(n) === 'boolean'), ...rest.filter((n) => kindOf.get(n) !== 'boolean')]],
    ['in reversed order', [...names].reverse()],
    ['with the last column first', [...names.slice(-1), ...names.slice(0, -1)]],
    ['with the first column last', [...names.slice(1), ...names.slice(0, 1)]],
  ]; // biome-ignore format: a table
  const seen = new Set([names.join('\n')]);
  return orders.flatMap(([words, order]): Swap[] => {
    const key = order.join('\n');
    if (seen.has(key)) return [];
    seen.add(key);
    return [
      {
        subject: `order of ${name}`,
        words: `the columns of ${name} ${words}`,
        given: 'the order of the matrix as it is',
        mend: `--encoding {"order": ${JSON.stringify(order)}}`,
        declared,
        apply: (m) => ({ ...m, inputs: m.inputs.map((i) => (i.name === name ? { ...i, columns: [...order] } : i)) }),
      },
    ];
  });
}

/**
 * Pairs of columns to exchange: first all pairs of neighbours, then pairs of columns of the same kind, by increasing
 * distance.
 */
function pairsOf({ columns }: Draft, { columns: given }: InputSpec): [string, string][] {
  const names = given!;
  const kindOf = new Map(columns.map((c) => [c.spec.name, c.spec.kind]));
  const pairs: [string, string][] = [];
  for (let distance = 1; distance < names.length && pairs.length < MOST_PAIRS; distance++) {
    for (let i = 0; i + distance < names.length; i++) {
      const [a, b] = [names[i]!, names[i + distance]!];
      if (distance === 1 || kindOf.get(a) === kindOf.get(b)) pairs.push([a, b]);
    }
  }
  return pairs;
}

// Swaps of numbers that mean missing. XGBoost treats the number of its parameter `missing` as a missing value wherever it
// occurs. Neither its own files nor those of onnxmltools contain this parameter.

/** Usual values of the parameter `missing`. */
const MISSING_NUMBERS = [0, -1, -9, -99, -999, -9999, -99999, -999999, 99, 999, 9999, 99999, 999999];

export function missingNumberSwaps({ model }: Draft): Swap[] {
  const mayBeXgboost = boosterOf(model)?.library === 'XGBoost' || model.producer.startsWith('OnnxMLTools');
  if (!mayBeXgboost) return [];
  return MISSING_NUMBERS.map(
    (value): Swap => ({
      subject: 'missing= of XGBoost',
      words: `${value} as a missing value in all columns (missing=${value} in training)`,
      given: `${value} as a number`,
      mend: `the file of the model does not contain this parameter, so train again with NaN for missing values, and leave them empty in files`,
      declared: true,
      quiet: true,
      apply: (m) => m,
      alter: (inputs) => inputs.map((input) => withoutNumber(input, value)),
    }),
  );
}

/** Replaces a number by NaN in inputs of floating-point numbers. Other inputs stay unchanged. */
function withoutNumber(input: EncodedInput, value: number): EncodedInput {
  const { data } = input;
  if (!(data instanceof Float32Array || data instanceof Float64Array)) return input;
  return { ...input, data: data.map((v: number) => (v === value ? Number.NaN : v)) };
}

// Swaps of missing values use other replacements, for one column or for all columns of a kind.

/** Encodings of missing values by description. */
type Choices = ReadonlyMap<string, MissingChoice>;

/**
 * Swaps of the missing values of all columns together, and of single columns. A column without missing values in the
 * table cannot be tested.
 */
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
        given: 'the replacements of missing values as registered',
        mend: `set ${someNames(names)} in "missing" of --encoding`,
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

/** A key that identifies the value that the model gets. */
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

/** Categories of the model, plus a category that it does not know. */
function wordsFor({ known, choices }: DraftColumn): string[] {
  const words = choices.flatMap((c) => (typeof c.value === 'string' ? [c.value] : []));
  return known ? [...new Set([...known.values.slice(0, 12), ''])] : [...new Set(['', ...words.slice(0, 6)])];
}

/** Values that imputers use, and a code that no category has. */
function typicalNumbers({ table }: Draft, { spec, profile }: DraftColumn): [string, number][] {
  if (spec.kind === 'category') {
    const codes = Object.values(spec.codes ?? {});
    if (codes.length === 0) return [];
    const top = [...(profile.distinct ?? [])]
      .sort((a, b) => b[1] - a[1])
      .find(([level]) => Object.hasOwn(spec.codes!, level));
    return [
      ['a separate code', Math.max(...codes) + 1],
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
