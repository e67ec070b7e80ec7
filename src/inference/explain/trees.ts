// Exact effects of a traced tree ensemble, against the background (interventional) or the covers of the training rows.
import type { EncodedInput } from '../encode/encoder.ts';
import type { InputShape } from '../evaluate/native/source.ts';
import type { Interpreter } from '../evaluate/prediction.ts';
import type { Trace } from '../onnx/trace.ts';
import { readEnsemble } from '../trees/ensemble.ts';
import { growTrees } from '../trees/grow.ts';
import { planSlots } from '../trees/slots.ts';
import type { Background, Place } from './background.ts';
import { type Effects, type Explainer, NotExplainable } from './explainer.ts';
import { interventional, pathDependent } from './fills.ts';
import { LeafGames } from './leaf-games.ts';
import { answersOf, findLink, type LinkFinder, marginsOf } from './link.ts';
import { SlotStates } from './slot-states.ts';

/** Rows explained at once. */
const CHUNK = 256;

/** Tree id → training rows at its nodes, by node id: `covers.json` of a package. */
export type Covers = Readonly<Record<string, readonly number[]>>;

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
  if (trace.head.kind !== 'trees') throw new NotExplainable('the model is no tree ensemble');
  const { node } = trace.head;
  const e = readEnsemble(node);
  const double = trace.type === 'float64';
  const trees = growTrees(e);
  const plan = planSlots(trace.features, trees, double);
  const columns = places.length;
  const playerOf = plan.slots.map(({ source }) => {
    const input = shapes.findIndex((s) => s.name === source.input);
    const column = places.findIndex((list) => list.some((p) => p.input === input && p.at === source.column));
    if (column < 0) throw new NotExplainable(`input ${source.input} belongs to no column`);
    return column;
  });
  const cover = covers ? coverOf(node.attributes, covers) : null;
  const states = new SlotStates(plan.slots, shapes, double);
  const games = new LeafGames(e, trees, plan, playerOf, cover ? pathDependent : interventional, cover);
  const targets = e.targets;
  const rest = Array.from(
    { length: targets },
    (_, t) => e.base[t] ?? (e.base.length === 1 && targets === 1 ? e.base[0]! : 0),
  );
  if (e.base.length === 1 && targets === 2) rest[1] = e.base[0]!;

  // The sums of the background rows: what the model adds up before it answers.
  const sums: Float64Array[] = [];
  const answers: Float64Array[] = [];
  const masks = new Map<object, Map<number, number>>();
  for (let r = 0; r < background.rows; r++) {
    states.read(background.inputs, r);
    const sum = Float64Array.from(rest);
    games.visit(states.states, (game, mask, from, end) => {
      if (mask === 2 ** game.players.length - 1) {
        for (let w = from; w < end; w++) {
          const { target, value } = games.weight(w);
          sum[target]! += value;
        }
      }
      if (!cover) {
        const counts = masks.get(game) ?? new Map<number, number>();
        counts.set(mask, (counts.get(mask) ?? 0) + 1);
        masks.set(game, counts);
      }
    });
    sums.push(sum);
    const answer = new Float64Array(interpreter.task === 'multiclass' ? interpreter.classes.length : 1);
    answersOf(interpreter, background.scores, r, answer);
    answers.push(answer);
  }
  const link = linkOf(interpreter, sums, answers);
  const baseSums = Float64Array.from(rest);
  games.visit(states.states, (game, _mask, from, end) => {
    let share: number;
    if (cover) share = game.shares.reduce((a, b) => a * b, 1);
    else {
      const counts = masks.get(game) ?? new Map<number, number>();
      game.backgroundMasks = Int32Array.from(counts.keys());
      game.backgroundCounts = Float64Array.from(counts.values(), (n) => n / background.rows);
      share = (counts.get(2 ** game.players.length - 1) ?? 0) / background.rows;
    }
    for (let w = from; w < end; w++) {
      const { target, value } = games.weight(w);
      baseSums[target]! += value * share;
    }
  });
  const base = new Float64Array(link.outputs);
  marginsOf(link, baseSums, base);

  const { outputs } = link;
  // One target served as it is needs no mixing.
  const direct = targets === 1 && outputs === 1 && link.coefficients[0]![0] === 1;
  const slots = plan.slots.length;
  const chunkStates = new Int32Array(CHUNK * slots);
  const perTarget = new Float64Array(CHUNK * targets * columns);
  const sumsOfRows = new Float64Array(CHUNK * targets);
  const rowMargins = new Float64Array(outputs);
  let values = new Float64Array(0);
  let margins = new Float64Array(0);
  return {
    method: cover ? 'tree_path_dependent' : 'tree_interventional',
    space: link.space,
    outputs,
    base,
    async explain(inputs: readonly EncodedInput[], rows: readonly number[]): Promise<Effects> {
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
          sumsOfRows.set(rest, i * targets);
        }
        perTarget.fill(0, 0, part * targets * columns);
        games.add(chunkStates, slots, part, columns, perTarget, sumsOfRows);
        if (direct) values.set(perTarget.subarray(0, part * columns), from * columns);
        for (let i = 0; i < part; i++) {
          marginsOf(link, sumsOfRows.subarray(i * targets, (i + 1) * targets), rowMargins);
          margins.set(rowMargins, (from + i) * outputs);
          if (direct) continue;
          const at = (from + i) * outputs * columns;
          values.fill(0, at, at + outputs * columns);
          for (let o = 0; o < outputs; o++) {
            for (let t = 0; t < targets; t++) {
              const k = link.coefficients[o]![t]!;
              if (k === 0) continue;
              for (let c = 0; c < columns; c++)
                values[at + o * columns + c]! += k * perTarget[(i * targets + t) * columns + c]!;
            }
          }
        }
      }
      return { values, margins, errors: null };
    },
  };
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
