// What single nodes of a graph say: the classes they list, and whether they hand their input on.
import type { Node } from './graph.ts';

export type ClassLabel = string | number;

/** Operators that pass a tensor through, changing at most its type and shape. */
export const PASSING = /^(Identity|Cast|Reshape|Squeeze|Unsqueeze|Flatten)$/;

/** Classes a node lists in its attributes, or null. */
export function labelsOf(n: Node): readonly ClassLabel[] | null {
  const ints = n.attributes.get('classlabels_int64s') ?? n.attributes.get('classlabels_ints');
  if (ints && ints.ints.length > 0) return ints.ints;
  const texts = n.attributes.get('classlabels_strings');
  return texts && texts.strings.length > 0 ? texts.strings : null;
}
