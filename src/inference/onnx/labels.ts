// Finds labels in a graph: the classes of a classifier, an isotonic calibration of its probabilities, and the
// categories of its encoders.
import type { Graph, Node } from './graph.ts';
import { type ClassLabel, labelsOf, PASSING, zipMaps } from './servable.ts';

/**
 * The classes of a classifier, in the order of its probability columns. Sources, in this order: ZipMap, the array from
 * which labels are picked, the classifier. Null if the graph lists no classes.
 */
export function classesOf(graph: Graph): readonly ClassLabel[] | null {
  for (const z of zipMaps(graph)) if (z.classes.length > 0) return z.classes;
  // The label is picked from a constant by index: ArrayFeatureExtractor(classes, argmax), followed by casts and
  // reshapes.
  const producers = new Map(graph.nodes.flatMap((n) => n.outputs.map((o) => [o, n] as const)));
  for (const o of graph.outputs) {
    let n = producers.get(o.name);
    for (let steps = 0; n && PASSING.test(n.op) && steps < 8; steps++) n = producers.get(n.inputs[0] ?? '');
    if (n?.op !== 'ArrayFeatureExtractor' && n?.op !== 'Gather') continue;
    const constant = graph.initializers.get(n.inputs[0] ?? '');
    if (!constant || producers.get(n.inputs[1] ?? '')?.op !== 'ArgMax') continue;
    const texts = constant.strings();
    return texts.length > 0 ? texts : constant.numbers();
  }
  const listed = graph.nodes.flatMap((n) => {
    const labels = labelsOf(n);
    return labels && n.op !== 'LabelEncoder' ? [labels] : [];
  });
  const first = listed[0];
  return first && listed.every((l) => l.length === first.length && l.every((v, i) => v === first[i])) ? first : null;
}

/**
 * Whether probabilities are calibrated with a step function (isotonic). Exporters write such calibrations with errors
 * up to 0.05.
 */
export function looksIsotonic(graph: Graph): boolean {
  const producers = new Map(graph.nodes.flatMap((n) => n.outputs.map((o) => [o, n] as const)));
  return graph.nodes.some(
    (n) =>
      n.op === 'ArrayFeatureExtractor' &&
      graph.initializers.has(n.inputs[0] ?? '') &&
      producers.get(n.inputs[1] ?? '')?.op === 'ArgMin',
  );
}

// Finds the categories of each text column.

/** Categories that the encoders of a text column know. */
export interface KnownCategories {
  values: readonly string[];
  /** How the graph handles other texts: 'ignore' (all zeros, or a default), 'error', or 'unknown'. */
  unseen: 'ignore' | 'error' | 'unknown';
  /** The text that an imputer in the graph treats as a missing value. */
  marker?: string;
}

/**
 * A tensor, and the column of the tensor that is followed. The column is null if the tensor has a single column, or if
 * all columns are followed.
 */
interface Follow {
  tensor: string;
  column: number | null;
}

/** Maximum number of nodes between an input and its encoder. */
const MAX_FOLLOW = 12;

/**
 * Follows every column of a string input to the encoder of its text. The keys of the result are made by `categoryKey`.
 */
export function knownCategories(graph: Graph): ReadonlyMap<string, KnownCategories> {
  const consumers = Map.groupBy(
    graph.nodes.flatMap((n) => n.inputs.map((i) => [i, n] as const)),
    ([i]) => i,
  );
  const widths = new Map<string, number>();
  for (const i of graph.inputs) {
    const width = i.type.kind === 'tensor' ? i.type.shape?.[1] : undefined;
    widths.set(
      i.name,
      i.type.kind === 'tensor' && i.type.shape?.length === 1 ? 1 : typeof width === 'number' ? width : 0,
    );
  }
  const follow = (from: Follow, found: Partial<KnownCategories>, depth: number): void => {
    for (const [, n] of consumers.get(from.tensor) ?? []) {
      const onward = (column = from.column): void => {
        if (depth < MAX_FOLLOW) follow({ tensor: n.outputs[0] ?? '', column }, found, depth + 1);
      };
      const alone = from.column === null;
      const texts = n.attributes.get(n.op === 'OneHotEncoder' ? 'cats_strings' : 'keys_strings')?.strings ?? [];
      if (n.op === 'OneHotEncoder' && alone && texts.length > 0) {
        const zeros = n.attributes.get('zeros');
        found.values ??= texts;
        found.unseen ??= zeros === undefined || zeros.i === 1 ? 'ignore' : 'error';
      } else if (n.op === 'LabelEncoder' && alone && texts.length > 0) {
        const marks = (consumers.get(n.outputs[0] ?? '') ?? []).some(([, next]) => isCondition(next, consumers));
        if (marks && texts.length === 1) found.marker = texts[0]!;
        else {
          found.values ??= texts;
          // If the training accepted unknown categories, exporters write a default value for them. Without a default,
          // the training rejected unknown categories.
          found.unseen ??= hasDefault(n) ? 'ignore' : 'error';
        }
      } else if (n.op === 'Concat') {
        const at = n.inputs.indexOf(from.tensor);
        const before = n.inputs.slice(0, at).map((i) => widths.get(i) ?? 0);
        if (alone && before.every((w) => w > 0)) onward(before.reduce((a, b) => a + b, 0));
      } else if (n.op === 'Gather' || n.op === 'ArrayFeatureExtractor') {
        const picked = graph.initializers.get(n.inputs[1] ?? '')?.numbers() ?? [];
        if (n.inputs[0] === from.tensor && picked.length === 1 && picked[0] === (from.column ?? 0)) onward(null);
      } else if (PASSING.test(n.op) || (n.op === 'Where' && n.inputs[2] === from.tensor)) onward();
    }
  };
  const known = new Map<string, KnownCategories>();
  for (const i of graph.inputs) {
    if (i.type.kind !== 'tensor' || i.type.element !== 'string') continue;
    const width = widths.get(i.name) || 1;
    for (let column = 0; column < width; column++) {
      const found: Partial<KnownCategories> = {};
      follow({ tensor: i.name, column: width > 1 ? column : null }, found, 0);
      if (!found.values && found.marker === undefined) continue;
      const { values = [], unseen = 'unknown' } = found;
      known.set(categoryKey(i.name, column), { ...found, values, unseen });
    }
  }
  return known;
}

export const categoryKey = (input: string, column: number): string => `${column} ${input}`;

const hasDefault = (n: Node): boolean =>
  ['default_int64', 'default_float', 'default_string', 'default_tensor'].some((a) => n.attributes.has(a));

/** Whether a node computes the condition of a Where: 1 for texts that an imputer replaces. */
function isCondition(n: Node, consumers: ReadonlyMap<string, readonly (readonly [string, Node])[]>): boolean {
  if (n.op === 'Where') return true;
  const [first] = n.outputs;
  return (
    n.op === 'Cast' &&
    (consumers.get(first ?? '') ?? []).some(([, next]) => next.op === 'Where' && next.inputs[0] === first)
  );
}
