// Exact effects of a traced tree ensemble, against the background (interventional) or the covers of the training rows.
import type { InputShape } from '../evaluate/native/source.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Trace } from '../onnx/traced-model.ts';
import { readEnsemble } from '../trees/ensemble.ts';
import { growTrees } from '../trees/grow.ts';
import { planSlots } from '../trees/slots.ts';
import { type Effects, type Explainer, NotExplainable } from './explainer.ts';
import { interventional, pathDependent } from './fills.ts';
import { LeafGames } from './leaf-games.ts';
import { answersOf, findLink, type Link, type LinkFinder, marginsOf } from './link.ts';
import { type Background, columnFeeding, type Place } from './scored-background.ts';
import { SlotStates } from './slot-states.ts';

/** Rows explained at once. */
const CHUNK = 256;

/** Tree id → training rows at its nodes, by node id: `covers.json` of a package. */
export type Covers = Readonly<Record<string, readonly number[]>>;

/** An ensemble cut into games, and what reads the states of a row. */
interface TreeModel {
  readonly games: LeafGames;
  readonly states: SlotStates;
  readonly slots: number;
  readonly targets: number;
  readonly columns: number;
  /** What the sums start from, one a target. */
  readonly start: Float64Array;
  /** Training rows at a node; null: interventional. */
  readonly cover: ((node: number) => number) | null;
}

/**
 * @param covers null: interventional
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
  const { sums, masks } = scoreSums(model, background);
  const answers = sums.map((_, r) => {
    const answer = new Float64Array(interpreter.task === 'multiclass' ? interpreter.classes.length : 1);
    answersOf(interpreter, background.scores, r, answer);
    return answer;
  });
  const link = linkOf(interpreter, sums, answers);
  const base = new Float64Array(link.outputs);
  marginsOf(link, setUpGames(model, masks, background.rows), base);
  return {
    method: model.cover ? 'tree_path_dependent' : 'tree_interventional',
    space: link.space,
    outputs: link.outputs,
    questions: 0,
    base,
    explain: explainRows(model, link),
  };
}

function treeModel(
  trace: Trace,
  shapes: readonly InputShape[],
  places: readonly (readonly Place[])[],
  covers: Covers | null,
): TreeModel {
  if (trace.head.kind !== 'trees') throw new NotExplainable('the model is no tree ensemble');
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

/** Game → mask → background rows that have it. */
type MaskCounts = Map<object, Map<number, number>>;

/** The sums of the background rows, what the model adds up before it answers, and the masks they have in each game. */
function scoreSums(
  { games, states, start, cover }: TreeModel,
  background: Background,
): { sums: Float64Array[]; masks: MaskCounts } {
  const sums: Float64Array[] = [];
  const masks: MaskCounts = new Map();
  for (let r = 0; r < background.rows; r++) {
    states.read(background.inputs, r);
    const sum = start.slice();
    games.visit(states.states, (game, mask, from, end) => {
      if (mask === 2 ** game.players.length - 1) {
        for (let w = from; w < end; w++) {
          const { target, value } = games.weight(w);
          sum[target]! += value;
        }
      }
      if (cover) return;
      const counts = masks.get(game) ?? new Map<number, number>();
      counts.set(mask, (counts.get(mask) ?? 0) + 1);
      masks.set(game, counts);
    });
    sums.push(sum);
  }
  return { sums, masks };
}

/** Gives each game its background; returns the sums without any column, from which effects are counted. */
function setUpGames({ games, states, start, cover }: TreeModel, masks: MaskCounts, rows: number): Float64Array {
  const sums = start.slice();
  games.visit(states.states, (game, _mask, from, end) => {
    let share: number;
    if (cover) share = game.shares.reduce((a, b) => a * b, 1);
    else {
      const counts = masks.get(game) ?? new Map<number, number>();
      game.backgroundMasks = Int32Array.from(counts.keys());
      game.backgroundCounts = Float64Array.from(counts.values(), (n) => n / rows);
      share = (counts.get(2 ** game.players.length - 1) ?? 0) / rows;
    }
    for (let w = from; w < end; w++) {
      const { target, value } = games.weight(w);
      sums[target]! += value * share;
    }
  });
  return sums;
}

/** Explains rows chunk by chunk: effects on the sums, then mixed into effects on the outputs. */
function explainRows({ games, states, slots, targets, columns, start }: TreeModel, link: Link): Explainer['explain'] {
  const { outputs } = link;
  // One target served as it is needs no mixing.
  const direct = targets === 1 && outputs === 1 && link.coefficients[0]![0] === 1;
  const chunkStates = new Int32Array(CHUNK * slots);
  const perTarget = new Float64Array(CHUNK * targets * columns);
  const sums = new Float64Array(CHUNK * targets);
  const rowMargins = new Float64Array(outputs);
  let values = new Float64Array(0);
  let margins = new Float64Array(0);
  return async (inputs, rows): Promise<Effects> => {
    const n = rows.length;
    if (margins.length < n * outputs) {
      values = new Float64Array(n * outputs * columns);
      margins = new Float64Array(n * outputs);
    }
    for (let from = 0; from < n; from += CHUNK) {
      const part = Math.min(CHUNK, n - from);
      for (let i = 0; i < part; i++) {
        states.read(inputs, rows[from + i]!);
        chunkStates.set(states.states, i * slots);
        sums.set(start, i * targets);
      }
      perTarget.fill(0, 0, part * targets * columns);
      games.add(chunkStates, slots, part, columns, perTarget, sums);
      if (direct) values.set(perTarget.subarray(0, part * columns), from * columns);
      for (let i = 0; i < part; i++) {
        marginsOf(link, sums.subarray(i * targets, (i + 1) * targets), rowMargins);
        margins.set(rowMargins, (from + i) * outputs);
        if (!direct) mix(link, perTarget, i * targets * columns, values, (from + i) * outputs * columns, columns);
      }
    }
    return { values, margins, errors: null, evaluations: 0 };
  };
}

/** Effects of one row on the outputs: those on the sums, weighted by the link's coefficients. */
function mix(
  { coefficients, outputs }: Link,
  perTarget: Float64Array,
  from: number,
  values: Float64Array,
  to: number,
  columns: number,
): void {
  values.fill(0, to, to + outputs * columns);
  for (let o = 0; o < outputs; o++) {
    const weights = coefficients[o]!;
    for (let t = 0; t < weights.length; t++) {
      const k = weights[t]!;
      if (k === 0) continue;
      for (let c = 0; c < columns; c++) values[to + o * columns + c]! += k * perTarget[from + t * columns + c]!;
    }
  }
}

/** Training rows of a node, from the tree and node ids of the file. */
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
