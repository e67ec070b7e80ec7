// Exact effects of a traced tree ensemble, either against the background (interventional) or with the covers of the
// training rows.
import type { EncodedInput } from '../encode/encoder.ts';
import { type Fill, type InputShape, numberFill, stateFill } from '../evaluate/native/feature-source.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Trace } from '../onnx/traced-model.ts';
import { readEnsemble } from '../trees/ensemble.ts';
import { growTrees } from '../trees/grow.ts';
import { type NumberSlot, numberState, planSlots, type Slot } from '../trees/slots.ts';
import { type Effects, type Explainer, NotExplainable } from './explainer.ts';
import { interventional, pathDependent } from './leaf-game.ts';
import { LeafGames } from './leaf-games.ts';
import { LeafPairs } from './leaf-pairs.ts';
import { answersOf, findLink, type Link, type LinkFinder, marginsOf } from './link.ts';
import { type Background, columnFeeding, type Place } from './scored-background.ts';

class SlotStates {
  readonly #reads: readonly ((inputs: readonly EncodedInput[], row: number) => number)[];

  /** @throws Unsupported if trace and package disagree */
  constructor(slots: readonly Slot[], shapes: readonly InputShape[], double: boolean) {
    this.#reads = slots.map((slot) => {
      if (slot.kind === 'category') {
        const out = new Uint16Array(1);
        const fill = stateFill(slot, shapes, out, 0, 1);
        return one(fill, () => out[0]!);
      }
      const out = double ? new Float64Array(1) : new Float32Array(1);
      const fill = numberFill(slot.feature, shapes, out);
      return one(fill, () => numberState(slot as NumberSlot, out[0]!));
    });
  }

  /** Writes the state of every slot of row `row` to `to + slot × stride`. */
  readInto(inputs: readonly EncodedInput[], row: number, states: Int32Array, to: number, stride: number): void {
    const reads = this.#reads;
    for (let s = 0; s < reads.length; s++) states[to + s * stride] = reads[s]!(inputs, row);
  }
}

const one = (fill: Fill, get: () => number) => (inputs: readonly EncodedInput[], row: number) => {
  fill(inputs, row, row + 1);
  return get();
};

/** Number of rows whose interactions are computed together, chosen so that the rows fit into the CPU cache. */
const PAIR_ROWS = 128;

/** Tree ID → number of training rows at each node, by node ID: the content of a package's `covers.json`. */
export type Covers = Readonly<Record<string, readonly number[]>>;

/** An ensemble as games, with the reader for the states of a row. */
interface TreeModel {
  readonly games: LeafGames;
  readonly states: SlotStates;
  readonly slots: number;
  readonly targets: number;
  readonly columns: number;
  /** Initial value of the sums, one per target. */
  readonly start: Float64Array;
  /** Number of training rows at a node; null for the interventional method. */
  readonly cover: ((node: number) => number) | null;
}

/**
 * @param covers null for the interventional method
 * @throws NotExplainable | Unsupported
 */
export function treeExplainer(
  trace: Trace,
  shapes: readonly InputShape[],
  places: readonly (readonly Place[])[],
  interpreter: Interpreter,
  background: Background,
  covers: Covers | null,
  linkOf: LinkFinder = findLink,
): Explainer {
  const model = treeModel(trace, shapes, places, covers);
  const sums = scoreSums(model, background);
  const answers = sums.map((_, r) => {
    const answer = new Float64Array(interpreter.task === 'multiclass' ? interpreter.classes.length : 1);
    answersOf(interpreter, background.scores, r, answer);
    return answer;
  });
  const link = linkOf(interpreter, sums, answers);
  const expected = model.start.slice();
  model.games.addExpected(expected);
  const base = new Float64Array(link.outputs);
  marginsOf(link, expected, base);
  return {
    method: model.cover ? 'tree_path_dependent' : 'tree_interventional',
    space: link.space,
    outputs: link.outputs,
    questions: 0,
    base,
    explain: explainRows(model, link),
    margins: marginsOfRows(model, link),
    ...(model.cover ? {} : { interactions: interactionsOfRows(model, link) }),
  };
}

function treeModel(
  trace: Trace,
  shapes: readonly InputShape[],
  places: readonly (readonly Place[])[],
  covers: Covers | null,
): TreeModel {
  if (trace.head.kind !== 'trees') throw new NotExplainable('the model is not a tree ensemble');
  const { node } = trace.head;
  const e = readEnsemble(node);
  const { base, targets } = e;
  const double = trace.type === 'float64';
  const trees = growTrees(e);
  const plan = planSlots(trace.features, trees, double);
  const playerOf = plan.slots.map(({ source }) => columnFeeding(source, shapes, places));
  const cover = covers ? coverOf(node.attributes, covers) : null;
  const start = Float64Array.from(
    { length: targets },
    (_, t) => base[t] ?? (base.length === 1 && targets === 1 ? base[0]! : 0),
  );
  if (base.length === 1 && targets === 2) start[1] = base[0]!;
  return {
    games: new LeafGames(e, trees, plan, playerOf, cover ? pathDependent : interventional, cover),
    states: new SlotStates(plan.slots, shapes, double),
    slots: plan.slots.length,
    targets,
    columns: places.length,
    start,
    cover,
  };
}

/**
 * The sums of the background rows, before they become outputs. For the interventional method, also passes the
 * background rows to the games.
 */
function scoreSums({ games, states, slots, start, cover }: TreeModel, background: Background): Float64Array[] {
  const { rows } = background;
  const read = { states: new Int32Array(rows * slots), stride: rows, rows };
  for (let r = 0; r < rows; r++) states.readInto(background.inputs, r, read.states, r, rows);
  if (!cover) games.setBackground(read);
  const sums = new Float64Array(rows * start.length);
  fillColumns(sums, start, rows);
  games.addReached(read, sums);
  return Array.from({ length: rows }, (_, r) => start.map((_, t) => sums[t * rows + r]!));
}

/** Explains rows in chunks. First computes the effects on the sums, then combines them into effects on the outputs. */
function explainRows({ games, states, slots, targets, columns, start }: TreeModel, link: Link): Explainer['explain'] {
  const { outputs } = link;
  let chunk = new Int32Array(0);
  let perTarget = new Float64Array(0);
  let sums = new Float64Array(0);
  const rowSums = new Float64Array(targets);
  const rowMargins = new Float64Array(outputs);
  let values = new Float64Array(0);
  let margins = new Float64Array(0);
  return async (inputs, rows): Promise<Effects> => {
    const n = rows.length;
    if (margins.length < n * outputs) {
      values = new Float64Array(n * outputs * columns);
      margins = new Float64Array(n * outputs);
    }
    const most = Math.min(games.chunk, n);
    if (sums.length < most * targets) {
      chunk = new Int32Array(most * slots);
      perTarget = new Float64Array(most * targets * columns);
      sums = new Float64Array(most * targets);
    }
    for (let from = 0; from < n; from += most) {
      const part = Math.min(most, n - from);
      for (let i = 0; i < part; i++) states.readInto(inputs, rows[from + i]!, chunk, i, part);
      fillColumns(sums, start, part);
      perTarget.fill(0, 0, part * targets * columns);
      games.add({ states: chunk, stride: part, rows: part }, columns, perTarget, sums);
      for (let i = 0; i < part; i++) {
        for (let t = 0; t < targets; t++) rowSums[t] = sums[t * part + i]!;
        marginsOf(link, rowSums, rowMargins);
        margins.set(rowMargins, (from + i) * outputs);
      }
      mix(link, perTarget, part, values, from * outputs * columns, columns);
    }
    return { values, margins, errors: null, evaluations: 0 };
  };
}

function fillColumns(columns: Float64Array, of: Float64Array, rows: number): void {
  for (let t = 0; t < of.length; t++) columns.fill(of[t]!, t * rows, (t + 1) * rows);
}

/** Computes the margins without the effects of columns. */
function marginsOfRows({ games, states, slots, start }: TreeModel, link: Link): NonNullable<Explainer['margins']> {
  const chunk = new Int32Array(games.chunk * slots);
  const sums = new Float64Array(games.chunk * start.length);
  const rowMargins = new Float64Array(link.outputs);
  let margins = new Float64Array(0);
  return (inputs, n) => {
    if (margins.length < n * link.outputs) margins = new Float64Array(n * link.outputs);
    for (let from = 0; from < n; from += games.chunk) {
      const rows = Math.min(games.chunk, n - from);
      for (let i = 0; i < rows; i++) states.readInto(inputs, from + i, chunk, i, rows);
      fillColumns(sums, start, rows);
      games.addReached({ states: chunk, stride: rows, rows }, sums);
      for (let i = 0; i < rows; i++) {
        marginsOf(
          link,
          start.map((_, t) => sums[t * rows + i]!),
          rowMargins,
        );
        margins.set(rowMargins, (from + i) * link.outputs);
      }
    }
    return margins;
  };
}

/** Computes interactions on the sums, and weights them with the link's coefficients, like effects. */
function interactionsOfRows(
  { games, states, slots, targets, columns }: TreeModel,
  link: Link,
): NonNullable<Explainer['interactions']> {
  const pairs = (columns * (columns - 1)) / 2;
  const found = new LeafPairs(games, columns);
  const size = targets * pairs;
  return (inputs, rows) => {
    const values = new Float64Array(rows.length * link.outputs * pairs);
    for (let from = 0; from < rows.length; from += PAIR_ROWS) {
      const part = rows.slice(from, from + PAIR_ROWS);
      const read = { states: new Int32Array(part.length * slots), stride: part.length, rows: part.length };
      for (const [i, r] of part.entries()) states.readInto(inputs, r, read.states, i, part.length);
      const perTarget = new Float64Array(part.length * size);
      found.add(read, targets, perTarget);
      // `mix` treats a pair like a column, in a chunk of one row.
      for (let i = 0; i < part.length; i++)
        mix(link, perTarget.subarray(i * size), 1, values, (from + i) * link.outputs * pairs, pairs);
    }
    return values;
  };
}

/**
 * Weights the effects on the sums (column by column) with the link's coefficients, and adds them up to effects on the
 * outputs (row by row).
 */
function mix(
  { coefficients, outputs }: Link,
  perTarget: Float64Array,
  rows: number,
  values: Float64Array,
  to: number,
  columns: number,
): void {
  values.fill(0, to, to + rows * outputs * columns);
  for (let o = 0; o < outputs; o++) {
    const weights = coefficients[o]!;
    for (let t = 0; t < weights.length; t++) {
      const k = weights[t]!;
      if (k === 0) continue;
      for (let c = 0; c < columns; c++) {
        const from = (t * columns + c) * rows;
        for (let r = 0, at = to + o * columns + c; r < rows; r++, at += outputs * columns)
          values[at]! += k * perTarget[from + r]!;
      }
    }
  }
}

/** The number of training rows at a node, looked up by the tree ID and node ID in the model file. */
function coverOf(
  attributes: ReadonlyMap<string, { ints: readonly number[] }>,
  covers: Covers,
): (node: number) => number {
  const trees = attributes.get('nodes_treeids')?.ints ?? [];
  const ids = attributes.get('nodes_nodeids')?.ints ?? [];
  return (node) => {
    const cover = covers[String(trees[node])]?.[ids[node]!];
    if (cover === undefined || !(cover >= 0)) {
      throw new NotExplainable(`covers.json has no number for node ${ids[node]} of tree ${trees[node]}`);
    }
    return cover;
  };
}
