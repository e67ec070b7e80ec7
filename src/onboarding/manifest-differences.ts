// What two packages say otherwise: key by key, with columns, inputs and decisions told apart by their names.
import { isDeepStrictEqual } from 'node:util';
import type { Manifest } from '../model/package/manifest.ts';

/** One value that differs; `null`: that package does not have it. */
export interface Difference {
  /** Keys with points between them: `columns.income.missing.as`. */
  readonly at: string;
  readonly from: string | null;
  readonly to: string | null;
}

/** Told elsewhere, or in a word: the model file by its hash, the baseline by the drift it is measured against. */
const ELSEWHERE = new Set(['id', 'version', 'baseline']);
/** Characters of a value. */
const LONGEST = 60;

type Json = unknown;
type Entries = ReadonlyMap<string, Json>;

/** In the order of the second package, what only the first has at its place among its own. */
export function manifestDifferences(from: Manifest, to: Manifest): Difference[] {
  const without = (m: Manifest) =>
    Object.fromEntries(
      Object.entries({ ...m, onnx: { ...m.onnx, sha256: '' } }).filter(([key]) => !ELSEWHERE.has(key)),
    );
  const found: Difference[] = [];
  walk('', without(from), without(to), found);
  if (!isDeepStrictEqual(from.baseline, to.baseline)) {
    const told = ({ baseline }: Manifest) => (baseline ? `of ${baseline.rows ?? 'unknown'} rows` : null);
    found.push({ at: 'baseline', from: told(from), to: told(to) });
  }
  return found;
}

function walk(at: string, from: Json, to: Json, found: Difference[]): void {
  if (isDeepStrictEqual(from, to)) return;
  const [a, b] = [entriesOf(from), entriesOf(to)];
  if (!a || !b) {
    found.push({ at, from: textOf(from), to: textOf(to) });
    return;
  }
  const under = (key: string): string => (at === '' ? key : `${at}.${key}`);
  for (const key of new Set([...b.keys(), ...a.keys()])) walk(under(key), a.get(key), b.get(key), found);
  const shared = (of: Entries, other: Entries) => [...of.keys()].filter((key) => other.has(key));
  // Of a map the order means nothing.
  if (Array.isArray(from) && !isDeepStrictEqual(shared(a, b), shared(b, a))) {
    found.push({ at: `${at} (order)`, from: shorten(shared(a, b).join(', ')), to: shorten(shared(b, a).join(', ')) });
  }
}

/** The parts of a map, or of a list whose parts have names of their own; null: it is one value. */
function entriesOf(value: Json): Entries | null {
  if (typeof value !== 'object' || value === null) return null;
  if (!Array.isArray(value)) return new Map(Object.entries(value));
  const names = value.map((part) => (typeof part === 'string' ? part : (part as { name?: unknown } | null)?.name));
  const named = names.every((name) => typeof name === 'string') && new Set(names).size === names.length;
  return named ? new Map(value.map((part, i) => [names[i] as string, part])) : null;
}

const textOf = (value: Json): string | null => (value === undefined ? null : shorten(JSON.stringify(value)));

const shorten = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
