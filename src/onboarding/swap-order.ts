// Columns of a matrix in another order: exchanged in pairs, or all of them as training code is known to arrange columns.
import type { InputSpec, Manifest } from '../model/package/manifest.ts';
import type { Draft } from './draft.ts';
import type { EncodingFile } from './encoding-file.ts';
import type { Swap } from './swap.ts';

/** Pairs that are tried at most: neighbours first, then columns of one kind. */
const MOST_PAIRS = 400;

/** Whole orders, and single exchanges. */
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

/** The manifest with other names at the places of its matrices. */
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

/** Neighbours, then columns of one kind, those that stand close together first. */
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
