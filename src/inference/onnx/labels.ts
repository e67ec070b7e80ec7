// The classes of a classifier, and how its probabilities were calibrated, as far as the graph shows it.
import type { Graph } from './graph.ts';
import { type ClassLabel, labelsOf, PASSING } from './nodes.ts';
import { zipMaps } from './zipmap.ts';

/**
 * The classes of a classifier in the order of its probability columns: ZipMap's, else the classifier's own, else those the
 * label is picked from. null: the graph says nothing about classes.
 */
export function classesOf(graph: Graph): readonly ClassLabel[] | null {
  for (const z of zipMaps(graph)) if (z.classes.length > 0) return z.classes;
  // The label is picked from a constant by its position: ArrayFeatureExtractor(classes, argmax), then casts and reshapes.
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

/** True if the probabilities come from calibration by steps (isotonic), which exporters get wrong by up to 0.05. */
export function looksIsotonic(graph: Graph): boolean {
  const producers = new Map(graph.nodes.flatMap((n) => n.outputs.map((o) => [o, n] as const)));
  return graph.nodes.some(
    (n) =>
      n.op === 'ArrayFeatureExtractor' &&
      graph.initializers.has(n.inputs[0] ?? '') &&
      producers.get(n.inputs[1] ?? '')?.op === 'ArgMin',
  );
}
