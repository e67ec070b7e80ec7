// Maps the values that an ensemble tests to slots. A slot has a small integer as its state: for numbers, the rank of
// the value among all thresholds; for categories, the number of the text. Every test of a node is then a set of states.
import { applyStep, type Cell, type Feature, type FeatureStep } from '../onnx/traced-model.ts';
import { ZERO } from './ensemble.ts';
import { below } from './float.ts';
import type { Branch, Tree } from './grow.ts';
import { Unsupported } from './unsupported.ts';

interface Source {
  input: string;
  column: number;
  type: string;
}

/** A numeric slot. The state is the number of cuts below the value, from 0 to cuts.length. One further state is NaN. */
export interface NumberSlot {
  kind: 'number';
  source: Source;
  feature: Feature;
  /** The cuts: ascending and distinct, at least one, in the precision of the ensemble's input. */
  cuts: Float64Array;
  states: number;
}

/** A category slot. State 0 means an unlisted category; the listed categories follow in order. */
export interface CategorySlot {
  kind: 'category';
  source: Source;
  /** Steps from the value of the column to the key of `categories`. */
  before: readonly FeatureStep[];
  categories: ReadonlyMap<Cell, number>;
  /** Whether categories are integers. Values are then truncated before they are compared. */
  whole: boolean;
  states: number;
}
export type Slot = NumberSlot | CategorySlot;

/** The set of states in which a test is true. */
export interface Truth {
  slot: number;
  /** Half-open ranges of states in ascending order. The state of NaN is never included. */
  ranges: readonly (readonly [number, number])[];
  /** For number slots: the result of the test if the value is missing. */
  missing: boolean;
}

export interface SlotPlan {
  slots: readonly Slot[];
  /** The slot of a feature that some tree uses. */
  slotOf(feature: number): number;
  /** The states in which the test of a branch is true. For equal tests on numbers, returns the same object. */
  truth(branch: Branch): Truth;
}

/** A text that no model has as a category. */
const OTHER = '\u0000 no category';
/** Maximum number of states, because ranks are stored in 16 bits. */
const MAX_STATES = 65_000;

/**
 * Plans the slots of the features that the trees use.
 * @param double whether the features reach the ensemble in double precision
 * @throws Unsupported
 */
export function planSlots(features: readonly Feature[], trees: readonly Tree[], double: boolean): SlotPlan {
  const tests = new Map<number, Branch[]>();
  for (const t of trees) {
    for (const b of t.branches) {
      const list = tests.get(b.feature);
      if (list) list.push(b);
      else tests.set(b.feature, [b]);
    }
  }
  const slots: Slot[] = [];
  const slotOf = new Map<number, number>();
  const keys = new CategoryKeys();
  for (const feature of [...tests.keys()].sort((a, b) => a - b)) {
    const f = features[feature];
    if (!f) throw new Unsupported(`the trees ask for feature ${feature} of ${features.length}`);
    if (f.source === null) throw new Unsupported('a feature is a constant');
    const key = keys.of(f);
    if (key === null) {
      slotOf.set(feature, slots.push(numberSlot(f, tests.get(feature)!, double)) - 1);
      continue;
    }
    if (key.slot < 0) key.slot = slots.push(categorySlot(f, key, features)) - 1;
    slotOf.set(feature, key.slot);
  }
  /**
   * For each slot: the tests that are true up to a state, and the tests that are true beyond a state. Indexed by state
   * and result for a missing value.
   */
  const known = slots.map(() => ({ upTo: [] as Truth[], beyond: [] as Truth[] }));
  return {
    slots,
    slotOf: (feature) => slotOf.get(feature)!,
    truth(branch) {
      const at = slotOf.get(branch.feature)!;
      const slot = slots[at]!;
      if (slot.kind === 'category') {
        return { slot: at, ranges: categoryRanges(slot, features[branch.feature]!, branch), missing: false };
      }
      const missing = missingOf(branch);
      const ordered = boundOf(slot.cuts, branch, double);
      if (ordered === null) return { slot: at, ranges: pointsOf(slot.cuts, branch, double), missing };
      const { bound, beyond } = ordered;
      const list = beyond ? known[at]!.beyond : known[at]!.upTo;
      const key = bound * 2 + (missing ? 1 : 0);
      list[key] ??= { slot: at, ranges: [beyond ? [bound, slot.cuts.length + 1] : [0, bound]], missing };
      return list[key]!;
    },
  };
}

interface CategoryKey {
  id: string;
  prefix: number;
  slot: number;
}

/**
 * Finds features that share a slot: those that depend on the same text, or on the same integer through a OneHotEncoder.
 */
export class CategoryKeys {
  readonly #known = new Map<string, CategoryKey>();
  readonly #steps = new Map<FeatureStep, number>();

  /** The key of a feature; null for a numeric feature. */
  of(f: Feature): CategoryKey | null {
    if (f.source === null) return null;
    const text = f.source.type === 'string';
    const prefix = text ? 0 : f.steps.findIndex((s) => s.op === 'equals');
    if (prefix < 0) return null;
    const steps = f.steps.slice(0, prefix).map((s) => {
      const n = this.#steps.get(s) ?? this.#steps.size;
      this.#steps.set(s, n);
      return n;
    });
    const id = JSON.stringify([f.source.input, f.source.column, steps]);
    const key = this.#known.get(id) ?? { id, prefix, slot: -1 };
    this.#known.set(id, key);
    return key;
  }
}

/** The slot for all features that have the same key as `f`. */
export function categorySlot(f: Feature, key: CategoryKey, features: readonly Feature[]): CategorySlot {
  const categories = new Map<Cell, number>();
  const keys = new CategoryKeys();
  const same = (g: Feature): boolean =>
    g.source?.input === f.source!.input &&
    g.source.column === f.source!.column &&
    keys.of(g) !== null &&
    g.steps.slice(0, key.prefix).every((s, i) => s === f.steps[i]);
  for (const g of features) {
    if (!same(g)) continue;
    for (const step of g.steps.slice(key.prefix)) {
      const named: Iterable<Cell> =
        step.op === 'equals'
          ? [step.category]
          : step.op === 'map'
            ? step.table.keys()
            : step.op === 'replace'
              ? [step.from]
              : [];
      for (const category of named) if (!categories.has(category)) categories.set(category, categories.size + 1);
      // After a replacement, the value is still a text, so the next step names further categories.
      if (step.op !== 'replace') break;
    }
  }
  return {
    kind: 'category',
    source: f.source!,
    before: f.steps.slice(0, key.prefix),
    categories,
    whole: f.source!.type !== 'string',
    states: categories.size + 1,
  };
}

/** The value of feature `f` in every state of its category slot. */
export function categoryValues(slot: CategorySlot, f: Feature): number[] {
  const after = (x: Cell): number =>
    f.steps.slice(slot.before.length).reduce((v: Cell, s) => applyStep(s, v), x) as number;
  return [after(slot.whole ? Number.NaN : OTHER), ...Array.from(slot.categories.keys(), after)];
}

function categoryRanges(slot: CategorySlot, f: Feature, branch: Branch): [number, number][] {
  const ranges: [number, number][] = [];
  for (const [state, v] of categoryValues(slot, f).entries()) {
    if (!(Number.isNaN(v) ? missingOf(branch) : holds(branch, v))) continue;
    if (ranges.at(-1)?.[1] === state) ranges.at(-1)![1]++;
    else ranges.push([state, state + 1]);
  }
  return ranges;
}

/** The result of a node's test for a number that is not NaN. */
export function holds(b: Branch, x: number): boolean {
  switch (b.mode) {
    case 'LEQ':
      return x <= b.value;
    case 'LT':
      return x < b.value;
    case 'GTE':
      return x >= b.value;
    case 'GT':
      return x > b.value;
    case 'NEQ':
      return x !== b.value;
    case 'EQ':
    case 'MEMBER':
      return b.members.includes(x);
    case 'CATEGORY':
      return x > b.value && b.members.includes(Math.trunc(x));
    case 'LEQ_OR_ZERO':
      return x <= b.value || Math.abs(x) <= ZERO;
    case 'LEQ_NOT_ZERO':
      return x <= b.value && Math.abs(x) > ZERO;
  }
}

const missingOf = (b: Branch): boolean => b.missingTrue || b.mode === 'NEQ';

/**
 * Adds the numbers at which the result of a test changes. Comparisons x ≤ cut suffice for every test, because x < t is
 * equivalent to x ≤ the next number below t.
 */
function addCuts(b: Branch, double: boolean, add: (cut: number) => void): void {
  const { mode, value } = b;
  if (mode === 'LEQ' || mode === 'GT') add(value);
  else if (mode === 'LT' || mode === 'GTE') add(below(value, double));
  else for (const bound of intervalsOf(b, double).flat()) if (Number.isFinite(bound)) add(bound);
}

/**
 * The numbers for which a test against single values is true: pairs of an exclusive lower bound and an inclusive upper
 * bound, ascending.
 */
function intervalsOf({ mode, value, members }: Branch, double: boolean): (readonly [above: number, upTo: number])[] {
  const under = (x: number): number => below(x, double);
  const ascending = (): number[] => [...new Set(members)].sort((x, y) => x - y);
  if (mode === 'NEQ') {
    return [
      [-Infinity, under(value)],
      [value, Infinity],
    ];
  }
  if (mode === 'LEQ_OR_ZERO') {
    return [
      [-Infinity, value],
      [under(-ZERO), ZERO],
    ];
  }
  if (mode === 'LEQ_NOT_ZERO') {
    return [
      [-Infinity, under(-ZERO)],
      [ZERO, value],
    ];
  }
  if (mode === 'CATEGORY') return ascending().map((v) => [v === 0 ? value : under(v), under(v + 1)]);
  return ascending().map((v) => [under(v), v]);
}

function numberSlot(feature: Feature, tests: readonly Branch[], double: boolean): NumberSlot {
  // No number is below -Infinity, so x < -Infinity cannot be expressed with a cut.
  if (
    tests.some((b) => (b.value === -Infinity || b.members.includes(-Infinity)) && b.mode !== 'LEQ' && b.mode !== 'GT')
  ) {
    throw new Unsupported('a threshold is -Infinity');
  }
  const all = new Float64Array(tests.reduce((n, b) => n + 4 + b.members.length * 2, 0));
  let count = 0;
  // Adding 0 converts -0 to 0, which is an equal number.
  const add = (cut: number): void => {
    all[count++] = cut + 0;
  };
  for (const b of tests) addCuts(b, double, add);
  const sorted = all.subarray(0, count).sort();
  let distinct = 0;
  for (let i = 0; i < count; i++) if (i === 0 || sorted[i] !== sorted[i - 1]) sorted[distinct++] = sorted[i]!;
  if (distinct > MAX_STATES) throw new Unsupported('a feature has too many thresholds');
  const cuts = sorted.slice(0, distinct);
  return { kind: 'number', source: feature.source!, feature, cuts, states: cuts.length + 2 };
}

/** Number of cuts below x. */
export function rank(cuts: Float64Array, x: number): number {
  let low = 0;
  let high = cuts.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (cuts[middle]! < x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The only state at which the result of an ordered test changes; null for tests of other kinds. */
function boundOf(cuts: Float64Array, b: Branch, double: boolean): { bound: number; beyond: boolean } | null {
  const { mode, value } = b;
  if (mode === 'LEQ' || mode === 'GT') return { bound: rank(cuts, value) + 1, beyond: mode === 'GT' };
  if (mode === 'LT' || mode === 'GTE') return { bound: rank(cuts, below(value, double)) + 1, beyond: mode === 'GTE' };
  return null;
}

/** State ranges of a test against single values. */
function pointsOf(cuts: Float64Array, b: Branch, double: boolean): [number, number][] {
  const ranges: [number, number][] = [];
  for (const [above, upTo] of intervalsOf(b, double)) {
    const from = above === -Infinity ? 0 : rank(cuts, above) + 1;
    const to = upTo === Infinity ? cuts.length + 1 : rank(cuts, upTo) + 1;
    if (ranges.at(-1)?.[1] === from) ranges.at(-1)![1] = to;
    else ranges.push([from, to]);
  }
  return ranges;
}

/** State of a number slot for a value of its feature. */
export const numberState = (slot: NumberSlot, x: number): number =>
  Number.isNaN(x) ? slot.cuts.length + 1 : rank(slot.cuts, x);
